"""Numbers that a change of initialisation, defaults or noise streams must leave: all weights come from `arrays.json`.

Where posterior scales are 10⁻⁶ ("quiet") they equal what dense NumPy gives; with the stored scales they lie within four
standard errors of it. The files for each backend hold the metrics that NumPy does not compute here. See `make.py`.
"""

import functools

import golden_adapter as adapter
import golden_models as golden
import keras
import numpy as np
import pytest
from golden_models import DRAWS, EXAMPLES, NETWORKS, POSTERIORS, QUIET, Matrix, Z
from posterior_table import TORCH_FIRST
from scipy import stats
from scipy.optimize import brentq, minimize_scalar
from scipy.special import digamma, gammaln, logsumexp, rel_entr

import singularbayes as sb

pytestmark = [pytest.mark.backend, pytest.mark.all_rows]
LABELS = np.asarray(golden.stored("arrays")["targets"]["labels"])
ROWS = np.arange(EXAMPLES)


def close(found, truth, rtol=1e-4, name=""):
    np.testing.assert_allclose(keras.ops.convert_to_numpy(found), truth, rtol=rtol, atol=2e-5, err_msg=name)


def within_errors(found, mean, error, name=""):
    distance = np.abs(np.asarray(found) - mean) / np.maximum(error, 1e-12)
    assert (distance <= 4).all(), f"{name}: {distance.max():.1f} standard errors at {distance.argmax()}"


@functools.cache
def prediction(name):
    return golden.predict(name, quiet=True)


@functools.cache
def truth_of(name):
    """Returns what NumPy predicts at the means, each component once."""
    return golden.statistics(name, golden.outputs(name, np.arange(NETWORKS[name].components)))


def spread_of(name):
    """Returns the standard deviation of a regression's intervals."""
    return (truth_of(name)["upper"] - truth_of(name)["lower"]) / (2 * Z)


@pytest.mark.parametrize("name", NETWORKS)
def test_predictions_at_the_means_are_those_of_numpy(name):
    found, truth = golden.library_statistics(name, prediction(name)), truth_of(name)
    for key in truth if NETWORKS[name].components == 1 else ("mean", "std", "entropy", "mutual_information"):
        close(found[key], truth[key], name=key)


@pytest.mark.parametrize("name", NETWORKS)
def test_predictions_of_draws_are_those_of_numpy(name):
    found = golden.library_statistics(name, golden.predict(name, quiet=False))
    for key, value in golden.stored("draws")[name].items():
        within_errors(found[key], np.asarray(value["mean"]), np.asarray(value["error"]), key)


@pytest.mark.parametrize("name", ["mixture", "adapter", "transformer"])
def test_components_and_plain_copies_predict_as_their_means(name):
    model, x, components = (
        golden.load(golden.built(name), name, quiet=False),
        golden.inputs_of(name),
        NETWORKS[name].components,
    )
    for k in range(components):
        one = sb.take_components(model, k) if components > 1 else model
        truth = golden.outputs(name, np.array([k]))[0]
        close(one(x), truth)
        close(sb.collapse(one)(x), truth)


WIDE, NARROW = stats.norm(0, 0.8), stats.norm(0, 0.1)
LOG_PRIORS = {
    "normal": stats.norm(0, 0.3).logpdf,
    "laplace": stats.laplace(0, 0.4).logpdf,
    "scale_mixture": lambda w: np.logaddexp(np.log(0.3) + WIDE.logpdf(w), np.log(0.7) + NARROW.logpdf(w)),
    "anchored": stats.norm(0, 0.2).logpdf,
    "centred": stats.norm(0, 0.25).logpdf,
}


