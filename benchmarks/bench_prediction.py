"""Monte Carlo prediction: many draws for many examples, and the latency of one request.

Ours is `singularbayes.predict`. Keras predicts once; where the row says so its time is multiplied by the draws. Every
rival has the batch size that was best for it. `--peers` adds other libraries, each as its own guide shows it.
"""

from dataclasses import dataclass, replace

from cyclopts import App
from interleaved import report
from lineup import compare, ours
from lineup import peers as others
from workers import Rival

app = App(help=__doc__)
PATIENCE = 20.0  # seconds of one rival


@dataclass(frozen=True)
class Job:
    """What a network has to predict.

    Args:
        same: a batch size at which low rank and Keras are also compared.
        multiplied: whether the time of Keras is multiplied by the draws.
    """

    network: str
    examples: int
    draws: int
    batches: tuple[int, ...]
    goals: dict[str, float | None]
    same: int = 0
    multiplied: bool = True

    def rivals(self) -> dict[str, Rival]:
        times = self.draws if self.multiplied else 1
        rows = ours(self.network)
        keras = replace(rows.pop("keras"), times=times)
        name = f"{times} x keras" if self.multiplied else "keras, once"
        rows = {name: keras, **rows}
        rows["deterministic"] = replace(rows["deterministic"], note="nothing is random: predicts once, not multiplied")
        if self.same:
            for row in (name, "low_rank"):
                rows[f"{row}, batch {self.same}"] = replace(rows[row], batches=(self.same,))
        return rows


JOBS = {
    "mlp, 10000 images x 50 draws": Job(
        "mlp 784-1200-1200-10",
        examples=10_000,
        draws=50,
        batches=(250, 1000, 2500, 10_000),
        goals={
            "low_rank, batch 1000 / 50 x keras, batch 1000": 0.10,
            "low_rank / 50 x keras": None,
            "low_rank / full_rank": None,
            "low_rank / bayesian_torch": 0.04,
        },
        same=1000,
    ),
    "mlp, 1 image x 200 draws": Job(
        "mlp 784-1200-1200-10",
        examples=1,
        draws=200,
        batches=(1,),
        goals={"low_rank / keras, once": None, "low_rank / full_rank": None},
        multiplied=False,
    ),
    "lstm, 512 windows x 50 draws": Job(
        "lstm 2x64 on 24x15",
        examples=512,
        draws=50,
        batches=(64, 128, 256, 512),
        goals={"low_rank / 50 x keras": None, "low_rank / full_rank": None},
    ),
    "sst2, 64 sentences x 20 draws": Job(
        "sst2 transformer",
        examples=64,
        draws=20,
        batches=(8, 16, 32, 64),
        goals={"low_rank / 20 x keras": None, "low_rank / full_rank": None},
    ),
}


@app.default
def main(only: str = "", repeats: int = 7, peers: bool = False) -> None:
    """Measures every job whose name contains `only`."""
    results = {}
    for name, job in JOBS.items():
        if only in name:
            rivals = {**job.rivals(), **(others(job.network) if peers else {})}
            order = {"job": "prediction", "network": job.network, "examples": job.examples}
            order |= {"draws": job.draws, "batches": job.batches}
            predictions, rest = compare(rivals, order, job.goals, repeats, PATIENCE)
            results[name] = {"predictions": predictions, **rest}
    report("prediction" + ("_peers" if peers else "") + (f"_{only}" if only else ""), results, "prediction")


if __name__ == "__main__":
    app()
