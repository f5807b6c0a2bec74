"""Starts: the weight begins with the variance that was asked for, at any rank, and ρ begins where η says."""

import math

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import (
    ON_TORCH,
    POSTERIORS,
    RANDOM,
    SHAPE,
    TORCH_FIRST,
    assert_unbiased,
    assert_uncorrelated,
    built,
    gradient,
    stirred,
)
from scipy import stats

from singularbayes import Adapter, Deterministic, FullRank, LowRank, Mixture, RankOne, layers
from singularbayes.posteriors import initializers, noise
from singularbayes.posteriors.families import inverse_softplus

pytestmark = [pytest.mark.on_torch, pytest.mark.rows_on_torch]

MATRIX = np.random.default_rng(5).normal(size=SHAPE).astype("float32")
# Each can hold any 5 × 4 matrix as its mean.
UNRESTRICTED = {
    "low_rank": lambda **k: LowRank.paper(4, **k),
    "overcomplete": lambda **k: LowRank.paper(6, overcomplete=True, **k),
    "full_rank": FullRank,
    "rank_one": RankOne,
    "rank_one_outer": lambda **k: RankOne("outer", **k),
    "rank_one_scale": lambda **k: RankOne("scale", **k),
    "adapter": lambda **k: Adapter(2, **k),
    "deterministic": Deterministic,
}


def _array(value):
    return ops.convert_to_numpy(value).astype("float64")


def _mean(posterior):
    return _array(posterior.mean().dense())


def _assert_std(values, std, uniform=False):
    """Asserts the standard deviation within 4.5 standard errors of its estimate, and the shape of the noise."""
    values = np.ravel(values)
    kurtosis = 1.8 if uniform else 3.0
    assert_unbiased(values, 0.0)
    assert values.std() == pytest.approx(std, rel=4.5 * math.sqrt((kurtosis - 1) / (4 * len(values))))
    assert (np.abs(values).max() <= math.sqrt(3) * std * (1 + 1e-6)) == uniform


# -- the scale of the means ------------------------------------------------------------------------------------------


def test_factor_scales_are_the_paper_s(vectors):
    for case in vectors["initialiser_scales"]["expected"]["cases"]:
        shape = case["fan_in"], case["fan_out"]
        initializer = {"he": keras.initializers.HeNormal, "glorot": keras.initializers.GlorotNormal}[case["kind"]]()
        start = initializers.variance_matched(initializer, shape)
        assert start.std**2 == pytest.approx(case["sigma_W2"], rel=1e-12)
        assert start.factor_std(case["rank"]) == pytest.approx(case["gauss_std"], rel=1e-12)
        assert start.factor_std(case["rank"]) ** 2 == pytest.approx(case["v_A"], rel=1e-12)
        assert math.sqrt(3) * start.factor_std(case["rank"]) == pytest.approx(case["uniform_limit"], rel=1e-12)


@pytest.mark.parametrize("index", [3, 6])
@pytest.mark.parametrize("uniform", [False, True], ids=["normal", "uniform"])
@TORCH_FIRST
def test_factors_start_with_the_paper_s_scales(vectors, index, uniform):
    case = vectors["initialiser_scales"]["expected"]["cases"][index]
    name = f"{case['kind']}_{'uniform' if uniform else 'normal'}"
    posterior = built(LowRank.paper(case["rank"], initializer=name), (case["fan_in"], case["fan_out"]))
    for factor in posterior.factors:
        np.testing.assert_allclose(_array(factor.scale), case["post_sigma_eta_0p1"], rtol=1e-5)
    locs = np.concatenate([_array(factor.loc).ravel() for factor in posterior.factors])
    _assert_std(locs, case["gauss_std"], uniform)
    if uniform:
        assert np.abs(locs).max() == pytest.approx(case["uniform_limit"], rel=0.05)


@pytest.mark.parametrize("damping", [0.32, 0.55, 0.85])
def test_damping_multiplies_the_scale_of_the_means_alone(vectors, damping):
    case = vectors["initialiser_scales"]["expected"]["cases"][6]
    posterior = built(LowRank.paper(case["rank"], damping=damping), (case["fan_in"], case["fan_out"]))
    for factor in posterior.factors:
        _assert_std(_array(factor.loc), case["damped_std_" + f"{damping}".replace(".", "p")])
        np.testing.assert_allclose(_array(factor.scale), case["post_sigma_eta_0p1"], rtol=1e-5)


