"""Sentences on digits in the guides are those of their records, and their scripts score what they say."""

import json
from pathlib import Path

import convert
import digit_detectors
import few_digits
import keras
import numpy as np
import pytest
from marks import filled

from singularbayes.evaluation import Evaluation

DOCS = Path(__file__).parents[2] / "docs"


def page(name):
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", digit_detectors.PAGES)
def test_detectors_of_a_page_are_those_of_the_record(name):
    record = json.loads((DOCS / digit_detectors.RECORD).read_text(encoding="utf-8"))
    sentence = digit_detectors.sentence(name, record)
    assert filled(page(name), "digit_detectors.py", sentence, name) == page(name)


def test_the_network_of_the_record_is_that_of_the_page():
    record = json.loads((DOCS / digit_detectors.RECORD).read_text(encoding="utf-8"))
    [score] = record["convert"]["auroc"].values()
    known = json.loads((DOCS / "convert.json").read_text(encoding="utf-8"))["cnn"]["before"]["auroc"]
    assert score["entropy"] == pytest.approx(known, abs=0.005)
    runs = json.loads((DOCS / "compare.json").read_text(encoding="utf-8"))["evaluations"]
    converted = json.loads((DOCS / "convert.json").read_text(encoding="utf-8"))["cnn"]["after"]["auroc"]
    assert score["entropy"] < converted < score["energy"]
    assert "than the trained one's entropy, though not better than its energy (below)" in page("convert")
    seeds = [str(one["seed"]) for one in runs if one["method"] == "deterministic"]
    assert list(record["compare"]["auroc"]) == seeds


def test_the_sentence_on_few_digits_is_that_of_the_record():
    sentence = few_digits.sentence(few_digits.read(DOCS))
    assert filled(page("when_not"), "few_digits", sentence, "when_not.md") == page("when_not")


@pytest.mark.parametrize(
    ("shift", "words"), [(0.0, "do not differ clearly"), (0.05, "has more errors"), (-0.05, "has fewer errors")]
)
def test_a_method_has_fewer_errors_where_the_paired_interval_excludes_zero(shift, words):
    noise = np.random.default_rng(0).normal(scale=0.01, size=5)
    noise -= noise.mean()

    def one(method, seed, error):
        return Evaluation(method, "classification", seed, {"error": error, "nll": 0.1})

    runs = [one(few_digits.ENSEMBLE, seed, 0.1) for seed in range(5)]
    runs += [one(few_digits.MIXTURE, seed, 0.1 + shift + noise[seed]) for seed in range(5)]
    assert words in few_digits.sentence(runs)


@pytest.mark.on_torch
def test_more_ink_is_taken_for_out_of_distribution():
    settings = convert.QUICK
    x = convert.digits(settings)["test"][0]
    sets = digit_detectors.DetectorSets((x, np.arange(len(x)) % 8), x, {digit_detectors.OTHER: x + 1}, 8)
    model = convert.cnn()
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    found = digit_detectors.detectors(model, sets, above=0.0)
    assert found["pixels"] > 0.99 and set(found) == {"pixels", "entropy", "max_softmax", "energy", "mahalanobis"}
