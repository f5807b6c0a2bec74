"""Who takes part, and one comparison of them."""

from typing import Any

from builders import MIXTURES, rivals
from environments import PEERS
from interleaved import ratios, seconds, summary
from shapes import SHAPES, Mlp
from workers import Rival, Worker, working

PLAIN_EMBEDDING = "its embedding has no posterior, which favours it"
NOTES = {
    ("bayesian_torch", "lstm 2x64 on 24x15"): "redraws its weights at every time step",
    ("bayesian_torch", "sst2 transformer"): PLAIN_EMBEDDING,
    ("torchbnn", "sst2 transformer"): PLAIN_EMBEDDING,
    ("torch_uncertainty", "sst2 transformer"): PLAIN_EMBEDDING,
    ("tensorflow_probability", "sst2 transformer"): PLAIN_EMBEDDING,
}
COMPILED = ("bayesian_torch", "torchbnn")  # torch.compile takes their loss and their prediction


def ours(network: str) -> dict[str, Rival]:
    return {variant: Rival("ours", variant) for variant in rivals(network) if variant not in MIXTURES}


def mixtures(network: str) -> dict[str, Rival]:
    """Returns the mixtures, and what they are compared with."""
    return {variant: Rival("ours", variant) for variant in ("keras", "low_rank", *MIXTURES)}


def peers(network: str) -> dict[str, Rival]:
    rows = {peer: Rival(peer, note=NOTES.get((peer, network), "")) for peer in PEERS}
    compiled = COMPILED if isinstance(SHAPES[network], Mlp) else ()
    return rows | {f"{peer}, compiled": Rival(peer, "compiled", note="torch.compile") for peer in compiled}


def compare(
    rivals: dict[str, Rival], order: dict[str, Any], goals: dict[str, float | None], repeats: int, patience: float
) -> tuple[dict[str, dict], dict[str, Any]]:
    """Returns one row per library that took part; and the ratios, and why the others are absent.

    Ratios are those of `goals`, and of low rank to every peer.
    """
    wanted = {**{f"low_rank / {name}": None for name, rival in rivals.items() if rival.peer in PEERS}, **goals}
    with working(rivals, order) as (workers, absent):
        runs = {name: worker.run for name, worker in workers.items()}
        times, failed = seconds(runs, repeats, patience, label=order["network"])
        rows = {name: {**row, **_facts(workers[name])} for name, row in summary(times).items()}
    return rows, {"ratios": ratios(times, wanted), "absent": {**absent, **failed}}


def _facts(worker: Worker) -> dict[str, Any]:
    note = {"note": worker.rival.note} if worker.rival.note else {}
    return {**worker.facts, **note}
