"""Records in, chapters out: all that a page shows of every experiment, before it is laid out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from singularbayes.metrics import MEASURES, Measure
from singularbayes.plots import style
from singularbayes_experiments.methods.protocol import standard_error
from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report import against, general, method_styles, published, settings, tables
from singularbayes_experiments.report.literature import Other
from singularbayes_experiments.report.names import SIMPLE, SIMPLE_NAMES
from singularbayes_experiments.report.picture import Picture, apart
from singularbayes_experiments.report.published import Number
from singularbayes_experiments.report.rows import Group, grouped
from singularbayes_experiments.report.section import Columns, Section
from singularbayes_experiments.report.sections import SECTIONS, section_of
from singularbayes_experiments.report.settings import SettingsTable
from singularbayes_experiments.report.tables import Table

_DRAWN_FIRST = ("chosen", "refit", "paper", "quick")  # the preset whose runs the figures show
# Experiments on the data of another, whose simple detectors they show.
SAME_DATA = {"adaptive_rank": "mnist", "kl_study": "mnist", "adaptive_rank_sst2": "sst2"}
NO_NETWORK = (
    "The last rows are detectors that need no posterior. Each has a single score, which therefore stands in every "
    "column of its pair. A detector without a network uses one number computed from the input; whether a high or a low "
    "value counts as out-of-distribution was set with the main pair of the experiment in view. The others use a "
    "deterministic network."
)
_OTHERS = "They are taken from the page “{title}”, which uses the same data."
_HELD_OUT = (
    "Held-out classes are the last two of the ten: their test images against those of the others, by networks "
    "that were trained without them, on a CPU."
)
_AGAIN = "Networks are trained again for it, with the tuned settings, because those of the other tables were not kept."
_ONE_LOGIT = "The network has one logit, by which energy ranks as max-softmax does, so that energy has no row."
_NO_CLASSES = "Max-softmax and energy need classes, so that the Mahalanobis distance is the network's only score here."
_VALIDATION = Columns(
    "Validation",
    tuple(
        replace(MEASURES[name], name=f"validation_{name}", decimals=4)
        for name in ("accuracy", "nll", "brier", "ece", "rmse", "mae")
    ),
    sort="validation_nll",
    note="Scores on validation data, by which settings are chosen.",
)


@dataclass(frozen=True)
class Part:
    """The runs of one preset: tables, settings, how to do them again, and what they were done with.

    Args:
        against: which numbers are better than the paper's and which are worse, a line a method.
    """

    group: Group
    label: str
    tables: tuple[Table, ...]
    against: tuple[against.Line, ...]
    settings: SettingsTable
    commands: tuple[str, ...]
    made_with: str


@dataclass(frozen=True)
class Chapter:
    """All that is shown of an experiment.

    Args:
        drawn: the preset that finding and pictures are of, but for pictures of arrays that only another one has.
        simple: the records of detectors without a posterior.
    """

    section: Section
    parts: tuple[Part, ...]
    drawn: str
    finding: str
    pictures: tuple[Picture, ...]
    left_out: tuple[str, ...]
    simple: tuple[Record, ...] = ()


def make_chapters(records: Sequence[Record], beside_paper: bool = True) -> list[Chapter]:
    """Returns a chapter per experiment: those with a section in its order, then the others by name.

    Args:
        beside_paper: False leaves out the paper's numbers and the differences from them.
    """
    experiments = {made.experiment for made in records if made.preset != SIMPLE}
    order = [*(name for name in SECTIONS if name in experiments), *sorted(experiments - SECTIONS.keys())]
    chapters = []
    for name in order:
        own = [made for made in records if made.experiment == name and made.preset != SIMPLE]
        simple = [made for made in records if (made.experiment, made.preset) == (SAME_DATA.get(name, name), SIMPLE)]
        simple = [_on_pairs_of(own, made) for made in simple] if name in SAME_DATA else simple
        chapters.append(_chapter(name, own, simple, beside_paper))
    return chapters


def _on_pairs_of(records: Sequence[Record], simple: Record) -> Record:
    """Returns a detector with its scores on the pairs that the records have an AUROC of."""
    has = {name for made in records for name in made.metrics}
    kept = {name: value for name, value in simple.metrics.items() if any(each.startswith(name) for each in has)}
    return replace(simple, metrics=kept)


def compared(section: Section) -> dict[tuple[str, str], Number]:
    """Returns the paper's numbers that stand below ours, by method and measure."""
    return published.numbers(section.experiment)


def _chapter(experiment: str, records: list[Record], simple: list[Record], beside_paper: bool) -> Chapter:
    section = section_of(experiment, records)
    groups = grouped(section.gather(records) if section.gather else records, section.methods)
    numbers = compared(section) if beside_paper else {}
    drawn, *rest = sorted(groups, key=lambda group: (*_DRAWN_FIRST, group.preset).index(group.preset))
    pictures, left_out = _draw(section, drawn, [group for group in rest if group.preset in _DRAWN_FIRST])
    return Chapter(
        section,
        tuple(
            _part(section, group, [made for made in records if made.preset == group.preset], simple, numbers)
            for group in groups
        ),
        drawn.label(section.in_paper),
        section.finding(drawn.rows) if section.finding else "",
        tuple(apart(picture, experiment) for picture in pictures),
        tuple(left_out),
        tuple(simple),
    )