def kl_of(matrix: Matrix, arrays: dict, quiet=False) -> float:
    """Returns KL(q ‖ p) by quadrature, or with whole columns and their precisions; the mean over components."""
    own = {what: np.concatenate([arrays[n][what] for n in matrix.shapes()], 1) for what in ("loc", "scale", "centre")}
    loc, scale = own["loc"], np.full(own["loc"].shape, QUIET) if quiet else own["scale"]
    if matrix.prior == "shrinkage":
        return shrinkage_kl(loc[0], scale[0], shape=1.5, rate=0.01)
    loc = loc - own["centre"] if matrix.prior in ("anchored", "centred") else loc
    u = np.linspace(-30, 30, 6001)  # posterior scales around the mean
    log_q = (stats.laplace if matrix.family == "laplace" else stats.norm).logpdf(u)
    m, s = loc.reshape(-1, 1), scale.reshape(-1, 1)
    return np.trapezoid(np.exp(log_q) * (log_q - np.log(s) - LOG_PRIORS[matrix.prior](m + s * u)), u).sum() / len(loc)


def shrinkage_kl(loc, scale, shape, rate):
    """Returns E log q(w) q(τ)/(p(w | τ) p(τ)) with the best Gamma(a, b) for the precision τ of each column."""
    d, squares = len(loc), (loc**2 + scale**2).sum(0)
    a, b = shape + d / 2, rate + squares / 2
    log_p = 0.5 * d * (digamma(a) - np.log(b) - np.log(2 * np.pi)) - 0.5 * a / b * squares
    gammas = (a - shape) * digamma(a) - gammaln(a) + gammaln(shape) + shape * np.log(b / rate) + a / b * (rate - b)
    return (gammas - log_p).sum() - stats.norm(0, scale).entropy().sum()


def kl_of_network(name: str, quiet=False) -> float:
    arrays = golden.stored("arrays")["weights"][name]
    weights = NETWORKS[name].weights.items()
    return sum(kl_of(q, arrays[step][part], quiet) for (step, part), q in weights if isinstance(q, Matrix))


def side_by_side(name: str) -> tuple[keras.Model, dict]:
    """Returns layers without bias next to each other, loud, and the stored arrays."""
    arrays, x, components = golden.stored("arrays")["weights"][name], keras.Input((3,)), 3 if name == "mixed" else 1
    layers = [sb.layers.Dense(2, use_bias=False, posterior=q.make(components)) for q in POSTERIORS[name].values()]
    made = [layer(x) for layer in layers]
    for layer, (part, matrix) in zip(layers, POSTERIORS[name].items(), strict=True):
        adapter.set_posterior(layer.posterior, matrix.kind, arrays[part])
    return keras.Model(x, keras.layers.Concatenate()(made) if made[1:] else made[0]), arrays


@pytest.mark.parametrize("name", ["mlp", "mixture", "adapter", "regression", "transformer"])
def test_kl_of_a_model_is_that_of_quadrature(name):
    model, truth = golden.load(golden.built(name), name, quiet=False), kl_of_network(name)
    close(adapter.exact_kl(model), truth, rtol=1e-5)
    close(sb.kl(model), truth, rtol=1e-5)


def covariance_of(matrix: Matrix, arrays: dict) -> np.ndarray:
    """Returns the covariances of the entries of W of one component, averaged over components."""
    rows, columns, unit = np.eye(matrix.rows), np.eye(matrix.columns), 2.0 if matrix.family == "laplace" else 1.0
    means, variances = ([np.asarray(arrays[n][what]) for n in matrix.shapes()] for what in ("loc", "scale"))
    variances = [unit * scale**2 for scale in variances]
    size = matrix.rows * matrix.columns
    if matrix.kind == "full_rank":
        return np.diag(variances[0].mean(0).ravel())
    w0 = np.ones(size)
    if matrix.kind == "rank_one":
        w0, means, variances = (
            np.ravel(arrays["w0"]),
            [1 + m[..., None] for m in means],
            [v[..., None] for v in variances],
        )
    (ma, mb), (va, vb) = means, variances
    found = (
        np.einsum("kir,kjr,is,jt->ijst", va, vb, rows, columns)
        + np.einsum("kir,kjr,ktr,is->ijst", va, mb, mb, rows)
        + np.einsum("kir,ksr,kjr,jt->ijst", ma, ma, vb, columns)
    ) / len(ma)
    return found.reshape(size, size) * np.outer(w0, w0)


