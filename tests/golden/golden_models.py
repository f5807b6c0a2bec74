"""Tiny networks with explicit settings, each layer beside the same layer in dense NumPy, and their stored arrays."""

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import golden_adapter as adapter
import keras
import numpy as np
from scipy.special import entr, expit, softmax

import singularbayes as sb

FOLDER = Path(__file__).parent
EXAMPLES, DRAWS, QUIET = 8, 300, 1e-6  # scales of 1e-6 show the means, and a mixture's components, exactly
QUARTILES, Z = (0.25, 0.75), 1.959964
PRIORS = {
    "normal": lambda: sb.Normal(0.3),
    "laplace": lambda: sb.Laplace(0.4),
    "scale_mixture": lambda: sb.ScaleMixture(0.3, 0.8, 0.1, estimate="sampled"),
    "anchored": lambda: sb.Anchored(0.2, anchor="random"),
    "centred": lambda: sb.Centred(sb.Normal(0.25)),
    "shrinkage": lambda: sb.ColumnShrinkage(shape=1.5, rate=0.01),
}


@dataclass(frozen=True)
class Matrix:
    """A random matrix: its posterior, and W from values of the factors, with any axes before."""

    rows: int
    columns: int
    kind: str = "low_rank"
    prior: str = "normal"
    family: str = "gaussian"
    rank: int = 2
    rho_lr: float = 1.0

    def make(self, components: int):
        prior = PRIORS[self.prior]()
        return adapter.make_posterior(self.kind, self.rank, prior, self.family, self.rho_lr, components)

    def shapes(self) -> dict[str, tuple]:
        if self.kind == "full_rank":
            return {"w": (self.rows, self.columns)}
        rank = () if self.kind == "rank_one" else (self.rank,)
        return dict(zip(adapter.FACTORS[self.kind], [(self.rows, *rank), (self.columns, *rank)], strict=True))

    def compose(self, factors: dict, arrays: dict) -> np.ndarray:
        if self.kind == "full_rank":
            return factors["w"]
        if self.kind == "rank_one":
            return np.asarray(arrays["w0"])[0] * (1 + factors["s"])[..., :, None] * (1 + factors["r"])[..., None, :]
        return np.asarray(arrays.get("w0", [0.0]))[0] + factors["a"] @ np.swapaxes(factors["b"], -1, -2)

    def drawn(self, arrays: dict, component: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
        """Returns a draw of W for each entry of `component`; without `rng` the mean."""
        factors = {name: np.asarray(arrays[name]["loc"])[component] for name in self.shapes()}
        if rng is not None:
            noise = rng.laplace if self.family == "laplace" else rng.normal
            for name, loc in factors.items():
                factors[name] = loc + np.asarray(arrays[name]["scale"])[component] * noise(size=loc.shape)
        return self.compose(factors, arrays)


@dataclass(frozen=True)
class Step:
    """A layer from a function that gives the posterior of a matrix, or None, by name; and (x, mask, weights) → x, mask.

    Arrays of NumPy have a leading axis of draws; `weights` are matrices, or the sizes of plain weights.
    """

    name: str
    layer: Callable
    apply: Callable
    weights: dict


@dataclass(frozen=True)
class Network:
    steps: tuple
    inputs: str
    components: int = 1
    values: bool = False  # of a regression

    @property
    def weights(self) -> dict:
        return {(step.name, part): weight for step in self.steps for part, weight in step.weights.items()}


ACTIVATIONS = {None: lambda x: x, "tanh": np.tanh, "relu": lambda x: np.maximum(x, 0)}


def affine(x, w, b):
    flat = x.reshape(len(x), -1, x.shape[-1]) @ w + b.reshape(len(b), 1, -1)
    return flat.reshape(*x.shape[:-1], -1)


def dense(name, rows, columns, activation=None, bias=None, **matrix):
    return Step(
        name,
        lambda q: sb.layers.Dense(columns, activation, posterior=q("kernel"), bias_posterior=q("bias"), name=name),
        lambda x, mask, w: (ACTIVATIONS[activation](affine(x, w["kernel"], w["bias"])), mask),
        {"kernel": Matrix(rows, columns, **matrix), "bias": bias or (columns,)},
    )


def lstm(name, features, units):
    def apply(x, mask, w):
        h = c = np.zeros((*x.shape[:2], units))
        for step in np.moveaxis(x, 2, 0):
            gates = affine(step, w["kernel"], w["bias"]) + affine(h, w["recurrent"], 0 * w["bias"])
            i, f, g, o = np.split(gates, 4, axis=-1)
            c = expit(f) * c + expit(i) * np.tanh(g)
            h = expit(o) * np.tanh(c)
        return h, mask

    def layer(q):
        posteriors = {"posterior": q("kernel"), "recurrent_posterior": q("recurrent")}
        return sb.layers.LSTM(units, unit_forget_bias=False, name=name, **posteriors)

    kernels = {"kernel": Matrix(features, 4 * units), "recurrent": Matrix(units, 4 * units)}
    return Step(name, layer, apply, {**kernels, "bias": (4 * units,)})


def embedding(name, tokens, features):
    return Step(
        name,
        lambda q: sb.layers.Embedding(tokens, features, mask_zero=True, posterior=q("kernel"), name=name),
        lambda ids, mask, w: (w["kernel"][:, ids[0]], ids[0] != 0),
        {"kernel": Matrix(tokens, features)},
    )


def encoder(name, features, inner, heads):
    def attended(x, mask, w):
        def split(part):
            y = affine(x, w[part], w[f"{part}_bias"])
            return np.swapaxes(y.reshape(*y.shape[:-1], heads, -1), -2, -3)  # (…, heads, positions, size)

        q, k, v = map(split, ("query", "key", "value"))
        scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
        mixed = softmax(np.where(mask[:, None, None, :], scores, -np.inf), axis=-1) @ v
        return affine(np.swapaxes(mixed, -2, -3).reshape(x.shape), w["output"], w["output_bias"])

    def normalised(x, w, which):
        gain, shift = (w[f"{which}_{v}"][:, None, None] for v in ("gamma", "beta"))
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-3) * gain + shift

    def apply(x, mask, w):
        h = x + attended(normalised(x, w, "first"), mask, w)
        y = np.maximum(affine(normalised(h, w, "second"), w["inner"], w["inner_bias"]), 0)
        return h + affine(y, w["outer"], w["outer_bias"]), mask

    def layer(q):
        settings = {"dropout": 0.0, "activation": "relu", "layer_norm_epsilon": 1e-3, "normalize_first": True}
        return sb.layers.TransformerEncoder(inner, heads, posterior=q("inner"), name=name, **settings)

    matrices = dict.fromkeys(("query", "key", "value", "output"), Matrix(features, features))
    matrices |= {"inner": Matrix(features, inner), "outer": Matrix(inner, features)}
    norms = {f"{which}_{v}": (features,) for which in ("first", "second") for v in ("gamma", "beta")}
    return Step(name, layer, apply, {**matrices, **norms, **{f"{n}_bias": (q.columns,) for n, q in matrices.items()}})


