"""Recalibration: the temperature and the variance scale minimise the held-out loss, and change nothing else."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from predictions import class_predictive, value_predictive
from scipy import optimize, special

import singularbayes as sb
from singularbayes.metrics import accuracy, entropy, expected_calibration_error, gaussian_nll, negative_log_likelihood
from singularbayes.prediction import ClassPredictive
from singularbayes.prediction.recalibration import Temperature, VarianceScale


def made_up(seed=0, examples=200, classes=4, sharpness=3.0, draws=5):
    """Returns predictions that are too sure by `sharpness`, and labels that follow the unsharpened logits."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(examples, classes))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    noise = 0.3 * rng.normal(size=(draws, examples, classes))
    return class_predictive(special.softmax(sharpness * logits + noise, axis=-1)), labels


def tempered(p, temperature):
    return special.softmax(np.log(p.mean) / temperature, axis=-1)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 999), classes=st.integers(2, 6), sharpness=st.floats(0.3, 10))
def test_the_temperature_has_the_least_held_out_nll(seed, classes, sharpness):
    p, labels = made_up(seed, classes=classes, sharpness=sharpness)
    found = sb.recalibrate(p, labels)

    def loss(log_temperature):
        return negative_log_likelihood(tempered(p, np.exp(log_temperature)), labels)

    np.testing.assert_allclose(found(p).mean, tempered(p, found.value), atol=1e-12)
    center = np.log(found.value)
    assert loss(center) <= min(loss(t) for t in np.linspace(center - 2, center + 2, 41)) + 1e-12
    assert abs(optimize.approx_fprime([center], lambda t: loss(t[0]), 1e-6)[0]) < 1e-5
    best = optimize.minimize_scalar(loss, bounds=(center - 2, center + 2), method="bounded", options={"xatol": 1e-9})
    assert best.x == pytest.approx(center, abs=1e-4)


def test_predicted_classes_stay_and_calibration_improves():
    p, labels = made_up(examples=2000)
    held_out, test = slice(0, 1000), slice(1000, 2000)
    part = [ClassPredictive(p.mean[s], p.std[s], p.num_draws, None, p.expected_entropy[s]) for s in (held_out, test)]
    after = sb.recalibrate(part[0], labels[held_out])(part[1])
    np.testing.assert_array_equal(after.predicted_labels, part[1].predicted_labels)
    assert accuracy(after.mean, labels[test]) == accuracy(part[1].mean, labels[test])
    for score, share in ((negative_log_likelihood, 0.8), (expected_calibration_error, 0.3)):
        assert score(after.mean, labels[test]) < share * score(part[1].mean, labels[test])


def test_of_several_draws_entropy_is_that_of_the_average_and_the_rest_is_an_error():
    p, _ = made_up()
    after = Temperature(2.0)(p)
    np.testing.assert_allclose(after.entropy, entropy(tempered(p, 2.0)))
    assert (
        len(after) == len(p) and after.num_draws == 5 and repr(after).startswith("TemperedPredictive(5 draws, mean of")
    )
    for what, read in {
        "std": lambda: after.std,
        "mutual_information": lambda: after.mutual_information,
        "quantile": lambda: after.interval(),
    }.items():
        with pytest.raises(ValueError, match=f"{what} is about single draws, .* take {what} before"):
            read()


def test_tempered_positions_are_tables_and_figures_too():
    p, labels = made_up(examples=12)
    sequences = class_predictive(p.draws.reshape(5, 4, 3, 4))
    after = Temperature(2.0)(dataclasses.replace(sequences, targets=labels.reshape(4, 3)))
    flat = after.flattened()
    np.testing.assert_allclose(flat.mean, tempered(p, 2.0))
    np.testing.assert_array_equal(flat.targets, labels)
    table = after.to_dataframe()
    np.testing.assert_allclose(table["entropy"], entropy(tempered(p, 2.0)))
    np.testing.assert_array_equal(table["target"], labels)
    assert list(table["position"]) == [0, 1, 2] * 4 and "mutual_information" not in table
    assert after.plot().axes


