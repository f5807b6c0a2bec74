"""How soon `Monitor` notices a change, and how often it alarms when there is none.

Two services. "beijing": the low-rank forecaster of the experiment of that name, its standard deviation over draws as
the score, from the committed arrays of one seed; Guangzhou's hours are the change. "clinc150": a bag-of-words
classifier of 150 intents, its entropy as the score; questions out of scope are the change.

Every repetition deals the in-distribution scores again: a reference, then a stream, so that the two are exchangeable by
construction, whatever the order of hours was. Then the change comes: all inputs are others, or a share of them. Hours
of Guangzhou come in random order, or from a random hour on in the order of time, where neighbours are alike. The delay
is the number of inputs after the change until the alarm; the change may come first thing, or after a stream of others,
when the martingale has seen nothing special for long.

Written down before the runs: sizes, shares, levels and the classifier's settings. The first run, of "beijing" alone,
showed that bets on very small p-values do not notice scores that are somewhat higher: hours of Guangzhou in random
order raised an alarm at α = 0.01 within 1,000 inputs in none of 200 streams. The linear bets were added then.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

import singularbayes as sb
from singularbayes.metrics import ConformalMartingale, wealth_side_by_side
from singularbayes_experiments import data
from singularbayes_experiments.records import record
from singularbayes_experiments.records.record import Record, plain

NAME = "monitoring"
RESULTS = Path(__file__).parents[3] / "results"
ALPHAS = (0.1, 0.01)


@dataclass(frozen=True)
class MonitorSettings:
    """Of the streams.

    Args:
        reference: scores that the monitor is made from; before: those of the stream until the change.
        shares: of the inputs after the change that are changed ones.
        longest: inputs after the change; who does not alarm by then is counted as missed.
    """

    repetitions: int = 1_000
    reference: int = 3_000
    before: int = 1_000
    longest: int = 1_000
    shares: tuple[float, ...] = (1.0, 0.3, 0.1)
    delays: int = 200  # repetitions of every kind of change
    seed: int = 0


Scores = tuple[np.ndarray, np.ndarray]  # in distribution; of the change, in the order of time where it has one


def beijing() -> Scores:
    """Returns the standard deviations over draws of the test windows and of Guangzhou's."""
    runs = [run for run in record.read(RESULTS / "beijing.jsonl") if "guangzhou_std" in run.arrays]
    [chosen] = [run for run in runs if (run.method, run.preset) == ("low_rank", "chosen")]
    return chosen.arrays["test_std"].astype("float64"), chosen.arrays["guangzhou_std"].astype("float64")


