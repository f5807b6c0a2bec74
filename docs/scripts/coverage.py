"""How often certificates fail, by simulation through `certify`: the script of the figure in certificates.md.

    pip install ".[plots]"
    python docs/scripts/coverage.py                     # 1,000 repetitions: writes coverage.json and coverage.png,
                                                        # and the table into certificates.md
    python docs/scripts/coverage.py --only "hold-out"   # these forms, with "; " between; the others' results stay
    python docs/scripts/coverage.py --lines new.jsonl   # adds results to that file instead, from several processes
    python docs/scripts/coverage.py --take new.jsonl    # and puts them into coverage.json
    python docs/scripts/coverage.py --repetitions 20    # short: prints the table and changes nothing here

A certificate fails where it is below the true risk, which is known in three problems:

- Labels are sign(x₁) of Gaussian inputs, a tenth of them flipped. In every repetition the mean of the posterior is the
  least-squares solution of 40 fresh examples: those that certify it, or others for a hold-out.
- The same with targets x₁ plus noise.
- PAC-Bayes bounds of the averaged predictor need more examples, and a predictor that memorises to be put to the test:
  the input is one of 2,001 words, one common and 2,000 rare ones, and the label is 1. The prior says 0 of every word.
  The posterior of a word moves to 1 if the word is among the 2,000 examples that certify it, so the average is right on
  all of them, and wrong on nearly all rare words that are not.
"""

import functools
import json
import math
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
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
PAGE, RECORD = FOLDER / "certificates.md", FOLDER / "coverage.json"
DELTA, NUM_DATA, INPUTS, SCALE, FLIPPED, NOISE, AVERAGE, DRAWS = 0.1, 40, 6, 0.3, 0.1, 0.3, 11, 200
LOSS = sb.BoundedError(limit=1.0)
WORDS, RARE, WORD_EXAMPLES, WORD_AVERAGE, WORD_DRAWS = 2000, 0.06, 2000, 101, 500
PRIOR_MEAN, SEEN_MEAN, COMMON_MEAN = -0.3, 1.2, 6.0  # of a word's logit; all scales are 1
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
    words: bool = False


def randomised_risk(model: keras.Model, loc: np.ndarray, seed: int) -> float:
    """A draw w errs on the angle between w and the first axis over π, and where labels were flipped."""
    w = loc + NETWORKS
    return FLIPPED + (1 - 2 * FLIPPED) * float(np.arccos(w[:, 0] / np.linalg.norm(w, axis=1)).mean()) / math.pi


def risk_of_predict(model: keras.Model, loc: np.ndarray, seed: int) -> float:
    """The predictor of one seed, on fresh inputs."""
    p = sb.predict(model, OTHERS, draws=AVERAGE, seed=seed, likelihood="bernoulli_logits").mean
    return FLIPPED + (1 - 2 * FLIPPED) * float((p.argmax(axis=-1) != (OTHERS[:, 0] > 0)).mean())


def regression_risk(model: keras.Model, loc: np.ndarray, seed: int) -> float:
    """The error of a draw w is Gaussian; E min(s|Z|, 1) = 2 s (φ(0) − φ(1/s)) + 2 (1 − Φ(1/s))."""
    s = np.sqrt(np.square(loc + NETWORKS - np.eye(INPUTS)[0]).sum(axis=1) + NOISE**2) / LOSS.limit
    return float((2 * s * (norm.pdf(0) - norm.pdf(1 / s)) + 2 * norm.sf(1 / s)).mean())


def risk_of_words(model: keras.Model, loc: np.ndarray, seed: int) -> float:
    """The mean over predictors of 101 draws each: words of one mean are wrong equally often."""
    wrong = np.array([_WRONG[mean] for mean in np.round(loc, 6)])
    return (1 - RARE) * wrong[0] + RARE * float(wrong[1:].mean())


def _share_wrong(mean: float) -> float:
    """Returns how often the mean of 101 draws of a word's probability is below a half."""
    rng = np.random.default_rng(SEED)
    return float(np.mean([expit(mean + rng.normal(size=(1000, WORD_AVERAGE))).mean(axis=1) < 0.5 for _ in range(50)]))


_WRONG = {mean: _share_wrong(mean) for mean in (PRIOR_MEAN, SEEN_MEAN, COMMON_MEAN)}
_AVERAGED = {"average": WORD_AVERAGE, "duplicates": "independent"}
_REGRESSION = {"loss": LOSS, "likelihood": "gaussian"}
CASES = {
    "PAC-Bayes-kl": Case({"form": "kl"}, randomised_risk),
    "Catoni, C = 1": Case({"form": "catoni", "constant": 1.0}, randomised_risk),
    "Catoni, grid": Case({"form": "catoni"}, randomised_risk),
    "best": Case({}, randomised_risk),
    "best, unseen": Case({"unseen": True}, randomised_risk, fitted=False),
    "hold-out": Case({"form": "holdout"}, randomised_risk, fitted=False),
    "averaged, PAC-Bayes-kl": Case({"form": "kl", **_AVERAGED}, risk_of_words, words=True),
    "averaged, tandem": Case({"form": "tandem", **_AVERAGED}, risk_of_words, words=True),
    "averaged, best": Case(_AVERAGED, risk_of_words, words=True),
    "averaged, hold-out": Case({"form": "holdout", "average": AVERAGE}, risk_of_predict, fitted=False),
    "regression, PAC-Bayes-kl": Case({"form": "kl", **_REGRESSION}, regression_risk, regression=True),
    "regression, hold-out": Case({"form": "holdout", **_REGRESSION}, regression_risk, fitted=False, regression=True),
}


