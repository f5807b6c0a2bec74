"""docs/mixture_results.md from the records of the comparison of modes: every number of the page is made here.

    python -m singularbayes_experiments.report.modes_page [--add runs/modes --plan 1a2b3c4]

`--add` first puts the records of a run into experiments/results/modes, with what its folder says about machine and
command; `--plan` is the commit that its configurations were written in.
"""

import argparse
import gzip
import json
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from singularbayes_experiments.problems.modes import METHODS, SETS, ModesSet
from singularbayes_experiments.records.record import Record, read
from singularbayes_experiments.report.modes_rounds import choices_at_edges, incomplete
from singularbayes_experiments.report.modes_sentences import pairs_of_care
from singularbayes_experiments.report.modes_summary import collect
from singularbayes_experiments.report.names import SIMPLE_NAMES
from singularbayes_experiments.runs.claimed_work import read_lines
from singularbayes_experiments.runs.modes_records import by_run, chosen, final_results, rounds_of
from singularbayes_experiments.runs.modes_tables import (
    RIVAL,
    columns,
    data_sets,
    difference,
    name_of,
    newton_table,
    results,
    shown,
    table,
    table_of_many,
    verdicts,
)

ROOT = Path(__file__).parents[4]
RECORDS = ROOT / "experiments" / "results"
FOLDER = RECORDS / "modes"
IMAGES = ("mnist", "fashion_mnist", "notmnist")  # out-of-distribution images
PAGE = ROOT / "docs" / "mixture_results.md"
_COMPARED = ("mixture_repeat", "mixture_repeat_anchored", "mixture_svd", "mixture_split", "low_rank", "full_rank")
_WORDS = {
    "toy": "RMSE, NLL and coverage of total 95 % intervals are of new points inside the range of the data; the ratio "
    "is that of the interquartile range of functions outside to inside.",
    "sst2": "Scores are of the 872 sentences of the dev set, which no choice has read.",
    "beijing": "MAE and width in µg/m³; coverage and width are of 95 % intervals of the total variance. Guangzhou is "
    "detected by the spread of draws; for the deterministic network, by its noise.",
    "icu": "Means over five shifts, each a kind of care or other hospitals held out, and four seeds: ± is over these "
    "runs, and so are the pairs.",
}


def verdict_table(lines: Sequence[dict]) -> str:
    """Returns on how many data sets each method is better than the deep ensemble, level with it, or worse."""
    rows = ["| NLL against the deep ensemble, number of data sets | better | level | worse |", "|---|---:|---:|---:|"]
    for method in _COMPARED:
        counts = [len(names) for names in verdicts(lines, method).values()]
        rows.append(f"| {METHODS[method].words} | {' | '.join(map(str, counts))} |")
    return "\n".join(rows)


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
    behind = f", of which its mean is higher on {', '.join(higher)}" if higher else ""
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
    parts = [f"{len(there)} data sets have results, of {' or '.join(map(str, seeds))} seeds."]
    parts += [f"Two rounds of configurations: {', '.join(second) or 'none'}."]
    parts += [f"Three: {', '.join(third)}."] if third else []
    parts += [_fewer_rounds(records, one, counted[one.name]) for one in tuned if counted[one.name] > 1]
    for number, words in ((2, "second"), (3, "third")):
        names = ", ".join(name_of(one.name) for one in cut if one.rounds == number)
        parts += [f"A {words} round is planned, not complete, and does not count, on {names}."] if names else []
    parts += [_uncounted(records, one) for one in cut]
    parts += [f"Not run: {', '.join(absent)}."] if absent else []
    return "\n".join(_wrapped(f"- {part}", "  ") for part in [*parts, _edges(records)] if part)


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _fewer_rounds(records: dict, one: ModesSet, rounds: int) -> str:
    """Returns the methods that have fewer rounds than the others."""
    had = {
        method: sum(chosen(records, one, method, number) is not None for number in range(1, rounds + 1))
        for method in one.methods
    }
    parts = []
    for number, words in ((1, "the first alone"), (2, "the first two alone")):
        left = [METHODS[method].words for method, own in had.items() if own == number < rounds]
        parts += [f"On {name_of(one.name)} these have {words}: {'; '.join(left)}."] if left else []
    return " ".join(parts)


def _uncounted(records: dict, one: ModesSet) -> str:
    """Returns the NLL of a round that does not count, of the methods that have results there."""
    found = incomplete(records, one, (RIVAL, *_COMPARED, "deterministic"))
    parts = [f"{METHODS[method].words} {nll:.4f}" for method, nll in found.items()]
    return f"On {name_of(one.name)} that round has these NLLs: {', '.join(parts)}." if parts else ""


def _edges(records: dict) -> str:
    """Returns how many of the choices lie at an edge of what was tried."""
    found = [choices_at_edges(records, one) for one in SETS.values() if one.tuned_on is None]
    at, every = (sum(numbers) for numbers in zip(*found, strict=True))
    return f"Of {every} choices, {at} lie at an edge of some setting that was tried."


