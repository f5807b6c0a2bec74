"""Every bound that speaks about a model, in one table, and for those that do not the reason."""

import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace

import keras
import numpy as np

from singularbayes import bounds
from singularbayes.assess.certificate import certify
from singularbayes.assess.certified_kl import certified_kl
from singularbayes.assess.feed_forward import DenseWeight, read
from singularbayes.assess.mean_predictor import accepted_brier, margin_risk_of
from singularbayes.assess.small_variance import norm_limits, small_variance
from singularbayes.assess.voided import seen_by_prior
from singularbayes.bounds import Bound
from singularbayes.bounds.require import require_count, require_positive, require_share
from singularbayes.inference.inputs import as_arrays

_FORMS = ("kl", "sqrt", "quadratic")
# Half the Brier score of softmax(outputs): √2-Lipschitz in probabilities, which are ½-Lipschitz in the outputs.
_LIPSCHITZ = bounds.SOFTMAX_LIPSCHITZ * math.sqrt(2)


@dataclass(frozen=True)
class Row:
    """A bound, or the reason why it does not speak about the model."""

    name: str
    bound: Bound | None = None
    reason: str | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        """Name, value, confidence, and what the number is worth."""
        if self.bound is None:
            return self.name, "–", "–", "does not apply"
        certain = f"{self.bound.confidence:.4g}" if self.bound.deltas else "always"
        worth = "certificate" if self.bound.is_certificate else "no certificate"
        return self.name, f"{self.bound.side} {self.bound.value:.4g}", certain, worth + self._vacuous

    @property
    def _vacuous(self) -> str:
        return ", vacuous" if self.bound is not None and self.bound.vacuous else ""

    @property
    def note(self) -> str:
        """The defect or the reason, and what is assumed."""
        if self.bound is None:
            return f"{self.name}: {self.reason}"
        said = [f"{self.name} bounds the {self.bound.quantity}"]
        said += [f"no certificate: {self.bound.defect}"] if self.bound.defect else []
        return "; ".join([*said, f"assumes {', '.join(self.bound.assumptions)}"])


