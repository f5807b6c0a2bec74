"""A monitor alarms soon after a change, and, by simulation, no more often than promised without one."""

import json

import keras
import numpy as np
import pytest
from predictions import class_predictive, value_predictive
from scipy import stats

import singularbayes as sb
from singularbayes.metrics import ConformalMartingale
from singularbayes.metrics.exchangeability import _after_bets


def wealth_side_by_side(martingales, streams):
    """Returns what `update` would return for every martingale and its stream: together, a hundred times as fast."""
    places = np.stack([m._places(scores) for m, scores in zip(martingales, streams, strict=True)])
    ties = np.stack([m._ties(streams.shape[1]) for m in martingales])
    counts = np.zeros((len(streams), max(len(m.reference) for m in martingales)))
    for row, m in zip(counts, martingales, strict=True):
        row[: len(m.reference)] = m.reference + m.stream
    log_wealth, wealth = np.stack([m.log_wealth for m in martingales]), np.empty(streams.shape)
    rows, bins = np.arange(len(streams)), np.arange(counts.shape[1])
    for i, (place, u) in enumerate(zip(places.T, ties.T, strict=True)):
        above = np.where(bins > place[:, None], counts, 0.0).sum(axis=1)
        p = (above + u * (counts[rows, place] + 1)) / (counts.sum(axis=1) + 1)
        counts[rows, place] += 1
        log_wealth = _after_bets(log_wealth, p)
        wealth[:, i] = np.logaddexp.reduce(log_wealth, axis=-1)
    return wealth


def test_p_values_of_exchangeable_scores_are_independent_and_uniform_also_with_ties():
    rng = np.random.default_rng(0)
    found = []
    for seed in range(400):
        scores = rng.integers(0, 5, 80)  # many ties
        martingale = ConformalMartingale.from_reference(scores[:40], seed=seed)
        found.append(list(martingale._p_values(scores[40:].astype(float))))
    p = np.array(found)
    assert stats.kstest(p.ravel(), "uniform").pvalue > 0.01
    correlation = np.corrcoef(p[:, 0], p[:, 1])[0, 1]
    assert abs(correlation) < 4 / np.sqrt(len(p))


def test_the_p_value_is_the_rank_among_reference_and_stream():
    martingale = ConformalMartingale.from_reference(np.arange(1000.0), bins=500)
    low, high = (martingale._p_values(np.array([score])) for score in (-1.0, 2000.0))
    assert next(low) > 0.98
    assert next(high) < 0.02
    martingale.update(np.full(5000, 2000.0))  # the stream counts too: the same score is ordinary by now
    assert next(martingale._p_values(np.array([500.0]))) > 0.85


def test_wealth_is_a_martingale_and_false_alarms_are_at_most_alpha():
    rng = np.random.default_rng(1)
    alpha, streams = 0.1, 300
    wealth, alarms = [], 0
    for seed in range(streams):
        scores = rng.exponential(size=240)
        monitor = sb.Monitor(scores[:120], alpha=alpha, seed=seed)
        alarms += monitor.update(scores[120:]).alarm
        martingale = ConformalMartingale.from_reference(scores[:120], seed=seed)
        wealth.append(np.exp(martingale.update(scores[120:126])[-1]))
    assert alarms / streams <= alpha + 2 * np.sqrt(alpha * (1 - alpha) / streams)
    assert abs(np.mean(wealth) - 1) < 4 * np.std(wealth) / np.sqrt(streams)


def test_false_alarms_after_a_restart_are_at_most_alpha_where_its_time_was_fixed_and_more_after_an_alarm():
    rng = np.random.default_rng(7)
    alpha, streams, longest = 0.1, 3000, 150
    martingales = [ConformalMartingale.from_reference(x, seed=i) for i, x in enumerate(rng.normal(size=(streams, 40)))]

    def alarms(some):
        return wealth_side_by_side(some, rng.normal(size=(len(some), longest))) >= np.log(1 / alpha)

    first = alarms(martingales)
    for martingale in martingales:
        martingale.seen = longest
    error = 2 * np.sqrt(alpha * (1 - alpha) / streams)
    again = alarms([martingale.restarted() for martingale in martingales]).any(axis=1)
    hit = first.any(axis=1)
    assert hit.mean() <= alpha + error
    assert again.mean() <= alpha + error  # of all streams, whatever was found before
    assert again[hit].mean() > 2 * alpha  # the same, unlucky reference