def set_tables(lines: Sequence[dict]) -> str:
    """Returns a section for every data set but the tables of UCI."""
    done = [one for name, one in data_sets().items() if one.family != "uci" and results(lines, name, RIVAL)]
    simple = [one for name in ("simple", "network") for one in read(RECORDS / f"{name}_detectors.jsonl")]
    parts = []
    for one in done:
        words = [_WORDS[one.name]] if one.name in _WORDS else []
        rows = "\n".join([table(lines, one), *detector_rows(one, simple)])
        title = name_of(one.name)
        parts.append("\n\n".join([f"## {title[0].upper()}{title[1:]}", *words, rows]))
    return "\n\n".join(parts)


def detector_rows(one: ModesSet, simple: Sequence[Record]) -> list[str]:
    """Returns rows of detectors that need no posterior, with their AUROC below those of the methods."""
    experiment = one.name
    places = {name: names[0].split("/")[0] for name, (names, _) in columns(one).items() if name.startswith("OOD ")}
    rows = []
    for method, words in SIMPLE_NAMES.items():
        cells = {}
        for column, place in places.items():
            metrics = [each.metrics for each in simple if (each.experiment, each.method) == (experiment, method)]
            named = (f"{place}/auroc_ood",) if place in IMAGES else ("auroc_ood",)
            values = [each[name] for each in metrics for name in named if name in each]
            if values:
                error = f" ± {_decimals(float(np.std(values, ddof=1)) / len(values) ** 0.5)}" if len(values) > 1 else ""
                cells[column] = f"{_decimals(float(np.mean(values)))}{error}"
        if cells:
            own = [words, "", "", *(cells.get(column, "") for column in columns(one)), ""]
            rows.append(f"| {' | '.join(own)} |")
    return rows


def _decimals(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


def uci_table(lines: Sequence[dict]) -> str:
    return table_of_many(
        lines, [one for one in SETS.values() if one.family == "uci" and results(lines, one.name, RIVAL)]
    )


def shift_table(lines: Sequence[dict]) -> str:
    """Returns the NLL of mixtures less the deep ensemble's for every shift of intensive care."""
    shifts = [one for one in SETS.values() if one.family == "icu" and results(lines, one.name, RIVAL)]
    if not shifts:
        return "No shift of intensive care was run."
    methods = [method for method in _COMPARED if any(results(lines, one.name, method) for one in shifts)]
    rows = [
        f"| held out | {' | '.join(METHODS[method].words for method in methods)} |",
        f"|---|{'---|' * len(methods)}",
    ]
    for one in shifts:
        found = [difference(lines, one.name, method) for method in methods]
        cells = ["–" if each is None else shown(each, 3) for each in found]
        rows.append(f"| {one.name.removeprefix('icu_')} | {' | '.join(cells)} |")
    return "\n".join([*rows, "", *_pairs_of_care()])


def _pairs_of_care() -> list[str]:
    """Returns the table of intervals over all runs, over shift means and over seed means."""
    heads = ["20 pairs of shift and seed", "5 shift means", "4 seed means"]
    rows = [
        f"| {METHODS[method].words} | {' | '.join(shown(each) for each in found)} |"
        for method, found in pairs_of_care(collect(RECORDS))
    ]
    lead = (
        "The pairs of all shifts are not independent: runs of a shift share its stays, and runs with one seed may "
        "share their randomness. The same differences over the means of each shift, and of each seed:"
    )
    return [lead, "", f"| | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}", *rows]


BLOCKS: dict[str, Callable[[Sequence[dict]], str]] = {
    "modes: verdicts": verdict_table,
    "modes: lead": lead,
    "modes: sets": set_tables,
    "modes: shifts": shift_table,
    "modes: uci": uci_table,
    "modes: ivon": newton_table,
}


def filled(page: str, lines: Sequence[dict]) -> str:
    """Returns the page with what the records say between `<!-- name -->` and `<!-- end -->`."""
    final = final_results(lines)
    blocks = {name: make(final) for name, make in BLOCKS.items()} | {"modes: scope": scope(lines)}
    for name, text in blocks.items():
        before, rest = page.split(f"<!-- {name} -->\n")
        _, after = rest.split("\n<!-- end -->", 1)
        page = f"{before}<!-- {name} -->\n{text}\n<!-- end -->{after}"
    return page


def add(run: Path, plan: str) -> None:
    """Puts the records of a run, those that are new, into the folder of records, and what is known about it."""
    known = by_run(read_lines([FOLDER]))
    new = {key: line for key, line in by_run(read_lines([run])).items() if key not in known}
    text = "".join(f"{json.dumps(line)}\n" for line in new.values())
    number = len(list(FOLDER.glob("*.jsonl.gz"))) + 1
    (FOLDER / f"records_{number}.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
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
