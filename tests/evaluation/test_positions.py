"""Outputs per token, pixel or label: each position is scored as an example, padding changes nothing, weights scale."""

import keras
import numpy as np
import pytest
from posterior_table import TORCH_FIRST
from predictions import class_predictive, value_predictive
from scipy import special, stats

import singularbayes as sb
from singularbayes import LowRank, layers, metrics
from singularbayes.likelihoods import COUNTS, LAPLACE, StudentTFamily

pytestmark = pytest.mark.on_torch

RNG = np.random.default_rng(0)
TOKENS, LABELS = RNG.dirichlet(np.ones(3), (6, 30, 5)), RNG.integers(0, 3, (30, 5))
LENGTHS = RNG.integers(1, 6, 30)
MASK = np.arange(5) < LENGTHS[:, None]
VALUES, TARGETS = RNG.normal(size=(6, 30, 5)), RNG.normal(size=(30, 5))


def _same(one, other, but=()):
    assert one.metrics.keys() == other.metrics.keys()
    for name, value in one.metrics.items():
        if name not in but:
            np.testing.assert_allclose(value, other.metrics[name], rtol=1e-9, err_msg=name)


def test_every_position_is_an_example():
    flat = class_predictive(TOKENS.reshape(6, 150, 3))
    _same(sb.evaluate(class_predictive(TOKENS), LABELS), sb.evaluate(flat, LABELS.ravel()))
    _same(sb.evaluate(class_predictive(TOKENS), LABELS[..., None]), sb.evaluate(flat, LABELS.ravel()))
    pixels = class_predictive(TOKENS.reshape(6, 10, 3, 5, 3))
    _same(sb.evaluate(pixels, LABELS.reshape(10, 3, 5)), sb.evaluate(flat, LABELS.ravel()))
    outside = {"ood": class_predictive(TOKENS[:, :9])}
    found = sb.evaluate(class_predictive(TOKENS), LABELS, **outside)
    assert found.metrics["auroc_ood_mi"] == metrics.auroc_ood(
        flat.mutual_information, class_predictive(TOKENS[:, :9]).mutual_information.ravel()
    )


def test_padding_changes_nothing():
    p, alone = class_predictive(TOKENS), class_predictive(TOKENS[:, MASK])
    junk = np.where(MASK, LABELS, -7)
    for weight in (MASK, MASK[..., None], 3.0 * MASK):
        _same(sb.evaluate(p, junk, sample_weight=weight), sb.evaluate(alone, LABELS[MASK]))
    values, single = (value_predictive(draws, noise=0.5) for draws in (VALUES[..., None], VALUES[:, MASK][..., None]))
    junk = np.where(MASK, TARGETS, np.nan)
    _same(sb.evaluate(values, junk, sample_weight=MASK, seed=1), sb.evaluate(single, TARGETS[MASK], seed=1), _DRAWN)
    one, other = sb.selective(p, LABELS, sample_weight=MASK), sb.selective(alone, LABELS[MASK])
    np.testing.assert_array_equal(one.risk, other.risk)
    good = class_predictive(0.9 * TOKENS + 0.1 * np.eye(3)[LABELS])
    fitted = sb.recalibrate(good, np.where(MASK, LABELS, 9), sample_weight=MASK)
    assert fitted == sb.recalibrate(good.positions(MASK), LABELS[MASK])
    assert sb.recalibrate(values, junk, sample_weight=MASK) == sb.recalibrate(single, TARGETS[MASK])
    longer = class_predictive(np.concatenate([TOKENS, TOKENS[:, :, :2]], axis=2))
    wide = np.concatenate([MASK, np.zeros((30, 2), bool)], axis=1)
    labels = np.concatenate([LABELS, LABELS[:, :2]], axis=1)
    sets = sb.conformal_sets(p, LABELS, 0.8, sample_weight=MASK)
    assert sets == sb.conformal_sets(longer, labels, 0.8, sample_weight=wide)
    assert sets(p).shape == (30, 5, 3)


