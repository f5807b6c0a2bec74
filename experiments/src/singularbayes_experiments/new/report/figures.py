"""The figure of every page, drawn from the records: the same records give the same file."""

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from singularbayes_experiments.new.report import studies, tables
from singularbayes_experiments.new.report.numbers import ENSEMBLE, PROBLEMS, SHIFTS, Numbers
from singularbayes_experiments.new.report.tables import Problem, name

STYLE = {
    "svg.hashsalt": "singularbayes",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 8,
}
# Colour and marker of a method: blue is low rank, a hollow marker is a single network.
LOOKS = {
    "deterministic": ("0.45", "o", "none"),
    ENSEMBLE: ("black", "o", "full"),
    "full_rank": ("tab:orange", "s", "none"),
    "low_rank": ("deepskyblue", "^", "none"),
    "mixture_repeat": ("tab:blue", "^", "full"),
    "mixture_svd": ("tab:green", "D", "full"),
    "mixture_split": ("tab:purple", "v", "full"),
    "low_rank_ensemble": ("tab:blue", "P", "full"),
    "low_rank_svd": ("tab:green", "D", "none"),
    "low_rank_laplace": ("tab:cyan", "v", "none"),
    "rank_one": ("tab:red", "x", "full"),
    "swag": ("tab:brown", "*", "full"),
}
LEAD = ("mixture_repeat", "mixture_svd", "low_rank")
_OLDER_NLL = {"beijing": "nll_total"}
_RANKS = {"mnist": (10, 25, 50), "fashion_mnist": (10, 25, 50), "beijing": (4, 8, 12, 14, 32), "icu": (2, 5, 15, 30)}


def look(method: str) -> dict[str, Any]:
    colour, marker, fill = LOOKS[method]
    return {"color": colour, "marker": marker, "fillstyle": fill, "label": name(method)}


def trade_off(axis: Axes, problem: Problem, metric: str, title: str) -> None:
    """Draws a score against parameters, with the fixed ranks of earlier runs."""
    numbers, key = problem.numbers, problem.key
    for method in (m for m in LOOKS if m in problem.methods):
        own = metric if numbers.has(*key, method, metric) else None
        if own:
            mean, error = numbers.mean(*key, method, own), numbers.error(*key, method, own)
            size = numbers.first(*key, method, "parameters")
            axis.errorbar(size, mean, yerr=error, ls="", ms=7, lw=1.2, capsize=2, **look(method))
    ranks, older = [], (problem.experiment, problem.task, "chosen")
    score = {"nll": _OLDER_NLL.get(problem.experiment, "nll")}.get(metric)
    for rank in _RANKS.get(problem.experiment, ()):
        method = f"low_rank_{rank}" if numbers.has(*older, f"low_rank_{rank}", "nll") else "low_rank"
        method = f"low_rank_{rank}" if numbers.has(*older, f"low_rank_{rank}", "parameters") else method
        if score and numbers.has(*older, method, score):
            ranks.append((numbers.first(*older, method, "parameters"), numbers.mean(*older, method, score), rank))
    if ranks:
        axis.plot(*zip(*[each[:2] for each in ranks], strict=True), color="tab:blue", lw=0.8, marker=".", zorder=0)
        for size, mean, rank in ranks:
            axis.annotate(f"r = {rank}", (size, mean), textcoords="offset points", xytext=(4, 4), fontsize=7)
    axis.set_xscale("log")
    axis.set_xlabel("parameters")
    axis.set_ylabel(title)


def differences(axis: Axes, rows: Sequence[tuple[str, Problem]], metric: str = "nll", linear: float = 0.003) -> None:
    """Draws differences to the ensemble with intervals; filled where the interval excludes 0."""
    for place, method in enumerate(LEAD):
        for i, (_, problem) in enumerate(rows):
            if not problem.numbers.has(*problem.key, method, metric):
                continue
            found = problem.paired(method, metric=metric)
            fill = "none" if found.low <= 0 <= found.high else "full"
            axis.errorbar(
                found.mean,
                i + 0.22 * (place - 1),
                xerr=[[found.mean - found.low], [found.high - found.mean]],
                ls="",
                ms=5,
                lw=1.2,
                **{**look(method), "fillstyle": fill, "label": "" if i else name(method)},
            )
    axis.axvline(0, color="black", lw=0.8)
    axis.set_xscale("symlog", linthresh=linear)
    axis.set_yticks(range(len(rows)), [label for label, _ in rows])
    axis.invert_yaxis()
    axis.set_xlabel("NLL minus the deep ensemble's, nats; left of 0 is better")


def curves(axis: Axes, numbers: Numbers, experiment: str, kind: str, array: str, **where: str) -> None:
    """Draws a curve a method, of seed 42 of earlier runs."""
    found = arrays(numbers, experiment, kind, **where)
    for method in (m for m in LOOKS if m in set(found.method)):
        own = found[(found.method == method) & (found.name == array)]
        if len(own):
            axis.plot(own.x, own.value, color=LOOKS[method][0], lw=1.2, ls="--" if "ensemble" in method else "-")