def _part(
    section: Section,
    group: Group,
    runs: Sequence[Record],
    simple: Sequence[Record],
    numbers: Mapping[tuple[str, str], Number],
) -> Part:
    columns = (_VALIDATION,) if group.preset == "trial" else section.tables
    columns = tuple(_with_simple(each, simple, SAME_DATA.get(section.experiment, "")) for each in columns)
    ranked, survivors = section.same_data(group.rows), section.survivors.get(group.preset, {})
    made = [tables.make(group.rows, each, numbers, section.comparable, ranked, survivors) for each in columns]
    # Overrides may differ between runs that are one row.
    own = grouped(runs, section.methods)[0] if group.preset == "hand" else group
    # A table of detectors alone is the same in every preset.
    detectors = [len(each.others) for each in columns]
    shown = [
        table
        for table, others in zip(made, detectors, strict=True)
        if table is not None and (len(table.rows) > others or group.preset == "chosen")
    ]
    return Part(
        group,
        group.label(section.in_paper),
        tuple(shown),
        () if group.preset in against.APART else against.lines(section, group.rows, numbers),
        settings.settings_table(group.rows),
        tuple(settings.commands(section.experiment, own)),
        settings.made_with(runs),
    )


def _with_simple(columns: Columns, simple: Sequence[Record], other: str = "") -> Columns:
    """Returns the columns with a row below for each simple detector, where they have an AUROC-OOD.

    Args:
        other: the experiment that the detectors are of, where that is not the one of the table.
    """
    found = []
    for method in dict.fromkeys(made.method for made in simple):
        runs = [made for made in simple if made.method == method]
        numbers = {measure.name: _simple_number(runs, measure) for measure in columns.measures}
        if any(numbers.values()):
            numbers = {name: text for name, text in numbers.items() if text}
            found.append(Other(SIMPLE_NAMES.get(method, method), len({made.seed for made in runs} - {0}), numbers))
    held_out = any(name.startswith("held_out/") for other in found for name in other.numbers)
    scores = {made.method for made in simple} & {"max_softmax", "energy", "mahalanobis"} if found else set()
    again = any(other.name.endswith("trained again") for other in found)
    whose = _OTHERS.format(title=section_of(other, ()).title) if other and found else ""
    notes = [columns.note, NO_NETWORK * bool(found), whose, _HELD_OUT * held_out, _AGAIN * again]
    notes += [_ONE_LOGIT * (scores == {"max_softmax", "mahalanobis"}), _NO_CLASSES * (scores == {"mahalanobis"})]
    note = " ".join(each for each in notes if each)
    return replace(columns, others=(*columns.others, *found), note=note)


def _simple_number(runs: Sequence[Record], measure: Measure) -> str:
    """Returns the mean of a detector over its runs, ± the standard error where there are several; else nothing.

    A detector has one score, which stands in every column of its set, or one for each uncertainty.
    """
    start, by, _ = measure.name.partition("auroc_ood_")
    names = (measure.name, f"{start}auroc_ood") if by else ()
    values = [made.metrics[name] for made in runs for name in names if name in made.metrics]
    decimals = 3 if measure.decimals is None else measure.decimals
    if not values:
        return ""
    error = f"±{standard_error(values):.{decimals}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{decimals}f}{error}"


def _draw(section: Section, group: Group, others: Sequence[Group]) -> tuple[list[Picture], list[str]]:
    """Returns the figures, and a sentence on those that are left out for each reason.

    Args:
        others: the groups that a figure is drawn from, the first that can, where the runs have no arrays for it.
    """
    pictures: list[Picture] = []
    left_out: dict[str, list[str]] = {}
    for drawing in [*section.drawings, *general.drawings(section, group.rows)]:
        bare = bool(drawing.arrays) and not any(row.has_arrays(drawing.arrays) for row in group.rows)
        usable = [each for each in (group, *(others if bare else ())) if drawing.usable(each.rows)]
        if usable:
            shown = usable[0]
            try:
                with style.same_looks(method_styles.row_looks(shown.rows)):
                    picture = drawing.draw(drawing.usable(shown.rows))
            except ValueError as error:
                left_out.setdefault(str(error), []).append(drawing.title)
            else:
                whose = "" if shown is group else f" Runs: {shown.label(section.in_paper).lower()}."
                pictures.append(replace(picture, caption=f"{picture.caption}{whose}"))
        elif bare:
            left_out.setdefault("they need arrays that were not kept with the records.", []).append(drawing.title)
        else:
            left_out.setdefault("too few of these runs have the metrics that they show.", []).append(drawing.title)
    # Titles have commas of their own.
    return pictures, [f"{'; '.join(titles)}: {reason}" for reason, titles in left_out.items()]