_DRAWN = ("crps_sample_total",)  # noise is drawn for every position


def test_weights_count_like_repeated_examples_and_their_unit_does_not_matter():
    p, y, times = class_predictive(TOKENS[:, :, 0]), LABELS[:, 0], RNG.integers(1, 4, 30)
    again = class_predictive(np.repeat(TOKENS[:, :, 0], times, axis=1))
    of_counts = [name for name in sb.evaluate(p, y).metrics if "equal_mass" in name or name == "ece"]
    of_counts += [f"{name}_{by}" for name in ("aurc", "risk_at_80") for by in ("mi", "entropy", "std")]
    weighted = sb.evaluate(p, y, sample_weight=times)
    _same(weighted, sb.evaluate(again, np.repeat(y, times)), of_counts)
    _same(weighted, sb.evaluate(p, y, sample_weight=0.1 * times))
    _same(sb.evaluate(p, y), sb.evaluate(p, y, sample_weight=np.full(30, 7.0)))
    values = value_predictive(VALUES, noise=0.5)
    repeated = value_predictive(np.repeat(VALUES, times, axis=1), noise=0.5)
    of_counts = ["crps_sample_total", *(f"{name}_{by}" for name in ("aurc", "risk_at_80") for by in _SPREADS)]
    found = sb.evaluate(values, TARGETS, sample_weight=times)
    _same(found, sb.evaluate(repeated, np.repeat(TARGETS, times, axis=0)), of_counts)


_SPREADS = ("epistemic", "total")


def test_weighted_bins_and_curves_approach_those_of_repeated_examples():
    rng = np.random.default_rng(3)
    p, y, times = rng.dirichlet(np.ones(2), 4000), rng.integers(0, 2, 4000), rng.integers(1, 4, 4000)
    one = metrics.expected_calibration_error(p, y, sample_weight=times)
    other = metrics.expected_calibration_error(np.repeat(p, times, axis=0), np.repeat(y, times))
    assert one == pytest.approx(other, rel=0.02)
    curve = metrics.selective_curve(p[:, 0], y, times)
    repeated = metrics.selective_curve(np.repeat(p[:, 0], times), np.repeat(y, times))
    np.testing.assert_allclose(curve.risk, repeated.risk)
    np.testing.assert_allclose(curve.coverage, repeated.coverage)
    assert curve.area == pytest.approx(repeated.area, rel=1e-3)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (-np.ones(30), r"evaluate needs a sample_weight >= 0 and not 0 for all; got from -1 to -1"),
        (np.zeros(30), r"not 0 for all; got from 0 to 0"),
        (np.ones(7), r"per example or position of the targets, \(30, 5\); got \(7,\)"),
        (np.full(30, np.nan), r"evaluate needs finite numbers; got nan in sample_weight"),
    ],
)
def test_weights_that_are_none_are_refused(weight, message):
    with pytest.raises(ValueError, match=message):
        sb.evaluate(class_predictive(TOKENS), LABELS, sample_weight=weight)
    with pytest.raises(ValueError, match=message):
        sb.evaluate(value_predictive(VALUES, 0.5), TARGETS, sample_weight=weight)


def test_labels_in_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"one label per position, \(30, 5\); got \(30,\)"):
        sb.evaluate(class_predictive(TOKENS), LABELS[:, 0])
    with pytest.raises(ValueError, match=r"got \(30, 5, 3\)\. Of one-hot labels take labels.argmax\(axis=-1\)"):
        sb.selective(class_predictive(TOKENS), np.eye(3)[LABELS])
    with pytest.raises(ValueError, match=r"conformal_sets needs a sample_weight of 0 or 1, a mask"):
        sb.conformal_sets(class_predictive(TOKENS), LABELS, sample_weight=2.0 * MASK)
    with pytest.raises(TypeError, match=r"recalibrate needs one label at a time"):
        sb.recalibrate(sb.LabelPredictive(np.full((4, 2), 0.5), np.zeros((4, 2)), 1), np.ones((4, 2)))


