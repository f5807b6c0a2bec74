"""Runs on other machines. The members of an ensemble are pieces of work of their own there."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from singularbayes.ranks import Engine
from singularbayes_experiments.records import record
from singularbayes_experiments.runs.progress import Bars
from singularbayes_experiments.runs.run_once import Outcome, Piece
from singularbayes_experiments.runs.runner import Job, Member


def carry_out(
    jobs: Sequence[Job], labels: Sequence[str], *, folder: Path, again: bool, engine: Engine, console: Console
) -> Iterator[tuple[str, Outcome]]:
    """Yields the label of a run and what became of it, as they end; on a terminal bars show what is under way.

    First come the members of ensembles and all other runs, then the ensembles, which find their members trained. Of
    an ensemble with members that diverged, the outcome of the first is reported, as if they had come in a row.
    """
    apart = _apart(jobs, folder, again)
    first = [(i, piece) for i, job in enumerate(jobs) for piece in (job.members if i in apart else [job])]
    diverged: dict[int, dict[int, Outcome]] = {i: {} for i in apart}
    ended = partial(_ended, labels=labels, folder=folder, again=again, engine=engine, console=console)
    for i, piece, found in ended(first):
        if isinstance(piece, Job):
            yield labels[i], found
        elif found.diverged:
            diverged[i][piece.number] = found
    yield from ((labels[i], found[min(found)]) for i, found in diverged.items() if found)
    for i, _, found in ended([(i, jobs[i]) for i in apart if not diverged[i]]):
        yield labels[i], found


def _apart(jobs: Sequence[Job], folder: Path, again: bool) -> list[int]:
    """Returns the positions of the ensembles whose members are to be trained apart."""
    finished = record.count(folder)
    return [i for i, job in enumerate(jobs) if len(job.members) > 1 and (again or not finished[job.name])]


Pieces = Sequence[tuple[int, Job | Member]]  # each with the position of its run


def _ended(
    pieces: Pieces, *, labels: Sequence[str], folder: Path, again: bool, engine: Engine, console: Console
) -> Iterator[tuple[int, Job | Member, Outcome]]:
    """Yields the pieces of work and what became of them, as they end."""
    work = [piece for _, piece in pieces]
    names = [_name(labels[i], piece) for i, piece in pieces]
    with Bars(console, folder, work, names) as bars:
        for position, found in engine.map(Piece(folder.resolve(), again), work, bars.tick):
            bars.over(position)
            if found.reason == "":
                seconds = "" if found.record is None else f", {found.record.seconds:.0f} s"
                console.print(f"{names[position]:<24} {work[position].epochs} epochs{seconds}", highlight=False)
            yield (*pieces[position], found)


def _name(label: str, piece: Job | Member) -> str:
    return label if isinstance(piece, Job) else f"{label}, member {piece.number + 1}/{len(piece.job.members)}"
