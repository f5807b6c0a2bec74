"""How near a student comes to its teacher: `distill` on MNIST, Fashion-MNIST, SST-2 and Beijing.

The teacher is the low-rank network of the experiment with the settings that were chosen on validation, or fewer epochs
of them. Students learn from its training inputs and from perturbed copies of them, one each; none sees an
out-of-distribution set, a validation or a test input. Written down before any run: the perturbations, one learning
rate, and three students for each teacher, compared on all four:

- "data" learns from the training inputs alone;
- "perturbed" from the copies too;
- "means" is no student: the collapsed mean network in one pass, what a student has to beat.

Limits fixed beforehand: the NLL within .005 of the teacher's and the AUROC of the epistemic score within .01 of it, on
test data. Nothing is chosen by these runs: there are no tuning runs; "perturbed" is what the docs recommend, whatever
comes out.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np

from singularbayes.convert import collapse, distill
from singularbayes.models import count_stored, count_trained
from singularbayes_experiments.methods import methods, study
from singularbayes_experiments.methods.trainers import OneByOne
from singularbayes_experiments.problems import text
from singularbayes_experiments.problems.registry import EXPERIMENTS
from singularbayes_experiments.records import record
from singularbayes_experiments.records.record import Record, plain

NAME = "students"
KINDS = ("means", "data", "perturbed")
_FIRST_PIECE = 1_996  # of BERT's vocabulary: whole words begin here


def perturbed_images(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns, by turns, a mix of two images, an image with its blocks of 7 × 7 moved, and one with noise."""
    images = x.reshape(-1, 28, 28)
    share = rng.uniform(0.3, 0.7, (len(x), 1, 1)).astype(x.dtype)
    mixed = share * images + (1 - share) * images[rng.permutation(len(x))]
    blocks = images.reshape(-1, 4, 7, 4, 7).swapaxes(2, 3).reshape(-1, 16, 7, 7)
    order = rng.permuted(np.tile(np.arange(16), (len(x), 1)), axis=1)
    moved = np.take_along_axis(blocks, order[:, :, None, None], axis=1)
    moved = moved.reshape(-1, 4, 4, 7, 7).swapaxes(2, 3).reshape(images.shape)
    high = images.max() * rng.uniform(0, 1, (len(x), 1, 1)).astype(x.dtype)
    noisy = images + high * rng.uniform(0, 1, images.shape).astype(x.dtype)
    which = np.arange(len(x))[:, None, None] % 3
    return np.choose(which, [mixed, moved, np.minimum(noisy, images.max())]).reshape(x.shape)


def perturbed_texts(x: np.ndarray, rng: np.random.Generator, vocabulary: int = 30_522) -> np.ndarray:
    """Returns texts in which a share of the pieces, anything from none to all, are others; marks and padding stay."""
    share = rng.uniform(0, 1, (len(x), 1))
    last = (x != text.PADDING).sum(axis=1, keepdims=True) - 1  # [SEP]
    place = np.arange(x.shape[1])
    inside = (place > 0) & (place < last)
    others = rng.integers(min(_FIRST_PIECE, vocabulary - 1), vocabulary, x.shape).astype(x.dtype)
    return np.where(inside & (rng.uniform(size=x.shape) < share), others, x)