@pytest.mark.parametrize("held_out", [9, 30])
def test_conformal_sets_of_tokens_keep_the_promise_though_tokens_of_a_sequence_are_alike(held_out):
    rng, found = np.random.default_rng(0), []

    def sequences(examples):
        """Every sequence is easy or hard as a whole, and the hard ones are long."""
        hard = rng.random((examples, 1)) < 0.3
        p = np.where(hard[..., None], 0.5, 0.9) * np.array([1, 0]) + np.where(hard[..., None], 0.5, 0.1) * np.array(
            [0, 1]
        )
        p = np.broadcast_to(p, (examples, 8, 2)) + rng.uniform(-0.05, 0.05, (examples, 8, 1)) * np.array([1, -1])
        labels = (rng.random((examples, 8)) > p[..., 0]).astype(int)
        mask = np.arange(8) < np.where(hard, 8, rng.integers(1, 4, (examples, 1)))
        return class_predictive(p[None]), labels, mask

    for _ in range(400):
        p, labels, mask = sequences(held_out)
        new, truth, counted = sequences(20)
        inside = np.take_along_axis(sb.conformal_sets(p, labels, 0.8, sample_weight=mask)(new), truth[..., None], -1)
        found.append(((inside[..., 0] & counted).sum(1) / counted.sum(1)).mean())  # a position of a new example
    assert np.mean(found) > 0.8 - 3 * np.std(found) / np.sqrt(400)
    assert np.mean(found) < 0.8 + 2 / (held_out + 1) + 0.05


def test_conformal_intervals_of_masked_positions_share_one_quantile():
    p = value_predictive(VALUES[..., None], noise=0.5)
    targets = np.where(MASK, TARGETS, np.nan)
    intervals = sb.conformal_intervals(p, targets, 0.8, sample_weight=MASK)
    scores = np.abs(TARGETS - p.mean[..., 0]) / np.sqrt(p.variance("total")[..., 0])

    def share(q):
        return ((scores <= q) & MASK).sum(1) @ (1 / MASK.sum(1)) / 31

    assert share(intervals.quantile) >= 0.8 > share(intervals.quantile * (1 - 1e-9))
    lower, upper = intervals(p)
    assert lower.shape == upper.shape == p.mean.shape


def test_families_of_noise_are_scored_by_their_own_density():
    counts = np.random.default_rng(1).poisson(4.0, (40, 2)).astype(float)
    draws = np.random.default_rng(2).gamma(40, 0.1, (12, 40, 2))
    for family in (LAPLACE, StudentTFamily(3.0), COUNTS):
        p = sb.ValuePredictive.of_draws(draws, np.full((40, 2), 2.1), family)
        m, s = p.mean, np.sqrt(p.variance("total"))
        exact = {
            LAPLACE: stats.laplace(m, s / np.sqrt(2)),
            StudentTFamily(3.0): stats.t(3, m, s / np.sqrt(3)),
            COUNTS: stats.nbinom(m**2 / (s**2 - m), m / s**2),
        }[family]
        found = sb.evaluate(p, counts)
        log = exact.logpmf(counts) if family is COUNTS else exact.logpdf(counts)
        np.testing.assert_allclose(found.value("nll_total"), -log.mean())
        inside = (exact.ppf(0.025) <= counts) & (counts <= exact.ppf(0.975))
        np.testing.assert_allclose(found.value("picp_95_total"), inside.mean())
        np.testing.assert_allclose(found.value("mpiw_95_total"), (exact.ppf(0.975) - exact.ppf(0.025)).mean())
        samples = exact.rvs(size=(20000, 40, 2), random_state=0)
        brute = np.abs(samples - counts).mean(0) - np.abs(samples[::2] - samples[1::2]).mean(0) / 2
        np.testing.assert_allclose(found.value("crps_total"), brute.mean(), rtol=0.01)
        coverage = [((exact.ppf((1 - q) / 2) <= counts) & (counts <= exact.ppf((1 + q) / 2))).mean() for q in _LEVELS]
        np.testing.assert_allclose(found.value("calibration_error_total"), np.abs(coverage - _LEVELS).mean())
        assert found.value("nll_epistemic") == sb.evaluate(value_predictive(draws, 1.0), counts).value("nll_epistemic")


