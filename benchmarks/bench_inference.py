"""Uncertainty at the price of one pass: every row of the aims on a CPU, ratios within one run.

Training steps and predictions on all backends, a deterministic body with a Bayesian head, the latency of one request,
the LSTM against the library posteriors, and a student against the plain network in onnxruntime. About seven minutes on
two quiet cores; `--only training` takes one group.
"""

from dataclasses import dataclass, field
from typing import Any

from cyclopts import App
from interleaved import report
from lineup import compare
from workers import Rival

app = App(help=__doc__)
BACKENDS = ("jax", "torch", "tensorflow")
PATIENCE = 4.0  # seconds of one rival
MLP, SMALL, LSTM, BODY = "mlp 784-1200-1200-10", "mlp 44-128-128-1", "lstm 2x64 on 24x15", "body 4x2048 and head"


def on_backends(*variants: str) -> dict[str, Rival]:
    return {f"{b}, {variant}": Rival("ours", variant, backend=b) for b in BACKENDS for variant in variants}


def to_keras(**aims: float | None) -> dict[str, float | None]:
    """Returns the ratios of low rank to the Keras network on the same backend, with their aims."""
    return {f"{backend}, low_rank / {backend}, keras": aim for backend, aim in aims.items()}


def to_jax(aim: float) -> dict[str, float | None]:
    """Returns the ratios of the other backends to JAX."""
    return {f"{backend}, low_rank / jax, low_rank": aim for backend in BACKENDS[1:]}


@dataclass(frozen=True)
class Row:
    """One comparison: who, what work, and the aims of its ratios."""

    network: str
    rivals: dict[str, Rival]
    goals: dict[str, float | None]
    work: dict[str, Any] = field(default_factory=dict)  # examples, draws and batches of a prediction

    @property
    def unit(self) -> str:
        return "prediction" if self.work else "step"

    def order(self) -> dict[str, Any]:
        job = {"job": "prediction" if self.work else "training", "network": self.network}
        return {**job, **self.work}


def _work(examples: int, draws: int, *batches: int) -> dict[str, Any]:
    return {"examples": examples, "draws": draws, "batches": batches or (examples,)}


ROWS = {
    "training step, MLP": Row(MLP, on_backends("low_rank", "keras"), to_keras(jax=None, torch=0.5, tensorflow=0.45)),
    "training step, small MLP": Row(
        SMALL, on_backends("low_rank", "keras"), to_keras(jax=None, torch=1.6, tensorflow=1.3)
    ),
    "prediction, MLP, 1000 × 20 draws": Row(MLP, on_backends("low_rank"), to_jax(2.5), _work(1000, 20, 250, 1000)),
    "prediction, small MLP, 1000 × 20 draws": Row(
        SMALL, on_backends("low_rank"), to_jax(2.5), _work(1000, 20, 250, 1000)
    ),
    "prediction, LSTM, 128 × 20 draws": Row(LSTM, on_backends("low_rank"), to_jax(2.5), _work(128, 20, 64, 128)),
    "prediction, body and head, 256 × 100 draws / one pass": Row(
        BODY, on_backends("low_rank", "keras"), to_keras(jax=1.3, torch=1.3, tensorflow=1.3), _work(256, 100)
    ),
    "prediction, MLP, 1 image × 200 draws / one pass": Row(
        MLP,
        {
            "jax, low_rank": Rival("ours", "low_rank", backend="jax"),
            "jax, keras": Rival("ours", "keras", backend="jax"),
        },
        to_keras(jax=2.0),
        _work(1, 200),
    ),
    "prediction, LSTM, 512 × 50 draws / posteriors": Row(
        LSTM,
        {"jax, low_rank": Rival("ours", "low_rank", backend="jax"), "posteriors": Rival("posteriors")},
        {"jax, low_rank / posteriors": 1.0},
        _work(512, 50, 64, 128, 256, 512),
    ),
    "prediction, MLP in onnxruntime, 1000: student / plain network": Row(
        MLP,
        {name: Rival("onnx_files", name, backend="torch") for name in ("student", "plain")},
        {"student / plain": 1.1},
        _work(1000, 1),
    ),
}


@app.default
def main(only: str = "", repeats: int = 9) -> None:
    """Measures every row whose name contains `only`."""
    found: dict[str, dict[str, dict]] = {"step": {}, "prediction": {}}
    for name, row in ROWS.items():
        if only in name:
            rows, rest = compare(row.rivals, row.order(), row.goals, repeats, PATIENCE)
            found[row.unit][name] = {f"{row.unit}s": rows, **rest}
    suffix = f"_{only.replace(' ', '_')}" if only else ""
    for unit, results in found.items():
        if results:
            report(f"inference_{unit}{suffix}", results, unit)


if __name__ == "__main__":
    app()
