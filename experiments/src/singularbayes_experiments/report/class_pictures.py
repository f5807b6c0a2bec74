"""Figures of classifiers from the arrays of records: calibration, selective prediction, out-of-distribution data."""

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes

from singularbayes.metrics import auroc_ood, reliability_curve, selective_curve
from singularbayes.plots import BLUE, VERMILION, draw_shares, percentages, reliability, selective_prediction
from singularbayes_experiments.report.names import file_name
from singularbayes_experiments.report.picture import Key, Panel, Picture, panel, svg
from singularbayes_experiments.report.rows import Row, listed

NAMES = {"mi": "mutual information", "entropy": "entropy"}
Draw = Callable[[Sequence[Row]], Picture]


def calibration(rows: Sequence[Row]) -> Picture:
    """Returns accuracy against confidence on the test images of the first seed."""
    curves = {r.name: reliability_curve(_probabilities(r), r.arrays["test_labels"].astype(int)) for r in rows}
    order = sorted(curves, key=lambda name: curves[name].error)
    caption = (
        f"Accuracy against confidence on test examples, 15 bins of equal mass, seed {rows[0].first.seed}; below the "
        f"diagonal a method is overconfident. {_ends('The calibration error is', order, lambda n: curves[n].error)}."
    )
    alt = f"Reliability curves of {listed(list(curves))}."
    return Picture("reliability", "Calibration", caption, (Panel(svg(reliability(curves)), alt),))


def selective(rows: Sequence[Row]) -> Picture:
    """Returns the error rate of what is kept when the least certain test images are left out, by entropy."""
    curves = {}
    for row in rows:
        wrong = _probabilities(row).argmax(axis=1) != row.arrays["test_labels"]
        curves[row.name] = selective_curve(row.arrays["test_entropy"], wrong.astype(float))
    risks = {name: float(curve.at(0.8)) for name, curve in curves.items()}
    order = sorted(risks, key=lambda name: risks[name])
    caption = (
        f"Error rate of the examples kept when those of highest entropy are left out, seed {rows[0].first.seed}. "
        f"{_ends('With 80 % kept it is', order, lambda n: 100 * risks[n], ' %', 2)}."
    )
    alt = f"Error rate against the share of examples kept, for {listed(list(curves))}."
    figure = selective_prediction(curves, "error rate", percent=True)
    return Picture("selective", "Selective prediction", caption, (Panel(svg(figure), alt),))


def histograms(ood: str, label: str, by: str, known: str = "test") -> Draw:
    """Returns what draws one panel per method: how uncertain it is about known and about out-of-distribution examples.

    Args:
        ood, known: what the names of the arrays of both begin with, "notmnist" for notmnist_mi.
        label: what readers call the out-of-distribution examples; by: "mi" or "entropy".
    """

    def draw(rows: Sequence[Row]) -> Picture:
        pairs = {row.name: (row.arrays[f"{known}_{by}"], row.arrays[f"{ood}_{by}"]) for row in rows}
        return histogram_picture(pairs, f"{by}-{file_name(ood)}", label, NAMES[by], rows[0].first.seed)

    return draw


def histogram_picture(
    pairs: dict[str, tuple[np.ndarray, np.ndarray]],
    name: str,
    label: str,
    by: str,
    seed: int,
    unit: str = "nats",
    most: float | None = None,
) -> Picture:
    """Returns histograms of the (known, out-of-distribution) uncertainties of every method, all on the same axes.

    Args:
        most: where the axes end; None is the largest of all.
    """
    if most is None:
        most = max(float(np.max(values)) for pair in pairs.values() for values in pair)
    bins = np.linspace(0.0, max(most, 1e-3), 26)
    highest = max(float(percentages(values, bins).max()) for pair in pairs.values() for values in pair)
    limits = (0.0, min(105.0, 1.1 * highest))
    aurocs = {method: auroc_ood(*pair) for method, pair in pairs.items()}

    def draw(axes: Axes, method: str) -> None:
        draw_shares(axes, *pairs[method], bins, lw=1.6)
        axes.set_title(f"{method[:1].upper()}{method[1:]}: AUROC {aurocs[method]:.3f}", loc="left", fontsize=12)
        axes.set(xlabel=f"{by} ({unit})", ylabel="% of examples", xlim=(0, bins[-1]), ylim=limits)

    def one(method: str) -> Panel:
        known, ood = (float(np.median(values)) for values in pairs[method])
        alt = (
            f"{method}: histograms of the {by}. The median is {known:.3f} {unit} for test examples and {ood:.3f} "
            f"for {label}; AUROC {aurocs[method]:.3f}."
        )
        return panel(lambda figure: draw(figure.add_subplot(), method), alt, (4.0, 3.1))

    order = sorted(aurocs, key=lambda method: -aurocs[method])
    caption = (
        f"{by.capitalize()} of test examples and of {label} at seed {seed}; the AUROC is the chance that an "
        f"out-of-distribution example is the more uncertain one. {_ends('It is', order, lambda m: aurocs[m])}."
    )
    key = (Key("fill", BLUE, "test examples", 0.25), Key("hatch", VERMILION, label, 0.25))
    return Picture(name, f"{by.capitalize()}, {label}", caption, tuple(map(one, pairs)), key)


def _probabilities(row: Row) -> np.ndarray:
    p = row.arrays["test_mean"].astype("float64")
    return p / p.sum(axis=1, keepdims=True)  # float32 sums to 1 within 1e-7


def _ends(begin: str, order: list[str], value: Callable[[str], float], unit: str = "", digits: int = 3) -> str:
    """Returns the first and the last of an order with their values."""
    first, last = order[0], order[-1]
    text = f"{begin} {value(first):.{digits}f}{unit} for {first}"
    return text if len(order) == 1 else f"{text} and {value(last):.{digits}f}{unit} for {last}"
