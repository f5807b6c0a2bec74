"""Many adapters of one frozen language model that choose among answers, as one JAX program.

The counterpart of `adapter_program.py` for a model without a head: scores are log-probabilities of tokens. Members
differ in what is an array, the frozen weights are there once, and noise and KL are those of the library's layers.
"""

import contextlib
import functools
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import jax
import keras
import numpy as np
from jax import numpy as jnp

from singularbayes.posteriors import find_random_posteriors
from singularbayes.training import set_kl
from singularbayes_experiments.methods import adapter_program
from singularbayes_experiments.methods.adapter_program import MemberDropout, State, _Part

_POSITIONS: ContextVar[Any] = ContextVar("positions", default=None)


@contextlib.contextmanager
def _placed(positions) -> Iterator[None]:
    token = _POSITIONS.set(positions)
    try:
        yield
    finally:
        _POSITIONS.reset(token)


class ChoiceProgram:
    """A converted `LlamaBackbone`, and members that train with its layers.

    Args:
        model: its posteriors are `Adapter`s whose priors have centres. The embedding gives the logits, too.
    """

    def __init__(self, model: keras.Model):
        self.model = model
        set_kl(model, 1.0)
        for place, layer in enumerate(adapter_program._dropouts(model)):
            layer.__class__, layer.place = MemberDropout, place
        _adjust_attention(model)
        self.adapters = find_random_posteriors(model)
        kept = {id(weight) for posterior in self.adapters for weight in posterior.trainable_weights}
        for weight in model.trainable_variables:
            weight.trainable = id(weight) in kept
        self._cut_into_blocks()
        self.optimizer = keras.optimizers.Adam(1.0)
        self.optimizer.build(model.trainable_variables)
        trainable, other = model.trainable_variables, model.non_trainable_variables
        index = adapter_program._index
        factors = [posterior.factors[0] for posterior in self.adapters]
        self._values = [index(trainable, factor.values) for factor in factors]
        self._references = [index(other, factor.reference) for factor in factors]
        self._kl_scale = index(other, self.adapters[0].kl_scale)
        self._seed = index(other, self.adapters[0].seed_generator.state)
        self._embedding = index(other, model.token_embedding.embeddings)
        own = {*self._references, self._kl_scale, self._seed}
        self.frozen = [None if i in own else jnp.array(variable.value) for i, variable in enumerate(other)]
        self.num_trained = sum(int(np.prod(variable.shape)) for variable in trainable)
        scales = [float(np.logaddexp(0, np.asarray(factor.values)[1].mean())) for factor in factors]
        self._mean_scales = [scale / one.eta for scale, one in zip(scales, self.adapters, strict=True)]  # of A

    def _cut_into_blocks(self) -> None:
        """Finds where the weights of the blocks, which compile as one, stand among the model's."""
        blocks = self.model.transformer_layers
        last = keras.Input((None, self.model.hidden_dim), dtype=self.model.compute_dtype)
        self._back = _Part(self.model, keras.Model(last, self.model.layer_norm(last)))
        self._blocks = [_Part(self.model, _with_mask(block, self.model.hidden_dim)) for block in blocks]
        self._trained_of_blocks = [part.trained for part in self._blocks]
        places = [[one.place for one in block._flatten_layers() if isinstance(one, MemberDropout)] for block in blocks]
        self._dropouts_per_block = len(places[0])
        assert places == [[place + i * len(places[0]) for place in places[0]] for i in range(len(blocks))]

    @functools.cached_property
    def start_many(self):
        """Compiled: the fields of `Start`, stacked → state."""
        return jax.jit(jax.vmap(self._start))

    def _start(self, member: dict[str, Any]) -> State:
        key = jax.random.key(member["seed"])
        weights = [jnp.zeros(variable.shape) for variable in self.model.trainable_variables]
        references = []
        for posterior, i, s in zip(self.adapters, self._values, self._mean_scales, strict=True):
            shape = posterior.factors[0].shape
            is_a = jnp.arange(shape[0])[:, None] < posterior.rows
            loc = s * jax.random.normal(jax.random.fold_in(key, i), shape) * is_a
            scale = s * jnp.where(is_a, member["scale_a"], member["scale_b"])
            width = jnp.where(is_a, member["width_a"], member["width_b"])
            rho = scale + jnp.log(-jnp.expm1(-scale))
            weights[i] = jnp.stack([loc, jnp.broadcast_to(rho, shape)])
            references.append(jnp.stack([loc * member["anchored"], jnp.broadcast_to(width, shape)]))
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

    def _scores(self, weights, member: State, seed, rate, frozen: list, batch: dict[str, Any]):
        """Returns the scores of the choices (questions, choices), the next seed and the KL."""
        others = list(frozen)
        for i, reference in zip(self._references, member["references"], strict=True):
            others[i] = reference
        others[self._kl_scale], others[self._seed] = member["kl_scale"], seed
        mask = attention_mask(batch["groups"])
        x = frozen[self._embedding][batch["tokens"]].astype(self.model.compute_dtype)
        one, key = self._blocks[0], jax.random.key(seed[0] + 7919 * seed[1])
        shared = (self._seed, self._kl_scale)

        def block(carry, own):
            x, seed, kl = carry
            number, trained, stacked_others = own
            known = {**dict(zip(one.others, stacked_others, strict=True)), self._kl_scale: others[self._kl_scale]}
            known[self._seed] = seed
            dropping = adapter_program._dropping(rate, key, number * self._dropouts_per_block)
            with dropping, _placed(batch["positions"]):
                x, new, more = one(dict(zip(one.trained, trained, strict=True)), known, [x, mask])
            return (x, new[self._seed], kl + more), None

        trained = [jnp.stack([weights[i] for i in each]) for each in zip(*self._trained_of_blocks, strict=True)]
        number = jnp.arange(len(self._blocks))
        columns = zip(*(part.others for part in self._blocks), strict=True)
        own = [number if column[0] in shared else jnp.stack([others[i] for i in column]) for column in columns]
        saved = jax.checkpoint(block, policy=adapter_program._SAVED)
        (x, seed, kl), _ = jax.lax.scan(saved, (x, seed, 0.0), (number, trained, own))
        hidden, _, _ = self._back(weights, others, x)
        hidden = jnp.take_along_axis(hidden, batch["sources"][..., None], axis=1)
        log_p = _log_probabilities(hidden, frozen[self._embedding], batch["targets"])
        return choice_scores(log_p, batch["owners"], batch["power"]), seed, kl

    def _train(self, member: State, rows, factor, frozen, data, length: int, slots: int):
        """One step of one member; `factor` is that of the schedule of the learning rate."""
        batch = _batch(data, rows, length, slots)

        def loss(weights):
            scores, seed, kl = self._scores(weights, member, member["seed"], member["dropout"][0], frozen, batch)
            nll = -jnp.take_along_axis(jax.nn.log_softmax(scores), batch["labels"][:, None], axis=1).mean()
            return nll + kl, (nll, seed)

        old = member["weights"]
        slopes, (nll, seed) = jax.grad(loss, has_aux=True)(old)
        optimizer = list(member["optimizer"])
        optimizer[1] = member["learning_rate"] * factor
        new, optimizer = self.optimizer.stateless_apply(optimizer, slopes, old)
        new = list(new)
        for posterior, i in zip(self.adapters, self._values, strict=True):
            # Adam's step does not depend on the gradient's scale, so these are learning rates.
            new[i] = old[i] + (new[i] - old[i]) * adapter_program._rates(posterior, member["rho_lr"], head=False)
        return {**member, "weights": new, "optimizer": list(optimizer), "seed": seed}, nll

    @functools.cached_property
    def train(self):
        """Compiled: state, rows (members, batch), factor, frozen, data → state, NLL of the batches."""
        step = jax.vmap(self._train, in_axes=(0, 0, None, None, None, None, None))
        return jax.jit(lambda *a, size: step(*a, *size), donate_argnums=0, static_argnames="size")

    def _predict(self, member: State, rows, draws, frozen, data, length: int, slots: int):
        batch = _batch(data, rows, length, slots)

        def add(s, sums):
            seed = jnp.array([member["seed"][0] + 100_003 * (s.astype("uint32") + 1), 0], "uint32")
            scores, _, _ = self._scores(member["weights"], member, seed, member["dropout"][1], frozen, batch)
            log_p = jax.nn.log_softmax(scores)
            p = jnp.exp(log_p)
            return sums[0] + p, sums[1] - (p * jnp.where(p > 0, log_p, 0)).sum(-1)

        zeros = (jnp.zeros((len(rows), CHOICES)), jnp.zeros(len(rows)))
        p, entropy = jax.lax.fori_loop(0, draws, add, zeros)
        return p / draws, entropy / draws

    @functools.cached_property
    def predict(self):
        """Compiled: state, rows, draws, frozen, data → mean probabilities, mean entropies of the draws."""
        step = jax.vmap(self._predict, in_axes=(0, None, None, None, None, None, None))
        return jax.jit(lambda *a, size: step(*a, *size), static_argnames="size")