_LEVELS = np.arange(1, 20) / 20


def _tagger(loss):
    ids = keras.Input((6,), dtype="int32")
    h = layers.Embedding(9, 4, mask_zero=True, posterior=LowRank.paper(2))(ids)
    model = keras.Model(ids, layers.Dense(3, posterior=LowRank.paper(2))(h), name="tagger")
    model.compile("adam", loss)
    return model


def test_a_model_that_masks_padding_is_evaluated_and_diagnosed_without_it():
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    x = rng.integers(1, 9, (40, 6)) * (np.arange(6) < rng.integers(1, 7, (40, 1)))
    y = x % 3
    model = _tagger(keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=2))
    model.fit(x, y, epochs=2, verbose=0, callbacks=[sb.KLSchedule(num_data=40, beta=1.0)])
    found = sb.evaluate(model, (x, np.where(x == 0, -3, y)), ood=x[:9], draws=6)
    p, counted = sb.predict(model, x, draws=6), (x > 0) & (y != 2)
    rows = p.positions(counted)
    np.testing.assert_allclose(found.value("nll"), metrics.negative_log_likelihood(rows.mean, y[counted]))
    np.testing.assert_allclose(found.value("mean_mi"), rows.mutual_information.mean(), rtol=1e-5)
    inside, outside = p.entropy[counted], sb.predict(model, x[:9], draws=6).entropy[x[:9] > 0]
    np.testing.assert_allclose(found.value("auroc_ood_entropy"), metrics.auroc_ood(inside, outside))
    half = sb.evaluate(model, (x, y, np.arange(40) % 2), draws=6)
    odd = counted & (np.arange(40) % 2 == 1)[:, None]
    np.testing.assert_allclose(half.value("accuracy"), (p.positions(odd).mean.argmax(-1) == y[odd]).mean())
    one, other = (sb.diagnose(model, x, np.where(x == 0, padding, y), draws=6) for padding in (-3, 1))
    assert one == other
    assert "kl_weight" not in sb.diagnose(model, x, draws=2)


def test_labels_that_do_not_exclude_each_other_from_fit_to_scores():
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4)).astype("float32")
    y = (x[:, :3] + 0.3 * rng.normal(size=(200, 3)) > [0.0, 0.5, -0.5]).astype("float32")
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3, posterior=LowRank.paper(3))])
    model.compile(keras.optimizers.Adam(0.05), keras.losses.BinaryCrossentropy(from_logits=True))
    model.fit(x, y, epochs=20, verbose=0, callbacks=[sb.KLSchedule(num_data=200, beta=0.1)])
    p, found = sb.predict(model, x, draws=20), sb.evaluate(model, (x, y), draws=20)
    assert isinstance(p, sb.LabelPredictive) and p.mean.shape == (200, 3)
    assert (p.predicted_labels == y).mean() == pytest.approx(found.value("accuracy")) and found.value("accuracy") > 0.85
    assert found.value("subset_accuracy") == pytest.approx((p.predicted_labels == y).all(1).mean())
    nll = -(special.xlogy(y, p.mean) + special.xlogy(1 - y, 1 - p.mean))
    np.testing.assert_allclose(found.value("nll"), nll.mean(), rtol=1e-6)
    for k in range(3):
        alone = sb.evaluate(p.label(k), y[:, k])
        for name in ("accuracy", "auroc", "nll", "brier", "ece"):
            np.testing.assert_allclose(found.value(f"label {k}/{name}"), alone.value(name), rtol=1e-6)
    missing = sb.evaluate(model, (x, np.where(y[:, :1] > 0, y, 5)), draws=20, sample_weight=y[:, 0])
    np.testing.assert_allclose(missing.value("nll"), nll[y[:, 0] > 0].mean(), rtol=1e-6)
    table = sb.compare([found], ["accuracy", "label 1/auroc"])
    assert table.columns[1].cells[0].mean == found.value("label 1/auroc")
    sets = sb.conformal_sets(p, y.astype(int), 0.9)
    inside = np.take_along_axis(sets(p), y.astype(int)[..., None], -1)[..., 0]
    assert sets(p).shape == (200, 3, 2) and 0.9 <= inside.mean() < 0.93
    assert sb.selective(p, y).at(1.0) == pytest.approx(1 - found.value("accuracy"))
    assert "overconfident" in sb.diagnose(model, x, y, draws=10).checked
    assert sb.evaluate(p, y).metrics.keys() == found.metrics.keys()


