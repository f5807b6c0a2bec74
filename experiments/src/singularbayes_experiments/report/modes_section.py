"""What the page of a data set begins with: its results under the tuning protocol, and the settings that were chosen."""

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from singularbayes_experiments.methods.protocol import edges
from singularbayes_experiments.problems.modes import METHODS, SETS, SHIFTS, ModesSet
from singularbayes_experiments.problems.modes_grids import configurations
from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report import modes_figure
from singularbayes_experiments.report.detectors import ONE_SEED, Means, best_without_network, other_pairs_table
from singularbayes_experiments.report.modes_disclosures import older_and_lower
from singularbayes_experiments.report.modes_rounds import round_of_choice
from singularbayes_experiments.report.modes_sentences import pairs_of_care
from singularbayes_experiments.report.modes_summary import FOLDER, UCI, count_sides, scores_of
from singularbayes_experiments.report.modes_summary import METHODS as SUMMARY
from singularbayes_experiments.report.names import SIMPLE, SIMPLE_NAMES
from singularbayes_experiments.report.picture import Panel
from singularbayes_experiments.report.summary import Scores, head, shown_interval, shown_mean
from singularbayes_experiments.runs.claimed_work import read_lines
from singularbayes_experiments.runs.modes_records import CARE, DIVERGED, Records, by_run, choices, final_results
from singularbayes_experiments.runs.modes_tables import (
    RIVAL,
    ROWS,
    columns,
    data_sets,
    difference,
    name_of,
    results,
    shown,
    table,
    table_of_many,
)

