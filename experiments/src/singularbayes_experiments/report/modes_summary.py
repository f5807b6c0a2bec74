"""The comparison under the tuning protocol as rows of the summary, and its figure: NLL and detection against size."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure

from singularbayes.plots import style
from singularbayes_experiments.methods.protocol import Paired, paired
from singularbayes_experiments.problems.modes import IMAGES, SETS, SHIFTS
from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report.modes_rounds import choices_at_edges, given_up, incomplete
from singularbayes_experiments.report.names import SIMPLE
from singularbayes_experiments.report.picture import Panel, panel
from singularbayes_experiments.report.summary import DataSet, Scores, head, shown_mean, verdicts
from singularbayes_experiments.runs.claimed_work import read_lines
from singularbayes_experiments.runs.modes_records import CARE, RESULTS, by_run, final_results
from singularbayes_experiments.runs.modes_tables import cost, name_of

UCI = tuple(name for name, one in SETS.items() if one.family == "uci")
COUNTED = {4: "four", 5: "five"}
_OLDER = "The runs on this page are older than the [tuning protocol](../protocol.md)."
OLDER = f"{_OLDER} Under it, nothing on this page was run again."
DAGGER = "‡ would change with a round that was not completed and so does not count, see below."
FOLDER = "modes"  # of the records, beside those of other experiments
METHODS = {
    "deterministic": "deterministic",
    "deep_ensemble": "deep ensemble of 5",
    "full_rank": "full-rank",
    "low_rank": "low-rank",
    "mixture_repeat": "mixture of 5",
    "mixture_svd": "SVD-initialised mixture of 5",
}
SIMPLE_WORDS = {
    "more_pixels": "non-zero pixels",
    "fewer_pixels": "non-zero pixels",
    "text_length": "length",
    "word_rarity": "rare words",
    "dew_point": "dew point",
    "input_distance": "distance of inputs",
}


def _data_set(name: str, *columns: Any) -> DataSet:
    return DataSet(name, name_of(name), *columns)


_SETS = (
    _data_set("sst2", "nll", "ag_news/auroc_ood_mi"),
    _data_set("beijing", "nll", "guangzhou/auroc_ood_epistemic"),
    _data_set("icu", "nll", "held_out_care/auroc_ood_mi"),
    _data_set("cnn", "nll", "mnist/auroc_ood_mi", 4),
    _data_set("mnist", "nll", "fashion_mnist/auroc_ood_mi", 4),
    _data_set("fashion_mnist", "nll", "mnist/auroc_ood_mi", 4),
    _data_set("toy", "nll"),
    _data_set("concrete", "nll"),
    _data_set("energy", "nll"),
    _data_set("boston_housing", "nll"),
    _data_set("yacht", "nll"),
    _data_set("wine_quality_red", "nll"),
    _data_set("kin8nm", "nll"),
    _data_set("power_plant", "nll"),
    _data_set("naval_propulsion_plant", "nll"),
    _data_set("protein_tertiary_structure", "nll"),
)


def collect(folder: Path) -> list[Scores]:
    """Returns the scores of every data set under a folder of results; none where that comparison is not there.

    A data set needs results of the deep ensemble and of the mixture that is compared with it. A method whose
    configurations all diverged has no runs; one that was not run is not among the methods.
    """
    every = read_lines([folder / FOLDER])
    records, final = by_run(every), final_results(every)
    found = []
    for data in _SETS:
        runs: dict[str, dict[Any, Record]] = {}
        for one in final:
            if one["set"] == data.experiment and one["method"] in METHODS:
                own = runs.setdefault(one["method"], {})
                if one["stage"] == RESULTS:
                    own[one["seed"]] = _record(data, one)
        if runs.get("deep_ensemble") and runs.get("mixture_repeat"):
            tuned = SETS.get(data.experiment, SETS[f"{CARE}_{SHIFTS[0]}"])
            several = tuned.rounds > 1
            found.append(
                Scores(
                    data,
                    runs,
                    incomplete(records, tuned, tuple(METHODS)) if several else {},
                    given_up(records, tuned, tuple(METHODS)) if several else {},
                    {name: cost(final, data.experiment, name) for name in METHODS if runs.get(name)},
                    choices_at_edges(records, tuned),
                )
            )
    return found


def _record(data: DataSet, one: dict) -> Record:
    scores = {name: one[name] for name in (data.nll, data.ood, data.by_total) if name in one}
    size = one["parameters"]
    return Record(data.experiment, one["method"], one["seed"], {}, scores, size, 0.0, versions={}, machine={})


def _counted(scores: Sequence[Scores], method: str) -> str:
    found = verdicts(scores, method, "deep_ensemble")
    better, level, worse = (len(found[side]) for side in ("better", "level", "worse"))
    return f"better on {better}, level on {level} and worse on {worse}"


def sentence(scores: Sequence[Scores]) -> str:
    """Returns what the comparison shows, in one sentence."""
    found = {name: verdicts(scores, name, "deep_ensemble") for name in ("mixture_repeat", "mixture_svd")}
    held = {name: len(one["better"]) + len(one["level"]) for name, one in found.items()}
    better = {name: len(one["better"]) for name, one in found.items()}
    return (
        "**In one sentence:** a mixture of five low-rank networks matches or beats a deep ensemble of five in NLL on "
        f"{held['mixture_repeat']} of {len(scores)} problems (better on {better['mixture_repeat']}), and an "
        f"SVD-initialised one on {held['mixture_svd']} (better on {better['mixture_svd']}); the latter needs that "
        f"ensemble first and takes, with it, {_costs(scores, 'mixture_svd')} times the multiplications of training one "
        "deterministic network."
    )


def _costs(scores: Sequence[Scores], method: str) -> str:
    """Returns the least and the largest cost of a method."""
    found = [each.cost[method] for each in scores if method in each.cost]
    return f"{min(found):.2g} to {max(found):.2g}"


def meaning(scores: Sequence[Scores]) -> str:
    """Returns what better, worse and level mean, and what ‡ marks; for the lines below the table."""
    # Runs of intensive care are named by shift and seed.
    seeds = sorted({len({str(run).split()[-1] for run in each.runs["deep_ensemble"]}) for each in scores})
    marked = any(_is_marked(each, method) for each in scores for method in METHODS)
    return (
        "Better or worse: the paired 95 % interval excludes 0. Level: it does not, which with "
        f"{' or '.join(COUNTED[number] for number in seeds)} seeds is no proof of equality."
        f"{f' {DAGGER}' if marked else ''}"
    )


def headline(scores: Sequence[Scores]) -> list[str]:
    """Returns what stands below the table: counts, detection, parameters, cost, and what the table does not show."""
    methods = ("mixture_repeat", "mixture_svd", "low_rank")
    counts = "; ".join(f"{METHODS[name]} {_counted(scores, name)}" for name in methods)
    twice = " and ".join(each.data.title for each in scores if "Fashion" in each.data.title)
    tables = [each.data.title for each in scores if each.data.experiment in UCI]
    lines = [
        f"**NLL against the deep ensemble of 5**, on {len(scores)} problems: {counts}. {twice} are the same images. "
        f"The {len(tables)} regression tables have as seeds five (protein four) of their usual splits, "
        "which overlap, so their intervals are too narrow if anything.",
        _behind(scores),
        *_not_shown(scores),
        _detection(scores),
        _detection_by_total(scores),
        _sizes(scores),
        _cost(scores),
        _at_edges(scores),
    ]
    return [f"- {line}" for line in lines if line]


def _behind(scores: Sequence[Scores]) -> str:
    """Returns where the mean NLL of a mixture is higher, though level."""
    parts = []
    for method in ("mixture_repeat", "mixture_svd"):
        level = verdicts(scores, method, "deep_ensemble")["level"]
        found = [
            f"{each.data.title} (+{one.mean:.{each.data.decimals}f} on "
            f"{each.mean('deep_ensemble', each.data.nll):.{each.data.decimals}f})"
            for each in scores
            if each.data.title in level
            and (one := each.difference(method, "deep_ensemble", each.data.nll)) is not None
            and one.mean > 0
        ]
        parts += [f"of the {METHODS[method]} on {', '.join(found)}"] if found else []
    return f"Where a mixture is level, its mean NLL is the higher one: {'; '.join(parts)}." if parts else ""


def _not_shown(scores: Sequence[Scores]) -> list[str]:
    """Returns the lower NLLs that the table does not have: of incomplete rounds, and of choices that were given up."""
    lines = []
    for each in scores:
        shown = {name: each.mean(name, each.data.nll) for name in each.incomplete if each.runs.get(name)}
        lower = {name: nll for name, nll in each.incomplete.items() if name in shown and nll < shown[name]}
        if lower:
            best = min(
                (name for name in METHODS if each.runs.get(name)), key=lambda name: each.mean(name, each.data.nll)
            )
            least = each.mean(best, each.data.nll)
            parts = [f"{METHODS[name]} {nll:.{each.data.decimals}f}" for name, nll in lower.items()]
            below = [METHODS[name] for name, nll in lower.items() if nll < least]
            first = " and ".join(below)
            verb = "is" if len(below) == 1 else "are"
            words = f"Of these, {first} {verb} below" if below else "None of these is below"
            lines.append(
                f"A second round of {each.data.title} was not completed and does not count. Its NLLs: "
                f"{', '.join(parts)}. {words} the best of the table, the {METHODS[best]} with "
                f"{least:.{each.data.decimals}f}, which has no second round."
            )
        lines += _given_up(each)
    return lines


def _given_up(scores: Scores) -> list[str]:
    """Returns an earlier choice of the ensemble, where a mixture is level or ahead of the later one alone."""
    nll, decimals = scores.given_up.get("deep_ensemble"), scores.data.decimals
    mixtures = {name: scores.mean(name, scores.data.nll) for name in ("mixture_repeat", "mixture_svd")}
    if nll is None or nll >= max(mixtures.values()):
        return []
    below = [f"the {METHODS[name]} ({value:.{decimals}f})" for name, value in mixtures.items() if nll < value]
    now = scores.mean("deep_ensemble", scores.data.nll)
    return [
        f"On {scores.data.title} the deep ensemble that validation chose in the first round has {nll:.{decimals}f}, "
        f"below {' and '.join(below)}; the second round replaced it by one with {now:.{decimals}f}."
    ]


def _is_marked(scores: Scores, method: str) -> bool:
    """Whether an incomplete round has a lower NLL of a method, or of another where this one is the best."""
    if not scores.runs.get(method):
        return False
    shown = scores.mean(method, scores.data.nll)
    others = [nll for name, nll in scores.incomplete.items() if name == method or name in METHODS]
    own = scores.incomplete.get(method)
    best = scores.best(scores.data.nll, higher=False) == method
    return bool((own is not None and own < shown) or (best and others and min(others) < shown))


def _sizes(scores: Sequence[Scores]) -> str:
    """Returns the parameters of a mixture as a share of the ensemble's: by name where networks are large."""
    share = {each.data: each.parameters["mixture_repeat"] / each.parameters["deep_ensemble"] for each in scores}
    large = [f"{100 * value:.0f} % on {data.title}" for data, value in share.items() if data.ood]
    small = [100 * value for data, value in share.items() if not data.ood]
    rest = f", and {min(small):.0f} to {max(small):.0f} % on toy and tables" if small else ""
    return f"The stored parameters of a mixture, as a share of the ensemble's: {', '.join(large)}{rest}."


