"""What the page of a data set begins with: its results under the tuning protocol, and the settings that were chosen."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from singularbayes_experiments.problems.modes import METHODS, SETS, ModesSet
from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report import modes_figure
from singularbayes_experiments.report.detectors import ONE_SEED, Means, best_without_network, other_pairs_table
from singularbayes_experiments.report.modes_care import shift_tables
from singularbayes_experiments.report.modes_disclosures import older_and_lower
from singularbayes_experiments.report.modes_settings import settings_table
from singularbayes_experiments.report.modes_summary import FOLDER, UCI, count_sides, scores_of
from singularbayes_experiments.report.modes_summary import METHODS as SUMMARY
from singularbayes_experiments.report.names import SIMPLE, SIMPLE_NAMES
from singularbayes_experiments.report.picture import Panel
from singularbayes_experiments.report.summary import Scores, shown_mean
from singularbayes_experiments.report.text import difference, folded, number
from singularbayes_experiments.runs.claimed_work import read_file
from singularbayes_experiments.runs.modes_records import CARE, Records, by_run, final_results
from singularbayes_experiments.runs.modes_tables import (
    RIVAL,
    columns,
    data_sets,
    name_of,
    results,
    table,
    table_of_many,
)

_IMAGES = ("mnist", "fashion_mnist", "notmnist")  # out-of-distribution images
_WORDS = {
    "toy": "RMSE, NLL and the coverage of total 95 % intervals are on new points inside the range of the data. Ratio: "
    "the interquartile range of the functions outside that range, divided by the one inside; large is not good by "
    "itself, because a small one inside makes it large too.",
    "sst2": "Scores are on the 872 sentences of the dev set. They chose no configuration, but the grids were written "
    "with scores on them in view.",
    "beijing": "MAE and width in µg/m³; coverage and width are of 95 % intervals of the total variance. Guangzhou is "
    "detected by the spread of draws; for the deterministic network, by its noise.",
    "icu": "Means over five shifts: each of four kinds of care held out, and other hospitals (eICU). Parameters are "
    "those of the first shift; the networks for eICU have fewer inputs.",
}
_NOTE = (
    "±: the standard error over seeds. Better, worse: the 95 % interval of the paired difference over seeds excludes "
    "0. Cost: the multiplications of training as a multiple of the deterministic network's."
)
_OOD = {
    "": "OOD: the AUROC by mutual information, of the deterministic network by entropy.",
    "beijing": "OOD: the AUROC by the epistemic standard deviation, of the deterministic network by the total one.",
}
_DETECTORS = (
    "The last rows are detectors that need no posterior: numbers computed from the input, and scores of deterministic "
    "networks of the earlier runs below. Whether a high or a low value counts as out-of-distribution was chosen on "
    "these pairs."
)
# What the names of methods mean, by the words in them.
_NAMED = {
    "repeat": "*repeat*: every component of the [mixture](../mixtures.md) trains on every example (where nothing else "
    "is said, “mixture of 5” is this one)",
    "split": "*split*: the examples of a batch are dealt out to the components",
    "anchored": "*anchored*: the prior of every component is centred at its own random initialisation "
    "([anchored priors](../anchored_priors.md))",
    "IVON": "*IVON*: a natural-gradient optimiser of means and scales ([source](../mixture_results.md#ivon))",
}
_UCI = "uci"  # the experiment whose page has the small tables


@dataclass(frozen=True)
class DataSetSection:
    """The first part of a page in Markdown, and its figure, which the text shows under `name`."""

    text: str
    name: str = ""
    figure: Panel | None = None


@dataclass(frozen=True)
class Comparison:
    """The comparison under the tuning protocol as all pages need it.

    Args:
        scores: of the methods of the summary, by data set; before: without the last run that added records.
        final: results of what is chosen in the end, run by run.
        sections: what the page of an experiment begins with.
    """

    scores: Sequence[Scores] = ()
    before: Sequence[Scores] = ()
    final: Sequence[dict] = ()
    sections: Mapping[str, DataSetSection] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.scores)

    @cached_property
    def figure(self) -> Panel:
        """The figure of the summary."""
        return modes_figure.figure(self.scores)


def compare(folder: Path, records: Sequence[Record]) -> Comparison:
    """Returns the comparison from a folder of results; records are those of the other experiments."""
    added = read_runs(folder / FOLDER)
    lines = [line for own in added for line in own]
    if not (scores := scores_of(lines)):
        return Comparison()
    last = by_run(added[-1]) if len(added) > 1 else {}
    before = scores_of([line for key, line in by_run(lines).items() if key not in last])
    final = final_results(lines)
    return Comparison(scores, before, final, sections(by_run(lines), final, scores, records))


def read_runs(folder: Path) -> list[list[dict]]:
    """Returns the records of every run that added some, the last run last; what is not packed is of a run before all.

    Files are numbered from the second on: `records_10.jsonl.gz` is later than `records_2.jsonl.gz`.
    """
    packed = sorted(folder.glob("*.jsonl.gz"), key=lambda path: [int(each) for each in re.findall(r"\d+", path.name)])
    plain = [line for path in sorted(folder.glob("*.jsonl")) for line in read_file(path)]
    return [plain, *map(read_file, packed)]


def sections(
    runs: Records, final: Sequence[dict], scores: Sequence[Scores], records: Sequence[Record]
) -> dict[str, DataSetSection]:
    """Returns what the page of every experiment begins with."""
    simple = [one for one in records if one.preset == SIMPLE]
    found = {}
    for each in scores:
        name = each.data.experiment
        if name not in UCI:
            one = data_sets()[name]
            text = [_sentence(each, simple, final), "", *_shown_figure(name, each), *_results(final, one, simple), ""]
            text += [*shift_tables(final), ""] if name == CARE else []
            text += ["**Settings that differ**", "", *settings_table(runs, one), ""]
            text += _other_pairs(name, records)
            panel = modes_figure.methods_figure(each, best_without_network(name, records))
            found[name] = DataSetSection("\n".join(text), _file(name), panel)
    tables = [each for each in scores if each.data.experiment in UCI]
    return found | ({_UCI: _tables(runs, final, tables, records)} if tables else {})


def _file(name: str) -> str:
    return f"{name}-protocol.svg"


def _shown_figure(name: str, scores: Scores) -> list[str]:
    return [
        f"![{modes_figure.methods_words(scores)}]({_file(name)})",
        "",
        f"{modes_figure.METHODS_CAPTION}{modes_figure.DASHED * bool(scores.data.ood)}.",
        "",
    ]


def _sentence(scores: Scores, simple: Sequence[Record], final: Sequence[dict]) -> str:
    """Returns the NLL of the mixtures beside the ensemble's, and what detects the main out-of-distribution set."""
    data, parts = scores.data, []
    for method in ("mixture_repeat", "mixture_svd", "low_rank"):
        found = scores.difference(method, RIVAL, data.nll)
        if found is not None:
            nll = number(scores.mean(method, data.nll), data.decimals)
            share = 100 * scores.parameters[method] / scores.parameters[RIVAL]
            name = "one low-rank network" if method == "low_rank" else f"the {SUMMARY[method]}"
            parts.append(
                f"that of {name}, with {share:.0f} % of the parameters, {nll} "
                f"({found.side()}: {difference(found, data.decimals)})"
            )
    if scores.values(RIVAL, data.nll):
        theirs = number(scores.mean(RIVAL, data.nll), data.decimals)
        text = f"**In one sentence:** {'; '.join([f'the NLL of the {SUMMARY[RIVAL]} is {theirs}', *parts])}"
    else:
        text = f"**In one sentence:** a run of the {SUMMARY[RIVAL]} diverged, so no method is compared with it"
    plain = best_without_network(data.experiment, simple)
    every = {name: results(final, data.experiment, name).values() for name in METHODS}
    kept = {name: [run[data.ood] for run in runs if data.ood in run] for name, runs in every.items()}
    auroc = {name: float(np.mean(values)) for name, values in kept.items() if values}
    if plain and auroc:
        best = max(auroc, key=lambda name: auroc[name])
        text += (
            f"; the main out-of-distribution set is detected with an AUROC of {auroc[best]:.3f} by the best method "
            f"({METHODS[best].words}) and of {plain[1]:.3f} without any network ({plain[0]})"
        )
    return f"{text}."


