"""Uncertainty at the price of one pass: every row of the aims on a CPU, ratios within one run.

Training steps and predictions on all backends, a deterministic body with a Bayesian head, the latency of one request,
the LSTM against the library posteriors, and a student against the plain network in onnxruntime. About seven minutes on
two quiet cores; names of rows take those alone, such as `python benchmarks/bench_inference.py step_mlp lstm`.
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
LONGER = 15.0  # where repeats of the slowest take more than a second
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

    title: str
    network: str
    rivals: dict[str, Rival]
    goals: dict[str, float | None]
    work: dict[str, Any] = field(default_factory=dict)  # examples, draws and batches of a prediction
    patience: float = PATIENCE

    @property
    def unit(self) -> str:
        return "prediction" if self.work else "step"

    def order(self) -> dict[str, Any]:
        return {"job": "prediction" if self.work else "training", "network": self.network, **self.work}


def _work(examples: int, draws: int, *batches: int) -> dict[str, Any]:
    return {"examples": examples, "draws": draws, "batches": batches or (examples,)}


def _step(title: str, network: str, patience: float = PATIENCE, **aims: float | None) -> Row:
    return Row(title, network, on_backends("low_rank", "keras"), to_keras(**aims), patience=patience)


def _prediction(title: str, network: str, work: dict[str, Any]) -> Row:
    return Row(title, network, on_backends("low_rank"), to_jax(2.5), work)


# By name, which its record has too: inference_NAME.json.
ROWS = {
    "step_mlp": _step("training step, MLP", MLP, jax=None, torch=0.5, tensorflow=0.45),
    "step_small_mlp": _step("training step, small MLP", SMALL, LONGER, jax=None, torch=1.6, tensorflow=1.3),
    "mlp": _prediction("prediction, MLP, 1000 × 20 draws", MLP, _work(1000, 20, 250, 1000)),
    "small_mlp": _prediction("prediction, small MLP, 1000 × 20 draws", SMALL, _work(1000, 20, 250, 1000)),
    "lstm": _prediction("prediction, LSTM, 128 × 20 draws", LSTM, _work(128, 20, 64, 128)),
    "head": Row(
        "prediction, body and head, 256 × 100 draws / one pass",
        BODY,
        on_backends("low_rank", "keras"),
        to_keras(jax=1.3, torch=1.3, tensorflow=1.3),
        _work(256, 100),
    ),
    "request": Row(
        "prediction, MLP, 1 image × 200 draws / one pass",
        MLP,
        on_backends("low_rank", "keras"),
        to_keras(jax=2.0, torch=None, tensorflow=None),
        _work(1, 200),
    ),
    "lstm_posteriors": Row(
        "prediction, LSTM, 512 × 50 draws / posteriors",
        LSTM,
        {b: Rival("ours", "low_rank", backend=b) for b in BACKENDS[:2]} | {"posteriors": Rival("posteriors")},
        {"jax / posteriors": 1.0, "torch / posteriors": None},
        _work(512, 50, 64, 128, 256, 512),
        LONGER,
    ),
    "student": Row(
        "prediction, MLP in onnxruntime, 1000: student / plain network",
        MLP,
        {name: Rival("onnx_files", name, backend="torch") for name in ("student", "plain")},
        {"student / plain": 1.1},
        _work(1000, 1),
    ),
}


@app.default
def main(*only: str, repeats: int = 15) -> None:
    """Measures the rows of these names, or all of them; each has a record of its own."""
    for name in only or ROWS:
        row = ROWS[name]
        rows, rest = compare(row.rivals, row.order(), row.goals, repeats, row.patience)
        report(f"inference_{name}", {row.title: {f"{row.unit}s": rows, **rest}}, row.unit)


if __name__ == "__main__":
    app()