def _cost(scores: Sequence[Scores]) -> str:
    """Returns the multiplications of trainings, where networks are large and over all problems."""
    large = [each for each in scores if each.data.ood]
    shown = "; ".join(
        f"{METHODS[name]}: {_costs(large, name)} (on all problems {_costs(scores, name)})"
        for name in ("deep_ensemble", "mixture_repeat", "mixture_svd")
    )
    return (
        "The multiplications of a training, as a multiple of the chosen deterministic network's, on the problems with "
        f"out-of-distribution data. {shown[0].upper()}{shown[1:]}. The last includes the ensemble that it starts at."
    )


def _at_edges(scores: Sequence[Scores]) -> str:
    at, every = (sum(numbers) for numbers in zip(*(each.at_edge for each in scores), strict=True))
    return (
        f"{at} of {every} choices lie at an edge of some setting that was tried, so most methods might gain from more "
        "tuning, the deep ensemble too."
    )


def _detection(scores: Sequence[Scores]) -> str:
    """Returns on which data sets the AUROC-OOD of a mixture is higher than the ensemble's, level, or lower."""
    found: dict[str, list[str]] = {"higher": [], "level": [], "lower": []}
    for each in scores:
        one = each.difference("mixture_repeat", "deep_ensemble", each.data.ood) if each.data.ood else None
        if one is not None:
            ours, theirs = (each.mean(name, each.data.ood) for name in ("mixture_repeat", "deep_ensemble"))
            side = "higher" if one.low > 0 else "lower" if one.high < 0 else "level"
            found[side].append(f"{each.data.title} ({ours:.3f} against {theirs:.3f})")
    sides = [f"{side} on {', '.join(names)}" for side, names in found.items() if names]
    return f"The AUROC-OOD of the mixture, against that of the ensemble, is {'; '.join(sides)}."


