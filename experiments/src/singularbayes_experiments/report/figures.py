"""The figure of every page, drawn from the records: the same records give the same file."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from singularbayes_experiments.protocol import Paired, standard_error
from singularbayes_experiments.report import studies
from singularbayes_experiments.report.results import ENSEMBLE, PROBLEMS, SHIFTS, Numbers
from singularbayes_experiments.report.tables import WORDS, Problem, name

STYLE: Any = {
    "svg.hashsalt": "singularbayes",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 8,
}
LOOKS, RANKS, CURVES = (WORDS[key] for key in ("looks", "ranks", "curves"))
LEAD = ("mixture_repeat", "mixture_svd", "low_rank")
COLOURS = {name(method): LOOKS[method][0] for method in LEAD}


def trade_off(axis: Axes, problem: Problem, metric: str, title: str) -> None:
    """Draws a score against parameters; an NLL with the fixed ranks of earlier runs."""
    for method, (colour, marker, fill) in LOOKS.items():
        key = (*problem.key, method)
        if problem.numbers.has(*key, metric):
            mean, error = problem.numbers.mean(*key, metric), problem.numbers.error(*key, metric)
            style: Any = {"color": colour, "marker": marker, "fillstyle": fill, "label": name(method)}
            axis.errorbar(problem.numbers.first(*key, "parameters"), mean, error, ms=7, capsize=2, ls="", **style)
    ranks = []
    for rank in RANKS.get(problem.experiment, ()) if metric == "nll" else ():
        older = (problem.experiment, problem.task, "chosen")
        method = f"low_rank_{rank}" if problem.numbers.has(*older, f"low_rank_{rank}", "parameters") else "low_rank"
        score = "nll_total" if problem.experiment == "beijing" else "nll"
        at = problem.numbers.first(*older, method, "parameters"), problem.numbers.mean(*older, method, score)
        axis.annotate(f"r = {rank}", at, textcoords="offset points", xytext=(4, 4), fontsize=7)
        ranks.append(at)
    axis.plot([x for x, _ in ranks], [y for _, y in ranks], color="tab:blue", lw=0.8, marker=".", zorder=0)
    axis.set(xscale="log", xlabel="parameters", ylabel=title)
    axis.xaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))


def arrays(numbers: Numbers, experiment: str, kind: str, task: str = "") -> pd.DataFrame:
    return numbers.connection.execute(
        "SELECT method, name, x, value FROM arrays JOIN runs USING (run) WHERE experiment = ? AND kind = ? "
        "AND task = ? ORDER BY method, name, place",
        [experiment, kind, task or experiment],
    ).df()


def of_problem(numbers: Numbers, experiment: str) -> Figure:
    """Draws NLL and detection against parameters, and for some problems calibration and selective prediction."""
    problem, panels = Problem(numbers, experiment), CURVES.get(experiment, ())
    figure = Figure(figsize=(9.5, 7.2 if panels else 3.8), layout="constrained")
    axes = figure.subplots(1 + bool(panels), 2, squeeze=False)
    trade_off(axes[0, 0], problem, "nll", "test NLL")
    trade_off(axes[0, 1], problem, problem.ood, "AUROC-OOD")
    baseline = studies.input_only(numbers, experiment)
    axes[0, 1].axhline(baseline[1], color="0.6", ls=":", label=f"input alone: {baseline[0]}")
    for axis, (kind, array, x, y) in zip(axes[-1], panels, strict=False):
        found = arrays(numbers, experiment, kind, "eicu" if experiment == "icu" else "")
        for method, (colour, *_) in LOOKS.items():
            own = found[(found.name == array) & (found.method == method)]
            if len(own):
                axis.plot(own.x, own.value, "--" if "ensemble" in method else "-", color=colour, label=name(method))
        axis.set(xlabel=x, ylabel=y)
    if experiment == "icu":  # shift by shift in place of calibration
        axes[1, 0].clear()
        rows = {"mean of shifts": problem} | {name(shift): Problem(numbers, "icu", shift) for shift in SHIFTS}
        dots(axes[1, 0], pairs(rows), "NLL minus the deep ensemble's", 0.002)
    return legend(figure, *axes.flat)


def legend(figure: Figure, *axes: Axes) -> Figure:
    found: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    figure.legend(list(found.values()), list(found), loc="outside lower center", ncols=4)
    return figure


def toy(numbers: Numbers) -> Figure:
    found = arrays(numbers, "toy", "bands")
    figure = Figure(figsize=(9.5, 5), layout="constrained")
    axes = figure.subplots(2, 3, sharex=True, sharey=True)
    data = found[(found.method == "deterministic") & (found.name == "data")].iloc[::8]
    shown = ("low_rank", "full_rank", ENSEMBLE, "low_rank_ensemble", "rank_one", "swag")
    for axis, method in zip(axes.flat, shown, strict=True):
        own = {key: group.iloc[::4] for key, group in found[found.method == method].groupby("name")}
        axis.scatter(data.x, data.value, s=2, color="0.6")
        axis.plot(own["mean"].x, own["mean"].value, color="black", lw=1)
        for kind, shade in (("total", 0.2), ("epistemic", 0.45)):
            ends = own[f"{kind}_low"].value, own[f"{kind}_high"].value
            axis.fill_between(own["mean"].x, *ends, color=LOOKS[method][0], alpha=shade, lw=0)
        axis.set(title=name(method), xlabel="x", ylabel="y", ylim=(-1.2, 2.2))
    return figure


def pairs(rows: dict[str, Problem]) -> pd.DataFrame:
    return pd.DataFrame({name(m): {label: own.paired(m) for label, own in rows.items()} for m in LEAD})


def dots(axis: Axes, frame: pd.DataFrame, label: str, linear: float = 0) -> None:
    """Draws a row a line and a colour a column; of paired differences with intervals, filled where 0 is outside."""
    differences = isinstance(frame.iloc[0, 0], Paired)
    for place, column in enumerate(frame):
        colour = COLOURS.get(column, f"C{place}") if differences else f"C{place}"
        axis.plot([], [], "o", color=colour, label=str(column))
        for i, cell in enumerate(frame[column]):
            found = cell if isinstance(cell, Paired) else Paired(float(cell), math.nan, math.nan)
            half = found.high - found.mean if math.isfinite(found.high) else 0.0
            if math.isfinite(found.mean):
                fill = "none" if abs(found.mean) < half else "full"
                y = i + 0.6 * (place / max(1, frame.shape[1] - 1) - 0.5)
                axis.errorbar(found.mean, y, xerr=half, fmt="o", ms=5, color=colour, fillstyle=fill)
    if linear:
        axis.set_xscale("symlog", linthresh=linear)
    if differences:
        axis.axvline(0, color="black", lw=0.8)
    axis.set_yticks(range(len(frame)), list(frame.index))
    axis.set_xlabel(label)
    axis.invert_yaxis()


def one(frame: pd.DataFrame, label: str, linear: float = 0) -> Figure:
    figure = Figure(figsize=(8.5, 1.6 + 0.36 * len(frame)), layout="constrained")
    axis = figure.subplots()
    dots(axis, frame, label, linear)
    return legend(figure, axis)


def spectra(numbers: Numbers) -> Figure:
    """Draws singular values of one matrix a problem, and histograms of mutual information on SST-2."""
    figure = Figure(figsize=(9.5, 6.4), layout="constrained")
    axes = figure.subplots(2, 2)
    matrices = {"sst2": "embedding.embeddings", "beijing": "second.recurrent_kernel", "icu": "hidden_2.kernel"}
    titles = ("word embeddings", "recurrent kernel of the second LSTM", "second hidden layer")
    for axis, (experiment, matrix), words in zip(axes.flat, matrices.items(), titles, strict=False):
        found = arrays(numbers, experiment, "singular_values", "coronary" if experiment == "icu" else "")
        for method in ("deterministic", "full_rank", "low_rank", "low_rank_svd", "rank_one"):
            own = found[(found.method == method) & (found.name == matrix)]
            own = own[own.value > 1e-6 * own.value.max()]
            axis.plot(own.x, own.value / own.value.max(), color=LOOKS[method][0], label=name(method))
        axis.set(yscale="log", title=f"{name(experiment)}: {words}")
        axis.set(xlabel="number of the singular value", ylabel="share of the largest")
    found = arrays(numbers, "sst2", "histograms")
    for method in ("full_rank", "low_rank", ENSEMBLE):
        for array, line in (("test_mi", "-"), ("ag_news_mi", "--")):
            own = found[(found.method == method) & (found.name == array)]
            style: Any = {"color": LOOKS[method][0], "ls": line, "label": name(method) if line == "-" else ""}
            axes[1, 1].step(own.x, own.value, where="post", **style)
    axes[1, 1].set(
        title="SST-2: reviews (solid), news (dashed)", xlabel="mutual information, nats", ylabel="% of texts"
    )
    return legend(figure, axes[0, 0], axes[1, 1])


def adapters(numbers: Numbers) -> Figure:
    rivals = ("lora", "lora_temperature", "lora_ensemble", "mc_dropout", "bayes")
    frame = pd.DataFrame(
        {
            studies.ADAPTERS[rival]: {
                title: numbers.paired("adapters", task, "protocol", "mixture", rival, "nll")
                for task, title in studies.SETTING_NAMES.items()
            }
            for rival in rivals
        }
    )
    return one(frame, "NLL of the mixture of 4 minus that of …; left of 0 is better")


def estimators(numbers: Numbers) -> Figure:
    def pair(table: str, other: str) -> Paired:
        found = numbers.relative(table, other, "ours", "nll")
        mean, half = (float(found.mean()), standard_error(found)) if len(found) else (math.nan, math.nan)
        return Paired(mean, mean - half, mean + half)

    every = (*numbers.tables_of("regression"), *numbers.tables_of("classification"))
    others = ("ours, full rank", "deep ensemble", "MC dropout", "NGBoost", "CatBoost", "MLP + MAPIE")
    frame = pd.DataFrame({other: {name(table): pair(table, other) for table in every} for other in others})
    return one(frame, "NLL minus that of ours ± standard error; right of 0 is worse than ours", 0.1)


def many(numbers: Numbers, experiment: str = "") -> Figure:
    problems = {name(task): Problem(numbers, own, task) for own, task in PROBLEMS if experiment in ("", own)}
    return one(pairs(problems), "NLL minus the deep ensemble's, nats; left of 0 is better", 0.003)


DRAWINGS: dict[str, Callable[[Numbers], Figure]] = {
    "toy": toy,
    "uci": lambda numbers: many(numbers, "uci"),
    "index": many,
    "cifar10": lambda numbers: one(
        studies.cifar10_pairs(numbers).dropna(), "NLL minus the deep ensemble's, same round"
    ),
    "adapters": adapters,
    "tables": estimators,
    "certificates": lambda numbers: one(studies.certificate_risks(numbers), "risk"),
    "detectors": lambda numbers: one(studies.detector_scores(numbers), "AUROC"),
    "paper_tables": spectra,
}


def draw(page: str, numbers: Numbers, path: Path) -> None:
    """Writes the figure of a page as SVG without a date."""
    with matplotlib.rc_context(STYLE):
        figure = DRAWINGS[page](numbers) if page in DRAWINGS else of_problem(numbers, page)
        figure.savefig(path, format="svg", metadata={"Date": None})
