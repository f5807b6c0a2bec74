"""Which trial of a sweep is taken, the reason given, and its figure."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singularbayes.metrics import find_measure
from singularbayes.ranks.trials import Sweep, Trial

OBJECTIVES = (find_measure("nll"), find_measure("auroc_ood_mi"))


def _found(points, errors=None):
    """Trials of rank 1, 2, … with these objectives, and of several seeds if they have errors."""
    of_seeds = {} if errors is None else dict(zip(("nll", "auroc_ood_mi"), errors, strict=True))
    trials = [
        Trial(i, {"rank": i + 1}, {"nll": x, "auroc_ood_mi": y, "ece": x, "num_trained": 10.0 * (i + 1)}, of_seeds)
        for i, (x, y) in enumerate(points)
    ]
    return Sweep("classification", OBJECTIVES, tuple(trials), 1 if errors is None else 3)


def test_the_knee_is_where_one_objective_starts_to_cost_the_other():
    found = _found([(0.1, 0.5), (0.12, 0.9), (0.5, 0.95), (0.5, 0.4)])
    assert [trial.number for trial in found.pareto()] == [0, 1, 2]
    assert found.knee().number == 1
    assert found.why() == (
        "Take rank=2: NLL 0.12 and AUROC-OOD (MI) 0.9. It is the knee of a front of 3 among 4 trials; one seed a trial "
        "decides, so small differences may be chance."
    )
    assert [trial.number for trial in found.pareto("ece")] == [0]
    assert str(found).splitlines()[3].split() == ["1", "2", "0.12", "0.9", "★"]


def test_of_two_on_the_front_the_range_of_all_trials_says_which_gives_up_less():
    # Rank 1 has the better NLL by a hair and detects far worse; by their own range both would be as near.
    assert _found([(0.1, 0.6), (0.101, 0.95), (0.5, 0.4)]).knee().number == 1
    assert _found([(0.1, 0.94), (0.4, 0.95), (0.5, 0.4)]).knee().number == 0
    assert _found([(0.101, 0.95), (0.1, 0.6)]).knee().number == 1  # no others: the first objective decides


def test_with_several_seeds_the_smallest_within_one_standard_error_in_every_objective_is_taken():
    points = [(0.15, 0.6), (0.15, 0.9), (0.1, 0.91), (0.5, 0.92)]
    found = _found(points, errors=(0.05 + 1e-9, 0.02))
    assert found.knee().number == 2 and found.recommended().number == 1  # the first detects too little
    assert found.why() == (
        "Take rank=2: NLL 0.15 ± 0.05 and AUROC-OOD (MI) 0.9 ± 0.02. It is the smallest within one standard error of "
        "rank=3, NLL 0.1 ± 0.05 and AUROC-OOD (MI) 0.91 ± 0.02."
    )
    strict = _found(points, errors=(0.049, 0.02))
    assert strict.recommended() is strict.knee()


whole = st.integers(1, 50)  # so that a change of units rounds nothing, and ties stay ties


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(whole, whole), min_size=1, max_size=8), whole, st.integers(-50, 50))
def test_the_knee_is_on_the_front_and_the_same_whatever_the_units_of_the_objectives(points, scale, shift):
    found = _found(points)
    front = {trial.number for trial in found.pareto()}
    assert found.knee().number in front
    for i, (x, y) in enumerate(points):
        beaten = any(a <= x and b >= y and (a, b) != (x, y) for a, b in points)
        assert beaten == (i not in front)
    assert _found([(scale * x + shift, y) for x, y in points]).knee().number == found.knee().number
    assert _found([(x, scale * y + shift) for x, y in points]).knee().number == found.knee().number


def test_a_sweep_without_a_finished_trial_names_it():
    with pytest.raises(
        ValueError, match=r"pareto needs a finished trial with \['nll', 'auroc_ood_mi'\]; got none among 0"
    ):
        Sweep("classification", OBJECTIVES, ()).pareto()


def test_the_figure_rings_the_recommended_trial_names_ranks_and_draws_errors():
    trials = tuple(
        Trial(i, {"rank": 2**i, "beta": 1.0}, {"nll": 1.0 - 0.1 * i, "num_trained": 10.0 * 2**i}, {"nll": 0.15})
        for i in range(3)
    )
    sweep = Sweep("classification", OBJECTIVES[:1], trials, seeds=3)
    assert sweep.recommended() is trials[1]  # 0.9 is within 0.15 of 0.8
    (axes,) = sweep.plot().axes
    (ring,) = [line for line in axes.lines if line.get_markerfacecolor() == "none"]
    assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (20.0, 0.9)
    assert {text.get_text() for text in axes.texts} == {"1", "2", "4"}
    np.testing.assert_allclose(np.ptp(axes.collections[-1].get_segments()[0][:, 1]), 0.3)
    both = _found([(0.1, 0.5), (0.12, 0.9)]).plot().axes[0]
    assert "NLL" in both.get_xlabel() and "AUROC-OOD" in both.get_ylabel()