@pytest.mark.parametrize("name", POSTERIORS)
def test_posteriors_have_the_kl_and_moments_of_their_formulas(name):
    model, arrays = side_by_side(name)
    truth = sum(kl_of(matrix, arrays[part]) for part, matrix in POSTERIORS[name].items())
    close(adapter.exact_kl(model), truth, rtol=1e-5)
    sampled = [float(keras.ops.convert_to_numpy(sb.kl(model))) for _ in range(12)]  # the scale mixture's is an estimate
    within_errors(np.mean(sampled), truth, np.std(sampled) / np.sqrt(len(sampled)), "KL of training")
    draws = sb.predict(model, np.eye(3, dtype="float32"), 3000, likelihood="gaussian", keep_draws=True).draws
    sums, few = [], np.sqrt(len(draws))
    for place, (part, matrix) in enumerate(POSTERIORS[name].items()):
        means = matrix.drawn(arrays[part], np.arange(3 if name == "mixed" else 1), None).reshape(-1, 6)
        truth = covariance_of(matrix, arrays[part]) + (means - means.mean(0)).T @ (means - means.mean(0)) / len(means)
        off = draws[:, :, 2 * place : 2 * place + 2].reshape(-1, 6) - means.mean(0)
        products = off[:, :, None] * off[:, None, :]
        within_errors(off.mean(0), 0, off.std(0) / few, f"mean of {part}")
        within_errors(products.mean(0), truth, products.std(0) / few, f"covariance of {part}")
        sums.append(off.sum(1))
    within_errors(np.corrcoef(sums)[np.triu_indices(len(sums), 1)] if sums[1:] else [0], 0, 1 / few, "between layers")


@pytest.mark.parametrize("name", ["mlp", "mixture"])
def test_loss_of_a_step_is_weighted_nll_and_kl(name):
    """β/num_data weighs the KL once, sample weights only the likelihood; of a mixture both are means of components."""
    model, weights = golden.load(golden.build(name), name, quiet=True), np.linspace(0.2, 2, EXAMPLES)
    sb.set_kl(model, num_data=500, beta=0.5)
    found = model.train_on_batch(golden.inputs_of(name), LABELS, sample_weight=weights, return_dict=True)
    logits = golden.outputs(name, np.arange(NETWORKS[name].components))
    nll = logsumexp(logits, axis=-1) - logits[:, ROWS, LABELS]
    close(found["loss"], (weights * nll).mean() + 0.5 / 500 * kl_of_network(name, quiet=True))


@pytest.mark.parametrize("name", NETWORKS)
def test_evaluations_are_those_on_file_and_of_numpy(name):
    found, truth = golden.evaluations(name), truth_of(name)
    for metric, value in golden.stored(keras.backend.backend())[name].items():
        close(*(np.nan if v is None else v for v in (found[metric], value)), name=metric)
    if NETWORKS[name].values:
        mean, y = truth["mean"], golden.targets_of(name)
        exact = {
            "rmse": np.sqrt(((y - mean) ** 2).mean()),
            "nll_total": -stats.norm(mean, spread_of(name)).logpdf(y).mean(),
        }
    else:
        p = truth["mean"]
        exact = {"nll": -np.log(p[ROWS, LABELS]).mean(), "accuracy": (p.argmax(1) == LABELS).mean()}
        exact["brier"] = ((p - np.eye(3)[LABELS]) ** 2).sum(1).mean()
    for metric, value in exact.items():
        close(found[metric], value, name=metric)


def test_comparison_pairs_methods_over_seeds():
    weights, names = [np.linspace(0, 2, EXAMPLES), np.linspace(1, 0.1, EXAMPLES)], ("mlp", "mixture", "lstm")
    runs = [
        sb.evaluate(prediction(name), LABELS, name=name, seed=seed, sample_weight=own)
        for name in names
        for seed, own in enumerate(weights)
    ]
    means, errors, differences = adapter.column(sb.compare(runs, ["nll"], reference="mlp", level=0.9))
    each = [-np.log(truth_of(n)["mean"][ROWS, LABELS]) for n in names]
    nll = np.array([[np.average(losses, weights=own) for own in weights] for losses in each])
    close(means, nll.mean(1))
    close(errors, nll.std(1, ddof=1) / np.sqrt(2))
    gaps = nll[1:] - nll[0]
    half = stats.t.ppf(0.95, 1) * gaps.std(1, ddof=1) / np.sqrt(2)
    close(differences, np.stack([gaps.mean(1), gaps.mean(1) - half, gaps.mean(1) + half], 1))


