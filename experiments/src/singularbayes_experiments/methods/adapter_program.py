"""Many adapters of one frozen encoder as one JAX program.

Members differ in what is an array: means and scales of adapters and head, priors, KL weight, learning rates, rate of
dropout, rows. The frozen weights are there once. Noise and KL are those of the library's layers (`stateless_call` of
the converted Keras model, mapped over members), the step is that of `keras.optimizers.Adam`; a member equals the model
that `fit` trains with its settings and batches, to the accuracy of floats. A network without noise is one whose
posterior scales are about 0 and stay there, with KL weight 0. The blocks of the encoder, which are alike, are one block
that is run with the weights of each: it compiles in a fraction of the time.
"""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import jax
import keras
import numpy as np
from jax import numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from singularbayes.posteriors import find_random_posteriors
from singularbayes.training import set_kl

_DROPOUT: ContextVar[tuple | None] = ContextVar("dropout", default=None)  # rate, key and first place of the pass
_SAVED = jax.checkpoint_policies.save_from_both_policies(  # by a block for its gradient; the rest is computed again
    jax.checkpoint_policies.dots_saveable, jax.checkpoint_policies.save_only_these_names("kept")
)
State = dict[str, Any]  # arrays with members on the first axis


class MemberDropout(keras.layers.Dropout):
    """A dropout whose rate and key are those of a member: arrays, which Keras's own does not take."""

    place = 0

    def call(self, inputs, training=False):
        now = _DROPOUT.get()
        if now is None:
            return inputs
        rate, key, first = now
        bits = jax.random.bits(jax.random.fold_in(key, first + self.place), inputs.shape, "uint16")
        keep = checkpoint_name(bits >= (rate * 65536).astype("uint16"), "kept")
        return jnp.where(keep, inputs / (1 - rate).astype(inputs.dtype), 0)


@contextlib.contextmanager
def _dropping(rate, key, first=0) -> Iterator[None]:
    token = _DROPOUT.set((rate, key, first))
    try:
        yield
    finally:
        _DROPOUT.reset(token)


@dataclass(frozen=True)
class Start:
    """Where a member begins and what it is.

    Args:
        seed: of its initial means and of its noise.
        scale_a, scale_b: initial posterior scales of A and B as multiples of the scale of the means of A.
        head_scale: that of the head's weights.
        width_a, width_b, head_width: standard deviations of the priors.
        anchored: whether the prior of A and B is centred at the initial means, else at 0; that of the head is at 0.
        kl_weight: β / num_data.
        rho_lr: learning rates of ρ of A, B and the head as multiples of `learning_rate`.
        dropout: the rate in training, and in prediction.
    """

    seed: int
    learning_rate: float
    scale_a: float
    scale_b: float
    head_scale: float
    width_a: float
    width_b: float
    head_width: float
    anchored: bool
    kl_weight: float
    rho_lr: tuple[float, float, float]
    dropout: tuple[float, float]


def stacked(members: Sequence[Start]) -> dict[str, np.ndarray]:
    """Returns the fields of several members, each on one axis more."""
    found = {name: np.array([getattr(one, name) for one in members]) for name in Start.__dataclass_fields__}
    return {name: values.astype("int32" if name == "seed" else "float32") for name, values in found.items()}


