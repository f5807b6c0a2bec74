"""What becomes of every layer of a model: the requested posterior and rules, resolved."""

import fnmatch
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath

import keras

from singularbayes import posteriors
from singularbayes.checks import require_choice
from singularbayes.convert import counterparts
from singularbayes.convert.layer_matrices import find_slots
from singularbayes.convert.members import Models, differ, members_of, require_components
from singularbayes.convert.places import Place, is_ours, own_weights, places
from singularbayes.models.text import find_backbone, is_backbone, require_tokenizer
from singularbayes.posteriors import Posterior

Choice = Posterior | int | str | None
Rules = Mapping[str | type, "Choice | Callable[[keras.layers.Layer], Choice]"]

# Their weights scale and shift, entry by entry, whatever the shape.
_ELEMENTWISE = (
    keras.layers.BatchNormalization,
    keras.layers.GroupNormalization,
    keras.layers.LayerNormalization,
    keras.layers.Normalization,
    keras.layers.PReLU,
    keras.layers.RMSNormalization,
)
NO_MATRIX, NO_COUNTERPART, BAYESIAN = "no weight matrix", "no Bayesian counterpart", "Bayesian already"
FROZEN, HEAD = "frozen, as all of the backbone", "trained as it is, beside the backbone"
_CONV_LSTM = (keras.layers.ConvLSTM1D, keras.layers.ConvLSTM2D, keras.layers.ConvLSTM3D)


@dataclass(frozen=True)
class Decision:
    """What becomes of one layer."""

    place: Place
    posteriors: Mapping[str, Posterior]  # by matrix; none when the layer is kept
    reason: str = ""  # why it is kept
    unsupported: bool = False  # whether it is kept because it cannot be converted
    part: str = ""  # of a model with a backbone that gets adapters: "base", which is frozen, or "head"
    given: tuple[keras.layers.Layer, ...] = ()  # the layer at this place in every model
    components: int = 1  # of a layer that is kept and that has weights for every component

    @property
    def layer(self) -> keras.layers.Layer:
        return self.place.layer

    @property
    def frozen(self) -> bool:
        """Whether training leaves the layer as it is."""
        if self.part == "base":
            return not self.posteriors
        return not any(weight.trainable for weight in self.layer.weights)


def decide(
    models: Models, posterior, rules: Rules | None = None, init: str = "svd", unsupported: str = "keep", per_head=False
) -> list[Decision]:
    """Returns what becomes of every layer of a built model, or of several of one architecture; changes nothing."""
    require_choice("Conversion", ("svd", "random"), init=init)
    require_choice("Conversion", ("error", "keep"), unsupported=unsupported)
    members = members_of(models, init)
    model = members[0]
    _require_built(model)
    if rules is not None and not isinstance(rules, Mapping):
        raise ValueError(
            "rules needs a mapping from names, patterns or classes of layers to posteriors, such as "
            f'{{"head": None}}; got rules={rules!r}.'
        )
    require_tokenizer(model, "Conversion")
    choose = _Chooser(posterior, dict(rules or {}), len(members))
    parts = _adapts_backbone(model, posterior)
    decisions = [_decide(place, choose, per_head, parts) for place in _convertible(model)]
    choose.require_every_rule_used(model)
    components = require_components(members, [q for each in decisions for q in each.posteriors.values()])
    layers = [{place.key: place.layer for place in places(member)} for member in members]
    decisions = [replace(each, given=tuple(found[each.place.key] for found in layers)) for each in decisions]
    return [replace(each, components=components) if _is_per_component(each) else each for each in decisions]


def _require_built(model) -> None:
    if not isinstance(model, keras.layers.Layer):
        remedy = ""
        if isinstance(model, (str, PurePath)):
            remedy = (
                " Load it: singularbayes.load(file), or keras_hub.models.TextClassifier.from_preset(folder, "
                "num_classes=2)."
            )
        raise ValueError(f"Conversion needs a Keras model; got {model!r}.{remedy}")
    if not model.built:
        raise ValueError(
            f"Conversion needs a built model; got {type(model).__name__} {model.name!r}, which has no weights yet. "
            "Call it once on a batch, model(x[:1]), or build it: model.build((None, number_of_features))."
        )


def _is_per_component(decision: Decision) -> bool:
    """Returns whether a layer that is kept needs weights for every component of mixtures.

    Gains and statistics that are trained do, the head beside a backbone, and what differs between the members of an
    ensemble. Any other layer with a matrix that is kept is one for all components of a single model.
    """
    if decision.posteriors or not decision.layer.weights or is_ours(decision.layer):
        return False
    if len(decision.given) > 1:
        return differ(decision.given)
    return (decision.reason == NO_MATRIX or decision.part == "head") and not decision.frozen


def _adapts_backbone(model, posterior) -> bool:
    """Whether one adapter for all is given to a model with a backbone: then only the matrices of that get it."""
    if posterior is None or (callable(posterior) and not isinstance(posterior, Posterior)):
        return False
    return find_backbone(model) is not None and posteriors.get_posterior(posterior).adapts