@dataclass(frozen=True)
class BoundsReport:
    """Rows in a fixed order; `report["PAC-Bayes, kl inverse"]` is one by name."""

    model: str
    num_data: int
    rows: tuple[Row, ...]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"BoundsReport has rows {[row.name for row in self.rows]}; got {name!r}.")

    def __repr__(self) -> str:
        cells = [("bound", "value", "probability", "what it is"), *(row.cells for row in self.rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(4)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
        ]
        notes = [textwrap.fill(row.note, 118, initial_indent="- ", subsequent_indent="  ") for row in self.rows]
        return "\n".join([f"Bounds of {self.model!r} on {self.num_data:,} examples", "", *lines, "", *notes])


def bounds_report(
    model: keras.Model,
    x,
    y,
    delta: float = 0.05,
    *,
    draws: int = 1000,
    margin: float = 1.0,
    radius: float | None = None,
    seed: int = 0,
    **options,
) -> BoundsReport:
    """Returns every bound of a classifier that (x, y) give, each alone with probability 1 − δ.

    PAC-Bayes bounds of the randomised predictor; bounds by Gaussian complexity of the mean predictor, for half the
    Brier score; and the small-variance certificate with the bound it gives for the mean network. The last two are about
    feed-forward networks without biases: for others the table has the reason. Published forms stand beside the sound
    ones with their defects.

    Args:
        draws: of networks, for each bound that needs some.
        margin: γ of the small-variance certificate; to be chosen without (x, y).
        radius: R with ‖x‖ ≤ R for all inputs, new ones too; None is the largest norm in `x`, and then the margin bound
            is no certificate.
        **options: those of `certify`: `prior_data`, `frozen`, `tried`, `allow_seen`, `likelihood`.
    """
    require_share("bounds_report", delta=delta)
    require_count("bounds_report", draws=draws)
    require_positive("bounds_report", margin=margin)
    x, y = as_arrays(x), np.asarray(y)
    rows = list(_pac_bayes(model, x, y, delta, draws, seed, options))
    weights, reasons = read(model)
    if reasons or not isinstance(x, np.ndarray):
        why = "; ".join(reasons) or "several inputs"
        names = ("Gaussian complexity", "Small variance", "Margin")
        rows += [Row(name, reason=f"about feed-forward networks without biases: {why}") for name in names]
    else:
        flat = x.reshape(len(x), -1).astype("float64")
        likelihood = options.get("likelihood")
        tried = options.get("tried", 1)
        rows += _complexity(model, weights, x, flat, y, delta, min(draws, 100), seed, likelihood, tried)
        seen, _ = seen_by_prior(model, x, options.get("prior_data"))
        rows += _small_variance(model, x, flat, y, delta / tried, draws, margin, radius, seed, seen)
    rows.append(Row("Truncation and learned rank", reason=_ONE_MAP if len(weights) != 1 else _NO_TARGET))
    return BoundsReport(model.name, len(y), tuple(rows))


_ONE_MAP = "about one linear map; per layer see bounds.truncation_bound with the singular values of `spectrum`"
_NO_TARGET = "needs the full-rank W* that is approximated; see bounds.learned_bound"


def _pac_bayes(model, x, y, delta, draws, seed, options) -> Iterator[Row]:
    try:
        found = certify(model, x, y, delta, draws, seed=seed, **options)
    except (ValueError, TypeError) as error:
        yield Row("PAC-Bayes, kl inverse", reason=str(error))
        return
    kl, num_data, tried = found.terms["KL"], len(y), int(found.terms["tried"])
    yield Row("PAC-Bayes, kl inverse", found)
    empirical = Bound("Monte Carlo", "", found.terms["with their error"], deltas=_only(found, "Monte Carlo"))
    for form in _FORMS[1:]:
        other = bounds.pac_bayes(empirical, kl, num_data, found.deltas["data"], form, 1 / tried)
        yield Row(other.name, other.with_defect(found.defect) if found.defect else other)
    mistakes, plain = found.terms["mistakes of the draws"], found.terms["KL before the gauge"]
    published = bounds.pac_bayes(mistakes, plain, num_data, delta, variant="published")
    yield Row("PAC-Bayes, published", published)


def _only(bound: Bound, key: str) -> dict[str, float]:
    return {key: bound.deltas[key]}


def _complexity(model, weights: list[DenseWeight], x, flat, y, delta, draws, seed, likelihood, tried) -> Iterator[Row]:
    failure = delta / 5
    limits = norm_limits(weights, failure)
    strata = bounds.stratify([first * second for first, second in limits])  # ‖A Bᵀ‖ ≤ ‖A‖ ‖B‖, learned: rounded up
    widths = [weights[0].shape[0], *(weight.shape[1] for weight in weights)]
    network = bounds.NetworkClass(strata.norms, [weight.rank for weight in weights], widths)
    risk = accepted_brier(model, weights, x, y, limits, draws, seed, likelihood)
    for variant in ("explicit", "sound", "pinto", "published"):
        complexity = bounds.gaussian_complexity(network, float(np.linalg.norm(flat)), len(y), variant)
        form = "published" if variant == "published" else "sound"
        found = bounds.complexity_risk(risk, complexity, len(y), _LIPSCHITZ, delta, strata.share / tried, form)
        yield Row(f"Gaussian complexity, {variant}", bounds.good_event_risk(found, failure))


def _small_variance(model, x, flat, y, delta, draws, margin, radius, seed, seen) -> Iterator[Row]:
    largest = float(np.linalg.norm(flat, axis=1).max())
    if radius is not None and radius < largest:
        raise ValueError(f"bounds_report needs radius >= ‖x‖; got radius={radius} and an example of {largest:.4g}.")
    found = small_variance(model, radius or largest, margin, delta / 2, draws, seed=seed)
    yield Row("Small variance, by draws", found.sampled)
    if found.analytic is not None:
        yield Row("Small variance, by budget", found.analytic)
    risk = margin_risk_of(model, x, y, margin)
    bound = bounds.margin_risk(risk, certified_kl(model)[1], len(y), delta / 2, found)
    bound = replace(bound, terms={**bound.terms, "R": radius or largest})
    for defect in (seen, None if radius else "R is the largest norm of these examples; a new one may be larger"):
        bound = bound if defect is None else bound.with_defect(defect)
    yield Row("Margin", bound)