CHOICES = 4
_ABSENT = -1e9  # the score of a choice that a question does not have


def attention_mask(groups):
    """Returns who attends to whom, besides the causal order: all to the prompt (0), and a choice to itself."""
    return ((groups[:, None, :] == 0) | (groups[:, None, :] == groups[:, :, None])).astype("int32")


@jax.checkpoint
def _log_probabilities(hidden, embedding, targets):
    logits = jnp.matmul(hidden, embedding.astype(hidden.dtype).T, preferred_element_type="float32")
    chosen = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return chosen - jax.nn.logsumexp(logits, axis=-1)


def choice_scores(log_p, owners, power):
    """Returns Σ log p / count^power over the tokens of every choice: power 0 is the sum, 1 the mean.

    >>> choice_scores(jnp.array([[-1.0, -2.0, -4.0, -9.0]]), jnp.array([[0, 1, 1, -1]]), 1.0)[0, :2].tolist()
    [-1.0, -3.0]
    """
    member = owners[..., None] == jnp.arange(CHOICES)
    count = member.sum(axis=1)
    scores = jnp.where(member, log_p[..., None], 0).sum(axis=1) / jnp.maximum(count, 1) ** power
    return jnp.where(count > 0, scores, _ABSENT)


def _batch(data: dict[str, Any], rows, length: int, slots: int) -> dict[str, Any]:
    cut = {"tokens": length, "groups": length, "positions": length, "sources": slots, "targets": slots, "owners": slots}
    found = {name: data[name][rows, :most].astype("int32") for name, most in cut.items()}
    return {**found, "labels": data["labels"][rows].astype("int32"), "power": data["power"]}