def _detection_by_total(scores: Sequence[Scores]) -> str:
    """Returns by how much more or less a mixture leads in AUROC-OOD where entropy detects instead of MI."""
    sides: dict[str, list[str]] = {"larger": [], "smaller": []}
    for each in scores:
        pair = ("mixture_repeat", "deep_ensemble")
        if each.data.ood and all(each.values(name, each.data.by_total) for name in pair):
            own, total = (
                each.mean(pair[0], metric) - each.mean(pair[1], metric)
                for metric in (each.data.ood, each.data.by_total)
            )
            side = "larger" if total > own else "smaller"
            sides[side].append(f"{each.data.title} ({_signed(total)}, not {_signed(own)})")
    parts = [f"{side} on {', '.join(names)}" for side, names in sides.items() if names]
    return (
        "Detected by entropy (Beijing: total deviation) instead of mutual information (epistemic deviation), the "
        f"mixture's lead over the ensemble is {'; '.join(parts)}."
    )


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")


def pairs_of_care(scores: Sequence[Scores]) -> list[tuple[str, list[Paired]]]:
    """Returns, of methods in intensive care, the NLL less the ensemble's over all runs, shift means and seed means.

    Runs are pairs of shift and seed, which are not independent.
    """
    found = []
    for each in scores:
        if each.data.experiment == CARE:
            theirs = each.runs["deep_ensemble"]
            for method, runs in each.runs.items():
                keys = [str(key) for key in runs if key in theirs] if method != "deep_ensemble" else []
                apart = {
                    str(key): runs[key].metrics["nll"] - theirs[key].metrics["nll"] for key in runs if str(key) in keys
                }
                groups = [list(apart.values()), *(_means(apart, part) for part in (0, 1))]
                found += [(method, [paired(group, [0.0] * len(group)) for group in groups])] if keys else []
    return found