def test_streams_side_by_side_have_the_wealth_of_each_alone():
    rng = np.random.default_rng(5)
    references, streams = np.round(rng.normal(size=(4, 60)), 1), np.round(rng.normal(0.5, 1, size=(4, 30)), 1)
    martingales = [ConformalMartingale.from_reference(each, bins=20, seed=i) for i, each in enumerate(references)]
    martingales[1].update(streams[2])  # one that has seen something
    found = wealth_side_by_side(martingales, streams)
    assert martingales[0].seen == 0 and martingales[1].seen == 30
    np.testing.assert_allclose(found, [m.update(x) for m, x in zip(martingales, streams, strict=True)], rtol=1e-12)


def test_scores_that_are_somewhat_higher_are_noticed_though_none_is_extreme():
    rng = np.random.default_rng(6)
    reference, stream = rng.uniform(0, 1, 2000), rng.uniform(0.3, 0.9, 400)
    wealth = ConformalMartingale.from_reference(reference).update(stream)
    assert wealth[250] > np.log(100)


def test_batches_do_not_matter_and_the_state_in_a_file_resumes(tmp_path):
    rng = np.random.default_rng(2)
    reference, stream = rng.normal(size=300), rng.normal(0.5, 1, 90)
    whole, parts = sb.Monitor(reference), sb.Monitor(reference)
    whole.update(stream)
    for part in np.split(stream, 3):
        parts.update(part)
        parts.save(tmp_path / "monitor.json")
        parts = sb.Monitor.load(tmp_path / "monitor.json")
    assert parts.status == whole.status
    for _ in range(40):
        whole.update(stream)
    whole.save(tmp_path / "long.json")
    assert (tmp_path / "long.json").stat().st_size < 60_000  # does not grow with the stream
    assert [path.name for path in tmp_path.iterdir()].count("monitor.json.part") == 0


def test_a_shift_alarms_in_its_own_group_and_a_reset_starts_anew():
    rng = np.random.default_rng(3)
    groups = np.repeat(["ward", "icu"], 500)
    monitor = sb.Monitor(rng.normal(size=1000), groups=groups)
    assert monitor.threshold == 200
    status = monitor.update(np.concatenate([rng.normal(size=50), rng.normal(3, 1, 50)]), np.repeat(["ward", "icu"], 50))
    assert status.first is not None and status.first[0] == "uncertainty of icu" and status.first[1] < 30
    assert str(status).startswith("Alarm: uncertainty of icu, after")
    monitor.reset()
    assert not monitor.update(rng.normal(size=50), np.repeat("icu", 50)).alarm
    assert monitor.update(rng.normal(3, 1, 50), np.repeat("icu", 50)).alarm  # the same change is noticed again
    monitor.reset()
    both = monitor.update(rng.normal(3, 1, 100), np.repeat(["ward", "icu"], 50))
    assert both.first is not None and both.first[0] == "uncertainty of ward"  # the earlier, not the first by name


def test_errors_alarm_where_the_uncertainty_does_not():
    rng = np.random.default_rng(4)
    p = class_predictive(rng.dirichlet([5, 1, 1], (4, 900)))
    right = np.array([rng.choice(3, p=mean / mean.sum()) for mean in p.mean])
    monitor = sb.Monitor(_rows(p, slice(0, 600)), y=right[:600])
    new = _rows(p, slice(600, 900))
    assert not monitor.update(new).alarm
    assert not monitor.update_labels(new, right[600:]).alarm
    status = monitor.update_labels(new, p.mean[600:].argmin(axis=1))
    assert status.first is not None and status.first[0] == "errors"


def _rows(p, rows):
    return class_predictive(p.draws[:, rows])