def pooling():
    def apply(x, mask, w):
        return (x * mask[..., None]).sum(axis=2) / mask.sum(axis=1)[:, None], None

    return Step("pooling", lambda q: keras.layers.GlobalAveragePooling1D(), apply, {})


def convolution(name, size, channels, filters):
    def apply(x, mask, w):
        windows = np.lib.stride_tricks.sliding_window_view(x, size, axis=(2, 3))
        patches = np.moveaxis(windows, 4, -1)  # positions, then channels
        return np.tanh(affine(patches.reshape(*patches.shape[:4], -1), w["kernel"], w["bias"])), mask

    def layer(q):
        return sb.layers.Conv2D(filters, size, activation="tanh", posterior=q("kernel"), name=name)

    return Step(name, layer, apply, {"kernel": Matrix(np.prod(size) * channels, filters), "bias": (filters,)})


def flatten():
    return Step("flatten", lambda q: keras.layers.Flatten(), lambda x, mask, w: (x.reshape(*x.shape[:2], -1), mask), {})


def noise(name):
    def apply(x, mask, w):
        rho = np.log(np.expm1(np.exp(w["log_scale"])))  # softplus(ρ) is the scale
        return np.concatenate([x, np.broadcast_to(rho[:, None], x.shape)], axis=-1), mask

    return Step(name, lambda q: sb.layers.LearnedNoise(name=name), apply, {"log_scale": (1,)})


