"""How time and memory grow: a training step with rank, width and length of the sequence, prediction with the draws.

All points of a curve are timed in turn. Memory is what XLA reports: weights, the optimizer's state, data
and the program's own arrays; for prediction the drawn weights and the program's own arrays.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras
import numpy as np
from builders import keras_transformer, mlp
from cyclopts import App
from growth_figure import write
from interleaved import keep, seconds, summary
from rich.console import Console
from rich.progress import track
from rich.table import Table
from shapes import NUM_DATA, Mlp, Shape, Transformer, targets
from singularbayes_experiments.problems import reviews
from step import Step

import singularbayes as sb
from singularbayes.posteriors import draw_keys
from singularbayes.prediction import chunk_sizes, sampler_of

app = App(help=__doc__)
METHODS = ("low_rank", "full_rank", "keras")
RANK, WIDTH, IMAGES = 16, 1024, 256


@dataclass(frozen=True)
class Point:
    """One measurement: `run` gives seconds."""

    run: Callable[[], float]
    bytes: int


def _dense(width: int = WIDTH, rank: int = RANK) -> Mlp:
    return Mlp(batch=128, steps=1, widths=(784, width, width, 10), ranks=(rank, rank, min(rank, 10)))


def _reader(length: int) -> Transformer:
    return Transformer(batch=16, steps=1, vocabulary=1000, length=length, width=128, blocks=2, feed_forward=256)


def _network(method: str, shape: Shape) -> keras.Model:
    keras.utils.set_random_seed(0)
    if isinstance(shape, Mlp):
        return mlp(shape)[method]()
    assert isinstance(shape, Transformer)
    if method == "keras":
        return keras_transformer(shape)
    sizes = {name: getattr(shape, name) for name in ("vocabulary", "width", "blocks", "feed_forward", "length")}
    return reviews.network(method, reviews.ReviewSettings(**sizes))


def _step(method: str, shape: Shape) -> Point:
    step = Step(_network(method, shape), shape.inputs(shape.batch), targets(shape, shape.batch), NUM_DATA)
    step.run(2)
    steps = max(1, round(0.2 / step.seconds(2, before=1)))  # a fifth of a second a repeat
    return Point(partial(step.seconds, steps, before=1), step.bytes)


def _prediction(method: str, draws: int) -> Point:
    shape = _dense()
    model, x = _network(method, shape), shape.inputs(IMAGES)

    def run() -> float:
        start = time.perf_counter()
        sb.predict(model, x, draws, likelihood="categorical_logits", batch_size=IMAGES)
        return time.perf_counter() - start

    run()
    return Point(run, _prediction_bytes(model, x, draws))


def _prediction_bytes(model: keras.Model, x: np.ndarray, draws: int) -> int:
    """Returns the bytes of the weights drawn at a time, and of the program that runs them."""
    chunk, batch = chunk_sizes(model, x, len(x), draws, IMAGES)
    sampler: Any = sampler_of(model)
    weights = sampler.draw(draw_keys(0, chunk))
    held = sum(array.nbytes for array in keras.tree.flatten(weights[1]))  # without the values of the model
    return held + sampler.scratch_bytes(weights, x[:batch])


@dataclass(frozen=True)
class Curve:
    """What grows, what is measured, and which methods take part."""

    unit: str
    values: tuple[int, ...]
    point: Callable[[str, int], Point]
    methods: tuple[str, ...] = METHODS


CURVES = {
    "rank": Curve("step", (2, 8, 32, 128, 256), lambda m, r: _step(m, _dense(rank=r))),
    "width": Curve("step", (256, 512, 1024, 2048), lambda m, w: _step(m, _dense(width=w))),
    "length": Curve("step", (16, 32, 64, 128, 256), lambda m, t: _step(m, _reader(t))),
    "draws": Curve("prediction", (1, 4, 16, 64, 256), _prediction, ("low_rank", "full_rank")),
}


def _points(curve: Curve) -> Iterator[tuple[str, int]]:
    for method in curve.methods:
        for value in curve.values:
            yield method, value


def measured(name: str, curve: Curve, repeats: int) -> list[dict[str, Any]]:
    """Returns one row per point of a curve."""
    same = name == "rank"  # which only low rank has; the others are one point each
    wanted = [(m, v) for m, v in _points(curve) if not same or m == "low_rank" or v == curve.values[0]]
    console = Console(stderr=True)
    points = {
        f"{m} {v}": curve.point(m, v) for m, v in track(wanted, description=name, console=console, transient=True)
    }
    times, _ = seconds({key: point.run for key, point in points.items()}, repeats, patience=15.0, label=name)
    rows = summary(times)
    return [{"method": m, name: v, **rows[f"{m} {v}"], "bytes": points[f"{m} {v}"].bytes} for m, v in wanted]


@app.default
def main(only: str = "", repeats: int = 7) -> None:
    """Measures every curve whose name contains `only`; keeps a record, and all of them as a figure."""
    results = {name: measured(name, curve, repeats) for name, curve in CURVES.items() if only in name}
    for name, rows in results.items():
        table = Table(
            "method", name, f"ms a {CURVES[name].unit} (median)", "quartiles", "MB", title=f"growth with {name}"
        )
        for row in rows:
            spread = f"{row['q1_ms']:.2f} to {row['q3_ms']:.2f}"
            table.add_row(row["method"], str(row[name]), f"{row['median_ms']:.2f}", spread, f"{row['bytes'] / 1e6:.1f}")
        Console().print(table)
    keep("growth" + (f"_{only}" if only else ""), results)
    if not only:
        write(results)


if __name__ == "__main__":
    app()