def clinc150(intents: data.Intents | None = None, epochs: int = 30) -> Scores:
    """Trains the classifier of bags of words; returns the entropies of validation and test questions, and of others."""
    intents = intents or data.clinc150()
    keras.utils.set_random_seed(0)
    words = CountVectorizer(binary=True, min_df=2, token_pattern=r"[^\s]+")
    (questions, y), parts = intents.train, [intents.validation[0], intents.test[0], intents.out_of_scope]
    x = words.fit_transform(questions).toarray().astype("float32")
    model = keras.Sequential(
        [
            keras.Input((x.shape[1],)),
            sb.layers.Dense(256, "relu", posterior=sb.LowRank(32, loc_lr=1.0)),
            sb.layers.Dense(len(intents.classes), posterior=sb.LowRank(64, loc_lr=1.0)),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(3e-3), loss)
    model.fit(x, y, batch_size=128, epochs=epochs, verbose=0, callbacks=[sb.KLSchedule(beta=0.1, warmup=5)])
    found = []
    for part in parts:
        p = sb.predict(model, words.transform(part).toarray().astype("float32"), 50)
        assert isinstance(p, sb.ClassPredictive)
        found.append(p.entropy)
    return np.concatenate(found[:2]), found[2]


SERVICES: dict[str, Callable[[], Scores]] = {"beijing": beijing, "clinc150": clinc150}


def false_alarms(inside: np.ndarray, s: MonitorSettings) -> dict[float, float]:
    """Returns, for every α, the share of exchangeable streams with an alarm: reference and stream dealt at random."""
    rng = np.random.default_rng(s.seed)
    references, streams = [], []
    for _ in range(s.repetitions):
        order = rng.permutation(len(inside))[: s.reference + s.before]
        references.append(inside[order[: s.reference]])
        streams.append(inside[order[s.reference :]])
    highest = _wealth(references, streams).max(axis=1)
    return {alpha: float(np.mean(highest >= -np.log(alpha))) for alpha in ALPHAS}


def delays(
    inside: np.ndarray, outside: np.ndarray, s: MonitorSettings, *, share: float, before: int, in_time: bool, seed: int
) -> tuple[dict[float, np.ndarray], np.ndarray]:
    """Returns, for every α, the inputs from the change to the alarm, inf where none comes; and one path of wealth.

    Streams that alarm before the change are left out: `false_alarms` counts those.
    """
    rng = np.random.default_rng([s.seed, seed])
    references, streams = [], []
    for _ in range(s.delays):
        order = rng.permutation(len(inside))
        reference, rest = inside[order[: s.reference]], inside[order[s.reference :]]
        first = rng.integers(len(outside))
        hours = np.roll(outside, -first) if in_time else outside[rng.permutation(len(outside))]
        late = min(s.longest, len(hours))
        changed = rng.uniform(size=late) < share
        references.append(reference)
        streams.append(np.concatenate([rest[:before], np.where(changed, hours[:late], np.resize(rest[before:], late))]))
    wealth = _wealth(references, streams)
    return {alpha: _first_alarms(wealth, alpha, before) for alpha in ALPHAS}, wealth[0]


def _wealth(references: list[np.ndarray], streams: list[np.ndarray]) -> np.ndarray:
    """Returns the logarithm of the wealth along every stream against its own reference."""
    martingales = [ConformalMartingale.from_reference(each, seed=i) for i, each in enumerate(references)]
    return wealth_side_by_side(martingales, np.stack(streams))


def _first_alarms(wealth: np.ndarray, alpha: float, before: int) -> np.ndarray:
    """Returns the inputs from the change to the alarm, inf where none comes, of streams without an alarm before."""
    above = wealth >= -np.log(alpha)
    quiet = ~above[:, :before].any(axis=1)
    first = above[quiet, before:].argmax(axis=1) + 1.0
    return np.where(above[quiet, before:].any(axis=1), first, np.inf)


def run(name: str, settings: MonitorSettings = MonitorSettings(), scores: Scores | None = None) -> Record:
    """Returns the record of one service."""
    start = time.perf_counter()
    inside, outside = scores or SERVICES[name]()
    metrics = {f"false alarms, α = {alpha:g}": share for alpha, share in false_alarms(inside, settings).items()}
    metrics["auroc"] = float(sb.metrics.auroc_ood(inside, outside))
    arrays = {"inside": inside.astype("float32"), "outside": outside.astype("float32")}
    for i, (what, options) in enumerate(_changes(name, settings).items()):
        found, path = delays(inside, outside, settings, seed=i, **options)
        arrays[f"path/{what}"] = path.astype("float32")
        for alpha, each in found.items():
            metrics |= _quantiles(f"{what}, α = {alpha:g}", each)
    seconds = time.perf_counter() - start
    return Record(NAME, name, settings.seed, plain(settings), metrics, 0, seconds, arrays=arrays)


def _changes(name: str, s: MonitorSettings) -> Mapping[str, dict]:
    """Returns the kinds of change by name."""
    found = {f"{share:.0%} changed": {"share": share, "before": 0, "in_time": False} for share in s.shares}
    found["all changed, late"] = {"share": 1.0, "before": s.before, "in_time": False}
    if name == "beijing":
        found["all changed, in the order of time"] = {"share": 1.0, "before": 0, "in_time": True}
    return found


def _quantiles(what: str, found: np.ndarray) -> dict[str, float]:
    """Returns how many inputs half and nine tenths of the streams took, where so many alarmed, and the share missed."""
    shares = {f"{what}: missed": float(np.isinf(found).mean())}
    for level in (0.5, 0.9):
        value = float(np.quantile(found, level, method="higher"))
        if np.isfinite(value):
            shares[f"{what}: {level:.0%} by"] = value
    return shares


def run_monitoring(folder: Path) -> Iterator[str]:
    """Runs both services, writes their records and yields a line for each."""
    for name in SERVICES:
        one = run(name)
        record.append(one, folder)
        alarms = ", ".join(f"{key} {value:.3f}" for key, value in one.metrics.items() if key.startswith("false"))
        yield f"{name}: {alarms}, {one.seconds:.0f} s"