def arrays(numbers: Numbers, experiment: str, kind: str, task: str = "") -> pd.DataFrame:
    return numbers.connection.execute(
        "SELECT method, name, x, value FROM arrays JOIN runs USING (run) WHERE experiment = ? AND kind = ? AND task = ? "
        "ORDER BY method, name, place",
        [experiment, kind, task or experiment],
    ).df()


def classes(numbers: Numbers, experiment: str) -> Figure:
    """NLL and detection against parameters, and for some problems calibration and selective prediction."""
    problem = Problem(numbers, experiment)
    more = experiment in ("sst2", "icu", "beijing")
    figure = Figure(figsize=(9.5, 7.2 if more else 3.8), layout="constrained")
    axes = figure.subplots(1 + more, 2, squeeze=False)
    trade_off(axes[0, 0], problem, "nll", "test NLL")
    trade_off(axes[0, 1], problem, str(problem.ood), "AUROC-OOD")
    plain = studies.input_only(numbers, experiment)
    axes[0, 1].axhline(plain[1], color="0.6", ls=":", label=f"without a network: {plain[0]}")
    if experiment == "icu":
        axes[1, 0].clear()
        shifts = [(shift, Problem(numbers, "icu", shift)) for shift in SHIFTS]
        differences(axes[1, 0], [("mean of shifts", problem), *shifts], linear=0.002)
        task = "eicu"
    else:
        kind, array = ("intervals", "total") if experiment == "beijing" else ("reliability", "test")
        curves(axes[1, 0], numbers, experiment, kind, array) if more else None
        task = experiment
    if more:
        if experiment != "icu":
            ends = (0, 1) if experiment == "beijing" else (0.5, 1)
            axes[1, 0].plot(ends, ends, color="0.6", ls=":")
            axes[1, 0].set_xlabel("nominal level" if experiment == "beijing" else "confidence")
            axes[1, 0].set_ylabel("share inside the total interval" if experiment == "beijing" else "accuracy")
        curves(axes[1, 1], numbers, experiment, "selective", "mae" if experiment == "beijing" else "error", task=task)
        axes[1, 1].set_xlabel("share kept, most certain first")
        axes[1, 1].set_ylabel("MAE of those kept" if experiment == "beijing" else "error of those kept")
    _legend(figure, axes[0, 1], axes[0, 0], axes[1, 1] if more else None)
    return figure


def _legend(figure: Figure, *axes: Axes | None) -> None:
    found = {}
    for axis in filter(None, axes):
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=4)


def toy(numbers: Numbers) -> Figure:
    found = arrays(numbers, "toy", "bands")
    shown = ("low_rank", "full_rank", "deep_ensemble", "low_rank_ensemble", "rank_one", "swag")
    figure = Figure(figsize=(9.5, 5), layout="constrained")
    axes = figure.subplots(2, 3, sharex=True, sharey=True)
    data = found[(found.method == "deterministic") & (found.name == "data")]
    for axis, method in zip(axes.flat, shown, strict=True):
        own = {key: group.iloc[::4] for key, group in found[found.method == method].groupby("name")}
        x = own["mean"].x
        axis.scatter(data.x[::8], data.value[::8], s=2, color="0.6")
        axis.plot(x, own["mean"].value, color="black", lw=1)
        for kind, shade in (("total", 0.2), ("epistemic", 0.45)):
            ends = own[f"{kind}_low"].value, own[f"{kind}_high"].value
            axis.fill_between(x, *ends, color=LOOKS[method][0], alpha=shade, lw=0)
        axis.set_title(name(method))
        axis.set_ylim(-1.2, 2.2)
    return figure


def many(numbers: Numbers, problems: Iterable[tuple[str, str]]) -> Figure:
    rows = [(name(task), Problem(numbers, experiment, task)) for experiment, task in problems]
    figure = Figure(figsize=(8, 0.42 * len(rows) + 1.4), layout="constrained")
    axis = figure.subplots()
    differences(axis, rows)
    _legend(figure, axis)
    return figure


def dots(frame: pd.DataFrame, label: str, figsize: tuple[float, float] = (8, 4), linear: float | None = None) -> Figure:
    """Draws a row a line of the table, a colour a column; cells may be (value, half-width)."""
    figure = Figure(figsize=figsize, layout="constrained")
    axis = figure.subplots()
    for place, column in enumerate(frame.columns):
        for i, cell in enumerate(frame[column]):
            value, half = cell if isinstance(cell, tuple) else (cell, 0.0)
            if math.isfinite(value):
                y = i + 0.6 * (place / max(1, len(frame.columns) - 1) - 0.5)
                half = half if math.isfinite(half) else 0.0
                axis.errorbar(value, y, xerr=half, fmt="o", ms=5, color=f"C{place}", label="" if i else column)
    if linear is not None:
        axis.axvline(0, color="black", lw=0.8)
        axis.set_xscale("symlog", linthresh=linear) if linear else None
    axis.set_yticks(range(len(frame)), list(frame.index))
    axis.invert_yaxis()
    axis.set_xlabel(label)
    handles, labels = axis.get_legend_handles_labels()
    found = dict(zip(labels, handles, strict=True))
    figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=4)
    return figure


