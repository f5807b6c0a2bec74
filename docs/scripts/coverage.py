"""How often certificates fail, by simulation through `certify`: the script of the figure in certificates.md.

    pip install 'singularbayes[plots]'
    python docs/scripts/coverage.py                     # 1,000 repetitions: writes coverage.json and coverage.png,
                                                        # and the table into certificates.md
    python docs/scripts/coverage.py --repetitions 20    # short: prints the table and changes nothing here

Labels are sign(x₁) of Gaussian inputs, a tenth of them flipped, and targets of the regression are x₁ plus noise, so
that the true risk is known. In every repetition the mean of the posterior is the least-squares solution of 40 fresh
examples: those that certify it, or others for a hold-out. A certificate fails where it is below the true risk.
"""

import json
import math
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import keras
import numpy as np
from marks import fill
from scipy.special import expit
from scipy.stats import norm

import singularbayes as sb
from singularbayes import layers

FOLDER = Path(__file__).parents[1]
PAGE = FOLDER / "certificates.md"
DELTA, NUM_DATA, INPUTS, SCALE, FLIPPED, NOISE, AVERAGE, DRAWS = 0.1, 40, 6, 0.3, 0.1, 0.3, 11, 200
LOSS = sb.BoundedError(limit=1.0)
SEED = 20261116
RNG = np.random.default_rng(SEED)
OTHERS = RNG.normal(size=(20_000, INPUTS)).astype("float32")  # fresh inputs, where the risk has no formula
NETWORKS = SCALE * RNG.normal(size=(2000, INPUTS))  # draws around the mean, where the risk has a formula


@dataclass(frozen=True)
class Result:
    """One form: how often the certificate, and the risk on the examples alone, were below the true risk."""

    name: str
    repetitions: int
    failed: int
    naive: int
    mean_bound: float
    mean_risk: float

    @property
    def rate(self) -> float:
        return self.failed / self.repetitions

    @property
    def error(self) -> float:
        """The standard error of a rate of δ."""
        return math.sqrt(DELTA * (1 - DELTA) / self.repetitions)

    @property
    def holds(self) -> bool:
        """Whether failures are at most δ within two standard errors."""
        return self.rate <= DELTA + 2 * self.error


@dataclass(frozen=True)
class Case:
    """A form of the certificate, the true risk of its predictor, and whether the examples that certify were fitted."""

    options: dict[str, Any]
    truth: Callable[[keras.Model, np.ndarray, int], float]
    fitted: bool = True
    regression: bool = False


def randomised_risk(model: keras.Model, loc: np.ndarray, seed: int) -> float:
    """A draw w errs on the angle between w and the first axis over π, and where labels were flipped."""
    w = loc + NETWORKS
    return FLIPPED + (1 - 2 * FLIPPED) * float(np.arccos(w[:, 0] / np.linalg.norm(w, axis=1)).mean()) / math.pi


def averaged_risk(model: keras.Model, loc: np.ndarray, seed: int) -> float:
    """The mean over predictors of 11 draws each, on fresh inputs."""
    x = OTHERS[:2000]
    groups = (loc + NETWORKS[: 40 * AVERAGE]).reshape(40, AVERAGE, INPUTS)
    p = np.mean([expit(x @ groups[:, s].T) for s in range(AVERAGE)], axis=0)  # (inputs, predictors)
    return FLIPPED + (1 - 2 * FLIPPED) * float(((p > 0.5) != (x[:, :1] > 0)).mean())


def risk_of_predict(model: keras.Model, loc: np.ndarray, seed: int) -> float:
    """The predictor of one seed, on fresh inputs."""
    p = sb.predict(model, OTHERS, draws=AVERAGE, seed=seed, likelihood="bernoulli_logits").mean
    return FLIPPED + (1 - 2 * FLIPPED) * float((p.argmax(axis=-1) != (OTHERS[:, 0] > 0)).mean())


def regression_risk(model: keras.Model, loc: np.ndarray, seed: int) -> float:
    """The error of a draw w is Gaussian; E min(s|Z|, 1) = 2 s (φ(0) − φ(1/s)) + 2 (1 − Φ(1/s))."""
    s = np.sqrt(np.square(loc + NETWORKS - np.eye(INPUTS)[0]).sum(axis=1) + NOISE**2) / LOSS.limit
    return float((2 * s * (norm.pdf(0) - norm.pdf(1 / s)) + 2 * norm.sf(1 / s)).mean())


_AVERAGED = {"average": AVERAGE}
_REGRESSION = {"loss": LOSS, "likelihood": "gaussian"}
CASES = {
    "PAC-Bayes-kl": Case({"form": "kl"}, randomised_risk),
    "Catoni, C = 1": Case({"form": "catoni", "constant": 1.0}, randomised_risk),
    "Catoni, grid": Case({"form": "catoni"}, randomised_risk),
    "best": Case({}, randomised_risk),
    "best, unseen": Case({"unseen": True}, randomised_risk, fitted=False),
    "hold-out": Case({"form": "holdout"}, randomised_risk, fitted=False),
    "averaged, PAC-Bayes-kl": Case({"form": "kl", **_AVERAGED}, averaged_risk),
    "averaged, tandem": Case({"form": "tandem", **_AVERAGED}, averaged_risk),
    "averaged, best": Case(_AVERAGED, averaged_risk),
    "averaged, hold-out": Case({"form": "holdout", **_AVERAGED}, risk_of_predict, fitted=False),
    "regression, PAC-Bayes-kl": Case({"form": "kl", **_REGRESSION}, regression_risk, regression=True),
    "regression, hold-out": Case({"form": "holdout", **_REGRESSION}, regression_risk, fitted=False, regression=True),
}


