"""The configurations of the comparison of modes (`modes.py`): up to three rounds, committed before their runs.

Grids of images, the toy and UCI tables are first rounds with two values of most settings. Their second rounds go beyond
the edges where the first choices lay: smaller β on the toy, where bands were too wide inside the data; larger β and
wider priors on images; larger β, smaller priors, wider starts and, for deterministic networks, fewer epochs on small
tables. The grids of text, air, intensive care and convolutions are first rounds, drawn around what earlier experiments
chose, one step beyond where that was an edge: β = .1 of full-rank networks on text, β = .3 and 64 epochs in intensive
care. The second round of text goes beyond the first choices: higher rates and more decay for deterministic networks,
for variational ones three times the largest β, and half the epochs. The second rounds of convolutions and of the
seven tables that had one go beyond its edges, too, with twice the epochs for every method; variational networks on
these tables have two rates for the first time. The third round of images has higher ranks and more epochs for
variational networks, higher rates or lower ones, as the edge was, and more decay for deterministic ones.
"""

import functools
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from singularbayes_experiments.methods.network_fit import Settings
from singularbayes_experiments.problems.modes import METHODS, TOY, ModesMethod, ModesSet

SHORT = ("boston_housing", "wine_quality_red")  # tables whose second round has fewer epochs: there networks overfit
WIDE = ("concrete", "kin8nm")  # tables whose mixtures had chosen the wider start
HIGH_RANK = 36  # five low-rank networks for images have 14 % of the parameters of a deep ensemble of five then


@functools.cache
def configurations(one: ModesSet, method: str, rounds: int = 1) -> Mapping[str, Settings]:
    """Returns the configurations of a method on a data set, those of all its rounds in order."""
    if one.tuned_on:
        one = one.tuned_on
    grids = [_first, _second, _third][: min(rounds, one.rounds)]
    found = [settings for grid in grids for settings in grid(one, METHODS[method])]
    assert len(found) == one.per_round * len(grids)
    return MappingProxyType({f"{method} {number}": settings for number, settings in enumerate(found)})


def round_of(one: ModesSet, configuration: str) -> int:
    """Returns the round that a configuration belongs to, from 1 on."""
    return int(configuration.split()[-1]) // (one.tuned_on or one).per_round + 1


def _first(one: ModesSet, method: ModesMethod) -> list[Settings]:
    if method.kind == "deterministic":
        return _deterministic(one)
    found = _newton(one) if method.newton else _variational(one, method)
    return [replace(settings, prior=method.prior) for settings in found]


def _second(one: ModesSet, method: ModesMethod) -> list[Settings]:
    if method.kind == "deterministic":
        return _second_deterministic(one)
    found = _second_newton(one) if method.newton else _second_variational(one, method)
    return [replace(settings, prior=method.prior) for settings in found]


def _third(one: ModesSet, method: ModesMethod) -> list[Settings]:
    if method.kind == "deterministic":
        return _third_deterministic(one)
    found = _third_newton(one) if method.newton else _third_variational(one, method)
    return [replace(settings, prior=method.prior) for settings in found]


# -- first rounds ------------------------------------------------------------------------------------------------------