_IMAGES = ("mnist", "fashion_mnist", "notmnist")  # out-of-distribution images
_WORDS = {
    "toy": "RMSE, NLL and the coverage of total 95 % intervals are on new points inside the range of the data. Ratio: "
    "the interquartile range of the functions outside that range, divided by the one inside; large is not good by "
    "itself, because a small one inside makes it large too.",
    "sst2": "Scores are on the 872 sentences of the dev set. They chose no configuration, but the second grid was "
    "written with scores on them in view.",
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
_UCI = "uci"  # the experiment whose page has the nine tables
_NONE = "–: the method has no such setting, or no choice is at an edge."
# Settings as a table names them, in its order.
_SETTINGS = {
    "epochs": "epochs",
    "rate": "learning rate",
    "decay": "weight decay",
    "scale": "prior scale",
    "beta": "β",
    "eta": "initial scale η",
    "rho_lr": "learning-rate factor of ρ",
    "warmup": "KL warm-up epochs",
    "start": "initial means",
    "spread": "spread of initial means",
    "ranks": "ranks",
}
_DETERMINISTIC = ("epochs", "rate", "decay")
_STARTS = {"he": "He", "orthogonal": "orthogonal"}


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
    place = folder / FOLDER
    lines = read_lines([place])
    if not (scores := scores_of(lines)):
        return Comparison()
    packed = sorted(place.glob("*.jsonl.gz"))
    last = (
        by_run([json.loads(line) for line in gzip.decompress(packed[-1].read_bytes()).splitlines()]) if packed else {}
    )
    before = scores_of([line for key, line in by_run(lines).items() if key not in last])
    final = final_results(lines)
    return Comparison(scores, before, final, sections(by_run(lines), final, scores, records))


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
            text += [*_of_care(final), ""] if name == CARE else []
            text += ["**Settings that differ**", "", *settings_table(runs, one), ""]
            text += _other_pairs(name, records)
            panel = modes_figure.methods_figure(each, best_without_network(name, records))
            found[name] = DataSetSection("\n".join(text), _file(name), panel)
    tables = [each for each in scores if each.data.experiment in UCI]
    return found | ({_UCI: _tables(runs, final, tables, records)} if tables else {})


def _file(name: str) -> str:
    return f"{name}-protocol.svg"


def _shown_figure(name: str, scores: Scores) -> list[str]:
    return [f"![{modes_figure.methods_words(scores)}]({_file(name)})", "", modes_figure.METHODS_CAPTION, ""]


def _sentence(scores: Scores, simple: Sequence[Record], final: Sequence[dict]) -> str:
    """Returns the NLL of the mixtures beside the ensemble's, and what detects the main out-of-distribution set."""
    data, parts = scores.data, []
    for method in ("mixture_repeat", "mixture_svd", "low_rank"):
        found = scores.difference(method, RIVAL, data.nll)
        if found is not None:
            verdict = "better" if found.high < 0 else "worse" if found.low > 0 else "level"
            nll = f"{scores.mean(method, data.nll):.{data.decimals}f}".replace("-", "−")
            share = 100 * scores.parameters[method] / scores.parameters[RIVAL]
            name = "one low-rank network" if method == "low_rank" else f"the {SUMMARY[method]}"
            parts.append(
                f"that of {name}, with {share:.0f} % of the parameters, {nll} "
                f"({verdict}: {shown_interval(found, data.decimals)})"
            )
    theirs = f"{scores.mean(RIVAL, data.nll):.{data.decimals}f}".replace("-", "−")
    text = f"**In one sentence:** the NLL of the {SUMMARY[RIVAL]} is {theirs}; {'; '.join(parts)}"
    plain = best_without_network(data.experiment, simple)
    if data.ood and plain:
        every = {name: results(final, data.experiment, name).values() for name in METHODS}
        kept = {name: [run[data.ood] for run in runs if data.ood in run] for name, runs in every.items()}
        auroc = {name: float(np.mean(values)) for name, values in kept.items() if values}
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
    return ["**Other out-of-distribution pairs**", "", *lines, "", f"{words} {ONE_SEED}", ""] if lines else []


# -- intensive care and the tables of UCI ------------------------------------------------------------------------------


def _of_care(final: Sequence[dict]) -> list[str]:
    """Returns the NLL less the deep ensemble's for every shift, and its intervals by what is taken as independent."""
    methods = [name for name in ROWS if name != RIVAL]
    shifts = [SETS[f"{CARE}_{shift}"] for shift in SHIFTS]
    methods = [name for name in methods if any(results(final, one.name, name) for one in shifts)]
    rows = []
    for one in shifts:
        found = [difference(final, one.name, method) for method in methods]
        cells = ["–" if each is None else shown(each, 3) for each in found]
        rows.append(f"| {one.name.removeprefix(f'{CARE}_')} | {' | '.join(cells)} |")
    heads = ["over 4 seeds, each the mean of 5 shifts", "over the means of 5 shifts", "over all 20 runs"]
    pairs = [
        f"| {METHODS[method].words} | {' | '.join(shown(each) for each in found)} |"
        for method, found in pairs_of_care(final)
    ]
    return [
        "**Shift by shift**: NLL less the deep ensemble's [95 %].",
        "",
        f"| held out | {' | '.join(METHODS[method].words for method in methods)} |",
        f"|---|{'---:|' * len(methods)}",
        *rows,
        "",
        "Runs of a shift share its stays, so the 20 runs are not independent. The same differences, with intervals "
        "that take different units as independent:",
        "",
        *head(heads),
        *pairs,
    ]


def _tables(
    runs: Records, final: Sequence[dict], scores: Sequence[Scores], records: Sequence[Record]
) -> DataSetSection:
    sets = [SETS[each.data.experiment] for each in scores]
    counts = "; ".join(
        f"the {SUMMARY[name]} is {count_sides(scores, name)}" for name in ("mixture_repeat", "mixture_svd")
    )
    panel, rows = modes_figure.tables_figure(scores), table_of_many(final, sets)
    text = [
        f"**In one sentence:** compared with a deep ensemble of 5 in NLL on {len(scores)} data sets, {counts}; the "
        "matrices are small here, so that a mixture has about twice the ensemble's parameters.",
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
        '<details markdown="1">',
        "<summary>The same table with 95 % intervals</summary>",
        "",
        table_of_many(final, sets, intervals=True),
        "",
        "</details>",
        "",
        '<details markdown="1">',
        "<summary>Settings that differ, table by table</summary>",
        "",
        *(line for one in sets for line in (f"**{name_of(one.name)}**", "", *settings_table(runs, one), "")),
        "</details>",
        "",
    ]
    return DataSetSection("\n".join(text), _file(_UCI), panel)


# -- settings ----------------------------------------------------------------------------------------------------------


def settings_table(runs: Records, one: ModesSet) -> list[str]:
    """Returns the chosen settings of every method that differ between methods, and a sentence on those that do not."""
    tuned = SETS[f"{CARE}_{SHIFTS[0]}"] if one.name == CARE else one
    chosen = {method: name for method, name in choices(runs, tuned).items() if name and name != DIVERGED}
    rows = {method: _settings(tuned, method, chosen[method]) for method in ROWS if method in chosen}
    differ = [key for key in _SETTINGS if len({cells[key] for cells in rows.values()} - {"–"}) > 1]
    lines = head([*(_SETTINGS[key] for key in differ), "configurations", "at an edge of what was tried"])
    for method, cells in rows.items():
        tried = configurations(tuned, method, _rounds(runs, tuned, method))
        every = [asdict(settings) for settings in tried.values()]
        at = edges(asdict(tried[chosen[method]]), every)
        shown_edges = ", ".join(f"{_SETTINGS.get(key, key)} ({side})" for key, side in at.items())
        lines.append(
            f"| {METHODS[method].words} | "
            f"{' | '.join([*(cells[key] for key in differ), str(len(tried)), shown_edges or '–'])} |"
        )
    alike = {key: {cells[key] for cells in rows.values()} - {"–"} for key in _SETTINGS if key not in differ}
    shared = ", ".join(f"{_SETTINGS[key]} {next(iter(values))}" for key, values in alike.items() if values)
    return (
        [*lines, "", f"The same for all methods that have it: {shared}; batches of {one.batch_size}. {_NONE}"]
        if shared
        else lines
    )


def _rounds(runs: Records, one: ModesSet, method: str) -> int:
    return max(round_of_choice(runs, one, method), 1)


def _settings(one: ModesSet, method: str, name: str) -> dict[str, str]:
    """Returns the settings of a configuration as a table shows them; "–" where a method has no such setting."""
    own, how = configurations(one, method, one.rounds)[name], METHODS[method]
    values: dict[str, Any] = asdict(own) | {"ranks": "–"}
    if how.kind == "low_rank":
        ranks = one.ranks if own.rank is None else (*(own.rank for _ in one.units), *one.ranks[len(one.units) :])
        values["ranks"] = ", ".join(map(str, ranks))
    values["start"] = "SVDs of the ensemble" if how.svd else _STARTS[own.start]
    values["spread"] = ", ".join(f"{each:g}" for each in own.spread) or "–"
    kept = _DETERMINISTIC if how.kind == "deterministic" else [key for key in _SETTINGS if key != "decay"]
    return {key: _number(values[key]) if key in kept else "–" for key in _SETTINGS}


def _number(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"