def _means(values: Mapping[str, float], part: int) -> list[float]:
    """Returns the means over runs whose names share a part: the shift, or the seed."""
    groups: dict[str, list[float]] = {}
    for name, value in values.items():
        groups.setdefault(name.split()[part], []).append(value)
    return [float(np.mean(group)) for group in groups.values()]


def disclosures(scores: Sequence[Scores], records: Sequence[Record]) -> list[str]:
    """Returns what a sceptic should know about this comparison; the numbers are those of the records."""
    care = "; ".join(
        f"{METHODS[method]} {_interval(every)}, over the five shift means {_interval(shifts, False)}, over the four "
        f"seed means {_interval(seeds, False)}"
        for method, (every, shifts, seeds) in pairs_of_care(scores)
        if method in ("mixture_repeat", "mixture_svd")
    )
    older = [
        one.metrics["nll"]
        for one in records
        if (one.experiment, one.method, one.preset) == ("sst2", "full_rank", "chosen")
    ]
    text = next(each for each in scores if each.data.experiment == "sst2")
    full = (
        f" On SST-2 full-rank networks had one round and the others two. Their NLL in the table is "
        f"{text.mean('full_rank', 'nll'):.3f}; an older run, with other settings, has {np.mean(older):.3f}."
        if older and text.runs.get("full_rank")
        else ""
    )
    return [
        "The [comparison of mixtures](../mixture_results.md) has settings by the [tuning protocol](../protocol.md). "
        "All its configurations were committed before the run that tried them, and validation rows alone chose. But "
        "they were not written blind. Later rounds were written with the test results and validation scores of the "
        "earlier ones in view, and the last ones began with data sets on which a mixture was behind the ensemble on "
        "test data. The grids of SST-2, Beijing, intensive care and the CNN were written with the test tables of the "
        "older experiments below in view.",
        "It was cut by time. SST-2 has four configurations of every method in a round, others eight. That page says "
        "how many rounds each data set has, which methods had fewer, which rounds are not complete and so do not "
        f"count, and what those have.{full}",
        "No interval is corrected for the number of intervals: among 100 comparisons of equal methods about five would "
        "be called better or worse.",
        *(
            [
                "In intensive care the intervals are over 20 pairs of shift and seed, as if these were independent. "
                f"NLL less the deep ensemble's: {care}."
            ]
            if care
            else []
        ),
        "What follows, the last three sections apart, is about older runs.",
    ]