@pytest.mark.parametrize(
    "make",
    [FullRank, RankOne, lambda **k: LowRank.paper(3, **k), lambda **k: Adapter(3, **k)],
    ids=["full", "one", "low", "adapter"],
)
@pytest.mark.parametrize(
    ("initializer", "variance"),
    [
        (None, 2 / (60 + 40)),
        ("he_normal", 2 / 60),
        ("lecun_uniform", 1 / 60),
        (keras.initializers.VarianceScaling(3.0, "fan_out"), 3 / 40),
        (keras.initializers.RandomNormal(stddev=0.3), 0.09),
        (keras.initializers.TruncatedNormal(stddev=0.3), 0.09 * stats.truncnorm(-2, 2).var()),
        (keras.initializers.RandomUniform(-0.2, 0.2), 0.04 / 3),
    ],
    ids=["none", "he", "lecun", "fan_out", "normal", "truncated", "uniform"],
)
@ON_TORCH
def test_the_mean_starts_with_the_variance_of_its_initializer(make, initializer, variance):
    squares = [(_mean(built(make(initializer=initializer), (60, 40))) ** 2).mean() for _ in range(20)]
    assert_unbiased(squares, variance)


@pytest.mark.parametrize(
    ("activation", "fan"),
    [("relu", "he"), ("gelu", "he"), ("silu", "he"), ("leaky_relu", "he"), ("tanh", "glorot"), (None, "glorot")],
)
@ON_TORCH
def test_rectified_layers_start_as_he_and_others_as_glorot(activation, fan):
    layer = layers.Dense(200, activation, posterior=FullRank(eta=1.0))
    layer.build((None, 50))
    expected = math.sqrt({"he": 2 / 50, "glorot": 2 / 250}[fan])
    np.testing.assert_allclose(_array(layer.posterior.w.scale), expected, rtol=1e-5)
    _assert_std(_array(layer.posterior.w.loc), expected)


def test_the_posterior_s_own_initializer_goes_before_the_layer_s():
    for posterior, expected in [(Deterministic(), 2.0), (Deterministic(keras.initializers.Constant(3.0)), 3.0)]:
        layer = layers.Dense(4, posterior=posterior, kernel_initializer=keras.initializers.Constant(2.0))
        layer.build((None, 5))
        np.testing.assert_array_equal(_mean(layer.posterior), expected)


def _numbered(shape, dtype=None):
    return ops.reshape(ops.arange(math.prod(shape), dtype=dtype), shape)


@pytest.mark.parametrize("kind", ["Conv2D", "Conv2DTranspose", "SeparableConv1D"])
def test_an_initializer_of_given_values_gives_the_kernel_as_keras_has_it(kind):
    separable = kind == "SeparableConv1D"
    start = {"pointwise_initializer" if separable else "kernel_initializer": _numbered}
    shape = (None, 5, 3) if separable else (None, 5, 5, 3)
    ours = getattr(layers, kind)(4, 2, posterior=Deterministic(), **start)
    theirs = getattr(keras.layers, kind)(4, 2, **start)
    for layer in (ours, theirs):
        layer.build(shape)
    expected = _array(theirs.pointwise_kernel if separable else theirs.kernel)
    expected = expected.swapaxes(-2, -1) if kind == "Conv2DTranspose" else expected
    np.testing.assert_array_equal(_mean(ours.posterior), expected.reshape(-1, 4))


# -- the scale of the noise ------------------------------------------------------------------------------------------


def test_noise_starts_in_the_paper_s_proportion_to_the_signal(vectors):
    vector = vectors["init_signal_to_noise"]
    for eta, ratio in zip(vector["inputs"]["eta"], vector["expected"]["noise_to_signal"], strict=True):
        # σ_W² = 2 / (60 + 40)
        ratios = [built(LowRank.paper(3, eta=eta), (60, 40)).variance().mean() / 0.02 for _ in range(8)]
        assert_unbiased(ratios, ratio)


