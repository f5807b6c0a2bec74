"""Selective prediction: risk and area by a naive loop, ties as a mean, thresholds that keep what they say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singularbayes.metrics import selective_curve


def made_up(seed=0, levels=1000, examples=40):
    rng = np.random.default_rng(seed)
    return rng.integers(0, levels, examples) / levels, rng.random(examples)


def test_risk_and_area_are_means_over_the_most_certain():
    uncertainty = np.random.default_rng(0).permutation(40) / 40
    _, losses = made_up()
    ordered = losses[np.argsort(uncertainty)]
    curve = selective_curve(uncertainty, losses)
    for share in (1.0, 0.95, 0.7, 0.69, 0.5, 0.025):  # 27.6 of 40 are 28
        assert curve.at(share) == pytest.approx(ordered[: round(share * 40)].mean(), rel=1e-12)
    np.testing.assert_allclose(curve.at([0.5, 1.0]), [ordered[:20].mean(), losses.mean()])
    assert curve.area == pytest.approx(np.mean([ordered[:k].mean() for k in range(1, 41)]), rel=1e-12)
    assert curve.at(0.001) == ordered[0]  # at least one example
    np.testing.assert_allclose(curve.coverage, np.arange(1, 41) / 40)


def test_ties_are_the_mean_over_their_orders():
    uncertainty, losses = made_up(levels=5)
    rng = np.random.default_rng(1)
    curve = selective_curve(uncertainty, losses)
    orders = [np.lexsort((rng.random(40), uncertainty)) for _ in range(3000)]
    kept = np.array([losses[order[:13]].mean() for order in orders])
    assert abs(curve.at(13 / 40) - kept.mean()) < 4 * kept.std() / np.sqrt(len(kept))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 999), levels=st.sampled_from([2, 7, 1000]), stretch=st.floats(0.1, 10))
def test_neither_order_nor_a_monotone_transform_of_the_uncertainty_matters(seed, levels, stretch):
    uncertainty, losses = made_up(seed, levels)
    order = np.random.default_rng(seed).permutation(40)
    one, other = (
        selective_curve(uncertainty, losses),
        selective_curve(np.exp(stretch * uncertainty[order]), losses[order]),
    )
    shares = np.linspace(0.1, 1, 10)
    np.testing.assert_allclose(one.at(shares), other.at(shares))
    assert one.area == pytest.approx(other.area)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 999), levels=st.sampled_from([3, 10, 1000]), wanted=st.floats(0.05, 1))
def test_thresholds_keep_and_risk_what_they_say_and_no_other_is_better(seed, levels, wanted):
    uncertainty, losses = made_up(seed, levels)
    curve = selective_curve(uncertainty, losses)
    every = [(t, uncertainty <= t) for t in uncertainty]
    point = curve.for_coverage(wanted)
    kept = uncertainty <= point.threshold
    assert point.coverage == kept.mean() >= wanted and point.risk == pytest.approx(losses[kept].mean())
    assert not any(keep.mean() >= wanted for t, keep in every if t < point.threshold)
    if curve.risk.min() <= wanted:
        point = curve.for_error(wanted)
        kept = uncertainty <= point.threshold
        assert point.coverage == kept.mean() and losses[kept].mean() <= wanted + 1e-12
        assert not any(losses[keep].mean() <= wanted - 1e-12 for t, keep in every if t > point.threshold)


def test_wrong_input_is_refused():
    for uncertainty, losses, message in [
        (np.ones(3), np.ones(2), r"got uncertainty \(3,\), losses \(2,\)"),
        (np.ones(0), np.ones(0), "not empty"),
        (np.ones((3, 2)), np.ones((3, 2)), r"one number per example in uncertainty and losses; got shape \(3, 2\)"),
        (np.array([np.nan, 1]), np.ones(2), "got nan in uncertainty"),
        (np.ones(2), np.array([np.inf, 1]), "got inf in losses"),
    ]:
        with pytest.raises(ValueError, match=f"selective_curve needs .*{message}"):
            selective_curve(uncertainty, losses)
    curve = selective_curve(np.arange(4), np.array([0.2, 0.1, 0.5, 0.9]))
    for share in (0, -0.1, 1.1, float("nan"), [0.5, 80], []):
        with pytest.raises(ValueError, match="at needs 0 < retention <= 1; got retention="):
            curve.at(share)
    for share in (0, 90, float("nan")):
        with pytest.raises(ValueError, match="for_coverage needs 0 < coverage <= 1; got coverage="):
            curve.for_coverage(share)
    with pytest.raises(
        ValueError, match=r"at most 0.05; the least risky is OperatingPoint\(.* <= 1: 50.0 % kept, risk 0.15"
    ):
        curve.for_error(0.05)