def _interval(found: Paired, with_mean: bool = True) -> str:
    low, high = (f"{value:+.4f}".replace("-", "−") for value in (found.low, found.high))
    mean = f"{found.mean:+.4f} ".replace("-", "−") if with_mean else ""
    return f"{mean}[{low}, {high}]"


def table(scores: Sequence[Scores], records: Sequence[Record] = ()) -> list[str]:
    """Returns the lines of the table; a method with no runs had only configurations that diverged.

    The last column is the AUROC-OOD of the best detector that needs no network, among the simple records.
    """
    simple = {each.data.experiment: simple_detector(each.data, records) for each in scores}
    last = ["no network"] if any(simple.values()) else []
    lines = head([*METHODS.values(), *last])
    for each in scores:
        cells = [each.data.title, *(cell(each, name) for name in METHODS)]
        lines.append(f"| {' | '.join([*cells, *([simple[each.data.experiment] or '–'] if last else [])])} |")
    return lines


def simple_detector(data: DataSet, records: Sequence[Record]) -> str:
    """Returns the name and the AUROC-OOD of the best detector without a network on the pair of a data set."""
    start = data.ood.split("/")[0] + "/" if data.ood.split("/")[0] in IMAGES else ""
    metric = f"{start}auroc_ood"
    found = {
        SIMPLE_WORDS[one.method]: one.metrics[metric]
        for one in records
        if (one.experiment, one.preset) == (data.experiment, SIMPLE)
        and one.method in SIMPLE_WORDS
        and metric in one.metrics
    }
    name = max(found, key=lambda each: found[each], default="")
    return f"{name}<br>{found[name]:.3f}" if name else ""


def pointers(scores: Sequence[Scores], records: Sequence[Record] = ()) -> dict[str, str]:
    """Returns what the pages of older runs say about this comparison, by experiment; that of UCI has nine data sets."""
    found = {each.data.experiment: pointer(each, records) for each in scores}
    tables = [each for each in scores if each.data.experiment in UCI]
    if tables:
        counts = "; ".join(f"{METHODS[name]} {_counted(tables, name)}" for name in ("mixture_repeat", "mixture_svd"))
        found["uci"] = (
            f"{_OLDER} Under it, with other settings, the NLL on these {len(tables)} data sets against the deep "
            f"ensemble's is: {counts}. [All methods](../mixture_results.md#uci)."
        )
    return found