def simulate(name: str, repetitions: int, model: keras.Model | None = None) -> Result:
    """Returns how often certificates of one form fail."""
    case, model = CASES[name], model or network()
    factor = model.layers[0].posterior.factors[0]
    rng = np.random.default_rng([7, list(CASES).index(name)])
    values = []
    for repetition in range(repetitions):
        (x, y), other = _examples(rng, case.regression), _examples(rng, case.regression)
        fit_x, fit_y = (x, y) if case.fitted else other
        loc = np.linalg.lstsq(fit_x, fit_y if case.regression else 2.0 * fit_y - 1, rcond=None)[0]
        factor.set_loc(loc[:, None])
        bound = sb.certify(
            model, x, y, DELTA, DRAWS, seed=repetition, **{"likelihood": "bernoulli_logits", **case.options}
        )
        naive = next(
            bound.terms[key] for key in ("mistakes of the draws", "loss of the draws", "mean") if key in bound.terms
        )
        values.append((bound.value, naive * bound.terms.get("factor", 1.0), case.truth(model, loc, repetition)))
    bounds, naives, truths = np.array(values).T
    return Result(
        name, repetitions, int((bounds < truths).sum()), int((naives < truths).sum()), bounds.mean(), truths.mean()
    )


def network() -> keras.Model:
    """Returns a linear model whose posterior has the scale 0.3 in all weights."""
    start = keras.initializers.Constant(math.log(math.expm1(SCALE)))
    posterior = sb.FullRank(prior=sb.Normal(0.5), rho_initializer=start)
    return keras.Sequential([keras.Input((INPUTS,)), layers.Dense(1, use_bias=False, posterior=posterior)])


def _examples(rng: np.random.Generator, regression: bool) -> tuple[np.ndarray, np.ndarray]:
    x = rng.normal(size=(NUM_DATA, INPUTS)).astype("float32")
    if regression:
        return x, x[:, 0] + NOISE * rng.normal(size=NUM_DATA)
    return x, ((x[:, 0] > 0) ^ (rng.random(NUM_DATA) < FLIPPED)).astype(int)


def table(results: list[Result]) -> str:
    """Returns the table in Markdown."""
    lines = [
        "| form | certificates that fail | the risk on the examples alone fails | mean certificate | mean true risk |",
        "|---|---:|---:|---:|---:|",
    ]
    for r in results:
        cells = (f"{100 * r.rate:.1f} %", f"{100 * r.naive / r.repetitions:.1f} %")
        lines.append(f"| {r.name} | {' | '.join(cells)} | {r.mean_bound:.3f} | {r.mean_risk:.3f} |")
    return "\n".join(lines)


def draw(results: list[Result], path: Path) -> None:
    """Draws the rates with two standard errors beside δ."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 0.38 * len(results) + 1), layout="constrained")
    places = np.arange(len(results))[::-1]
    errors = [2 * math.sqrt(max(r.rate * (1 - r.rate), 1 / r.repetitions) / r.repetitions) for r in results]
    axes.errorbar([r.rate for r in results], places, xerr=errors, fmt="o", color="C0", label="certificate, ± 2 s.e.")
    axes.plot([r.naive / r.repetitions for r in results], places, "x", color="C1", label="risk on the examples")
    axes.axvline(DELTA, color="black", linewidth=1, label=f"δ = {DELTA:g}")
    axes.set_yticks(places, [r.name for r in results])
    axes.set(xlabel="share of repetitions below the true risk", xlim=(-0.02, 1.02))
    figure.legend(loc="outside upper center", ncols=3, fontsize="small")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main(arguments: list[str]) -> None:
    short = "--repetitions" in arguments
    repetitions = int(arguments[arguments.index("--repetitions") + 1]) if short else 1000
    model, results = network(), []
    for name in CASES:
        results.append(simulate(name, repetitions, model))
        print(results[-1], flush=True)
    if not short:
        versions = {name: metadata.version(name) for name in ("singularbayes", "keras", "jax", "numpy")}
        record = {"command": "python docs/scripts/coverage.py", "seed": SEED, "versions": versions}
        record |= {"delta": DELTA, "examples": NUM_DATA, "results": [asdict(result) for result in results]}
        (FOLDER / "coverage.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        draw(results, FOLDER / "coverage.png")
        fill(PAGE, "coverage.py", f"![Share of certificates below the true risk](coverage.png)\n\n{table(results)}")
    print(table(results))


if __name__ == "__main__":
    main(sys.argv[1:])
