"""docs/mixture_results.md from the records of the comparison of modes: every number of the page is made here.

    python -m singularbayes_experiments.report.modes_page [--add runs/modes --plan 1a2b3c4]

`--add` first puts the records of a run into experiments/results/modes, with what its folder says about machine and
command; `--plan` is the commit that its configurations were written in.
"""

import argparse
import gzip
import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from singularbayes_experiments.methods.protocol import paired
from singularbayes_experiments.problems.modes import METHODS, NEWTON_SETS, SETS, ModesSet
from singularbayes_experiments.report import text
from singularbayes_experiments.report.modes_rounds import choices_at_edges, incomplete, round_of_choice, runs_of
from singularbayes_experiments.runs.claimed_work import read_lines
from singularbayes_experiments.runs.modes_records import by_run, chosen, final_results, rounds_of
from singularbayes_experiments.runs.modes_tables import (
    RIVAL,
    data_sets,
    difference,
    name_of,
    newton_table,
    results,
    shown,
    verdicts,
)

ROOT = Path(__file__).parents[4]
RECORDS = ROOT / "experiments" / "results"
FOLDER = RECORDS / "modes"
PAGE = ROOT / "docs" / "mixture_results.md"
_SAME_IMAGES = ("cnn", "fashion_mnist")
_COMPARED = ("mixture_repeat", "mixture_repeat_anchored", "mixture_svd", "mixture_split", "low_rank", "full_rank")


def verdict_table(lines: Sequence[dict]) -> str:
    """Returns on how many data sets each method is better than the deep ensemble, level with it, or worse."""
    rows = ["| NLL against the deep ensemble, number of problems | better | level | worse |", "|---|---:|---:|---:|"]
    there = [name for name in data_sets() if results(lines, name, RIVAL)]
    notes = [f"{len(there)} problems, of which {' and '.join(map(name_of, _SAME_IMAGES))} use the same images."]
    for method in _COMPARED:
        found = verdicts(lines, method)
        rows.append(f"| {METHODS[method].words} | {' | '.join(str(len(names)) for names in found.values())} |")
        absent = [name_of(name) for name in there if not any(name in names for names in found.values())]
        notes += [f"Not run on {', '.join(absent)}: {METHODS[method].words}."] if absent else []
    return "\n".join([*rows, "", _wrapped(" ".join(notes))])


def lead(lines: Sequence[dict]) -> str:
    """Returns where mixtures are better and worse than the deep ensemble, by name, and their parameters."""
    parts = [_sides(lines, method) for method in ("mixture_repeat", "mixture_svd")]
    return "\n".join(_wrapped(f"- {part}", "  ") for part in [*parts, _shares(lines)])


def _sides(lines: Sequence[dict], method: str) -> str:
    """Returns the data sets by verdict; of those that are level, which have the higher mean."""
    found = verdicts(lines, method)
    sides = [f"{side} on {', '.join(map(name_of, found[side])) or 'none'}" for side in ("better", "worse")]
    pairs = {name: difference(lines, name, method) for name in found["level"]}
    higher = [f"{name_of(name)} {shown(pair)}" for name, pair in pairs.items() if pair is not None and pair.mean > 0]
    behind = f"; among these its mean is higher on {', '.join(higher)}" if higher else ""
    words = METHODS[method].words.replace("repeat", "`repeat`,")
    return f"The {words} is {', '.join(sides)}, and level on {len(found['level'])}{behind}."


def _shares(lines: Sequence[dict]) -> str:
    """Returns the parameters of a mixture as a share of the deep ensemble's."""
    sets = data_sets()
    sizes = {
        name: [_size(lines, name, method) for method in ("mixture_repeat", RIVAL)]
        for name in sets
        if results(lines, name, "mixture_repeat") and results(lines, name, RIVAL)
    }
    share = {name: round(100 * ours / theirs) for name, (ours, theirs) in sizes.items()}
    named = [f"{value} % on {name_of(name)}" for name, value in share.items() if sets[name].family != "uci"]
    tables = [value for name, value in share.items() if sets[name].family == "uci"]
    rest = f", and {min(tables)} to {max(tables)} % on UCI tables" if tables else ""
    return f"The parameters of a mixture of 5, as a share of the ensemble's: {', '.join(named)}{rest}."


def _size(lines: Sequence[dict], name: str, method: str) -> int:
    return int(next(iter(results(lines, name, method).values()))["parameters"])


