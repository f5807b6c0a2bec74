"""Files in, arrays out: one loader per data set, each file checked against the sum of what was published.

A file is looked for in `$SINGULARBAYES_DATA/<set>/`, then in the cache; else it is downloaded into the cache.
"""

from singularbayes_experiments.data.air import beijing_pm25, five_cities_pm25
from singularbayes_experiments.data.files import DataError
from singularbayes_experiments.data.images import Images, cifar10, fashion_mnist, mnist, notmnist
from singularbayes_experiments.data.intensive_care import eicu_demo, mimic3, mimic3_demo, physionet2012
from singularbayes_experiments.data.text import Intents, ag_news, banking77, bert_vocab, clinc150, product_reviews, sst2
from singularbayes_experiments.data.uci import UCI_SETS, Regression, uci_regression

__all__ = [
    "UCI_SETS",
    "DataError",
    "Images",
    "Intents",
    "Regression",
    "ag_news",
    "banking77",
    "beijing_pm25",
    "bert_vocab",
    "cifar10",
    "clinc150",
    "eicu_demo",
    "fashion_mnist",
    "five_cities_pm25",
    "mimic3",
    "mimic3_demo",
    "mnist",
    "notmnist",
    "physionet2012",
    "product_reviews",
    "sst2",
    "uci_regression",
]