def test_intervals_sets_recalibration_and_selection():
    p, mean, sd, y = (
        prediction("regression"),
        truth_of("regression")["mean"],
        spread_of("regression"),
        golden.targets_of("regression"),
    )
    ratio = np.abs(y - mean) / sd
    close(sb.conformal_intervals(p, y, level=0.6)(p)[1], mean + np.sort(ratio)[5] * sd)  # ⌈9 · 0.6⌉ = 6
    close(sb.recalibrate(p, y)(p).variance("total"), np.mean(ratio**2) * sd**2)
    p, truth = prediction("mixture"), truth_of("mixture")
    mean = truth["mean"]
    threshold = np.sort(mean[ROWS, LABELS])[::-1][5]
    assert (sb.conformal_sets(p, LABELS, level=0.6)(p) == (mean >= threshold - 1e-6)).all()

    def tempered(power):
        return mean**power / (mean**power).sum(1, keepdims=True)

    best = minimize_scalar(
        lambda power: -np.log(tempered(power)[ROWS, LABELS]).mean(), bounds=(0.01, 20), method="bounded"
    )
    close(sb.recalibrate(p, LABELS)(p).mean, tempered(best.x), rtol=1e-3)
    for by, key in {"entropy": "entropy", "mi": "mutual_information"}.items():
        order = np.argsort(truth[key])
        risk = np.cumsum(mean.argmax(1)[order] != LABELS[order]) / (ROWS + 1)
        curve = sb.selective(p, LABELS, by=by)
        close([curve.area, *curve.at([0.25, 0.5, 1.0])], [risk.mean(), *risk[[1, 3, 7]]])


def test_diagnosis_names_what_was_built_in():
    model, x, p = golden.load(golden.build("mlp"), "mlp", quiet=True), golden.inputs_of("mlp"), truth_of("mlp")["mean"]
    names, twenty = ("kl_weight", "collapsed", "overconfident"), np.repeat(x, 20, axis=0)
    found = sb.diagnose(model, twenty, np.repeat(p.argmin(1), 20), draws=DRAWS)
    assert all(name in found for name in names)
    sb.set_kl(golden.load(model, "mlp", quiet=False), num_data=10)
    found = sb.diagnose(model, twenty, np.repeat(p.argmax(1), 20), draws=DRAWS)
    assert not any(name in found for name in names)


CERTIFIED = {
    "a": {"loc": [[[3.0, 0.1], [-0.2, 2.5], [0.1, -0.1]]], "scale": [[[0.05, 0.02], [0.03, 0.04], [0.05, 0.06]]]},
    "b": {"loc": [[[0.8, 0.05], [-0.1, 0.5]]], "scale": [[[0.02, 0.03], [0.04, 0.01]]]},
}


def certified(quiet: bool, examples: int):
    """Returns a model whose draws err on no example, and examples."""
    arrays = {name: {**factor, "centre": factor["loc"]} for name, factor in CERTIFIED.items()}
    layer = sb.layers.Dense(2, use_bias=False, posterior=Matrix(3, 2).make(1))
    model = keras.Sequential([keras.Input((3,)), layer])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    adapter.set_posterior(layer.posterior, "low_rank", golden.quieted(arrays) if quiet else arrays)
    u, y = np.linspace(0, 1, examples), np.arange(examples) % 2
    return model, np.stack([(1 - y) * (40 + u), y * (40 + u), u], axis=1).astype("float32"), y


def kl_of_factors() -> float:
    """Returns the KL of A and B, as they are, to N(0, 0.3²)."""
    pairs = (map(np.asarray, (factor["loc"], factor["scale"])) for factor in CERTIFIED.values())
    return sum((np.log(0.3 / sd) + (mean**2 + sd**2) / (2 * 0.3**2) - 0.5).sum() for mean, sd in pairs)