def perturbed_windows(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns windows whose features are stretched, and moved by as much for all hours; x is standardised."""
    shape = (len(x), 1, x.shape[-1])
    size = rng.uniform(0, 2, (len(x), 1, 1))
    return (x * rng.uniform(0.5, 2.0, shape) + size * rng.normal(size=shape)).astype(x.dtype)


@dataclass(frozen=True)
class StudentSettings:
    """Of teacher and students.

    Args:
        teacher: changes of the chosen settings of `low_rank`.
        epochs: of a student; "data" has twice as many, so that both make the same number of steps.
    """

    teacher: Mapping[str, Any]
    epochs: int = 15
    batch_size: int = 256
    learning_rate: float = 1e-3
    draws: int = 100


@dataclass(frozen=True)
class Case:
    """An experiment, what perturbs its inputs, and the names of the scores that are compared."""

    perturb: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    settings: StudentSettings
    detection: str  # the AUROC that has a limit fixed beforehand
    nll: str = "nll"


CASES = {
    "mnist": Case(perturbed_images, StudentSettings({"epochs": 20, "warmup": 8}), "fashion_mnist/auroc_ood_mi"),
    "fashion_mnist": Case(perturbed_images, StudentSettings({"epochs": 20, "warmup": 8}), "mnist/auroc_ood_mi"),
    "sst2": Case(perturbed_texts, StudentSettings({"epochs": 8}, epochs=6), "auroc_ood_mi"),
    "beijing": Case(perturbed_windows, StudentSettings({}), "auroc_ood_epistemic", "nll_total"),
}


def run(name: str, seed: int, settings: StudentSettings | None = None, teacher_settings=None) -> Iterator[Record]:
    """Trains a teacher and its students, and yields a record for each student when it is tested.

    Args:
        teacher_settings: all settings of the teacher instead of the chosen ones.
    """
    case = CASES[name]
    settings = settings or case.settings
    problem: Any = EXPERIMENTS[name].problem
    chosen = teacher_settings or EXPERIMENTS[name].settings("chosen", "low_rank")
    own = replace(chosen, draws=settings.draws, **settings.teacher)
    trainer = OneByOne(problem.network_of("low_rank", own), problem.training(own), own)
    [teacher] = methods.find_method("low_rank").train(trainer, [seed])
    padding = {} if problem.padding is None else {"padding": problem.padding}
    scores = {
        "teacher": problem.tested(partial(study.predict_sets, teacher, seed, {"draws": own.draws, **padding}), own)[0]
    }
    x = trainer.data.x
    more = case.perturb(x, np.random.default_rng([seed, len(x)]))
    loss = trainer.data.loss()
    common: dict[str, Any] = {"draws": own.draws, "seed": seed, "batch_size": settings.batch_size}
    for kind in KINDS:
        keras.utils.set_random_seed(seed)
        start = time.perf_counter()
        if kind == "means":
            student = collapse(teacher)
            student.compile(loss=loss)
        else:
            extra = more if kind == "perturbed" else None
            epochs = settings.epochs * (1 if kind == "perturbed" else 2)
            student = distill(
                teacher, x, epochs=epochs, learning_rate=settings.learning_rate, unlabelled=extra, **common
            )
        seconds = time.perf_counter() - start
        scores["student"], arrays = problem.tested(partial(study.predict_sets, student, seed, padding), own)
        metrics = {f"{who} {score}": value for who, each in scores.items() for score, value in each.items()}
        metrics["teacher seconds"] = trainer.seconds
        kept = {**plain(settings), "teacher": plain(own), "scores": [case.nll, case.detection]}
        rest: dict[str, Any] = {"arrays": arrays, "parameters": count_trained(student), "stored": count_stored(student)}
        yield Record(NAME, f"{name}, {kind}", seed, kept, metrics, seconds=seconds, preset="chosen", **rest)


def run_students(names: Sequence[str] | None, seeds: Sequence[int], folder: Path) -> Iterator[str]:
    """Runs the cases and seeds that have no records in the folder yet, and yields a line for each student."""
    have = {(one.method, one.seed) for one in record.read(folder)} if (folder / record.LINES).is_file() else set()
    for seed in seeds:
        for name in names or CASES:
            if all((f"{name}, {kind}", seed) in have for kind in KINDS):
                continue
            for one in run(name, seed):
                record.append(one, folder)
                yield f"{one.method}, seed {one.seed}: {compared(one)}"


def compared(one: Record) -> str:
    """Returns the scores that have a limit fixed beforehand, of the teacher and of the student."""
    pairs = [(score, *gap(one, score)) for score in one.settings["scores"]]
    return "; ".join(f"{score} {teacher:.4f} → {student:.4f}" for score, teacher, student in pairs)


def gap(one: Record, score: str) -> tuple[float, float]:
    """Returns the score of the teacher and that of the student; NaN where a plain network has none."""
    return one.metrics[f"teacher {score}"], one.metrics.get(f"student {score}", float("nan"))
