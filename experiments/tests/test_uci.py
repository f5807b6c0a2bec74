"""The small regression sets: splits as given, no test row in training, and scores in the units of the targets."""

from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest
from made_up_tables import TRAIN, made_up_table
from posterior_table import TORCH_FIRST
from singularbayes_experiments import data
from singularbayes_experiments.data.uci import UCI_SETS
from singularbayes_experiments.problems import small_regression, uci
from singularbayes_experiments.records import record

from singularbayes import find_posteriors
from singularbayes.models import count_trained

pytestmark = pytest.mark.on_torch

TRIALS = Path(__file__).parents[2] / "experiments" / "results" / "uci_trials.jsonl"
SETS = ("yacht", "protein_tertiary_structure")
TINY = uci.UCISettings(sets=SETS, units=4, rank=2, epochs=2, warmup=1, draws=3, members=2)


@pytest.fixture(autouse=True)
def sets(monkeypatch):
    monkeypatch.setattr(data, "uci_regression", made_up_table)
    monkeypatch.setattr(uci, "MANY_CORES", 1_000)


def test_rows_are_standardised_by_those_that_train_and_asked_targets_are_as_they_are():
    table = made_up_table("yacht")
    train, test = table.splits[1]
    found = small_regression.fold("yacht", 1)
    np.testing.assert_allclose(found.x.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(found.x.std(axis=0), [1, 1, 0], atol=1e-12)  # a column that never varies is 0
    np.testing.assert_allclose(
        found.x_tested[:, 0] * table.x[train, 0].std() + table.x[train, 0].mean(), table.x[test, 0]
    )
    np.testing.assert_array_equal(found.y_tested, table.y[test])
    np.testing.assert_allclose(found.y * found.std + found.mean, table.y[train])


def test_neither_training_nor_a_trial_sees_a_test_row(monkeypatch):
    before = [small_regression.fold("yacht", 2, trial) for trial in (False, True)]
    _, test = made_up_table("yacht").splits[2]
    monkeypatch.setattr(data, "uci_regression", lambda name: made_up_table(name, changed=test))
    after = [small_regression.fold("yacht", 2, trial) for trial in (False, True)]
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one.x, other.x)
        np.testing.assert_array_equal(one.y, other.y)
    np.testing.assert_array_equal(before[1].x_tested, after[1].x_tested)
    assert len(before[1].y) == 40 and len(before[1].y_tested) == 10


@TORCH_FIRST
def test_a_split_trained_with_others_is_what_it_is_alone_and_its_scores_are_of_its_arrays():
    first, third = uci.EXPERIMENT.problem.run_many("deep_ensemble", [0, 2], TINY)
    alone = uci.EXPERIMENT.problem.run("deep_ensemble", 2, TINY)
    assert first.metrics.keys() > alone.metrics.keys() == third.metrics.keys() == {f"yacht/{m}" for m in SCORES}
    for name, value in alone.metrics.items():
        assert third.metrics[name] == pytest.approx(value, rel=1e-4)
    _, test = made_up_table("yacht").splits[2]
    np.testing.assert_allclose(third.arrays["yacht_targets"], made_up_table("yacht").y[test], rtol=1e-6)
    errors = third.arrays["yacht_mean"] - third.arrays["yacht_targets"]
    assert third.metrics["yacht/rmse"] == pytest.approx(np.sqrt((errors**2).mean()), rel=1e-4)
    # Two members of 3 · 4 + 4 + 4 + 1 weights and a noise; protein's are 100 wide.
    assert third.parameters == 2 * 22 and first.parameters == 2 * 22 + 2 * (3 * 100 + 100 + 100 + 1 + 1)


@pytest.mark.parametrize("least_steps", [0, 8])
def test_the_kl_is_divided_by_the_rows_however_often_an_epoch_goes_through_them(least_steps):
    settings = replace(TINY, least_steps=least_steps, beta=0.3)
    ((model,),) = small_regression.train("low_rank", "yacht", {1: small_regression.fold("yacht", 1)}, settings)
    weights = [float(posterior.kl_scale) for posterior in find_posteriors(model)]
    assert weights == pytest.approx([0.3 / TRAIN] * len(weights)) and len(weights) == 4


SCORES = ("mae", "rmse", "nll")


def test_a_trial_is_scored_by_the_mean_over_sets_and_watched_through_all_of_them():
    seen = []
    settings = replace(TINY, least_steps=8, members=1)
    found = uci.EXPERIMENT.problem.run(
        "deep_ensemble", 0, settings, watch=lambda epoch, logs: seen.append(epoch), preset="trial"
    )
    nlls = [found.metrics[f"validation/{name}/nll"] for name in SETS]
    assert found.metrics["validation_nll"] == pytest.approx(np.mean(nlls)) and not found.arrays
    assert not any(name.startswith("yacht") for name in found.metrics)
    assert seen == [0, 1, 2, 3] and uci.EXPERIMENT.problem.count_epochs("deep_ensemble", TINY) == 4


def test_the_networks_have_a_rank_no_larger_than_their_inputs_and_noise_of_one_or_of_each():
    for own, outputs in ((False, 1), (True, 2)):
        settings = uci.UCISettings(own_noise=own)
        model = small_regression.network("low_rank", 4, 50, settings)
        # Means and scales of 4 (4 + 50) and (50 + 1) factors and of the biases, and the noise.
        assert count_trained(model) == 2 * (216 + 50 + outputs * 52) + (not own)
        assert keras.ops.shape(model(np.ones((3, 4)))) == (3, 2)


@pytest.mark.skipif(not TRIALS.exists(), reason="no trials are committed")
def test_the_committed_choice_is_that_of_the_committed_trials():
    trials = record.read(TRIALS, arrays=False)
    assert all(one.preset == "trial" and all(name.startswith("validation") for name in one.metrics) for one in trials)
    assert uci.EXPERIMENT.configurations.best(trials) == uci.CHOICE


def test_every_method_has_four_configurations():
    assert {len(uci.EXPERIMENT.configurations.settings(method)) for method in uci.EXPERIMENT.methods} == {4}
    assert uci.UCISettings().sets == UCI_SETS and len(UCI_SETS) == 9


def test_a_seed_is_the_number_of_a_split():
    with pytest.raises(ValueError, match="uci needs seeds from 0 to 19, the numbers of the splits; got 42"):
        uci.EXPERIMENT.problem.run("low_rank", 42, TINY)
    with pytest.raises(ValueError, match="needs method to be one of"):
        uci.EXPERIMENT.problem.run("swag", 0, TINY)