def pointer(scores: Scores, records: Sequence[Record] = ()) -> str:
    """Returns what the page of older runs of the same data set says about this comparison, and of simple detectors."""
    means = {name: scores.values(name, scores.data.nll) for name in METHODS}
    shown = [f"{np.mean(nll):.{scores.data.decimals}f} ({METHODS[name]})" for name, nll in means.items() if nll]
    name, _, auroc = simple_detector(scores.data, records).partition("<br>")
    simple = f" Without any network ({name}), the main out-of-distribution set is detected with an AUROC of {auroc}."
    return (
        f"{_OLDER} Under it, with other settings, the NLL is {', '.join(shown)}: [all methods](../mixture_results.md)."
    ).replace(" -", " −") + simple * bool(name)


def cell(scores: Scores, method: str) -> str:
    """Returns the scores of a method, "diverged" or "not run"."""
    if scores.runs.get(method):
        lines = scores.cell(method).split("<br>")
        lines[0] += "\u00a0‡" * _is_marked(scores, method)
        alone = scores.values(method, scores.data.by_total) if scores.data.ood else []
        if method == "deterministic" and alone:  # it has no mutual information
            lines.insert(1, f"{shown_mean(alone, 3, bold=False)}\u00a0(H)")
        return "<br>".join(lines)
    return "diverged" if method in scores.runs else "not run"


def losses(scores: Sequence[Scores]) -> list[str]:
    """Returns a line per method of ours and rival: where its NLL is higher, and where its AUROC-OOD is lower."""
    lines = []
    ours = ("mixture_repeat", "mixture_svd", "low_rank")
    for rival, methods in {"deep_ensemble": ours, "full_rank": ours, "deterministic": ("low_rank",)}.items():
        for method in methods:
            nll, ood = (_lost(scores, method, rival, kind) for kind in ("nll", "ood"))
            shown = f"NLL {', '.join(nll) or 'nowhere'}; AUROC-OOD {', '.join(ood) or 'nowhere'}"
            lines.append(f"- {METHODS[method]} against {METHODS[rival]}: {shown}")
    return lines


def _lost(scores: Sequence[Scores], method: str, rival: str, kind: Literal["nll", "ood"]) -> list[str]:
    shown = []
    for each in scores:
        metric, decimals = (each.data.nll, each.data.decimals) if kind == "nll" else (each.data.ood, 3)
        found = each.difference(method, rival, metric) if metric else None
        if found is not None and (found.low > 0 if kind == "nll" else found.high < 0):
            mean = f"{found.mean:+.{decimals}f}".replace("-", "−")
            shown.append(f"{each.data.title} {mean}")
    return shown


def figure(scores: Sequence[Scores]) -> Panel:
    """Returns NLL and AUROC-OOD of every method against its stored parameters, on the sets of images."""
    images = [each for each in scores if each.data.experiment in IMAGES]

    def draw(page: Figure) -> None:
        axes = page.subplots(2, len(images), squeeze=False)
        for column, each in enumerate(images):
            for row, (metric, label) in enumerate(((each.data.nll, "NLL"), (each.data.ood, "AUROC-OOD"))):
                own = axes[row][column]
                for name, text in METHODS.items():
                    values = each.values(name, metric)
                    if not values:
                        continue
                    error = np.std(values, ddof=1) / np.sqrt(len(values))
                    seen = style.look(list(METHODS).index(name))
                    size = each.parameters[name]
                    own.errorbar(
                        size, np.mean(values), error, fmt=seen.marker, color=seen.colour, label=text, capsize=2
                    )
                own.set(xscale="log", ylabel=f"{label}, {'lower' if row == 0 else 'higher'} is better")
                own.set_title(each.data.title if row == 0 else "")
            axes[1][column].set_xlabel("stored parameters")
        page.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3)

    sets = " and ".join(each.data.title for each in images)
    alt = f"NLL and AUROC-OOD on {sets} against stored parameters, for {', '.join(METHODS.values())}: as in the table."
    return panel(draw, alt, (7.2, 5.4))