NETWORKS = {
    "mlp": Network(
        (
            dense("hidden", 4, 6, "tanh", Matrix(1, 6, "full_rank", "laplace"), rho_lr=4.0),
            dense("head", 6, 3, prior="laplace", family="laplace"),
        ),
        "rows",
    ),
    "mixture": Network((dense("hidden", 4, 6, "tanh"), dense("head", 6, 3, prior="laplace")), "rows", components=3),
    "adapter": Network(
        (
            dense("hidden", 4, 6, "relu", kind="adapter", prior="anchored"),
            dense("head", 6, 3, kind="full_rank", prior="centred"),
        ),
        "rows",
    ),
    "regression": Network(
        (
            dense("hidden", 4, 6, "tanh", kind="rank_one"),
            dense("head", 6, 1, kind="adaptive", prior="shrinkage", rank=1),
            noise("noise"),
        ),
        "rows",
        values=True,
    ),
    "lstm": Network((lstm("lstm", 4, 4), dense("hidden", 4, 6, "tanh"), dense("head", 6, 3)), "sequences"),
    "transformer": Network(
        (embedding("embedding", 7, 4), encoder("block", 4, 5, 2), pooling(), dense("head", 4, 3)), "ids", components=2
    ),
    "conv": Network((convolution("conv", (2, 3), 2, 3), flatten(), dense("head", 24, 3)), "images"),
}
# One matrix each, side by side on the rows of the identity: the outputs are W.
POSTERIORS = {
    "posteriors": {
        "low_rank": Matrix(3, 2, rho_lr=4.0),
        "laplace": Matrix(3, 2, prior="laplace", family="laplace", rank=1),
        "full_rank": Matrix(3, 2, "full_rank", "scale_mixture"),
        "rank_one": Matrix(3, 2, "rank_one", "laplace"),
        "adaptive": Matrix(3, 2, "adaptive", "shrinkage"),
        "adapter": Matrix(3, 2, "adapter", "anchored"),
    },
    "mixed": {"low_rank": Matrix(3, 2, prior="scale_mixture")},
}


@functools.cache
def stored(file: str) -> dict:
    return json.loads((FOLDER / f"{file}.json").read_text())


def inputs_of(name: str) -> np.ndarray:
    x = np.asarray(stored("arrays")["inputs"][NETWORKS[name].inputs])
    return x.astype("int32" if x.dtype.kind == "i" else "float32")


def targets_of(name: str) -> np.ndarray:
    return np.asarray(stored("arrays")["targets"]["values" if NETWORKS[name].values else "labels"])


def build(name: str) -> keras.Model:
    network, x = NETWORKS[name], inputs_of(name)

    def posterior_of(step):
        made = {part: q.make(network.components) for part, q in step.weights.items() if isinstance(q, Matrix)}
        return made.get

    layers = [step.layer(posterior_of(step)) for step in network.steps]
    model = keras.Sequential([keras.Input(x.shape[1:], dtype=str(x.dtype)), *layers])
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.0), sb.MeanScale() if network.values else cross_entropy)
    return model


