"""A prior around random initial values: its KL, where its anchors are, and who knows when they have seen data."""

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import JAX_FIRST, SCALAR_PRIOR, TORCH_FIRST, one_row_each, set_factor
from scipy import integrate, stats

import singularbayes as sb
from singularbayes import Anchored, FullRank, LowRank, layers
from singularbayes.bounds import normal_kl
from singularbayes.posteriors import Origin
from singularbayes.posteriors.families import get_family

pytestmark = pytest.mark.on_torch

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 6)).astype("float32")
Y = (X[:, 0] > 0).astype("int32")
MATRIX = RNG.normal(size=(6, 5)).astype("float32")
TRAINED = keras.initializers.Constant(MATRIX)


def _built(posterior, shape=(6, 5)):
    posterior.build(shape)
    return posterior


@TORCH_FIRST
@pytest.mark.parametrize("name", one_row_each(SCALAR_PRIOR))
@pytest.mark.rows_on_torch
def test_the_kl_is_that_around_the_initial_values(name):
    posterior = _built(SCALAR_PRIOR[name](prior=Anchored(0.3)))
    (factor,) = posterior.factors
    loc, scale, reference = factor.float64_values()
    np.testing.assert_array_equal(reference[0], loc)
    factor.set_loc(loc + 0.2)
    exact = normal_kl(0.2 / 0.3, scale / 0.3).sum() if posterior.family == "gaussian" else posterior.kl_exact()
    assert posterior.kl_exact() == pytest.approx(exact, rel=1e-5)
    for kl in (posterior.kl(), posterior.kl_bound()):
        assert float(ops.convert_to_numpy(kl)) == pytest.approx(exact, rel=1e-4)


@pytest.mark.parametrize("name", ["gaussian", "laplace"])
def test_the_kl_of_a_scalar_equals_quadrature(name):
    q = {"gaussian": stats.norm, "laplace": stats.laplace}[name](0.4, 0.2)

    def integrand(w):  # u = w − anchor, with the anchor at 1.1
        return q.pdf(w) * (q.logpdf(w) - stats.norm(0.0, 0.3).logpdf(w))

    expected, _ = integrate.quad(integrand, -6, 6, points=[0.4], limit=200)
    posterior = _built(FullRank(prior=Anchored(0.3), family=name), (1, 1))
    (factor,) = posterior.factors
    anchor = factor.float64_values()[2][0]
    set_factor(factor, anchor + 0.4, np.full((1, 1), 0.2))
    assert posterior.kl_exact() == pytest.approx(expected, rel=1e-5)
    assert Anchored(0.3).kl_exact(get_family(name), np.array(0.4), np.array(0.2)) == pytest.approx(expected, rel=1e-6)


@JAX_FIRST
def test_on_a_conjugate_model_the_mean_shrinks_to_the_anchor():
    """One weight, n observations y = w + N(0, 1): precision n + 1/s², mean (Σ y + anchor/s²) / (n + 1/s²)."""
    n, s = 20, 0.25
    y = RNG.normal(4.0, size=(n, 1)).astype("float32")
    keras.utils.set_random_seed(1)
    dense = layers.Dense(1, use_bias=False, posterior=FullRank(prior=Anchored(s, spread=1.0), eta=0.2))
    model = keras.Sequential([keras.Input((1,)), dense])
    (factor,) = dense.posterior.factors
    anchor = factor.float64_values()[2][0].item()
    schedule = keras.optimizers.schedules.CosineDecay(0.03, 600)
    model.compile(keras.optimizers.Adam(schedule), sb.Gaussian(1.0))
    ones = np.ones((n, 1), "float32")
    model.fit(ones, y, batch_size=n, epochs=600, verbose=0, callbacks=[sb.KLSchedule(n, beta=1.0)])
    precision = n + 1 / s**2
    mean = (y.sum() + anchor / s**2) / precision
    loc, scale, _ = factor.float64_values()
    assert loc.item() == pytest.approx(mean, abs=0.05) and abs(mean - y.mean()) > 0.3
    assert scale.item() == pytest.approx(precision**-0.5, rel=0.15)


@TORCH_FIRST
def test_spread_is_the_standard_deviation_of_the_entries_of_w():
    keras.utils.set_random_seed(2)
    entries = 200 * 100
    for posterior in (FullRank(prior=Anchored(0.1, spread=0.7)), LowRank.paper(50, prior=Anchored(0.1, spread=0.7))):
        w = ops.convert_to_numpy(_built(posterior, (200, 100)).mean().dense())
        assert w.std() == pytest.approx(0.7, rel=0.7 / np.sqrt(entries) * 30)
    bias = _built(FullRank(prior=Anchored(0.1, spread=0.7)), (1, 500)).factors[0].float64_values()[2][0]
    assert bias.std() == pytest.approx(0.7, rel=0.2)


