"""The evidence on `Monitor`: streams dealt as written down, delays counted from the change, scores of both services."""

import numpy as np
import pytest
from singularbayes_experiments import data
from singularbayes_experiments.problems import monitoring
from singularbayes_experiments.problems.monitoring import MonitorSettings
from singularbayes_experiments.records import record

import singularbayes as sb

pytestmark = pytest.mark.on_torch

RNG = np.random.default_rng(0)
SMALL = MonitorSettings(repetitions=40, reference=100, before=50, longest=80, delays=10)
INSIDE, OUTSIDE = RNG.normal(size=400), RNG.normal(4.0, 1.0, size=200)


def test_a_delay_is_the_number_of_inputs_after_the_change_at_which_the_monitor_alarms(monkeypatch):
    seen = []
    side_by_side = monitoring.wealth_side_by_side
    monkeypatch.setattr(
        monitoring, "wealth_side_by_side", lambda martingales, x: seen.extend(x) or side_by_side(martingales, x)
    )
    options = {"share": 1.0, "before": 50, "in_time": True, "seed": 0}
    found, _ = monitoring.delays(INSIDE, OUTSIDE, SMALL, **options)
    assert all(set(stream[:50]) <= set(INSIDE) and set(stream[50:]) <= set(OUTSIDE) for stream in seen)
    starts = [np.flatnonzero(stream[50] == OUTSIDE)[0] for stream in seen]
    np.testing.assert_array_equal(seen[0][50:], np.roll(OUTSIDE, -starts[0])[:80])
    assert len(set(starts)) > 5 and len(found[0.01]) == 10 and 2 <= found[0.01].min() <= found[0.01].max() < 30
    assert (found[0.01] > found[0.1]).all()


def test_the_alarm_is_that_of_a_monitor():
    found, _ = monitoring.delays(
        INSIDE,
        OUTSIDE,
        MonitorSettings(reference=100, longest=80, delays=1),
        share=1.0,
        before=0,
        in_time=False,
        seed=3,
    )
    rng = np.random.default_rng([0, 3])
    reference = INSIDE[rng.permutation(400)[:100]]
    rng.integers(200)
    monitor = sb.Monitor(reference, alpha=0.01)
    status = monitor.update(OUTSIDE[rng.permutation(200)[:80]])
    assert status.first[1] == found[0.01][0]


def test_a_small_share_takes_longer_and_no_change_is_rarely_an_alarm():
    metrics = monitoring.run("beijing", SMALL, (INSIDE, OUTSIDE)).metrics
    assert metrics["false alarms, α = 0.1"] <= 0.1 + 2 * np.sqrt(0.09 / 40)
    assert metrics["auroc"] > 0.99
    whole, some = metrics["100% changed, α = 0.1: 50% by"], metrics["30% changed, α = 0.1: 50% by"]
    assert whole < some <= 80 and metrics["100% changed, α = 0.01: missed"] == 0
    none = monitoring.delays(INSIDE, INSIDE, SMALL, share=1.0, before=0, in_time=False, seed=0)[0]
    assert np.isinf(none[0.01]).mean() >= 0.9


def test_scores_of_the_forecaster_are_the_committed_ones():
    inside, outside = monitoring.beijing()
    assert inside.shape == (6260,) and outside.shape == (20_050,)
    runs = [run for run in record.read(monitoring.RESULTS / "beijing.jsonl", arrays=False) if run.method == "low_rank"]
    [auroc] = [r.metrics["auroc_ood_epistemic"] for r in runs if (r.seed, r.preset) == (42, "chosen")]
    assert sb.metrics.auroc_ood(inside, outside) == pytest.approx(auroc, abs=1e-3)


def test_a_classifier_of_words_is_less_certain_of_other_words():
    words = [f"{kind}{i}" for kind in "ab" for i in range(6)]
    texts = [" ".join(RNG.choice(words[6 * label : 6 * label + 6], 3)) for label in (0, 1) * 40]
    part = texts, np.array([0, 1] * 40)
    outside = ["other words here"] * 20
    inside, entropy = monitoring.clinc150(data.Intents(part, part, part, outside, ("a", "b"), ""), epochs=15)
    assert inside.shape == (160,) and entropy.shape == (20,)
    assert entropy.min() > np.quantile(inside, 0.9)
