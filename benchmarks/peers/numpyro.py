"""NumPyro: the network as a function of random weights, a mean-field normal guide, compiled. Draws are vectorised."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import SVI, Predictive, TraceMeanField_ELBO
from numpyro.infer.autoguide import AutoNormal
from numpyro.infer.initialization import init_to_uniform
from shapes import NUM_DATA, Lstm, Mlp, Shape, Transformer, targets

from peers import NoSuchLayer

PACKAGES = ("numpyro", "jax")
VECTORISED = True
STEPS = 5  # a call of the trained function
NORM = {"scale": jnp.ones, "shift": jnp.zeros}  # ordinary parameters, as in the other libraries


def _weight(name: str, *shape: int):
    return numpyro.sample(name, dist.Normal(0, 0.1).expand(shape).to_event(len(shape)))


def _dense(name: str, x, n: int):
    return x @ _weight(f"{name}.w", x.shape[-1], n) + _weight(f"{name}.b", n)


def _lstm(name: str, x, n: int):
    u, b = _weight(f"{name}.u", n, 4 * n), _weight(f"{name}.b", 4 * n)
    projected = jnp.swapaxes(x @ _weight(f"{name}.w", x.shape[-1], 4 * n) + b, 0, 1)

    def step(state, gates):
        h, c = state
        i, f, g, o = jnp.split(gates + h @ u, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((x.shape[0], n))
    return jnp.swapaxes(jax.lax.scan(step, (zeros, zeros), projected)[1], 0, 1)


def _norm(name: str, x):
    scale, shift = (numpyro.param(f"{name}.{part}", start(x.shape[-1])) for part, start in NORM.items())
    return jax.nn.standardize(x, epsilon=1e-5) * scale + shift


def _block(name: str, x, mask, shape: Transformer):
    n = _norm(f"{name}.norm", x)
    q, k, v = (_dense(f"{name}.{p}", n, shape.width).reshape(*n.shape[:2], shape.heads, -1) for p in "qkv")
    attended = jax.nn.dot_product_attention(q, k, v, mask=mask).reshape(n.shape)
    x = x + _dense(f"{name}.o", attended, shape.width)
    inner = jax.nn.relu(_dense(f"{name}.inner", _norm(f"{name}.norm2", x), shape.feed_forward))
    return x + _dense(f"{name}.outer", inner, shape.width)


def _outputs(shape: Shape, x):
    match shape:
        case Mlp():
            for i, n in enumerate(shape.widths[1:-1]):
                x = jax.nn.relu(_dense(str(i), x, n))
            return _dense("head", x, shape.outputs)
        case Lstm():
            x = _lstm("second", _lstm("first", x, shape.units), shape.units)
            return _dense("head", x[:, -1], shape.outputs)
        case Transformer():
            mask = (x != 0)[:, None, None, :]
            x = _weight("embedding", shape.vocabulary, shape.width)[x]
            for i in range(shape.blocks):
                x = _block(str(i), x, mask, shape)
            return _dense("head", x[:, 0], shape.outputs)
    raise NoSuchLayer(type(shape).__name__)


def _fitted(shape: Shape):
    def model(x, y=None):
        outputs = numpyro.deterministic("outputs", _outputs(shape, x))
        given = dist.Normal(outputs, 1).to_event(1) if shape.outputs == 1 else dist.Categorical(logits=outputs)
        with numpyro.plate("data", len(x)), numpyro.handlers.scale(scale=NUM_DATA / len(x)):
            numpyro.sample("y", given, obs=y)

    guide = AutoNormal(model, init_loc_fn=init_to_uniform(radius=0.1), init_scale=0.01)
    svi = SVI(model, guide, numpyro.optim.Adam(1e-3), TraceMeanField_ELBO())
    x, y = jnp.asarray(shape.inputs(shape.batch)), jnp.asarray(targets(shape, shape.batch))
    return model, guide, svi, svi.init(jax.random.key(0), x, y), (x, y)


def train(shape, variant):
    _, _, svi, state, (x, y) = _fitted(shape)
    update = jax.jit(svi.update)

    def steps() -> int:
        nonlocal state
        for _ in range(STEPS):
            state, loss = update(state, x, y)
        loss.block_until_ready()
        return STEPS

    return steps


def predict(shape, variant):
    model, guide, svi, state, _ = _fitted(shape)
    params = svi.get_params(state)

    @partial(jax.jit, static_argnames="draws")
    def mean(params, key, x, draws):
        sites = {"return_sites": ["outputs"], "num_samples": draws, "parallel": True}
        outputs = Predictive(model, guide=guide, params=params, **sites)(key, x)["outputs"]
        return (outputs if shape.outputs == 1 else jax.nn.softmax(outputs)).mean(0)

    def batches(x: np.ndarray, draws: int, batch: int) -> np.ndarray:
        key = jax.random.key(1)  # the same draws for every batch
        parts = [x[i : i + batch] for i in range(0, len(x), batch)]
        return np.concatenate([np.asarray(mean(params, key, part, draws)) for part in parts])

    return batches