@pytest.mark.parametrize("name", RANDOM)
@TORCH_FIRST
def test_scales_start_at_eta_times_the_scale_of_the_means(name):
    posterior = built(RANDOM[name](eta=0.03, rho_lr=7.0))
    # s = (σ_W²/r)^¼ for factors, σ_W for entries; factors of a rank-one posterior scale W₀ around 1.
    factor_unit = (2 / 9 / 2) ** 0.25
    units = {"full": math.sqrt(2 / 9), "k": math.sqrt(2 / 9), "rank": 1.0}
    unit = units.get(name.split("_")[0], factor_unit)
    for factor in posterior.factors:
        np.testing.assert_allclose(_array(factor.scale), 0.03 * unit, rtol=1e-5)


@pytest.mark.parametrize("rank", [1, 8])
@pytest.mark.parametrize(("eta", "damping"), [(0.1, 1.0), (0.3, 1.0), (0.1, 0.5)])
@ON_TORCH
def test_an_adapter_s_noise_starts_as_a_tenth_of_a_weight_whatever_its_rank(rank, eta, damping):
    # σ_W² = 2 / (60 + 40); with η = 0.1 the share is 1.01 %.
    started = [built(Adapter(rank, eta=eta, damping=damping), (60, 40)) for _ in range(16)]
    shares = [posterior.variance().mean() / 0.02 for posterior in started]
    assert_unbiased(shares, (damping * eta) ** 2 + eta**4)
    s = (0.02 / rank) ** 0.25
    norms = (_array(started[0].ab.loc)[:60] ** 2).sum(axis=1)
    exact = (eta * s) ** 2 * (norms + rank * (eta * s) ** 2)
    np.testing.assert_allclose(started[0].variance(), np.repeat(exact[:, None], 40, axis=1), rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-6, 0.01, math.log(2), 3.0, 40.0])
def test_inverse_softplus_undoes_softplus(scale):
    assert np.logaddexp(0, inverse_softplus(scale)) == pytest.approx(scale, rel=1e-9)


def test_rho_can_have_an_initializer_of_its_own_and_each_factor_its_own_numbers():
    uniform = keras.initializers.RandomUniform(-5, -4)
    for rho_lr in (1.0, 50.0):
        posterior = built(LowRank.paper(3, rho_initializer=uniform, rho_lr=rho_lr), (800, 800))
        a, b = np.split(_array(posterior.ab.rho), 2)
        assert -5 <= min(a.min(), b.min()) < -4.98 and -4.02 < max(a.max(), b.max()) <= -4
        assert_uncorrelated(a, b)


# -- the learning rate of rho ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RANDOM)
@ON_TORCH
def test_the_learning_rate_of_rho_changes_neither_the_start_nor_the_draws(name):
    def started(rho_lr):
        keras.utils.set_random_seed(7)
        posterior = built(RANDOM[name](rho_lr=rho_lr))
        key = noise.as_keys(np.array([3, 4]))
        return *(_array(factor.scale) for factor in posterior.factors), *map(_array, posterior.draw(key))

    for slow, fast in zip(started(1.0), started(50.0), strict=True):
        np.testing.assert_allclose(fast, slow, rtol=1e-4)


@pytest.mark.parametrize("rho_lr", [1.0, 50.0])
def test_one_step_of_adam_moves_rho_that_many_times_as_far(rho_lr):
    posterior = stirred(FullRank(prior="normal", rho_lr=rho_lr))
    loc, rho = _array(posterior.w.loc), _array(posterior.w.rho)
    slope = gradient(posterior.kl, posterior.w.values).astype("float32")
    keras.optimizers.Adam(1e-3, epsilon=1e-12).apply([ops.convert_to_tensor(slope)], [posterior.w.values])
    np.testing.assert_allclose(_array(posterior.w.loc) - loc, -1e-3 * np.sign(slope[0]), rtol=1e-3)
    np.testing.assert_allclose(_array(posterior.w.rho) - rho, -1e-3 * rho_lr * np.sign(slope[1]), rtol=1e-3)


# -- particular values -----------------------------------------------------------------------------------------------


def test_the_svd_split_is_the_paper_s(vectors):
    vector = vectors["svd_split"]
    w, expected = np.array(vector["inputs"]["W"]), vector["expected"]
    a, b = initializers.svd_split(w, vector["inputs"]["r"])
    np.testing.assert_allclose(a @ b.T, expected["W_r"], atol=1e-6)
    np.testing.assert_allclose(a.T @ a, expected["gram_A"], atol=1e-6)
    np.testing.assert_allclose(b.T @ b, expected["gram_B"], atol=1e-6)
    assert np.linalg.norm(w - a @ b.T) == pytest.approx(expected["frob_error"], rel=1e-6)
    assert np.linalg.norm(w - a @ b.T, 2) == pytest.approx(expected["spec_error"], rel=1e-6)