class AdapterProgram:
    """A converted model, and members that train with its layers.

    Args:
        model: a functional classifier of `token_ids`, `segment_ids`, `padding_mask` with `Adapter` posteriors and,
            last, a `FullRank` head, whose priors have centres. Its layers named `transformer_layer_…` are alike.
    """

    def __init__(self, model: keras.Model):
        self.model = model
        set_kl(model, 1.0)
        for place, layer in enumerate(_dropouts(model)):
            layer.__class__, layer.place = MemberDropout, place
        posteriors = find_random_posteriors(model)
        *self.adapters, self.head = posteriors
        kept = {id(weight) for posterior in posteriors for weight in posterior.trainable_weights}
        kept |= {id(weight) for weight in model.layers[-1].trainable_weights}
        for weight in model.trainable_variables:
            weight.trainable = id(weight) in kept
        self._cut_into_blocks()
        self.optimizer = keras.optimizers.Adam(1.0)
        self.optimizer.build(model.trainable_variables)
        self._index_variables(posteriors)
        scales = [float(np.logaddexp(0, np.asarray(one.factors[0].values)[1].mean())) for one in self.adapters]
        self._mean_scales = [scale / one.eta for scale, one in zip(scales, self.adapters, strict=True)]  # of A

    def _index_variables(self, posteriors: Sequence) -> None:
        trainable, other = self.model.trainable_variables, self.model.non_trainable_variables
        factors = [posterior.factors[0] for posterior in posteriors]
        self._values = [_index(trainable, factor.values) for factor in factors]
        self._references = [_index(other, factor.reference) for factor in factors]
        self._kl_scale = _index(other, posteriors[0].kl_scale)
        self._seed = _index(other, posteriors[0].seed_generator.state)
        own = {*self._references, self._kl_scale, self._seed}
        # A copy: `fit` of the same model would delete what is shared with it.
        self.frozen = [None if i in own else jnp.array(variable.value) for i, variable in enumerate(other)]
        self.num_trained = sum(int(np.prod(variable.shape)) for variable in trainable)

    def _cut_into_blocks(self) -> None:
        """Finds what comes before the blocks and after them, and where their weights stand among the model's."""
        model, head = self.model, self.model.layers[-1]
        blocks = [layer for layer in model.layers if layer.name.startswith("transformer_layer_")]
        mask = model.input["padding_mask"]
        self._front = _Part(model, keras.Model(model.input, blocks[0].input[0]))
        self._blocks = [_Part(model, keras.Model(block.input, block.output)) for block in blocks]
        self._pool = keras.Model([blocks[-1].output, mask], head.input)
        self._last = _Part(model, head)
        places = [[one.place for one in block._flatten_layers() if isinstance(one, MemberDropout)] for block in blocks]
        self._dropouts_per_block = len(places[0])
        assert places == [[place + i * len(places[0]) for place in places[0]] for i in range(len(blocks))]

    # -- starts --------------------------------------------------------------------------------------------------------

    def start(self, members: Sequence[Start]) -> State:
        """Returns the state in which members begin, on the device."""
        return self.start_many(stacked(members))

    @functools.cached_property
    def start_many(self):
        """Compiled: the fields of `Start`, stacked → state."""
        return jax.jit(jax.vmap(self._start))

    def _start(self, member: dict[str, Any]) -> State:
        key = jax.random.key(member["seed"])
        weights = [jnp.zeros(variable.shape) for variable in self.model.trainable_variables]
        references = []
        for posterior, i, s in zip([*self.adapters, self.head], self._values, [*self._mean_scales, 0.02], strict=True):
            (factor,) = posterior.factors
            noise = jax.random.normal(jax.random.fold_in(key, i), factor.shape)
            if posterior is self.head:
                loc, centre = s * noise, jnp.zeros(factor.shape)
                scale, width = member["head_scale"], member["head_width"]
            else:
                is_a = jnp.arange(factor.shape[0])[:, None] < posterior.rows
                loc = s * noise * is_a
                centre = loc * member["anchored"]
                scale = s * jnp.where(is_a, member["scale_a"], member["scale_b"])
                width = jnp.where(is_a, member["width_a"], member["width_b"])
            rho = scale + jnp.log(-jnp.expm1(-scale))
            weights[i] = jnp.stack([loc, jnp.broadcast_to(rho, loc.shape)])
            references.append(jnp.stack([centre, jnp.broadcast_to(width, loc.shape)]))
        return {
            "weights": weights,
            "optimizer": [jnp.zeros(variable.shape, variable.dtype) for variable in self.optimizer.variables],
            "references": references,
            "kl_scale": member["kl_weight"],
            "seed": jnp.stack([member["seed"].astype("uint32"), jnp.uint32(0)]),
            "learning_rate": member["learning_rate"],
            "rho_lr": member["rho_lr"],
            "dropout": member["dropout"],
        }

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _others(self, member: State, seed, frozen: list) -> list:
        others = list(frozen)
        for i, reference in zip(self._references, member["references"], strict=True):
            others[i] = reference
        others[self._kl_scale], others[self._seed] = member["kl_scale"], seed
        return others

    def _seen(self, weights, others: list, seed, dropout: tuple | None, tokens):
        """Returns what the head sees, the state of the seeds and the KL of the adapters; `dropout` is rate and key."""
        inputs = _inputs(tokens)
        with _dropping(*dropout) if dropout else contextlib.nullcontext():
            x, _, _ = self._front(weights, others, inputs)
        one, mask = self._blocks[0], inputs["padding_mask"]
        number = jnp.arange(len(self._blocks))

        def block(carry, own):
            x, seed, kl = carry
            number, trained, known = own
            shared = {self._kl_scale: others[self._kl_scale], self._seed: seed}
            first = number * self._dropouts_per_block
            with _dropping(dropout[0], dropout[1], first) if dropout else contextlib.nullcontext():
                x, new, more = one(trained, known | shared, [x, mask])
            return (x, new[self._seed], kl + more), None

        # Each weight of the first block, by its place in the model, stacked with its counterparts.
        trained = {i: jnp.stack([weights[part.trained[k]] for part in self._blocks]) for k, i in enumerate(one.trained)}
        known = {
            i: jnp.stack([others[part.others[k]] for part in self._blocks])
            for k, i in enumerate(one.others)
            if i not in (self._seed, self._kl_scale)
        }
        block = jax.checkpoint(block, policy=_SAVED)
        (x, seed, kl), _ = jax.lax.scan(block, (x, seed, 0.0), (number, trained, known))
        return self._pool([x, mask]), seed, kl

    def _logits(self, weights, member: State, seed, rate, frozen: list, tokens):
        others = self._others(member, seed, frozen)
        seen, seed, kl = self._seen(weights, others, seed, (rate, jax.random.key(seed[0] + 7919 * seed[1])), tokens)
        others[self._seed] = seed
        logits, new, more = self._last(weights, others, seen)
        return logits.astype("float32"), new[self._seed], kl + more

    def _train(self, member: State, rows, factor, frozen, data, length: int):
        """One step of one member; `factor` is that of the schedule of the learning rate."""
        tokens, labels, mask = data
        tokens, labels = tokens[rows, :length].astype("int32"), labels[rows]

        def loss(weights):
            logits, seed, kl = self._logits(weights, member, member["seed"], member["dropout"][0], frozen, tokens)
            nll = -jnp.take_along_axis(jax.nn.log_softmax(logits + mask), labels[:, None], axis=1).mean()
            return nll + kl, (nll, seed)

        old = member["weights"]
        slopes, (nll, seed) = jax.grad(loss, has_aux=True)(old)
        optimizer = list(member["optimizer"])
        optimizer[1] = member["learning_rate"] * factor
        new, optimizer = self.optimizer.stateless_apply(optimizer, slopes, old)
        new = list(new)
        for posterior, i in zip([*self.adapters, self.head], self._values, strict=True):
            # Adam's step does not depend on the gradient's scale, so these are learning rates.
            new[i] = old[i] + (new[i] - old[i]) * _rates(posterior, member["rho_lr"], posterior is self.head)
        return {**member, "weights": new, "optimizer": list(optimizer), "seed": seed}, nll

    @functools.cached_property
    def train(self):
        """Compiled: state, rows (members, batch), factor, frozen, data, length → state, NLL of the batches."""
        step = jax.vmap(self._train, in_axes=(0, 0, None, None, None, None))
        return jax.jit(lambda *a, length: step(*a, length), donate_argnums=0, static_argnames="length")

    def _predict(self, member: State, rows, draws, frozen, data, length: int):
        tokens, _, mask = data
        tokens = tokens[rows, :length].astype("int32")

        def add(s, sums):
            seed = jnp.array([member["seed"][0] + 100_003 * (s.astype("uint32") + 1), 0], "uint32")
            logits, _, _ = self._logits(member["weights"], member, seed, member["dropout"][1], frozen, tokens)
            log_p = jax.nn.log_softmax(logits + mask)
            p = jnp.exp(log_p)
            return sums[0] + p, sums[1] - (p * jnp.where(p > 0, log_p, 0)).sum(-1)

        zeros = (jnp.zeros((len(rows), mask.shape[0])), jnp.zeros(len(rows)))
        p, entropy = jax.lax.fori_loop(0, draws, add, zeros)
        return p / draws, entropy / draws

    @functools.cached_property
    def predict(self):
        """Compiled: state, rows, draws, frozen, data, length → mean probabilities, mean entropies of the draws."""
        step = jax.vmap(self._predict, in_axes=(0, None, None, None, None, None))
        return jax.jit(lambda *a, length: step(*a, length), static_argnames="length")

    def head_of(self, state: State, place: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the mean kernel (width, classes) and the bias of the head of one member."""
        bias = _index(self.model.trainable_variables, self.model.layers[-1].bias)
        return np.asarray(state["weights"][self._values[-1]][place, 0]), np.asarray(state["weights"][bias][place])

    @functools.cached_property
    def features(self):
        """Compiled: one member, rows, frozen, data, length → what its head sees, without dropout."""

        def see(member: State, rows, frozen, data, length: int):
            others = self._others(member, member["seed"], frozen)
            tokens = data[0][rows, :length].astype("int32")
            return self._seen(member["weights"], others, member["seed"], None, tokens)[0]

        return jax.jit(see, static_argnames="length")


class _Part:
    """A layer of a model as a function of the variables of the model.

    Attributes:
        trained, others: where its variables stand among those of the model.
    """

    def __init__(self, model: keras.Model, layer: keras.layers.Layer):
        self.layer = layer
        self.trained = [_index(model.trainable_variables, variable) for variable in layer.trainable_variables]
        self.others = [_index(model.non_trainable_variables, variable) for variable in layer.non_trainable_variables]

    def __call__(self, weights, others, inputs):
        """Returns outputs, its new other variables by their place in the model, and the sum of its losses."""
        outputs, new, losses = self.layer.stateless_call(
            [weights[i] for i in self.trained],
            [others[i] for i in self.others],
            inputs,
            training=True,
            return_losses=True,
        )
        return outputs, dict(zip(self.others, new, strict=True)), sum(losses)


def _inputs(tokens) -> dict[str, Any]:
    return {"token_ids": tokens, "segment_ids": jnp.zeros_like(tokens), "padding_mask": (tokens != 0).astype("int32")}


def _rates(posterior, rho_lr, head: bool):
    """Returns the multiples of the learning rate of means and ρ, in the shape of stacked values."""
    (factor,) = posterior.factors
    if head:
        rho = jnp.broadcast_to(rho_lr[2], (factor.shape[0], 1))
    else:
        rho = jnp.where(jnp.arange(factor.shape[0])[:, None] < posterior.rows, rho_lr[0], rho_lr[1])
    return jnp.stack([jnp.ones_like(rho), rho])


def _dropouts(model: keras.Model) -> list[keras.layers.Dropout]:
    return [layer for layer in model._flatten_layers() if type(layer) is keras.layers.Dropout]


def _index(variables: Sequence, wanted: Any) -> int:
    return next(i for i, variable in enumerate(variables) if variable is wanted)