@TORCH_FIRST
def test_each_of_several_outputs_has_its_own_likelihood_and_targets():
    x = keras.Input((2,))
    heads = {
        "a": layers.Dense(1, posterior=LowRank.paper(1), name="a")(x),
        "b": layers.Dense(3, posterior=LowRank.paper(1), name="b")(x),
    }
    model, data = keras.Model(x, heads), np.random.default_rng(0).normal(size=(8, 2)).astype("float32")
    meaning = {"a": sb.Poisson(), "b": "categorical_logits"}
    y = {"a": np.arange(8.0), "b": np.arange(8) % 3}
    for likelihood in (meaning, list(meaning.values())):
        p = sb.predict(model, data, draws=3, output="a", likelihood=likelihood)
        assert p.family == COUNTS
        assert sb.predict(model, data, draws=3, output=1, likelihood=likelihood).mean.shape == (8, 3)
    for targets in (y, list(y.values()), y["b"]):
        found = sb.evaluate(model, (data, targets), draws=3, output="b", likelihood=meaning)
        assert found.value("accuracy") == sb.evaluate(model, (data, y), draws=3, output=1, likelihood=meaning).value(
            "accuracy"
        )
    weights = {"a": None, "b": np.arange(8) % 2}
    assert sb.evaluate(model, (data, y, weights), draws=3, output="b", likelihood=meaning).examples == 8
    model.compile("adam", {"a": "poisson", "b": keras.losses.SparseCategoricalCrossentropy(from_logits=True)})
    assert sb.predict(model, data, draws=3, output="b", likelihood={"a": sb.Poisson()}).mean.shape == (8, 3)
    with pytest.raises(ValueError, match=r"for outputs of \['a', 'b'\]; got \['c'\]"):
        sb.predict(model, data, output="a", likelihood={"c": "gaussian"})
    with pytest.raises(ValueError, match=r"a likelihood for each of the outputs \['a', 'b'\]; got 1"):
        sb.predict(model, data, output="a", likelihood=["gaussian"])
    with pytest.raises(ValueError, match=r"targets of the output 'b'; got those of \['a'\]"):
        sb.evaluate(model, (data, {"a": y["a"]}), output="b")


def test_certify_and_diagnose_state_that_a_focal_loss_has_no_elbo():
    keras.utils.set_random_seed(0)
    posterior = sb.FullRank(prior=sb.Centred(sb.Normal(0.1)), eta=0.1)
    model = keras.Sequential([keras.Input((2,)), layers.Dense(1, use_bias=False, posterior=posterior)])
    x = np.random.default_rng(0).normal(size=(300, 2)).astype("float32")
    y = (x[:, 0] > 0).astype(int)
    words = "BinaryFocalCrossentropy is no negative log-likelihood, so the objective of training was no ELBO"
    for loss, stated in (
        (keras.losses.BinaryFocalCrossentropy(from_logits=True), True),
        (keras.losses.BinaryCrossentropy(from_logits=True), False),
    ):
        model.compile("adam", loss)
        assert (words in sb.certify(model, x, y, draws=50).sentence) == stated
        assert ("no_elbo" in sb.diagnose(model, x, y, draws=3)) == stated
