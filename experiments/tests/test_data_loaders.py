"""The loaders on the real data: shapes and counts are those that their publishers state."""

import hashlib
import os

import numpy as np
import pytest
from singularbayes_experiments import data
from singularbayes_experiments.data.catalogue import SETS
from singularbayes_experiments.data.read import read
from singularbayes_experiments.data.store import find

FOLDER = os.environ.get("SINGULARBAYES_DATA")
needs_data = pytest.mark.skipif(not FOLDER, reason="needs $SINGULARBAYES_DATA, a folder with the data sets")


def counts(labels):
    return np.bincount(labels).tolist()


DIGITS = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
TEST_DIGITS = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
IMAGES = {
    "mnist": (DIGITS, TEST_DIGITS),
    "fashion_mnist": ([6000] * 10, [1000] * 10),
    "notmnist": (None, [1000] * 10),
}


@needs_data
@pytest.mark.parametrize("name", IMAGES)
def test_images(name):
    images = getattr(data, name)()
    for part, expected in zip((images.train, images.test), IMAGES[name], strict=True):
        assert (part is None) == (expected is None)
        if part:
            x, y = part
            assert x.shape == (sum(expected), 28, 28) and x.dtype == np.uint8 and (x.min(), x.max()) == (0, 255)
            assert y.dtype == np.int64 and counts(y) == expected
    assert len(images.classes) == 10 and "Licence" in images.description


