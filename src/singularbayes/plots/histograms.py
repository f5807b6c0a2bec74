"""Histograms of an uncertainty: in-distribution against out-of-distribution examples."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from singularbayes.checks import require_integer, require_methods, vectors
from singularbayes.metrics import auroc_ood
from singularbayes.plots import style


def percentages(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Returns how many percent of the values each bin holds."""
    return 100 * np.histogram(values, edges)[0] / len(values)


def draw_shares(axes: Axes, inside: np.ndarray, outside: np.ndarray, edges: np.ndarray, lw: float = 1.0) -> list:
    """Draws both histograms, in-distribution plain and out-of-distribution hatched, and returns their handles."""
    handles = []
    for values, label, colour, hatch in (
        (inside, "in-distribution", style.BLUE, None),
        (outside, "out-of-distribution", style.VERMILION, "////"),
    ):
        shares = percentages(values, edges)
        axes.stairs(shares, edges, fill=True, color=colour, alpha=0.25, lw=0)
        axes.stairs(shares, edges, color=colour, lw=lw, hatch=hatch)
        handles.append(Patch(fc=(colour, 0.25), ec=colour, lw=lw, hatch=hatch, label=label))
    return handles


@style.for_print
def uncertainty_histograms(
    uncertainties: Mapping[str, tuple[np.ndarray, np.ndarray]], quantity: str, bins: int = 25
) -> Figure:
    """Returns one panel per method, all with the same bins: uncertainties in and out of distribution.

    A panel's title gives the chance that an out-of-distribution example is the more uncertain one.

    Args:
        uncertainties: (in-distribution, out-of-distribution) of every method, one number per example, not negative.
        quantity: what the numbers are with their unit, "mutual information (nats)".
        bins: how many bars, from 0 to the largest number of all.

    >>> entropies = np.array([0.1, 0.2]), np.array([0.3, 0.9])
    >>> figure = uncertainty_histograms({"mixture": entropies}, "entropy (nats)")
    >>> figure.axes[0].get_title(loc="left")
    'mixture, AUROC 1.000'
    """
    name = "uncertainty_histograms"
    require_methods(name, uncertainties)
    require_integer(name, bins=bins)
    pairs = {}
    for method, (inside, outside) in uncertainties.items():
        (k,), (f,) = (vectors(f"{name} of {method!r}", **{w: v}) for w, v in (("inside", inside), ("outside", outside)))
        if min(k.min(), f.min()) < 0:
            raise ValueError(
                f"{name} needs uncertainties that are not negative; got {min(k.min(), f.min()):.3g} of {method!r}."
            )
        pairs[method] = k, f
    edges = np.linspace(0, max(max(k.max(), f.max()) for k, f in pairs.values()) or 1.0, bins + 1)
    figure = Figure(figsize=(style.COLUMN, 0.6 + 1.0 * len(pairs)))
    panels = figure.subplots(len(pairs), sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, (method, (k, f)) in zip(panels, pairs.items(), strict=True):
        handles = draw_shares(axes, k, f, edges)
        axes.set_title(f"{method}, AUROC {auroc_ood(k, f):.3f}")
    panels[0].set(xlim=(0, edges[-1]))
    panels[-1].set_xlabel(quantity)
    figure.supylabel("examples of each kind (%)", fontsize=8)
    style.legend_below(figure, handles)
    return figure