def simulate(name: str, repetitions: int) -> Result:
    """Returns how often certificates of one form fail."""
    case = CASES[name]
    model = _network(case.words)
    factor = model.layers[0].posterior.factors[0]
    draws = WORD_DRAWS if case.words else DRAWS
    rng = np.random.default_rng([7, list(CASES).index(name)])
    values = []
    for repetition in range(repetitions):
        (x, y), other = _examples(rng, case), _examples(rng, case)
        loc = _fitted(case, *((x, y) if case.fitted else other))
        factor.set_loc(loc[:, None])
        bound = sb.certify(
            model, x, y, DELTA, draws, seed=repetition, **{"likelihood": "bernoulli_logits", **case.options}
        )
        naive = next(
            bound.terms[key] for key in ("mistakes of the draws", "loss of the draws", "mean") if key in bound.terms
        )
        values.append((bound.value, naive * bound.terms.get("factor", 1.0), case.truth(model, loc, repetition)))
    bounds, naives, truths = np.array(values).T
    return Result(
        name, repetitions, int((bounds < truths).sum()), int((naives < truths).sum()), bounds.mean(), truths.mean()
    )


@functools.cache  # one program serves all forms
def _network(words: bool) -> keras.Model:
    """Returns a linear model whose posterior has the scale 0.3 in all weights, or a logit of scale 1 for every word."""
    start = keras.initializers.Constant(math.log(math.expm1(1.0 if words else SCALE)))
    if words:
        mean = keras.initializers.Constant(PRIOR_MEAN)
        table = sb.FullRank(prior=sb.Centred(sb.Normal(1.0)), initializer=mean, rho_initializer=start)
        embedding = layers.Embedding(WORDS + 1, 1, posterior=table)
        return keras.Sequential([keras.Input((1,), dtype="int32"), embedding, keras.layers.Flatten()])
    posterior = sb.FullRank(prior=sb.Normal(0.5), rho_initializer=start)
    return keras.Sequential([keras.Input((INPUTS,)), layers.Dense(1, use_bias=False, posterior=posterior)])


def _examples(rng: np.random.Generator, case: Case) -> tuple[np.ndarray, np.ndarray]:
    if case.words:
        rare = rng.random(WORD_EXAMPLES) < RARE
        return (rare * rng.integers(1, WORDS + 1, WORD_EXAMPLES))[:, None], np.ones(WORD_EXAMPLES, int)
    x = rng.normal(size=(NUM_DATA, INPUTS)).astype("float32")
    if case.regression:
        return x, x[:, 0] + NOISE * rng.normal(size=NUM_DATA)
    return x, ((x[:, 0] > 0) ^ (rng.random(NUM_DATA) < FLIPPED)).astype(int)


def _fitted(case: Case, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns the means of the weights."""
    if case.words:
        loc = np.full(WORDS + 1, PRIOR_MEAN)
        loc[x[:, 0]], loc[0] = SEEN_MEAN, COMMON_MEAN
        return loc
    return np.linalg.lstsq(x, y if case.regression else 2.0 * y - 1, rcond=None)[0]


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


def kept_results() -> dict[str, dict[str, Any]]:
    """Returns the results of the record, by form."""
    if not RECORD.is_file():
        return {}
    return {result["name"]: result for result in json.loads(RECORD.read_text(encoding="utf-8"))["results"]}


def keep(new: dict[str, dict[str, Any]]) -> None:
    """Writes results into the record beside those of other forms, and figure and table where all are there."""
    found = kept_results() | new
    record = {"command": "python docs/scripts/coverage.py", "seed": SEED, "delta": DELTA}
    record["results"] = [found[name] for name in CASES if name in found]
    RECORD.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if len(record["results"]) == len(CASES):
        results = [as_result(one) for one in record["results"]]
        draw(results, FOLDER / "coverage.png")
        fill(PAGE, "coverage.py", f"![Share of certificates below the true risk](coverage.png)\n\n{table(results)}")


def as_result(line: dict[str, Any]) -> Result:
    """Returns the result of a line of the record, which has versions, machine and sizes beside it."""
    return Result(**{one.name: line[one.name] for one in fields(Result)})


def option(arguments: list[str], name: str) -> str | None:
    return arguments[arguments.index(name) + 1] if name in arguments else None


def main(arguments: list[str]) -> None:
    short, only, lines, taken = (option(arguments, f"--{name}") for name in ("repetitions", "only", "lines", "take"))
    if taken is not None:
        found = [json.loads(line) for line in Path(taken).read_text(encoding="utf-8").splitlines()]
        keep({line["name"]: line for line in found})
        return
    results = []
    for name in list(CASES) if only is None else only.split("; "):
        results.append(simulate(name, 1000 if short is None else int(short)))
        print(results[-1], flush=True)
        line = asdict(results[-1]) | circumstances(CASES[name])
        if lines is not None:
            with Path(lines).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
        elif short is None:
            keep({name: line})
    print(table(results))


def circumstances(case: Case) -> dict[str, Any]:
    """Returns sizes, versions and machine."""
    versions = {"singularbayes": sb.__version__} | {name: metadata.version(name) for name in ("keras", "jax", "numpy")}
    sizes = {"examples": WORD_EXAMPLES, "draws": WORD_DRAWS} if case.words else {"examples": NUM_DATA, "draws": DRAWS}
    return sizes | {"versions": versions, "machine": f"{os.cpu_count()} CPU cores, {platform.machine()}"}


if __name__ == "__main__":
    main(sys.argv[1:])