def test_regression_predictions_are_watched_by_their_epistemic_part_and_standardised_errors():
    rng = np.random.default_rng(5)
    draws = rng.normal(size=(6, 400, 1)) * rng.uniform(0.5, 1, (400, 1))
    monitor = sb.Monitor(value_predictive(draws, noise=0.5), y=rng.normal(size=400))
    assert monitor.update(value_predictive(3 * draws[:, :60], noise=0.5)).alarm
    with pytest.raises(ValueError, match="one of"):
        sb.Monitor(value_predictive(draws), score="entropy")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sb.Monitor(np.arange(5.0)), "at least 20 scores"),
        (
            lambda: sb.Monitor(np.arange(50.0), groups=["a"] * 45 + ["b"] * 5),
            "at least 20 scores.*5 of uncertainty of b",
        ),
        (lambda: sb.Monitor(np.full(50, np.nan)), "finite"),
        (lambda: sb.Monitor(np.ones((50, 2))), "one score per example"),
        (lambda: sb.Monitor(keras.Sequential(name="net")), r"such as sb.predict\(model, x\).*got <Sequential name=net"),
        (lambda: sb.Monitor(np.arange(50.0), alpha=0), "0 < alpha < 1"),
        (lambda: sb.Monitor(np.arange(50.0), groups=["a"]), "one group per example"),
        (lambda: sb.Monitor(np.arange(50.0)).update([1.0], groups=["b"]), "the groups of the reference"),
        (lambda: sb.Monitor(np.arange(50.0)).update([np.inf]), "finite"),
        (lambda: sb.Monitor(np.arange(50.0)).update_labels(np.ones(3), np.ones(3)), "errors of the reference"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("likelihood", "score"), [("categorical_logits", 'outputs["entropy"]'), ("gaussian", 'outputs["std"].ravel()')]
)
def test_frozen_outputs_are_watched_by_the_array_that_the_error_names(likelihood, score):
    head = sb.layers.Dense(1 if likelihood == "gaussian" else 3, posterior=sb.FullRank())
    model = keras.Sequential([keras.Input((2,)), head])
    x = np.random.default_rng(0).normal(size=(60, 2)).astype("float32")
    monitor = sb.Monitor(sb.predict(model, x[:40], 4, likelihood=likelihood))
    outputs = sb.freeze_draws(model, 4, likelihood=likelihood).predict(x[40:], verbose=0)
    with pytest.raises(
        ValueError, match=r"got a dictionary of \[.*'mean'.*Pass the score that the reference has"
    ) as error:
        monitor.update(outputs)
    assert str(error.value).endswith(f"of a frozen model's outputs, {score}.")
    named = outputs["entropy"] if "entropy" in outputs else outputs["std"].ravel()
    rows = sb.predict(model, x[40:], 4, likelihood=likelihood)
    np.testing.assert_allclose(named, monitor._scores(rows), rtol=1e-4, atol=1e-6)
    assert monitor.update(named).seen == 20


def test_a_refused_update_changes_nothing():
    monitor = sb.Monitor(np.arange(50.0), score="epistemic", groups=np.repeat(["a", "b"], 25))
    before = monitor._martingales["uncertainty of a"].to_dict()
    with pytest.raises(ValueError, match="finite"):
        monitor.update([1.0, np.nan], ["a", "b"])
    assert monitor._martingales["uncertainty of a"].to_dict() == before
    with pytest.raises(ValueError, match="finite"):
        monitor.update(sb.ValuePredictive(np.zeros(2), np.array([1.0, np.nan]), 2), ["a", "b"])
    assert monitor._martingales["uncertainty of a"].to_dict() == before


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", json.dumps({"version": 99}), json.dumps({"version": 3}), json.dumps({"version": 3, "alpha": 0.1})],
)
def test_a_file_that_is_no_monitor_is_named(tmp_path, text):
    (tmp_path / "file.json").write_text(text)
    with pytest.raises(ValueError, match=r"Monitor\.load needs"):
        sb.Monitor.load(tmp_path / "file.json")