@needs_data
def test_the_first_digits_and_clothes_are_those_everyone_knows():
    mnist, fashion = data.mnist(), data.fashion_mnist()
    assert mnist.train[1][:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert fashion.classes[fashion.test[1][0]] == "ankle boot"


def test_a_photograph_is_a_label_and_three_planes(monkeypatch):
    planes = np.arange(3 * 32 * 32).reshape(3, 32, 32) % 251
    row = np.concatenate([[7], planes.ravel()]).astype("uint8")
    monkeypatch.setattr("singularbayes_experiments.data.images.read", lambda source, name: np.tile(row, 2).tobytes())
    images = data.cifar10()
    (x, y), (x_test, _) = images.train, images.test
    assert x.shape == (10, 32, 32, 3) and x_test.shape == (2, 32, 32, 3) and y.tolist() == [7] * 10
    np.testing.assert_array_equal(x[3], np.moveaxis(planes, 0, -1))


@needs_data
@pytest.mark.skipif(find(SETS["cifar10"], SETS["cifar10"].files[0]) is None, reason="needs CIFAR-10, 184 MB")
def test_photographs():
    images = data.cifar10()
    for (x, y), size, first in ((images.train, 50_000, "frog"), (images.test, 10_000, "cat")):
        assert x.shape == (size, 32, 32, 3) and x.dtype == np.uint8 and y.dtype == np.int64
        assert counts(y) == [size // 10] * 10 and images.classes[y[0]] == first
        # The means that everyone normalises with.
        np.testing.assert_allclose(x.mean((0, 1, 2)) / 255, [0.4914, 0.4822, 0.4465], atol=4e-3)


# The MD5 sums that Zalando, torchvision and torchtext publish.
PUBLISHED = {
    ("mnist", "train-images-idx3-ubyte.gz"): "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    ("mnist", "train-labels-idx1-ubyte.gz"): "d53e105ee54ea40749a09fcbcd1e9432",
    ("mnist", "t10k-images-idx3-ubyte.gz"): "9fb629c4189551a2d022fa330f9573f3",
    ("mnist", "t10k-labels-idx1-ubyte.gz"): "ec29112dd5afa0611ce80d1b7f02629c",
    ("fashion_mnist", "train-images-idx3-ubyte.gz"): "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    ("fashion_mnist", "train-labels-idx1-ubyte.gz"): "25c81989df183df01b3e8a0aad5dffbe",
    ("fashion_mnist", "t10k-images-idx3-ubyte.gz"): "bef4ecab320f06d8554ea6380940ec79",
    ("fashion_mnist", "t10k-labels-idx1-ubyte.gz"): "bb300cfdad3c16e7a12a480ee83cd310",
    ("ag_news", "test.csv"): "d52ea96a97a2d943681189a97654912d",
}


@needs_data
@pytest.mark.parametrize(("source", "name"), PUBLISHED)
def test_our_sums_are_of_the_published_bytes(source, name):
    held = read(SETS[source], name)  # which checks ours
    assert hashlib.md5(held).hexdigest() == PUBLISHED[source, name]


@needs_data
def test_beijing():
    table = data.beijing_pm25().table
    assert table.shape == (43_824, 13)
    assert table.isna().sum().to_dict() == dict.fromkeys(table.columns, 0) | {"pm2.5": 2_067}
    assert table["cbwd"].value_counts().to_dict() == {"SE": 15_290, "NW": 14_150, "cv": 9_387, "NE": 4_997}


@needs_data
def test_five_cities():
    tables = data.five_cities_pm25().tables
    assert {city: table.shape for city, table in tables.items()} == {
        "Beijing": (52_584, 18),
        "Chengdu": (52_584, 17),
        "Guangzhou": (52_584, 17),
        "Shanghai": (52_584, 17),
        "Shenyang": (52_584, 17),
    }
    guangzhou = tables["Guangzhou"]
    assert guangzhou["PM_US Post"].notna().sum() == 32_352
    winds = {"NE": 20_083, "NW": 15_831, "SE": 9_194, "SW": 5_819, "cv": 1_656}
    assert guangzhou["cbwd"].value_counts().to_dict() == winds
    assert guangzhou.loc[guangzhou["DEWP"] == -9999, "No"].tolist() == [34_637, 34_638, 34_639, 34_640]
    assert len(guangzhou.dropna()) == 20_074


@needs_data
def test_sst2():
    sst2 = data.sst2()
    assert [len(part[0]) for part in (sst2.train, sst2.dev)] == [67_349, 872] and len(sst2.test) == 1_821
    assert counts(sst2.train[1]) == [29_780, 37_569] and counts(sst2.dev[1]) == [428, 444]
    assert sst2.train[0][0] == "hide new secretions from the parental units "
    assert all(sst2.train[0]) and all(sst2.test)


@needs_data
def test_ag_news():
    news = data.ag_news()
    assert counts(news.labels) == [1_900] * 4 and news.classes == ("World", "Sports", "Business", "Sci/Tech")
    assert (news.classes[news.labels[0]], news.titles[0]) == ("Business", "Fears for T N pension after talks")
    assert news.texts[0] == f"{news.titles[0]} {news.descriptions[0]}" and len(news.texts) == 7_600


@pytest.mark.skipif(
    find(SETS["product_reviews"], SETS["product_reviews"].files[0]) is None,
    reason="needs the sentences on products: singularbayes-experiments data fetch product_reviews",
)
def test_product_reviews():
    snippets = data.product_reviews()
    assert len(snippets.texts) == 3_708 and all(snippets.texts) and "MIT" in snippets.description
    assert snippets.texts[5] == "no picture:  hopefully you still have the remote control."
    assert not any("\t" in text or "\r" in text for text in snippets.texts)


@needs_data
def test_clinc150():
    intents = data.clinc150()
    assert len(intents.classes) == 150 and len(intents.out_of_scope) == 1_000
    for part, each in ((intents.train, 100), (intents.validation, 20), (intents.test, 30)):
        assert len(part[0]) == 150 * each and counts(part[1]) == [each] * 150
    question = "what expression would i use to say i love you if i were an italian"
    assert (intents.train[0][0], intents.classes[intents.train[1][0]]) == (question, "translate")


@needs_data
def test_banking77():
    intents = data.banking77()
    assert len(intents.classes) == 77 and intents.out_of_scope == [] and len(intents.validation[0]) == 0
    assert len(intents.train[0]) == 10_003 and counts(intents.test[1]) == [40] * 77
    first = (intents.train[0][0], intents.classes[intents.train[1][0]])
    assert first == ("I am still waiting on my card?", "card_arrival")


@needs_data
@pytest.mark.parametrize(
    ("name", "sizes", "choices"), [("arc_easy", [2251, 2376], {3, 4, 5}), ("openbookqa", [4957, 500], {4})]
)
def test_questions_with_choices(name, sizes, choices):
    parts = data.reasoning(name)
    assert [len(parts[part]) for part in ("train", "test")] == sizes
    every = [one for questions in parts.values() for one in questions]
    assert {len(one.choices) for one in every} == choices
    assert all(0 <= one.answer < len(one.choices) for one in every)


def test_questions_of_an_unknown_set_are_refused():
    with pytest.raises(ValueError, match=r"reasoning needs one of \['arc_easy', 'openbookqa'\]; got 'arc'\."):
        data.reasoning("arc")


@needs_data
def test_the_vocabulary():
    words = data.bert_vocab().words
    assert len(words) == len(set(words)) == 30_522
    special = {"[PAD]": 0, "[UNK]": 100, "[CLS]": 101, "[SEP]": 102, "[MASK]": 103}
    assert {word: words.index(word) for word in special} == special


# Rows, deaths, stays by type of unit, rows without a name.
STAYS = {"a": (1_757_980, 554, [577, 874, 1_481, 1_068], 0), "c": (1_765_303, 585, [602, 874, 1_376, 1_148], 2_403)}


@needs_data
@pytest.mark.parametrize("name", STAYS)
def test_physionet(name):
    rows, deaths, units, nameless = STAYS[name]
    stays = data.physionet2012(name).sets[name]
    assert len(stays.records) == rows and stays.records["RecordID"].nunique() == len(stays.outcomes) == 4_000
    assert set(stays.records["RecordID"]) == set(stays.outcomes.index)
    assert stays.outcomes["In-hospital_death"].sum() == deaths
    unit = stays.records.loc[stays.records["Parameter"] == "ICUType", "Value"]
    assert counts(unit.astype(int))[1:] == units
    assert stays.records["Parameter"].isna().sum() == nameless


def test_another_set_of_physionet_is_refused():
    with pytest.raises(ValueError, match="physionet2012 needs sets among 'a', 'b', 'c'; got 'd'"):
        data.physionet2012("d")


@needs_data
def test_mimic():
    import pandas as pd

    paths = data.mimic3_demo().paths
    assert len(paths) == 25
    admissions, stays = pd.read_csv(paths["ADMISSIONS"]), pd.read_csv(paths["ICUSTAYS"])
    assert (len(admissions), admissions["hospital_expire_flag"].sum(), len(stays)) == (129, 40, 136)
    assert stays["dbsource"].value_counts().to_dict() == {"metavision": 77, "carevue": 59}


@needs_data
def test_eicu():
    tables = data.eicu_demo().tables
    shapes = {name: table.shape for name, table in tables.items()}
    assert shapes == {
        "patient": (2_520, 29),
        "hospital": (186, 4),
        "apacheApsVar": (2_205, 26),
        "apachePredVar": (2_205, 51),
        "apachePatientResult": (3_676, 23),
    }
    status = tables["patient"]["unitdischargestatus"]
    assert status.value_counts(dropna=False).to_list() == [2_392, 126, 2]
    assert (tables["patient"]["age"] == "> 89").any()


# Rows, features, splits, size of a test set.
UCI = {
    "boston_housing": (506, 13, 20, 51),
    "concrete": (1_030, 8, 20, 103),
    "energy": (768, 8, 20, 77),
    "kin8nm": (8_192, 8, 20, 819),
    "naval_propulsion_plant": (11_934, 16, 20, 1_193),
    "power_plant": (9_568, 4, 20, 957),
    "protein_tertiary_structure": (45_730, 9, 5, 4_573),
    "wine_quality_red": (1_599, 11, 20, 160),
    "yacht": (308, 6, 20, 31),
}


def test_the_sets_of_uci_are_named():
    assert tuple(UCI) == data.UCI_SETS
    with pytest.raises(ValueError, match=r"uci_regression needs one of boston_housing, .*; got 'boston'"):
        data.uci_regression("boston")


@needs_data
@pytest.mark.parametrize("name", UCI)
def test_uci(name):
    rows, features, splits, tested = UCI[name]
    found = data.uci_regression(name)
    assert found.x.shape == (rows, features) and found.y.shape == (rows,) and len(found.splits) == splits
    for train, test in found.splits:
        assert len(test) == tested and np.array_equal(np.sort(np.concatenate([train, test])), np.arange(rows))