def _with_mask(block: keras.layers.Layer, width: int) -> keras.Model:
    """Returns a block as a model of its inputs (batch, length, width) and who attends to whom."""
    x, mask = keras.Input((None, width), dtype=block.compute_dtype), keras.Input((None, None), dtype="int32")
    return keras.Model([x, mask], block(x, decoder_attention_mask=mask))


def _adjust_attention(model: keras.Model) -> None:
    """Makes rotary embeddings take the positions of the batch, and attention avoid cuDNN, which fails under `vmap`."""
    from keras_hub.layers import RotaryEmbedding

    for layer in model._flatten_layers():
        if isinstance(layer, RotaryEmbedding):
            layer.__class__ = _placed_class(layer.__class__)
        elif layer.__class__.__name__ == "LlamaAttention":
            layer.__class__ = _plain_class(layer.__class__)


@functools.cache
def _placed_class(rotary: Any) -> type:
    class Placed(rotary):
        def call(self, inputs, start_index=0, positions=None):
            return super().call(inputs, start_index, _POSITIONS.get() if positions is None else positions)

    return Placed


@functools.cache
def _plain_class(attention: Any) -> type:
    class Plain(attention):
        def _compute_attention(self, query, key, value, attention_mask=None):
            # KerasHub does not ask `keras.config` here, so `disable_flash_attention` does not help.
            mask = keras.ops.cast(attention_mask[:, None], "bool")
            return keras.ops.dot_product_attention(
                query, key, value, mask=mask, scale=self._inv_norm_factor, flash_attention=False
            )

    return Plain


def stacked_places(state: State, places: np.ndarray) -> State:
    """Returns some members of a state, without their optimizers."""
    return jax.tree.map(lambda a: a[places], {k: v for k, v in state.items() if k != "optimizer"})
