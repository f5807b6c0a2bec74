"""Panels as SVG and small images as PNG for the page, drawn from the arrays of records."""

import base64
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imsave

from singularbayes.experiments.record import Record
from singularbayes.report.histograms import draw_shares
from singularbayes.report.sentences import NAMES, score
from singularbayes.report.style import BLUE, INK, PAGE, PALE, SKY


@dataclass(frozen=True)
class Panel:
    """A picture and the words for those who cannot see it."""

    svg: str
    alt: str


def _panel(name: str, draw, alt: str, size: tuple[float, float]) -> Panel:
    with matplotlib.rc_context(PAGE):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        page = io.StringIO()
        figure.savefig(page, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    svg = page.getvalue()
    # Several pictures share a page, and an id may stand there once.
    return Panel(re.sub(r'(\sid="|href="#|url\(#)', rf"\1{name}-", svg[svg.index("<svg") :]), alt)


def toy(records: Sequence[Record]) -> list[Panel]:
    """Returns one panel a method, all on the same axes: data, mean and 95 % bands; below, half the bands' widths."""
    edges = np.concatenate([r.arrays["total"].ravel() for r in records] + [records[0].arrays["y"]])
    room = 0.05 * float(np.ptp(edges))
    limits = float(edges.min()) - room, float(edges.max()) + room
    widest = 1.1 * max(float(np.ptp(r.arrays["total"], axis=0).max()) for r in records) / 2
    return [_panel(r.name, lambda f, r=r: _draw_toy(f, r, limits, widest), _toy_alt(r), (5.2, 5.0)) for r in records]


def _draw_toy(figure: Figure, record: Record, limits: tuple[float, float], widest: float) -> None:
    a = record.arrays
    above, below = figure.subplots(2, sharex=True, height_ratios=(3, 1))
    for axes in (above, below):
        axes.axvspan(*record.settings["train_range"], color=PALE, lw=0)
    above.scatter(a["x"], a["y"], s=5, color="#555555", alpha=0.5, lw=0, rasterized=True, zorder=2)
    above.fill_between(a["grid"], *a["total"], color=SKY, alpha=0.45, lw=0, zorder=3)
    above.fill_between(a["grid"], *a["epistemic"], color=BLUE, alpha=0.45, lw=0, zorder=4)
    above.plot(a["grid"], a["mean"], color=INK, lw=1.6, zorder=5)
    below.fill_between(a["grid"], np.ptp(a["total"], axis=0) / 2, color=SKY, alpha=0.45, lw=0, zorder=3)
    below.fill_between(a["grid"], np.ptp(a["epistemic"], axis=0) / 2, color=BLUE, alpha=0.45, lw=0, zorder=4)
    above.set_title(f"{NAMES[record.method].capitalize()}, {record.parameters:,} parameters", loc="left", fontsize=12)
    above.set(ylabel="y", xlim=(a["grid"][0], a["grid"][-1]), ylim=limits)
    below.set(xlabel="x", ylabel="half width", ylim=(0, widest))
    figure.align_ylabels()


def _toy_alt(record: Record) -> str:
    m = record.metrics
    return (
        f"{NAMES[record.method].capitalize()} regression: data, mean and 95 % bands; below, half their widths. "
        f"The interquartile range of the functions is {m['iqr_inside']:.3f} inside the training range and "
        f"{m['iqr_outside']:.3f} outside."
    )


def digits(records: Sequence[Record]) -> list[Panel]:
    """Returns one panel a method: how uncertain it is about test images and about held-out digits."""
    return [
        _panel(r.name, lambda f, r=r: _draw_digits(f.add_subplot(), r, _bins(records, r)), _digits_alt(r), (4.0, 3.1))
        for r in records
    ]


def _bins(records: Sequence[Record], record: Record) -> np.ndarray:
    """Returns the edges of the bars: one axis for all methods judged by the same kind of uncertainty."""
    alike = [r for r in records if score(r)[0] == score(record)[0]]
    most = max(float(np.max(_uncertainty(r, kind))) for r in alike for kind in ("test", "foreign"))
    return np.linspace(0.0, max(most, 1e-3), 25)


def _uncertainty(record: Record, kind: str) -> np.ndarray:
    prefix = {"mutual information": "mi", "entropy": "entropy"}[score(record)[0]]
    return record.arrays[f"{prefix}_{kind}"]


def _draw_digits(axes: Axes, record: Record, bins: np.ndarray) -> None:
    draw_shares(axes, _uncertainty(record, "test"), _uncertainty(record, "foreign"), bins, lw=1.6)
    name, auroc = score(record)
    axes.set_title(f"{NAMES[record.method].capitalize()}: AUROC {auroc:.3f}", loc="left", fontsize=12)
    axes.set(xlabel=f"{name} (nats)", ylabel="% of images", xlim=(0, bins[-1]), ylim=(0, 100))


def _digits_alt(record: Record) -> str:
    name, auroc = score(record)
    known, foreign = (float(np.median(_uncertainty(record, kind))) for kind in ("test", "foreign"))
    return (
        f"{NAMES[record.method].capitalize()}: histograms of the {name}. The median is {known:.3f} nats for test "
        f"images and {foreign:.3f} for held-out digits; AUROC {auroc:.3f}."
    )


@dataclass(frozen=True)
class Thumbnail:
    """A digit with what the network took it for and how unsure it was."""

    png: str  # base64
    digit: int
    guess: int
    uncertainty: float


def thumbnails(record: Record, number: int = 8) -> tuple[list[Thumbnail], list[Thumbnail]]:
    """Returns the held-out images that a method is most unsure about, and those it is least unsure about."""
    a, uncertainty = record.arrays, _uncertainty(record, "foreign")

    def thumbnail(i: int) -> Thumbnail:
        digit, guess = int(a["digits_foreign"][i]), int(a["guesses_foreign"][i])
        return Thumbnail(_png(a["images_foreign"][i]), digit, guess, float(uncertainty[i]))

    order = np.argsort(uncertainty, kind="stable")
    return [thumbnail(i) for i in order[: -number - 1 : -1]], [thumbnail(i) for i in order[:number]]


def _png(image: np.ndarray) -> str:
    packed = io.BytesIO()
    imsave(packed, image, cmap="gray_r", vmin=0, vmax=1, format="png")
    return base64.b64encode(packed.getvalue()).decode()
