"""One training step of low-rank, full-rank, rank-one and point networks against the Keras network of the same shape.

Times `fit` as a user runs it: Adam, the loss with its KL, compiled, data in memory. `--peers` adds other libraries,
each as its own guide shows it. `--only mlp` takes one group.
"""

from cyclopts import App
from interleaved import report
from lineup import compare, ours
from lineup import peers as others

app = App(help=__doc__)

GOALS: dict[str, dict[str, float | None]] = {
    "mlp 784-1200-1200-10": {
        "low_rank / keras": 0.35,
        "low_rank / full_rank": 0.05,
        "rank_one / keras": None,
        "low_rank / bayesian_torch": 0.05,
        "low_rank / torchbnn": 0.07,
    },
    "mlp 44-128-128-1": {"low_rank / keras": 1.4, "low_rank / full_rank": None, "rank_one / keras": None},
    "lstm 2x64 on 24x15": {"low_rank / keras": 1.2, "low_rank / full_rank": None},
    "sst2 transformer": {"low_rank / keras": 0.8, "low_rank / full_rank": None, "rank_one / keras": None},
    "conv2d 3x3 128-128": {"low_rank / keras": 0.7},
}
WITH_PEERS = ("mlp 784-1200-1200-10", "lstm 2x64 on 24x15", "sst2 transformer")
PATIENCE = 8.0  # seconds of one rival


@app.default
def main(only: str = "", repeats: int = 15, peers: bool = False) -> None:
    """Measures every network whose name contains `only`."""
    results = {}
    for network in WITH_PEERS if peers else GOALS:
        if only in network:
            rivals = {**ours(network), **(others(network) if peers else {})}
            order = {"job": "training", "network": network}
            steps, rest = compare(rivals, order, GOALS[network], repeats, PATIENCE)
            results[network] = {"steps": steps, **rest}
    report("training_step" + ("_peers" if peers else "") + (f"_{only}" if only else ""), results, "step")


if __name__ == "__main__":
    app()