def spectra(numbers: Numbers) -> Figure:
    """Singular values of one matrix a problem (SST-2, Beijing, intensive care) and mutual information on SST-2."""
    figure = Figure(figsize=(9.5, 6.4), layout="constrained")
    axes = figure.subplots(2, 2)
    matrices = {"sst2": "embedding.embeddings", "beijing": "second.recurrent_kernel", "icu": "hidden_2.kernel"}
    for axis, (experiment, matrix) in zip(axes.flat, matrices.items(), strict=False):
        found = arrays(numbers, experiment, "singular_values", "coronary" if experiment == "icu" else "")
        for method in ("deterministic", "full_rank", "low_rank", "low_rank_svd", "rank_one"):
            own = found[(found.method == method) & (found.name == matrix)]
            axis.plot(own.x, own.value / own.value.max(), color=LOOKS[method][0], lw=1.2, label=name(method))
        axis.set_yscale("log")
        axis.set_ylim(1e-4, 1.5)
        axis.set_title(f"{name(experiment)}: {tables.plain(matrix)}")
        axis.set_xlabel("number of the singular value")
    found = arrays(numbers, "sst2", "histograms")
    for method in ("full_rank", "low_rank", ENSEMBLE):
        for array, line in (("test_mi", "-"), ("ag_news_mi", "--")):
            own = found[(found.method == method) & (found.name == array)]
            axes[1, 1].step(own.x, own.value, where="post", color=LOOKS[method][0], ls=line, lw=1.2)
    axes[1, 1].set_title("SST-2: mutual information, reviews (solid), news (dashed)")
    axes[1, 1].set_xlabel("nats")
    axes[1, 1].set_ylabel("% of texts")
    axes[1, 1].plot([], [], color="black", label=name(ENSEMBLE))
    _legend(figure, axes[0, 0], axes[1, 1])
    return figure


def _adapters(numbers: Numbers) -> Figure:
    rivals = {"lora": "LoRA", "lora_temperature": "LoRA + temperature", "lora_ensemble": "LoRA, ensemble of 5"}
    rivals |= {"mc_dropout": "LoRA, MC dropout", "bayes": "Bayesian adapter"}
    rows = {}
    for task in studies.SETTING_NAMES:
        pairs = {
            words: numbers.paired("adapters", task, "protocol", "mixture", rival, "nll")
            for rival, words in rivals.items()
        }
        rows[studies.SETTING_NAMES[task]] = {words: (each.mean, each.high - each.mean) for words, each in pairs.items()}
    frame = pd.DataFrame.from_dict(rows, orient="index")
    return dots(frame, "NLL of the mixture of 4 minus that of …; left of 0 is better", (8, 5), linear=0.02)


def _tables(numbers: Numbers) -> Figure:
    rows = {}
    others = ("ours, full rank", "deep ensemble", "MC dropout", "NGBoost", "CatBoost", "MLP + MAPIE")
    for table in (*numbers.tables_of("regression"), *numbers.tables_of("classification")):
        rows[name(table)] = {}
        for other in others:
            found = numbers.relative(table, other, "ours", "nll")
            cell = (float(found.mean()), tables.standard_error(found)) if len(found) else (math.nan, 0.0)
            rows[name(table)][other] = cell
    frame = pd.DataFrame.from_dict(rows, orient="index")
    return dots(frame, "NLL minus that of ours ± standard error; right of 0 is worse than ours", (8.5, 8), linear=0.1)


DRAWINGS: dict[str, Callable[[Numbers], Figure]] = {
    **{page: (lambda n, page=page: classes(n, page)) for page in ("mnist", "fashion_mnist", "cnn", "sst2", "beijing")},
    "icu": lambda n: classes(n, "icu"),
    "toy": toy,
    "uci": lambda n: many(n, [problem for problem in PROBLEMS if problem[0] == "uci"]),
    "index": lambda n: many(n, PROBLEMS),
    "cifar10": lambda n: dots(studies.cifar10_scores(n), "NLL minus the deep ensemble's, same round", (8, 4.6), linear=0),
    "adapters": _adapters,
    "tables": _tables,
    "certificates": lambda n: dots(studies.certificate_risks(n), "risk", (8, 3.6)),
    "detectors": lambda n: dots(studies.detector_scores(n), "AUROC", (8, 5.4)),
    "paper_tables": spectra,
}


def draw(page: str, numbers: Numbers, path: Path) -> None:
    """Writes the figure of a page as SVG without a date."""
    with matplotlib.rc_context(STYLE):
        DRAWINGS[page](numbers).savefig(path, format="svg", metadata={"Date": None})