def _deterministic(one: ModesSet) -> list[Settings]:
    """Learning rate, epochs and weight decay. Where an earlier choice lay at an edge, the grid begins beyond it."""
    grids: dict[str, Iterable[tuple[int, float, float]]] = {
        # A deterministic network on MNIST had chosen 3 epochs of 3 to 50, on the toy the rate 0.005 of 0.0005 to 0.005.
        "images": itertools.product((2, 4, 8, 16), (1e-3,), (0.0, 0.1)),
        TOY: itertools.product((400, 800), (5e-3, 1e-2), (0.0, 0.1)),
        "uci": itertools.product((one.epochs // 2, one.epochs), (3e-3, 1e-2), (0.0, 0.1)),
        "text": itertools.product((1, 2), (2e-4, 5e-4), (0.1,)),
        "air": itertools.product((8, 14), (3e-3, 6e-3), (0.0, 0.1)),
        "icu": itertools.product((32, 64), (1e-3, 3e-3), (0.0, 0.1)),
        "cnn": itertools.product((4, 8), (1e-3, 3e-3), (0.0, 0.1)),
    }
    return [Settings(epochs, rate, decay) for epochs, rate, decay in grids[one.family]]


def _variational(one: ModesSet, method: ModesMethod) -> list[Settings]:
    """β and the scale of the prior, and the learning rate, the initial scale or the spread of the start."""
    if one.family in ("images", "cnn"):
        rates = (3e-4, 1e-3) if method.kind == "full_rank" and one.family == "images" else (1e-3, 3e-3)
        return _by_rate(one, (0.1, 0.3), (0.03, 0.1), rates, warmup=2 if one.family == "cnn" else 0)
    if one.family == "uci":
        grid = itertools.product((0.1, 0.3), (0.01, 0.03), (3e-4, 0.03))
        return [_table(one, method, scale, beta, eta) for scale, beta, eta in grid]
    if one.family == "text":  # of the spike-and-slab prior the slab has the scale 1
        betas = (0.1, 0.3) if method.kind == "full_rank" else (0.3, 1.0)
        epochs = 6 if method.svd else one.epochs
        return _by_rate(replace(one, epochs=epochs), (1.0,), betas, (5e-4, 1e-3), eta=0.1, warmup=2)
    if one.family == "air":
        return _by_rate(one, (0.1, 0.3), (0.01, 0.03), (3e-3, 6e-3), warmup=4)
    if one.family == "icu":
        return _by_rate(one, (0.1, 0.3), (0.1, 0.3), (1e-3, 3e-3), warmup=10)
    if method.prior == "anchored" and not method.svd:  # the spread of the anchors is the prior over functions
        spreads = itertools.product((0.1, 0.3), (0.1, 1.0), ((3.0, 0.15, 0.15), (6.0, 0.2, 0.3)))
        return [_spread(one.epochs, scale, beta, spread) for scale, beta, spread in spreads]
    return _by_rate(one, (0.3, 1.0), (0.1, 1.0), (5e-3, 1e-2))


def _newton(one: ModesSet) -> list[Settings]:
    """The same as for Adam: β, the scale of the prior and the learning rate, epochs as there."""
    scales, betas = {"images": ((0.1, 0.3), (0.03, 0.1)), TOY: ((0.3, 1.0), (0.1, 1.0))}.get(
        one.family, ((0.1, 0.3), (0.01, 0.03))
    )
    start = "orthogonal" if one.family == "uci" else "he"
    grid = itertools.product(scales, betas, (0.03, 0.1))
    return [Settings(one.epochs, rate, 0.0, "", scale, beta, 0.03, 1.0, start) for scale, beta, rate in grid]


# -- second rounds -----------------------------------------------------------------------------------------------------


def _second_deterministic(one: ModesSet) -> list[Settings]:
    grids: dict[str, Iterable[tuple[int, float, float]]] = {
        "images": itertools.product((6, 12), (5e-4, 2e-3), (0.1, 0.3)),
        TOY: itertools.product((800, 1600), (1e-2, 2e-2), (0.3, 1.0)),
        "uci": itertools.product((one.epochs // 4, one.epochs // 2), (1e-3, 3e-3), (0.3, 1.0)),
        "text": itertools.product((1,), (1e-3, 2e-3), (0.1, 0.3)),
        "cnn": itertools.product((12, 16), (3e-3, 6e-3), (0.0, 0.3)),
    }
    if one.family == "uci" and one.name not in SHORT:
        grids["uci"] = itertools.product((2 * one.epochs,), (1e-3, 3e-3, 1e-2, 3e-2), (0.0, 0.1))
    return [Settings(epochs, rate, decay) for epochs, rate, decay in grids[one.family]]


def _second_variational(one: ModesSet, method: ModesMethod) -> list[Settings]:
    if one.family == "images":
        slow = one.name == "fashion_mnist" and method.components > 1  # these had chosen the least rate
        rates = (5e-4, 2e-3) if slow or method.kind == "full_rank" else (2e-3, 6e-3)
        return _by_rate(one, (0.3, 1.0), (0.1, 0.3), rates)
    if one.family == "cnn":
        behind = method.kind == "full_rank" or method.components == 1  # these had chosen the least scale
        scales = (0.03, 0.1) if behind else (0.3, 1.0)
        betas = (0.1, 0.3) if behind or method.svd else (0.01, 0.03)
        return _by_rate(replace(one, epochs=2 * one.epochs), scales, betas, (3e-3, 6e-3), warmup=2)
    if one.family == "uci" and one.name not in SHORT:
        eta = 0.03 if one.name in WIDE else 3e-4
        grid = itertools.product((0.3, 1.0), (0.01, 0.03), (3e-3, 1e-2))
        longer = replace(one, epochs=2 * one.epochs)
        return [replace(_table(longer, method, scale, beta, eta), rate=rate) for scale, beta, rate in grid]
    if one.family == "uci":
        grid = itertools.product((0.03, 0.1), (0.1, 0.3), (0.03, 0.1))
        return [_table(one, method, scale, beta, eta) for scale, beta, eta in grid]
    if one.family == "text":
        last = 0.3 if method.kind == "full_rank" else 1.0  # the largest β of the first round
        whole = replace(one, epochs=6 if method.svd else one.epochs)
        half = replace(whole, epochs=whole.epochs // 2)
        found = _by_rate(whole, (1.0,), (3 * last,), (5e-4, 1e-3), eta=0.1, warmup=2)
        return [*found, *_by_rate(half, (1.0,), (last, 3 * last), (1e-3,), eta=0.1, warmup=2)]
    if method.prior == "anchored" and not method.svd:
        narrow, middle, wide = (1.5, 0.1, 0.1), (3.0, 0.15, 0.15), (6.0, 0.2, 0.3)
        found = [_spread(800, 0.1, beta, spread) for beta in (0.01, 0.03) for spread in (narrow, middle, wide)]
        return [*found, *(_spread(800, 0.03, 0.03, spread) for spread in (middle, wide))]
    return _by_rate(replace(one, epochs=800), (0.1, 0.3), (0.01, 0.03), (5e-3, 1e-2))


def _second_newton(one: ModesSet) -> list[Settings]:
    """IVON diverged at rates of 0.03 and 0.1 on images, and was far from done on the toy."""
    grid = itertools.product((0.1, 0.3), (0.03, 0.1), (3e-3, 0.01))
    start = "orthogonal" if one.family == "uci" else "he"
    epochs = 800 if one.family == TOY else one.epochs
    return [Settings(epochs, rate, 0.0, "", scale, beta, 0.03, 1.0, start) for scale, beta, rate in grid]


# -- third rounds, of images -------------------------------------------------------------------------------------------


def _third_deterministic(one: ModesSet) -> list[Settings]:
    if one.name == "mnist":  # it had chosen the highest rate and the most decay
        grid = itertools.product((8, 16), (2e-3, 4e-3), (0.3, 0.9))
    else:  # the least rate, and the most decay
        grid = itertools.product((16, 24), (2.5e-4, 5e-4), (0.3, 0.9))
    return [Settings(epochs, rate, decay) for epochs, rate, decay in grid]


def _third_variational(one: ModesSet, method: ModesMethod) -> list[Settings]:
    digits = one.name == "mnist"
    betas = (0.01, 0.03) if method.examples == "split" else (0.1, 0.2)
    if method.kind == "full_rank":
        scales = (0.03, 0.1) if digits else (0.3, 0.5)
        return _by_rate(replace(one, epochs=40), scales, betas, (5e-4, 1e-3))
    scales = ((0.03, 0.1) if digits else (1.0, 3.0)) if method.svd else (0.1, 0.3)
    rate = 3e-3 if digits else 2e-3 if method.svd or method.components == 1 else 1e-3
    found = [_by_rate(replace(one, epochs=epochs), scales, betas, (rate,)) for epochs in (20, 40)]
    return [replace(settings, rank=HIGH_RANK) for own in found for settings in own]


def _third_newton(one: ModesSet) -> list[Settings]:
    grid = itertools.product((0.1, 0.3), (0.03, 0.1), (3e-4, 1e-3))
    return [Settings(one.epochs, rate, 0.0, "", scale, beta, 0.03, 1.0, "he") for scale, beta, rate in grid]


# -- one configuration -------------------------------------------------------------------------------------------------


def _by_rate(one: ModesSet, scales, betas, rates, eta: float = 0.03, warmup: int = 0) -> list[Settings]:
    return [
        Settings(one.epochs, rate, 0.0, "", scale, beta, eta, 4.0, warmup=warmup)
        for scale, beta, rate in itertools.product(scales, betas, rates)
    ]


def _table(one: ModesSet, method: ModesMethod, scale: float, beta: float, eta: float) -> Settings:
    start = "orthogonal" if method.kind == "low_rank" and not method.svd else "he"
    return Settings(one.epochs, 3e-3, 0.0, "", scale, beta, eta, 1.0, start)


def _spread(epochs: int, scale: float, beta: float, spread: tuple[float, ...]) -> Settings:
    return Settings(epochs, 5e-3, 0.0, "", scale, beta, 0.03, 4.0, "he", spread)