def test_copies_of_one_posterior_have_anchors_of_their_own():
    posterior = LowRank.paper(2, prior="anchored")
    model = keras.Sequential([keras.Input((6,)), *(layers.Dense(6, posterior=posterior) for _ in range(2))])
    one, two = (q.factors[0].float64_values()[2][0] for q in sb.find_posteriors(model))
    assert posterior.prior == Anchored(0.1) and (one != two).all()


def _network(prior, **options):
    head = layers.Dense(2, use_bias=False, posterior=LowRank.paper(2, prior=prior, **options))
    model = keras.Sequential([keras.Input((6,)), head])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


@TORCH_FIRST
def test_files_keep_anchors(tmp_path):
    model = _network(Anchored(0.2, spread=0.5, anchor="random"))
    model.fit(X, Y, epochs=2, verbose=0, callbacks=[sb.KLSchedule(len(X), beta=1.0)])
    model.save(tmp_path / "model.keras")
    again = sb.load(tmp_path / "model.keras")
    (ours,), (theirs,) = (sb.find_posteriors(one) for one in (model, again))
    assert theirs.prior == ours.prior
    np.testing.assert_array_equal(theirs.factors[0].float64_values()[2], ours.factors[0].float64_values()[2])
    assert sb.kl(again, "exact") == pytest.approx(sb.kl(model, "exact"), rel=1e-6) and sb.kl(model, "exact") > 0


@pytest.mark.parametrize("make", [lambda prior: FullRank(prior=prior), lambda prior: LowRank.paper(5, prior=prior)])
def test_a_given_start_needs_a_choice_of_the_anchor(make):
    with pytest.raises(ValueError, match=r"Anchored needs anchor='random' or anchor='start' where means start"):
        _built(make(Anchored(0.1))).center(MATRIX)
    with pytest.raises(ValueError, match=r"Anchored needs anchor='start' where.*got anchor=None"):
        _built(FullRank(prior=Anchored(), initializer=TRAINED))
    stays, moves = (_built(make(Anchored(0.1, anchor=anchor))) for anchor in ("random", "start"))
    before = stays.factors[0].float64_values()[2]
    for posterior in (stays, moves):
        posterior.center(MATRIX)
        np.testing.assert_allclose(ops.convert_to_numpy(posterior.mean().dense()), MATRIX, atol=1e-5)
    np.testing.assert_array_equal(stays.factors[0].float64_values()[2], before)
    assert stays.factors[0].prior_origin() == Origin.INITIAL
    loc, _, (centre, _) = moves.factors[0].float64_values()
    np.testing.assert_array_equal(centre, loc)
    assert moves.factors[0].prior_origin() == Origin.START


def test_factors_turn_to_the_anchor_that_stays():
    """Of all A Q, B Q with orthogonal Q the nearest has a symmetric, positive ABᵀ-to-anchor product."""
    posterior = _built(LowRank.paper(3, prior=Anchored(0.1, anchor="random")))
    posterior.center(MATRIX)
    loc, _, (centre, _) = posterior.factors[0].float64_values()
    product = loc.T @ centre
    np.testing.assert_allclose(product, product.T, atol=1e-4)
    assert np.linalg.eigvalsh(product).min() > 0
    u, s, vt = np.linalg.svd(MATRIX.astype("float64"))
    np.testing.assert_allclose(ops.convert_to_numpy(posterior.mean().dense()), (u[:, :3] * s[:3]) @ vt[:3], atol=1e-5)


def test_certify_assumes_that_an_anchor_at_the_start_was_learned_elsewhere():
    trained = keras.Sequential([keras.Input((6,)), keras.layers.Dense(2, use_bias=False)])
    trained.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    random, start = (
        sb.bayesianize(trained, LowRank.paper(2, prior=Anchored(0.1, anchor=anchor)), init="svd")
        for anchor in ("random", "start")
    )
    words = "the weights that the means started at, around which the prior lies, learned on other examples"
    assert words not in sb.certify(random, X, Y, draws=20).assumptions
    assert words in sb.certify(start, X, Y, draws=20).assumptions
    with pytest.raises(ValueError, match=r"needs anchor='random' or.*Pass prior=Anchored\(0\.1, anchor='start'\): "):
        sb.bayesianize(trained, LowRank.paper(2, prior="anchored"))


@pytest.mark.parametrize(
    "act, message",
    [
        (lambda: Anchored(0.0), "Anchored needs scale > 0"),
        (lambda: Anchored(spread=-1.0), "Anchored needs spread > 0"),
        (lambda: Anchored(anchor="svd"), "anchor to be 'random', 'start' or None; got anchor='svd'"),
        (lambda: sb.Centred(Anchored()), "Centred needs a prior without centres"),
        (lambda: _built(LowRank.paper(2, prior=Anchored(spread=1.0), initializer="he_normal")), "not both"),
    ],
)
def test_bad_input_is_refused(act, message):
    with pytest.raises(ValueError, match=message):
        act()
