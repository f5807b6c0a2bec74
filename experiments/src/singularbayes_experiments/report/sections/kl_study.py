"""What the weight of the KL does, over six decades."""

from collections.abc import Sequence

from singularbayes_experiments.report.measure_pictures import sweep
from singularbayes_experiments.report.names import measure
from singularbayes_experiments.report.rows import Row
from singularbayes_experiments.report.section import Columns, Drawing, Section
from singularbayes_experiments.report.sections.image_columns import ACCURACY, BINNINGS, ECE, NLL, detection

_CHANCE = 0.2  # an accuracy below this is a network that predicts the same for every image
_SD = measure("posterior_sd_median", 4)
_PRUNED = measure("posterior_pruned", 1, label="pruned %", scale=0.01)
_SIGNAL = measure("posterior_signal", 3)
_OOD = detection(("fashion_mnist", "notmnist"))
_WIDTHS = Columns(
    "Accuracy and widths of the posterior",
    (
        ACCURACY,
        NLL,
        ECE,
        measure("mean_mi", 4),
        measure("posterior_kl", 0),
        _SD,
        _SIGNAL,
        _PRUNED,
    ),
    note=(
        "KL: of all factors, in nats. The last three columns are of the entries of the factors A and B: the median of "
        "their standard deviations (sd), the median of |mean| / sd, and the share whose mean is within one sd of 0 "
        "(pruned)."
    ),
)


def _finding(rows: Sequence[Row]) -> str:
    scored = [row for row in rows if row.has_metrics(["beta", "nll", "accuracy"])]
    if not scored:
        return ""
    best = min(scored, key=lambda row: row.mean("nll"))
    text = f"The NLL is lowest at β = {best.mean('beta'):g} ({best.mean('nll'):.4f})"
    above = [row for row in scored if row.mean("beta") > best.mean("beta")]
    gone = [row.mean("beta") for row in above if row.mean("accuracy") < _CHANCE]
    if not gone:
        return f"{text}; nowhere in the range does the posterior collapse."
    since = f"from β = {min(gone):g} on" if len(gone) > 1 else f"at β = {gone[0]:g}"
    return f"{text}; {since} the accuracy is near chance: the posterior has collapsed."


def _with_rate(rows: Sequence[Row]) -> str:
    """Returns the finding, and the learning rate where all rows have the same one."""
    rates = {row.first.settings["learning_rate"] for row in rows if "learning_rate" in row.first.settings}
    rate = f"Every β has the same learning rate, {rates.pop():g}, which was not tuned here." if len(rates) == 1 else ""
    return f"{_finding(rows)} {rate}".strip()


_BETAS = sorted(digit * 10.0**power for power in range(-6, 4) for digit in (1, 2, 3, 5))
_PANELS = (ACCURACY, NLL, _OOD.measures[-2], _SD, _PRUNED)

SECTION = Section(
    "kl_study",
    "The weight of the KL",
    "The low-rank network of the MNIST page with the KL weighted by β/N, over six decades of β; β = 1 is the ELBO. "
    "With a small β the posterior stays narrow, with a large one the prior dominates. Not an experiment of the paper.",
    (_WIDTHS, _OOD, BINNINGS),
    {f"beta_{beta:g}": f"β = {beta:g}" for beta in _BETAS},
    (
        Drawing(
            "Measures against β",
            sweep(
                "beta",
                "Against β",
                _PANELS,
                "weight β of the KL",
                lambda row: row.mean("beta"),
                lambda rows: f"{_finding(rows)} Bars are standard errors over seeds; the dashed line is β = 1.",
                marks=(1.0,),
            ),
            metrics=("beta", "accuracy", "nll"),
            rows=2,
        ),
    ),
    _with_rate,
    in_paper=False,
)