def _results(final: Sequence[dict], one: ModesSet, simple: Sequence[Record]) -> list[str]:
    words = [_WORDS[one.name], ""] if one.name in _WORDS else []
    rows, detectors = table(final, one), detector_rows(one, simple)
    notes = [_NOTE]
    notes += [_OOD.get(one.name, _OOD[""])] if any(name.startswith("OOD ") for name in columns(one)) else []
    notes += [_DETECTORS] if detectors else []
    return ["**Results**", "", *words, rows, *detectors, "", f"{' '.join(notes)} {_names(rows)}".strip()]


def _names(rows: str) -> str:
    """Returns what the names in these rows mean."""
    found = [meaning for name, meaning in _NAMED.items() if name in rows]
    return f"Methods: {'; '.join(found)}." if found else ""


def detector_rows(one: ModesSet, simple: Sequence[Record]) -> list[str]:
    """Returns rows of detectors that need no posterior, with their AUROC below those of the methods."""
    experiment = one.name
    places = {name: names[0].split("/")[0] for name, (names, _) in columns(one).items() if name.startswith("OOD ")}
    rows = []
    for method, words in SIMPLE_NAMES.items():
        cells = {}
        for column, place in places.items():
            metrics = [each.metrics for each in simple if (each.experiment, each.method) == (experiment, method)]
            named = (f"{place}/auroc_ood",) if place in _IMAGES else ("auroc_ood",)
            values = [each[name] for each in metrics for name in named if name in each]
            if values:
                cells[column] = shown_mean(values, 3, bold=False)
        if cells:
            own = [words, "", "", *(cells.get(column, "") for column in columns(one)), ""]
            rows.append(f"| {' | '.join(own)} |")
    return rows