@pytest.mark.parametrize("keep", [True, False])
def test_of_one_draw_everything_is_that_of_a_point_network(keep):
    probabilities = made_up()[0].mean
    p = class_predictive(probabilities[None], keep=keep)
    after = Temperature(0.5)(p)
    np.testing.assert_allclose(after.mean, probabilities**2 / (probabilities**2).sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(after.std, 0)
    np.testing.assert_array_equal(after.mutual_information, 0)
    assert (after.draws is not None) == keep


def test_impossible_classes_stay_impossible_and_sequences_have_a_label_a_position():
    p = class_predictive([[[0.9, 0.1, 0.0]] * 4])
    labels = [0, 0, 0, 1]
    assert sb.recalibrate(p, labels).value == pytest.approx(2)
    np.testing.assert_allclose(sb.recalibrate(p, labels)(p).mean, [[0.75, 0.25, 0]] * 4)
    sequence = class_predictive(p.mean.reshape(1, 2, 2, 3))
    for y in (np.reshape(labels, (2, 2)), np.reshape(labels, (2, 2, 1))):
        assert sb.recalibrate(sequence, y)(sequence).mean.shape == (2, 2, 3)
        assert sb.recalibrate(sequence, y).value == pytest.approx(2)


def values(seed=0, noise=0.5):
    draws = np.random.default_rng(seed).normal(size=(30, 50, 1)) * np.linspace(0.1, 2, 50)[:, None]
    p = value_predictive(draws, noise)
    return p, p.mean + 3 * np.random.default_rng(seed + 1).normal(size=(50, 1))


def test_the_variance_scale_is_closed_form_and_has_the_least_gaussian_nll():
    p, y = values()
    found = sb.recalibrate(p, y[:, 0])
    assert found.value == pytest.approx(np.mean((y - p.mean) ** 2 / p.variance("total")), rel=1e-12)

    def loss(log_scale):
        return gaussian_nll(p.mean, np.sqrt(np.exp(log_scale) * p.variance("total")), y)

    assert optimize.minimize_scalar(loss, bracket=(-1, 5)).x == pytest.approx(np.log(found.value), abs=1e-6)
    assert sb.recalibrate(found(p), y).value == pytest.approx(1)


@pytest.mark.parametrize("noise", [0.5, np.linspace(0.1, 2, 50)[::-1, None]])
def test_it_scales_both_parts_of_the_variance_and_the_draws_around_their_mean(noise):
    p, _ = values(noise=noise)
    after = VarianceScale(4.0)(p)
    np.testing.assert_array_equal(after.mean, p.mean)
    for kind in ("epistemic", "aleatoric", "total"):
        np.testing.assert_allclose(after.variance(kind), 4 * p.variance(kind))
    np.testing.assert_allclose(after.draws.mean(axis=0), p.mean, atol=1e-12)
    np.testing.assert_allclose(after.draws.std(axis=0), after.std)
    assert after.num_draws == p.num_draws
    assert VarianceScale(4.0)(value_predictive(p.draws, 0.5, keep=False)).draws is None


def test_held_out_data_that_fix_no_temperature_are_refused():
    p = class_predictive([[[0.8, 0.2], [0.3, 0.7]]])
    with pytest.raises(ValueError, match="needs some wrong predictions; got 2 held-out examples that are all right"):
        sb.recalibrate(p, [0, 1])
    with pytest.raises(ValueError, match=r"equal probabilities .* are best"):
        sb.recalibrate(p, [1, 0])
    with pytest.raises(ValueError, match=r"equal probabilities .* are best"):
        sb.recalibrate(class_predictive(np.full((1, 3, 2), 0.5)), [0, 1, 1])
    with pytest.raises(ValueError, match="that are possible; got probability 0 for 1 of 2"):
        sb.recalibrate(class_predictive([[[1.0, 0.0], [0.3, 0.7]]]), [1, 1])


@pytest.mark.parametrize("value", [0, -1.0, float("inf"), float("nan")])
def test_a_factor_is_finite_and_above_0(value):
    for kind in (Temperature, VarianceScale):
        with pytest.raises(ValueError, match=f"{kind.__name__} needs value > 0 and finite; got value="):
            kind(value)


def test_wrong_input_is_refused():
    p, y = values()
    classes, labels = made_up()
    with pytest.raises(ValueError, match=r"recalibrate needs one label per example; got shapes \(200, 4\) and \(3,\)"):
        sb.recalibrate(classes, labels[:3])
    with pytest.raises(ValueError, match="integers from 0 to 3; got int64 from 0 to 5"):
        sb.recalibrate(classes, np.where(labels == 3, 5, labels))
    with pytest.raises(ValueError, match=r"recalibrate needs arrays of one shape, .* targets \(3, 1\)"):
        sb.recalibrate(p, y[:3])
    with pytest.raises(ValueError, match="targets that differ from the predictions"):
        sb.recalibrate(p, p.mean)
    for call in (
        lambda: sb.recalibrate(value_predictive(p.draws), y),
        lambda: VarianceScale(2.0)(value_predictive(p.draws)),
    ):
        with pytest.raises(ValueError, match=r"needs the total variance, .*Gaussian\(scale\) or .*pass likelihood="):
            call()
    with pytest.raises(TypeError, match="recalibrate needs a Predictive, as predict returns it; got ndarray"):
        sb.recalibrate(p.mean, y)
    with pytest.raises(TypeError, match=r"Temperature needs a ClassPredictive, .* got ValuePredictive"):
        Temperature(2.0)(p)
    with pytest.raises(TypeError, match=r"VarianceScale needs a ValuePredictive, .* got ClassPredictive"):
        VarianceScale(2.0)(classes)