def _convertible(model) -> list[Place]:
    """Returns the layers that are converted or kept as a whole: all but those that only hold others."""
    found = places(model, whole=is_whole)
    holders = {id(holder) for place in found for holder in place.holders}
    kinds = (keras.layers.InputLayer, keras.Model)
    return [
        place
        for place in found
        if _has_matrix(place.layer) or not (id(place.layer) in holders or isinstance(place.layer, kinds))
    ]


def is_whole(layer) -> bool:
    """Whether a layer is converted or kept as one, with the layers in it."""
    # The wrapper changes the kernel of its layer, which only a plain layer has.
    kept = isinstance(layer, (keras.layers.SpectralNormalization, *_CONV_LSTM))
    return kept or counterparts.counterpart_class(layer) is not None or is_ours(layer)


def weights_at(layer) -> list:
    """Returns the weights that are at the place of a layer: all of one that counts as a whole, else its own."""
    return layer.weights if is_whole(layer) else own_weights(layer)


def _has_matrix(layer) -> bool:
    if isinstance(layer, _ELEMENTWISE):
        return False
    weights = layer.trainable_variables if is_whole(layer) else layer._trainable_variables
    return any(sum(size > 1 for size in weight.shape) >= 2 for weight in weights)


def _decide(place: Place, choose: "_Chooser", per_head: bool, parts: bool) -> Decision:
    """Returns what becomes of a layer.

    Args:
        parts: whether a backbone is the frozen base of adapters, and what is beside it the head.
    """
    layer, part = place.layer, ""
    if is_ours(layer):
        return Decision(place, {}, BAYESIAN)
    if parts and layer.weights:
        part = "base" if any(is_backbone(holder) for holder in place.holders) else "head"
    if counterparts.counterpart_class(layer) is None and not _has_matrix(layer):
        return Decision(place, {}, FROZEN if part == "base" else NO_MATRIX, part=part)
    chosen, reason, by_rule = choose(place)
    if chosen is None:
        return Decision(place, {}, reason)
    if part == "head" and not by_rule:
        return Decision(place, {}, HEAD, part=part)
    if part == "base" and not by_rule and not _takes_adapter(layer):
        return Decision(place, {}, FROZEN, part=part)
    against = counterparts.refusal(layer) if counterparts.counterpart_class(layer) else NO_COUNTERPART
    if against:
        return Decision(place, {}, against, unsupported=True)
    slots = find_slots(layer, per_head).items()
    own = part if chosen.adapts else ""
    return Decision(place, {name: chosen for name, slot in slots if slot.is_matrix}, part=own)


def _takes_adapter(layer) -> bool:
    """Whether a matrix of a backbone gets an adapter without a rule: one that inputs are multiplied by, no table."""
    return counterparts.counterpart_class(layer) is not None and not isinstance(layer, keras.layers.Embedding)


class _Chooser:
    """Finds the posterior of a layer: by the first rule that fits it or a layer around it, else the one for all."""

    def __init__(self, posterior, rules: dict, members: int):
        self.posterior, self.rules, self.members = posterior, rules, members
        self.used: set = set()
        self.names: list[str] = []

    def __call__(self, place: Place) -> tuple[Posterior | None, str, bool]:
        """Returns the posterior, or None and the reason; and whether a rule chose it."""
        self.names.append(place.path)
        key = next((key for key in self.rules if _fits(key, place)), None)
        if key is None:
            return self._resolved(self.posterior, place), "no posterior requested", False
        self.used.add(key)
        return self._resolved(self.rules[key], place), f"kept by the rule {_shown(key)}", True

    def _resolved(self, choice, place: Place) -> Posterior | None:
        if callable(choice) and not isinstance(choice, (Posterior, type)):
            choice = choice(place.layer)
        if choice is None:
            return None
        chosen = posteriors.get_posterior(choice)
        return chosen.for_members(self.members) if self.members > 1 else chosen

    def require_every_rule_used(self, model) -> None:
        unused = [_shown(key) for key in self.rules if key not in self.used]
        if unused:
            raise ValueError(
                f"Every rule needs to match a layer with a weight matrix of {model.name!r} that no rule before it "
                f"matches; got {', '.join(unused)}. The layers are: {', '.join(self.names) or 'none'}."
            )


def _shown(key) -> str:
    return repr(key) if isinstance(key, str) else key.__name__


def _fits(key, place: Place) -> bool:
    """Whether a rule is for a layer or for a layer that holds it: by class, name or pattern of a name or path."""
    if isinstance(key, type):
        return any(isinstance(layer, key) for layer in (place.layer, *place.holders))
    if not isinstance(key, str):
        raise ValueError(f"A rule needs a name, a pattern or a class of layers; got {key!r}.")
    paths = ["/".join(place.names[: depth + 1]) for depth in range(len(place.names))]
    return any(name == key or fnmatch.fnmatchcase(name, key) for name in (*place.names, *paths))


def bias_of(decision: Decision, requested: Posterior | None) -> Posterior | None:
    """Returns the posterior of the biases of a layer: the requested one, and in a base one that keeps them."""
    keeps = decision.part == "base" and requested is None and len(decision.given) == 1
    return posteriors.Deterministic(frozen=True) if keeps else requested