@pytest.mark.parametrize("name", UNRESTRICTED)
def test_a_mean_can_be_moved_to_any_matrix_of_its_rank_and_scales_stay(name):
    posterior = stirred(UNRESTRICTED[name]())
    scales = [_array(factor.scale) for factor in posterior.factors]
    posterior.center(MATRIX)
    np.testing.assert_allclose(_mean(posterior), MATRIX, atol=1e-5)
    for factor, scale in zip(posterior.factors, scales, strict=True):
        np.testing.assert_array_equal(_array(factor.scale), scale)


def test_an_adapter_holds_any_matrix_to_the_last_bit_and_keeps_a_mean_in_its_first_factor():
    posterior = built(Adapter(2))
    start = _array(posterior.ab.loc)
    posterior.center(MATRIX)
    np.testing.assert_array_equal(ops.convert_to_numpy(posterior.mean().dense()), MATRIX)
    np.testing.assert_array_equal(_array(posterior.ab.loc), start)
    assert np.abs(start[:5]).min() > 0 and not start[5:].any() and _array(posterior.ab.scale).min() > 0
    assert [weight.name for weight in posterior.trainable_weights] == ["ab"]


def test_a_low_rank_mean_moves_to_the_best_approximation(vectors):
    w = np.array(vectors["svd_split"]["inputs"]["W"])
    posterior = built(LowRank.paper(2), w.shape)
    posterior.center(w)
    np.testing.assert_allclose(_mean(posterior), vectors["svd_split"]["expected"]["W_r"], atol=1e-5)


@pytest.mark.parametrize("name", UNRESTRICTED)
@pytest.mark.parametrize("damping", [1.0, 0.5])
@ON_TORCH
def test_an_initializer_of_particular_values_is_honoured(name, damping):
    arguments = {} if name == "deterministic" else {"damping": damping}
    constant = UNRESTRICTED[name](initializer=keras.initializers.Constant(MATRIX), **arguments)
    np.testing.assert_allclose(_mean(built(constant)), MATRIX, atol=1e-5)
    orthogonal = _mean(built(UNRESTRICTED[name](initializer="orthogonal", **arguments)))
    np.testing.assert_allclose(orthogonal.T @ orthogonal, np.eye(4), atol=1e-5)


def test_a_low_rank_start_truncates_particular_values():
    posterior = built(LowRank.paper(2, initializer=keras.initializers.Constant(MATRIX)))
    u, s, vt = np.linalg.svd(MATRIX)
    np.testing.assert_allclose(_mean(posterior), (u[:, :2] * s[:2]) @ vt[:2], atol=1e-5)


@pytest.mark.parametrize("name", POSTERIORS)
@TORCH_FIRST
def test_two_posteriors_do_not_start_alike(name):
    assert np.abs(_mean(built(POSTERIORS[name]())) - _mean(built(POSTERIORS[name]()))).min() > 0


# -- the truncated SVD -----------------------------------------------------------------------------------------------


def _with_spectrum(shape, values, seed=0):
    rng = np.random.default_rng(seed)
    u, v = (np.linalg.qr(rng.normal(size=(size, len(values))))[0] for size in shape)
    return ((u * values) @ v.T).astype("float32")


@pytest.mark.parametrize("shape", [(160, 400), (400, 160)])
@pytest.mark.parametrize(
    "values", [0.9 ** np.arange(160), 1 / np.arange(1, 161), 0.985 ** np.arange(160), np.r_[9, 8, 7, 6, np.ones(156)]]
)
@ON_TORCH
def test_a_randomised_svd_is_the_truncated_one_where_singular_values_differ(shape, values):
    matrix = _with_spectrum(shape, values)
    u, s, vt = np.linalg.svd(matrix.astype("float64"), full_matrices=False)
    a, b = initializers.svd_split(matrix, 4)
    best = (u[:, :4] * s[:4]) @ vt[:4]
    np.testing.assert_allclose(a @ b.T, best, rtol=0, atol=2e-6 * np.abs(best).max())
    np.testing.assert_allclose((a**2).sum(axis=0), s[:4], rtol=2e-6)
    np.testing.assert_allclose((a**2).sum(axis=0), (b**2).sum(axis=0), rtol=2e-6)
    assert LowRank.paper(4).residual(matrix) == pytest.approx(np.linalg.norm(s[4:]), rel=1e-5)