def load(model: keras.Model, name: str, quiet: bool) -> keras.Model:
    """Gives a model the stored arrays; quiet, all posterior scales are `QUIET`."""
    arrays = stored("arrays")["weights"][name]
    for step in NETWORKS[name].steps:
        found = adapter.parts(model.get_layer(step.name)) if step.weights else {}
        for part, weight in step.weights.items():
            given = arrays[step.name][part]
            if isinstance(weight, Matrix):
                adapter.set_posterior(found[part], weight.kind, quieted(given) if quiet else given)
            else:
                adapter.set_plain(found[part], given)
    return model


def quieted(arrays: dict) -> dict:
    def quiet(factor):
        return {**factor, "scale": np.full(np.shape(factor["loc"]), QUIET)} if isinstance(factor, dict) else factor

    return {name: quiet(factor) for name, factor in arrays.items()}


built = functools.cache(build)


def predict(name: str, quiet: bool, factor=1):
    quantiles = () if NETWORKS[name].values else QUARTILES
    x = (factor * inputs_of(name)).astype(inputs_of(name).dtype)
    return sb.predict(load(built(name), name, quiet), x, DRAWS, seed=0, quantiles=quantiles)


def evaluations(name: str) -> dict:
    """Returns the metrics at the means, of a mixture also out of distribution; None where one is undefined."""
    far = predict(name, quiet=True, factor=3) if name == "mixture" else None
    found = sb.evaluate(predict(name, quiet=True), targets_of(name), ood=far).metrics
    rounding = () if NETWORKS[name].components > 1 else ("_mi", "_std", "_epistemic")  # spreads of one network
    if name == "transformer":
        rounding += ("auroc", "aupr_err_entropy")  # rounding decides the order of two of its examples
    return {k: None if np.isnan(v) else v for k, v in found.items() if not k.endswith(rounding)}


def outputs(name: str, component: np.ndarray, rng=None, change=lambda w: w) -> np.ndarray:
    """Returns outputs in NumPy, (draws, examples, units), for a draw of each `component`; without `rng` at the means.

    Args:
        change: of the matrices, before they are used.
    """
    x = inputs_of(name).astype("int" if NETWORKS[name].inputs == "ids" else "float64")
    x, mask = np.broadcast_to(x, (len(component), *x.shape)), None
    for step in NETWORKS[name].steps:
        given, w = stored("arrays")["weights"][name][step.name], {}
        for part, q in step.weights.items():
            random = isinstance(q, Matrix)
            w[part] = change(q.drawn(given[part], component, rng)) if random else np.asarray(given[part])[component]
        x, mask = step.apply(x, mask, w)
    return x


def statistics(name: str, out: np.ndarray) -> dict[str, np.ndarray]:
    """Returns what `sb.predict` should give from these draws of outputs."""
    if NETWORKS[name].values:
        means, rho = out[..., 0], out[..., 1]
        total = np.sqrt(means.var(0) + ((np.logaddexp(0, rho) + 1e-6) ** 2).mean(0))
        mean = means.mean(0)
        return {"mean": mean, "std": means.std(0), "lower": mean - Z * total, "upper": mean + Z * total}
    p = softmax(out, axis=-1)
    entropy = entr(p.mean(0)).sum(-1)
    found = {"mean": p.mean(0), "std": p.std(0), "entropy": entropy}
    found |= {"mutual_information": entropy - entr(p).sum(-1).mean(0)}
    return found | dict(zip(("lower", "upper"), np.quantile(p, QUARTILES, axis=0), strict=True))


def library_statistics(name: str, p) -> dict[str, np.ndarray]:
    """Returns the same numbers from a prediction of the library."""
    values = NETWORKS[name].values
    lower, upper = p.interval(0.95, "total") if values else p.interval(QUARTILES[1] - QUARTILES[0])
    names = ("mean", "std") if values else ("mean", "std", "entropy", "mutual_information")
    return {one: getattr(p, one) for one in names} | {"lower": lower, "upper": upper}