def kl_inverse(q: float, budget: float) -> float:
    return brentq(lambda p: rel_entr(q, p) + rel_entr(1 - q, 1 - p) - budget, q, 1 - 1e-12)


@TORCH_FIRST
@pytest.mark.parametrize(
    ("delta", "options"),
    [(0.05, {"form": "kl"}), (0.3, {"form": "kl", "average": 20}), (0.2, {"form": "catoni", "constant": 0.7})],
)
def test_pac_bayes_certificates_follow_their_formulas(delta, options):
    """No draw errs: its Monte Carlo bound lies between 1 − δ^(1/n), which no bound can beat, and ln(10/δ)/n."""
    n, draws, own = 400, 1000, 0.8 * delta  # a fifth of δ is for the draws
    model, x, y = certified(quiet=False, examples=n)
    risks = np.array([1 - (delta / 5) ** (1 / draws), np.log(10 / (delta / 5)) / draws])
    if options["form"] == "kl":
        limits = [kl_inverse(risk, (kl_of_factors() + np.log(2 * np.sqrt(n) / own)) / n) for risk in risks]
        low, high = np.array(limits) * (2 if "average" in options else 1)
    else:
        low, high = np.expm1(-0.7 * risks - (kl_of_factors() + np.log(1 / own)) / n) / np.expm1(-0.7)
    assert low - 1e-4 <= sb.certify(model, x, y, delta, draws, seed=3, **options).value <= high + 1e-4


@TORCH_FIRST
@pytest.mark.parametrize("delta", [0.05, 0.3])
def test_hold_out_certificates_are_clopper_pearson(delta):
    (model, x, y), mistakes = certified(quiet=True, examples=400), 13
    wrong = np.where(np.arange(len(y)) < mistakes, 1 - y, y)
    for average in (None, 10):
        bound = sb.certify(model, x, wrong, delta, form="holdout", average=average)
        close(bound.value, stats.beta.ppf(1 - delta, mistakes + 1, len(y) - mistakes), rtol=1e-6)


def rank_one_part(w):
    u, s, vt = np.linalg.svd(w, full_matrices=False)
    return s[..., :1, None] * u[..., :1] @ vt[..., :1, :]


def test_conversion_keeps_what_the_svd_keeps():
    """The means of the LSTM network as a Keras model: its spectrum, its plan at rank 1, and what it predicts then."""
    plain = sb.collapse(golden.load(golden.built("lstm"), "lstm", quiet=False), merge=True)
    x, first = golden.inputs_of("lstm"), np.array([0])
    close(plain(x), golden.outputs("lstm", first)[0])
    converted = sb.bayesianize(plain, sb.LowRank(1), init="svd")
    close(converted(x), golden.outputs("lstm", first, change=rank_one_part)[0])
    arrays, matrices = golden.stored("arrays")["weights"]["lstm"], {}
    for (step, part), q in NETWORKS["lstm"].weights.items():
        if isinstance(q, Matrix):
            matrices.setdefault(step, []).append(q.drawn(arrays[step][part], first, None)[0])
    spectra = [np.linalg.svd(w, compute_uv=False) for own in matrices.values() for w in own]
    for (values, entropy, stable, enough), truth in zip(
        adapter.spectrum_rows(sb.spectrum(plain)), spectra, strict=True
    ):
        share = truth**2 / (truth**2).sum()
        close(values, truth)
        close([entropy, stable], [np.exp(stats.entropy(share)), 1 / share[0]])
        assert enough == (np.cumsum(share) < 0.9).sum() + 1
    rows = adapter.plan_rows(sb.plan(plain, sb.LowRank(1), init="svd"))
    for (before, after, residual, explained), own in zip(rows, matrices.values(), strict=True):
        bias, lost, whole = (
            own[0].shape[1],
            *(sum((f(w) ** 2).sum() for w in own) for f in (lambda w: w - rank_one_part(w), np.array)),
        )
        assert (before, after) == (sum(w.size for w in own) + bias, sum(2 * sum(w.shape) for w in own) + bias)
        close([residual, explained], [np.sqrt(lost), 1 - lost / whole])
