"""How stored arrays enter a model and numbers leave a result: the one file that knows how the library holds either.

Arrays of a matrix have the components on a leading axis: {"a": {"loc": (K, rows, rank), "scale": …}, "b": …, "w0": …}.
"""

import itertools

import numpy as np

import singularbayes as sb

FACTORS = {"low_rank": "ab", "adaptive": "ab", "adapter": "ab", "full_rank": "w", "rank_one": "sr"}


def make_posterior(kind, rank, prior, family, rho_lr, components):
    """Returns an unbuilt posterior; whatever the stored arrays do not replace is given here."""
    explicit = {"prior": prior, "family": family, "rho_lr": rho_lr}
    if kind in ("full_rank", "rank_one"):
        one = sb.FullRank(**explicit) if kind == "full_rank" else sb.RankOne("product", **explicit)
    else:
        one = {"low_rank": sb.LowRank, "adaptive": sb.AdaptiveLowRank, "adapter": sb.Adapter}[kind](rank, **explicit)
    return one if components == 1 else sb.Mixture(one, components)


def set_posterior(posterior, kind, arrays) -> None:
    """Gives every component its means and scales, and what is neither: W₀, and the centres of a prior."""
    number = itertools.count()

    def assign(one):
        k, factor = next(number), one.factors[0]
        loc, scale, centre = (
            np.concatenate([np.asarray(arrays[name][what])[k] for name in FACTORS[kind]])
            for what in ("loc", "scale", "centre")
        )
        factor.set(loc, scale)
        if factor.reference is not None:
            factor.reference.assign(np.stack([centre, np.ones_like(centre)]))
        if "w0" in arrays:
            one.w0.assign(np.asarray(arrays["w0"])[k])

    posterior.for_components(assign)


def set_plain(variable, array) -> None:
    """Gives a weight without posterior its values (K, …); the library may lack that axis where K is 1."""
    variable.assign(np.reshape(array, variable.shape))


def parts(layer) -> dict:
    """Returns the posteriors and plain weights of a layer by name."""
    if isinstance(layer, sb.layers.TransformerEncoder):
        found = {name: getattr(layer.attention, f"_{name}_dense") for name in ("query", "key", "value", "output")}
        found |= {"inner": layer.inner, "outer": layer.outer}
        norms = {"first": layer.attention_norm, "second": layer.dense_norm}
        plain = {f"{n}_{which}": getattr(norm, which) for n, norm in norms.items() for which in ("gamma", "beta")}
        plain |= {f"{name}_bias": dense.bias for name, dense in found.items()}
        return {name: dense.posterior for name, dense in found.items()} | plain
    if isinstance(layer, sb.layers.LearnedNoise):
        return {"log_scale": layer.log_scale}
    bias = getattr(layer, "bias_posterior", None) or getattr(layer, "bias", None)
    return {"kernel": layer.posterior, "recurrent": getattr(layer, "recurrent_posterior", None), "bias": bias}


def exact_kl(model) -> float:
    """Returns the KL in nats without random numbers."""
    return sb.kl(model, "exact")


def column(comparison) -> tuple:
    """Returns means and standard errors of the methods, and (difference, low, high) of all but the first."""
    (only,) = comparison.columns
    gaps = [cell.difference for cell in only.cells[1:]]
    differences = [[gap.mean, gap.low, gap.high] for gap in gaps]
    return [cell.mean for cell in only.cells], [cell.error for cell in only.cells], differences


def plan_rows(plan) -> list:
    """Returns (parameters before, after, residual ‖W − W_r‖, explained share) of every layer."""
    return [(row.before, row.after, row.residual, row.explained) for row in plan.rows]


def spectrum_rows(spectrum) -> list:
    """Returns (singular values, entropy rank, stable rank, rank for 90 %) of every matrix."""
    return [(row.values, row.entropy_rank, row.stable_rank, row.rank_for(0.9)) for row in spectrum.rows]
