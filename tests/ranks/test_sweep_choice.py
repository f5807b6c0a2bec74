"""Which trial of a sweep is taken, and the reasons given."""

import dataclasses
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from singularbayes.metrics import find_measure
from singularbayes.ranks.search import live_table
from singularbayes.ranks.trials import Sweep, Trial

pytest.importorskip("optuna")
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
        "Take rank=2: NLL 0.12 (the best, 0.1, needs rank=1) and AUROC-OOD (MI) 0.9 (the best, 0.95, needs rank=3). "
        "3 of 4 trials are beaten by no other, and it is nearest to the best of all objectives. "
        "One seed a trial decides, so small differences may be chance."
    )
    assert "One seed" not in dataclasses.replace(found, seeds=3).why()
    assert [trial.number for trial in found.pareto("ece")] == [0]
    assert str(found).splitlines()[3].split() == ["1", "2", "0.12", "0.9", "★"]


def test_of_two_on_the_front_the_range_of_all_trials_says_which_gives_up_less():
    # Rank 1 has the better NLL by a hair and detects far worse; by their own range both would be as near.
    found = _found([(0.1, 0.6), (0.101, 0.95), (0.5, 0.4)])
    assert found.knee().number == 1 and "it is nearest to the best of all objectives" in found.why()
    assert _found([(0.1, 0.94), (0.4, 0.95), (0.5, 0.4)]).knee().number == 0


def test_where_two_trials_are_as_near_the_first_objective_decides_and_that_is_reported():
    found = _found([(0.101, 0.95), (0.1, 0.6)])
    assert found.knee().number == 1 and [trial.number for trial in found.nearest()] == [1, 0]
    assert found.why().startswith(
        "Take rank=2: NLL 0.1 (the best) and AUROC-OOD (MI) 0.6 (the best, 0.95, needs rank=1). 2 of 2 trials are "
        "beaten by no other, and none is nearer to the best of all objectives, so NLL, the first of them, decides."
    )


def test_a_trial_that_beats_all_others_is_named_so():
    found = _found([(0.1, 0.9), (0.2, 0.8), (0.1, 0.9)])
    assert found.why().startswith(
        "Take rank=1: NLL 0.1 (the best) and AUROC-OOD (MI) 0.9 (the best). "
        "None of 3 trials is better in any objective."
    )


def test_with_several_seeds_the_smallest_within_one_standard_error_in_every_objective_is_taken():
    points = [(0.15, 0.6), (0.15, 0.9), (0.1, 0.91), (0.5, 0.92)]
    found = _found(points, errors=(0.05 + 1e-9, 0.02))
    assert found.knee().number == 2 and found.recommended().number == 1  # the first detects too little
    assert found.why() == (
        "Take rank=2: NLL 0.15 and AUROC-OOD (MI) 0.9 are within one standard error (0.05 and 0.02, over 3 seeds) of "
        "rank=3, which is nearest to the best of all objectives, with NLL 0.1 and AUROC-OOD (MI) 0.91. Of all such "
        "trials it has the fewest trainable parameters."
    )
    strict = _found(points, errors=(0.049, 0.02))
    assert strict.recommended() is strict.knee()
    assert strict.why().endswith("No smaller one is within one standard error (0.049 and 0.02, over 3 seeds) of it.")


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


def test_on_a_terminal_the_table_grows_and_elsewhere_nothing_is_written():
    for terminal in (True, False):
        console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
        with live_table(OBJECTIVES, console) as show:
            for number in range(3):
                show(list(_found([(0.1, 0.5), (0.12, 0.9), (0.5, 0.95)]).trials[:number]))
        text = console.file.getvalue()
        assert ("2 trials" in text and "★" in text) if terminal else text == ""
