"""Several plain networks, such as the component means of a mixture, as one graph that can be exported."""

from collections.abc import Sequence
from typing import Any

import keras

from singularbayes.convert.collapse import collapse
from singularbayes.convert.components import count_components
from singularbayes.convert.frozen import Frozen, as_graph, require_inputs, restored
from singularbayes.convert.surgery import copied
from singularbayes.likelihoods import likelihood_of_output
from singularbayes.models import position_of
from singularbayes.posteriors import find_posteriors


def freeze_members(
    members: keras.Model | Sequence[keras.Model],
    *,
    likelihood=None,
    output: str | int | None = None,
    level: float = 0.95,
) -> keras.Model:
    """Returns a Keras model that predicts as the ensemble of `members` does, with the outputs of `freeze_draws`.

    A mixture gives the mean networks of its components, `collapse(model, component="all")`: K passes that keep what
    the components disagree on, and lose what each is unsure of by itself. The result is a graph of Keras layers.

    Args:
        members: a model of mixtures; or plain networks with the same inputs and outputs, such as the `models` of a
            `DeepEnsemble`.
        likelihood, output: as for `predict`; by default read from the loss of the mixture, or of the first network.
        level: of the interval.

    >>> import keras, numpy as np, singularbayes as sb
    >>> head = sb.layers.Dense(3, posterior=sb.Mixture(sb.LowRank(2), components=4))
    >>> model = keras.Sequential([keras.Input((5,)), head])
    >>> model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    >>> outputs = freeze_members(model).predict(np.ones((2, 5)), verbose=0)
    >>> sorted((name, value.shape) for name, value in outputs.items())
    [('entropy', (2,)), ('mean', (2, 3)), ('mutual_information', (2,))]
    """
    mixture = isinstance(members, keras.Model)
    first: Any = members if isinstance(members, keras.Model) else next(iter(members), None)
    require_inputs("freeze_members", first, level)
    if mixture:
        count_components(first, "freeze_members")
    position = position_of(first, output, "freeze_members") or 0
    meaning = likelihood_of_output(first, position, likelihood, "freeze_members")
    networks: list[Any] = collapse(first, component="all") if mixture else [copied(network) for network in members]
    random = [network.name for network in networks if find_posteriors(network)]
    if random:
        raise ValueError(
            f"freeze_members needs plain networks; got posteriors in {random}: take freeze_draws for them."
        )
    frozen = FrozenMembers(networks, likelihood=meaning, position=position, level=level)
    return as_graph(frozen, first, f"{first.name}_{len(networks)}_members")


@keras.saving.register_keras_serializable(package="singularbayes")
class FrozenMembers(Frozen):
    """Plain networks on the same inputs, and the summary of their outputs. Made by `freeze_members`."""

    def __init__(self, members, **kwargs):
        super().__init__(**kwargs)
        self.members = [restored(member) for member in members]
        for member in self.members:
            member.trainable = False

    @property
    def networks(self) -> list[keras.Model]:
        return self.members

    @property
    def number(self) -> int:
        return len(self.members)

    def _output_lists(self, inputs) -> list[list]:
        return [keras.tree.flatten(member(inputs, training=False)) for member in self.members]

    def get_config(self):
        members = [keras.saving.serialize_keras_object(member) for member in self.members]
        return {**super().get_config(), "members": members}
