"""The Pareto front is what no other setting beats, against the definition and under what must not change it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from singularbayes.metrics import pareto_front

TABLES = arrays.arrays("float64", st.tuples(st.integers(1, 12), st.just(3)), elements=st.integers(0, 4).map(float))
SIGNS = st.tuples(*[st.sampled_from([-1, 1])] * 3)


def _beaten(row, table, signs):
    return any(
        all(s * o >= s * r for s, o, r in zip(signs, other, row, strict=True)) and tuple(other) != tuple(row)
        for other in table
    )


@given(TABLES, SIGNS)
def test_the_front_is_what_the_definition_says(table, signs):
    assert pareto_front(table, signs).tolist() == [not _beaten(row, table, signs) for row in table]


@given(TABLES, SIGNS)
def test_monotone_transforms_and_order_do_not_change_the_front_and_it_is_never_empty(table, signs):
    front = pareto_front(table, signs)
    assert front.any()
    np.testing.assert_array_equal(pareto_front(np.exp(table) - 3, signs), front)
    np.testing.assert_array_equal(pareto_front(-table, [-sign for sign in signs]), front)
    np.testing.assert_array_equal(pareto_front(table[::-1], signs)[::-1], front)


def test_equal_settings_are_both_on_the_front():
    assert pareto_front(np.array([[1.0, 2.0], [1.0, 2.0], [0.0, 2.0]]), (1, 1)).tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("values", "signs"),
    [(np.zeros((0, 2)), (1, 1)), (np.zeros(3), (1,)), (np.zeros((3, 2)), (1,)), (np.ones((3, 1)), (2,))],
)
def test_other_shapes_and_signs_are_refused(values, signs):
    with pytest.raises(ValueError, match=r"values of shape \(settings, measures\), not empty, and a sign, 1 or -1"):
        pareto_front(values, signs)


def test_nan_is_refused():
    with pytest.raises(ValueError, match="pareto_front needs finite numbers; got nan"):
        pareto_front(np.array([[np.nan, 1.0]]), (1, 1))