def scope(lines: Sequence[dict]) -> str:
    """Returns which data sets there are, how many rounds each had, what is missing, and how many choices are edges."""
    records = by_run(lines)
    final = final_results(lines)
    there = {name: one for name, one in data_sets().items() if results(final, name, RIVAL)}
    tuned = [one for one in SETS.values() if one.tuned_on is None and one.rounds > 1]
    counted = {one.name: rounds_of(records, one) for one in tuned}
    second, third = ([name_of(one) for one, rounds in counted.items() if rounds == number] for number in (2, 3))
    cut = [one for one in tuned if counted[one.name] < one.rounds]
    absent = [name_of(name) for name in data_sets() if name not in there]
    seeds = sorted({one.seeds for one in there.values()})
    parts = [f"{len(there)} problems have results, of {' or '.join(map(str, seeds))} seeds."]
    parts += [f"Two rounds of configurations: {', '.join(second) or 'none'}."]
    parts += [f"Three: {', '.join(third)}."] if third else []
    once = [name_of(name) for name, one in data_sets().items() if one.rounds == 1]
    parts += [f"One, though choices lay at edges: {', '.join(once)}."] if once else []
    parts += _fewer_rounds(records, tuned, counted)
    for number, words in ((2, "second"), (3, "third")):
        names = ", ".join(name_of(one.name) for one in cut if one.rounds == number)
        parts += [f"A {words} round is planned, not complete, and does not count, on {names}."] if names else []
    parts += [_uncounted(records, one) for one in cut]
    parts += [f"Not run: {', '.join(absent)}."] if absent else []
    return "\n".join(_wrapped(f"- {part}", "  ") for part in [*parts, _edges(records)] if part)


def _wrapped(words: str, indent: str = "") -> str:
    return textwrap.fill(words, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _fewer_rounds(records: dict, sets: Sequence[ModesSet], counted: Mapping[str, int]) -> list[str]:
    """Returns the methods that have fewer rounds than the others, a sentence for all data sets on which they do."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in sets:
        rounds = counted[one.name]
        had = {method: round_of_choice(records, one, method) for method in one.methods}
        for number in range(1, rounds):
            left = "; ".join(METHODS[method].words for method, own in had.items() if own == number)
            words = "the first round alone" if number == 1 else f"the first {number} rounds alone"
            if left:
                found.setdefault((words, left), []).append(name_of(one.name))
    return [f"{', '.join(names)}: {words} for {left}." for (words, left), names in found.items()]


def _uncounted(records: dict, one: ModesSet) -> str:
    """Returns the NLL of a round that does not count, of the methods that have results there."""
    found = incomplete(records, one, (RIVAL, *_COMPARED, "deterministic"))
    parts = [f"{METHODS[method].words} {other.mean:.4f}" for method, other in found.items()]
    return f"The incomplete round of {name_of(one.name)} has these NLLs: {', '.join(parts)}." if parts else ""


def _edges(records: dict) -> str:
    """Returns how many of the choices lie at an edge of what was tried."""
    found = [choices_at_edges(records, one) for one in SETS.values() if one.tuned_on is None]
    at, every = (sum(numbers) for numbers in zip(*found, strict=True))
    return f"Of {every} choices, {at} lie at an edge of some setting that was tried."


def newton_rounds(records: dict) -> str:
    """Returns how many configurations IVON and Adam had where that differs, and the difference after equal rounds."""
    parts = []
    for name in NEWTON_SETS:
        one = SETS[name]
        ours, adam = (round_of_choice(records, one, method) for method in ("ivon", "low_rank"))
        if ours < adam:
            choices = chosen(records, one, "ivon", ours), chosen(records, one, "low_rank", ours)
            found = [
                runs_of(records, one, method, each) for method, each in zip(("ivon", "low_rank"), choices, strict=True)
            ]
            seeds = sorted(found[0].keys() & found[1].keys())
            alike = [[runs[seed] for seed in seeds] for runs in found]
            finite = len(seeds) > 1 and np.isfinite(alike).all()
            beside = f" (after equal rounds: {shown(paired(*alike))})" if finite else ""
            parts.append(f"{ours * one.per_round} against {adam * one.per_round} on {name_of(name)}{beside}")
    return _wrapped(
        f"Configurations of IVON against those of Adam, where it had fewer on these sets: {'; '.join(parts)}."
    )


BLOCKS: dict[str, Callable[[Sequence[dict]], str]] = {
    "modes: verdicts": verdict_table,
    "modes: lead": lead,
    "modes: ivon": newton_table,
}


def filled(page: str, lines: Sequence[dict]) -> str:
    """Returns the page with what the records say between `<!-- name -->` and `<!-- end -->`."""
    final = final_results(lines)
    blocks = {name: make(final) for name, make in BLOCKS.items()} | {
        "modes: scope": scope(lines),
        "modes: ivon rounds": newton_rounds(by_run(lines)),
    }
    return text.filled(page, blocks)


def add(run: Path, plan: str) -> None:
    """Puts the records of a run, those that are new, into the folder of records, and what is known about it."""
    known = by_run(read_lines([FOLDER]))
    new = {key: line for key, line in by_run(read_lines([run])).items() if key not in known}
    packed = "".join(f"{json.dumps(line)}\n" for line in new.values())
    number = len(list(FOLDER.glob("*.jsonl.gz"))) + 1
    (FOLDER / f"records_{number}.jsonl.gz").write_bytes(gzip.compress(packed.encode(), mtime=0))
    about = json.loads((run / "machine.json").read_text()) | {"plan": plan, "runs": len(new)}
    (FOLDER / f"about_{number}.json").write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--add", type=Path, help="folder of a run whose records are added")
    parser.add_argument("--plan", default="", help="commit of its configurations")
    given = parser.parse_args()
    if given.add:
        add(given.add, given.plan)
    PAGE.write_text(filled(PAGE.read_text(), read_lines([FOLDER])))
