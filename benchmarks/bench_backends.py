"""What each backend of Keras costs: a training step of `fit`, and prediction of many draws.

JAX runs all draws of a group as one program, PyTorch and TensorFlow one draw after another. JAX also with ten steps an
execution (`compile(steps_per_execution=10)`), which spares small networks the way back to Python. A backend that is not
installed is named and left out.
"""

from typing import Any

from cyclopts import App
from interleaved import report
from lineup import compare
from workers import Rival

app = App(help=__doc__)
BACKENDS = ("jax", "torch", "tensorflow")
NETWORKS = {
    "mlp 784-1200-1200-10": {"examples": 1000, "draws": 20, "batches": (250, 1000)},
    "mlp 44-128-128-1": {"examples": 1000, "draws": 20, "batches": (250, 1000)},
    "lstm 2x64 on 24x15": {"examples": 128, "draws": 20, "batches": (64, 128)},
}
PATIENCE = 6.0  # seconds of one rival


def rivals(*variants: str) -> dict[str, Rival]:
    return {f"{b}, {variant}": Rival("ours", variant, backend=b) for b in BACKENDS for variant in variants}


@app.default
def main(only: str = "", repeats: int = 9) -> None:
    """Measures every network whose name contains `only`."""
    training, prediction = {}, {}
    for network, sizes in NETWORKS.items():
        if only in network:
            trained = rivals("low_rank", "full_rank", "keras")
            trained["jax, low_rank, 10 steps"] = Rival("ours", "low_rank", backend="jax", execution=10)
            order: dict[str, Any] = {"job": "training", "network": network}
            steps, rest = compare(trained, order, {}, repeats, PATIENCE)
            training[network] = {"steps": steps, **rest}
            order |= {"job": "prediction", **sizes}
            predictions, rest = compare(rivals("low_rank", "full_rank"), order, {}, repeats, PATIENCE)
            prediction[f"{network}, {sizes['examples']} x {sizes['draws']} draws"] = {
                "predictions": predictions,
                **rest,
            }
    suffix = f"_{only}" if only else ""
    report("backends_training" + suffix, training, "step")
    report("backends_prediction" + suffix, prediction, "prediction")


if __name__ == "__main__":
    app()
