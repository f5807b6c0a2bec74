"""The rules of tuning: what wins, what ties, what diverged, and where a grid has to go on."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from singularbayes_experiments.methods import protocol
from singularbayes_experiments.methods.protocol import Tried

from singularbayes.metrics import auroc_ood

PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()


def test_the_least_nll_wins_where_nothing_ties():
    tried = [Tried("far", (0.50, 0.52), (0.99, 0.99)), Tried("best", (0.30, 0.31)), Tried("next", (0.40, 0.42))]
    found = protocol.choose(tried)
    assert found.name == "best" and found.ties == ("best",)
    # The better half are two of three: differences 0.10 and 0.11, variance 0.01²/2, over two seeds.
    assert found.standard_error == pytest.approx(0.01 / 2)


def test_ties_within_one_standard_error_go_to_the_better_ood_score():
    def with_last(nll):
        tied = Tried("tied", (0.310, 0.322), (0.8, 0.9))
        return [Tried("best", (0.300, 0.330), (0.9, 0.7)), tied, Tried("last", nll, (1.0, 1.0)), Tried("bad", (9, 9.1))]

    found = protocol.choose(with_last((0.4, 0.4)))
    assert found.standard_error == pytest.approx(0.018 / 2)  # differences 0.010 and −0.008
    assert found.name == "tied" and found.ties == ("best", "tied")
    assert protocol.choose(with_last((0.314, 0.325))).name == "last"  # 0.3195, best is 0.315
    assert protocol.choose([Tried("b", (0.3, 0.3)), Tried("a", (0.3, 0.3))]).name == "b"  # the order decides the rest


@pytest.mark.parametrize("bad", [(0.1, math.nan), (0.1, math.inf), (0.1, 2.4)])
def test_one_diverged_seed_discards_a_configuration(bad):
    tried = [Tried("bad", bad, without_inputs=2.3), Tried("good", (0.5, 0.6), without_inputs=2.3)]
    assert tried[0].diverged and protocol.choose(tried).name == "good"
    with pytest.raises(ValueError, match=r"did not diverge; got \['bad'\]"):
        protocol.choose(tried[:1])


def test_every_configuration_needs_the_same_seeds():
    with pytest.raises(ValueError, match=r"2 or more seeds, the same for all; got \{'a': 1\}"):
        protocol.choose([Tried("a", (0.1,))])
    with pytest.raises(ValueError, match=r"'a': 2, 'b': 3"):
        protocol.choose([Tried("a", (0.1, 0.2)), Tried("b", (0.1, 0.2, 0.3))])


def test_a_choice_at_the_edge_of_a_grid_is_named_and_continued():
    grid = [{"beta": beta, "start": start, "rate": 1e-3} for beta in (1.0, 0.3, 0.1) for start in ("random", "svd")]
    assert protocol.edges({"beta": 0.3, "start": "svd", "rate": 1e-3}, grid) == {}
    assert protocol.edges({"beta": 1.0, "start": "svd", "rate": 1e-3}, grid) == {"beta": "greatest"}
    assert protocol.beyond((1.0, 0.3, 0.1), "greatest") == pytest.approx(1 / 0.3, rel=1e-5)
    assert protocol.beyond((1.0, 0.3, 0.1), "least") == pytest.approx(0.1 / 3, rel=1e-5)


def test_methods_are_tuned_alike_and_results_have_seeds_of_their_own():
    protocol.require_equal_tuning({"a": {"1": {"x": 1}, "2": {"x": 2}}, "b": {"1": {"y": 1}, "2": {"y": 2}}})
    for uneven in ({"1": {"x": 1}}, {"1": {"x": 1}, "2": {"x": 1}}):
        with pytest.raises(ValueError, match="same number of different configurations"):
            protocol.require_equal_tuning({"a": uneven, "b": {"1": {"y": 1}, "2": {"y": 2}}})
    protocol.require_result_seeds((0, 1), (2, 3, 4, 5))
    for results in ((2, 3, 4), (1, 2, 3, 4)):
        with pytest.raises(ValueError, match="4 or more result seeds, none used for tuning"):
            protocol.require_result_seeds((0, 1), results)


def test_perturbed_inputs_keep_marginals_in_one_half_and_triple_distances_in_the_other():
    x = np.random.default_rng(0).normal(size=(200, 2, 3)) + 5
    found = protocol.perturbed(x, seed=3)
    assert found.shape == x.shape and np.array_equal(found, protocol.perturbed(x, seed=3))
    for column in range(6):
        own = x.reshape(200, 6)[:, column].astype("float32")
        assert np.isin(found[:100].reshape(100, 6)[:, column], own).all()
    np.testing.assert_allclose(found[100:] - x.mean(axis=0), 3 * (x[100:] - x.mean(axis=0)), rtol=1e-4, atol=1e-5)
    distance = [np.linalg.norm((part - x.mean(axis=0)).reshape(len(part), -1), axis=1) for part in (x, found[100:])]
    assert auroc_ood(*distance) > 0.95


def test_a_default_is_behind_on_few_sets_then_ranks_best_then_detects_best():
    jitter = np.array([-0.01, 0.01])
    sets = ("one", "two", "three")

    def row(*means):
        return {name: mean + jitter * (i + 1) for i, (name, mean) in enumerate(zip(sets, means, strict=True))}

    steady, brilliant, close = row(-0.1, -0.1, -0.1), row(-9.0, -9.0, 0.5), row(-0.09, -0.11, -0.11)
    found = protocol.choose_default({"steady": steady, "brilliant": brilliant, "close": close}, {})
    # Ranks of steady are 2, 3, 2 and those of close 3, 2, 1: 7/3 is within 2 + √(4/3)/√3.
    assert found.name == "close" and found.ties == ("steady", "close")
    scores = {"steady": 0.9, "close": 0.8, "brilliant": 1.0}
    assert protocol.choose_default({"steady": steady, "brilliant": brilliant, "close": close}, scores).name == "steady"
    worse = row(-0.05, -0.05, -0.05)
    assert protocol.choose_default({"steady": steady, "worse": worse}, {"worse": 1.0}).name == "steady"
    with pytest.raises(ValueError, match="diverged on no data set"):
        protocol.choose_default({}, {})


def test_not_worse_is_an_interval_that_reaches_zero():
    assert protocol.paired([1.0, 1.1, 1.2], [1.0, 1.1, 1.15]).not_worse
    assert not protocol.paired([2.0, 2.1, 2.2], [1.0, 1.1, 1.15]).not_worse
    assert protocol.paired([0.0, 0.1, 0.2], [1.0, 1.1, 1.15]).high < 0


def test_the_page_has_the_numbers_of_the_module():
    table = re.findall(r"\| ([A-Za-z0-9, -]+?) \| (\d+)(?: each)? \|", PAGE.replace("| |", "|\n|"))
    minutes = {name.strip(): int(value) for name, value in table}
    assert minutes == {
        "toy": protocol.MINUTES["toy"],
        "digits, moons, wine": protocol.MINUTES["digits"],
        "UCI, nine sets": protocol.MINUTES["uci"],
        "MNIST, Fashion-MNIST": protocol.MINUTES["mnist"],
        "CNN": protocol.MINUTES["cnn"],
        "SST-2": protocol.MINUTES["sst2"],
        "Beijing": protocol.MINUTES["beijing"],
        "intensive care": protocol.MINUTES["icu"],
    }
    assert all(part in " ".join(PAGE.split()) for part in protocol.CUT_FIRST)