def _other_pairs(name: str, records: Sequence[Record]) -> list[str]:
    """Returns the pairs of a data set that need other networks, or nothing."""
    lines = other_pairs_table(Means(records), name)
    words = (
        "AUROC by mutual information of networks that were trained for these pairs, with the settings of the earlier "
        "runs, beside detectors without a posterior, whose better direction is shown."
    )
    return (
        [
            "**Other out-of-distribution pairs**",
            "",
            *lines,
            "",
            f"{words}{f' {ONE_SEED}' if any('¹' in line for line in lines) else ''}",
            "",
        ]
        if lines
        else []
    )


def _tables(
    runs: Records, final: Sequence[dict], scores: Sequence[Scores], records: Sequence[Record]
) -> DataSetSection:
    sets = [SETS[each.data.experiment] for each in scores]
    counts = "; ".join(
        f"the {SUMMARY[name]} is {count_sides(scores, name)}" for name in ("mixture_repeat", "mixture_svd")
    )
    shares = [each.parameters["mixture_repeat"] / each.parameters["deep_ensemble"] for each in scores]
    settings = [line for one in sets for line in (f"**{name_of(one.name)}**", "", *settings_table(runs, one), "")]
    panel, rows = modes_figure.tables_figure(scores), table_of_many(final, sets)
    text = [
        f"**In one sentence:** compared with a deep ensemble of 5 in NLL on {len(scores)} data sets, {counts}; the "
        f"matrices are small here, so that a mixture has {min(shares):.2f} to {max(shares):.2f} times the ensemble's "
        "parameters.",
        "",
        f"![{panel.alt}]({_file(_UCI)})",
        "",
        modes_figure.CAPTION,
        "",
        "**Results**",
        "",
        "Networks have two hidden layers of 64 units (protein: 100) and one learned noise level. Each column: NLL "
        "less the deep ensemble's, in nats, with the targets in their units.",
        "",
        rows,
        "",
        "Better, worse: the paired 95 % interval over splits excludes 0; without a word it includes 0. "
        f"{_names(rows)}".strip(),
        "",
        *((older, "") if (older := older_and_lower(scores, records)) else ()),
        *folded("The same table with 95 % intervals", [table_of_many(final, sets, intervals=True), ""]),
        *folded("Settings that differ, table by table", settings),
    ]
    return DataSetSection("\n".join(text), _file(_UCI), panel)