@ON_TORCH
def test_of_a_flat_spectrum_a_randomised_svd_keeps_as_much_as_any():
    matrix = np.random.default_rng(1).normal(size=(200, 300)).astype("float32")
    s = np.linalg.svd(matrix, compute_uv=False)
    assert LowRank.paper(8).residual(matrix) == pytest.approx(np.linalg.norm(s[8:]), rel=1e-3)


# -- orthogonal columns ------------------------------------------------------------------------------------------------


def _a_and_b(posterior):
    loc = _array(posterior.factors[0].loc)
    return loc[: posterior.rows], loc[posterior.rows :]


@pytest.mark.parametrize(
    "arguments, variance",
    [
        ({}, 2 / (9 + 6)),  # Glorot's, whatever the activation
        ({"initializer": "he_uniform"}, 2 / 9),
        ({"damping": 0.5}, 2 / (9 + 6) / 2**4),
    ],
    ids=["default", "he", "damping"],
)
@ON_TORCH
def test_by_default_columns_start_orthogonal_with_the_variance_of_the_initializer(arguments, variance):
    dense = layers.Dense(6, "relu", posterior=LowRank(4, **arguments))
    dense.build((None, 9))
    a, b = _a_and_b(dense.posterior)
    length = (9 * 6 * variance / 4) ** 0.25  # ‖W‖² = 4 length⁴ is that of 54 entries with this variance
    np.testing.assert_allclose(a.T @ a, length**2 * np.eye(4), atol=1e-5)
    np.testing.assert_allclose(b.T @ b, length**2 * np.eye(4), atol=1e-5)
    assert np.abs(a[:6] - b).max() > 0.1
    scale = 1e-4 * (arguments.get("damping", 1.0) ** -4 * variance / 4) ** 0.25
    np.testing.assert_allclose(_array(dense.posterior.factors[0].scale), scale, rtol=1e-4)


def test_the_start_of_a_layer_s_kernel_initializer_and_of_a_component_is_its_own():
    dense = layers.Dense(5, "relu", kernel_initializer="he_normal", posterior=Mixture(LowRank(2), components=2))
    dense.build((None, 7))
    values = _array(dense.posterior.factors[0].loc)  # (components, rows + columns, rank)
    for a in values[:, :7]:
        np.testing.assert_allclose(a.T @ a, math.sqrt(7 * 5 * (2 / 7) / 2) * np.eye(2), atol=1e-5)
    assert np.abs(values[0] - values[1]).max() > 0.1


def test_more_columns_than_rows_start_independent_and_so_do_the_paper_s():
    over = built(LowRank(60, overcomplete=True), (20, 30))
    _assert_std(_array(over.factors[0].loc), (2 / 50 / 60) ** 0.25)
    paper = layers.Dense(300, "relu", posterior=LowRank.paper(10))
    paper.build((None, 200))
    _assert_std(_array(paper.posterior.factors[0].loc), (2 / 200 / 10) ** 0.25)  # He's
    with pytest.raises(
        ValueError, match=r"LowRank needs start to be one of \('orthogonal', 'independent'\); got start='svd'"
    ):
        LowRank(2, start="svd")


def test_scales_start_narrow_at_random_and_wider_at_trained_weights_unless_they_are_given():
    shape, std = (6, 5), (2 / 11 / 3) ** 0.25
    for arguments, before, after in (({}, 1e-4, 0.1), ({"eta": 1e-4}, 1e-4, 1e-4), ({"eta": 0.5}, 0.5, 0.5)):
        posterior = built(LowRank(3, **arguments), shape)
        np.testing.assert_allclose(_array(posterior.factors[0].scale), before * std, rtol=1e-4)
        posterior.center(np.ones(shape))
        np.testing.assert_allclose(_array(posterior.factors[0].scale), after * std, rtol=1e-4)
        np.testing.assert_allclose(_mean(posterior), 1.0, atol=1e-5)
        assert type(posterior).from_config(posterior.get_config()).eta == arguments.get("eta")
