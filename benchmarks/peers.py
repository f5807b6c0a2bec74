"""The MLP in other Bayesian libraries, each trained and predicting as its own guide shows.

They run in the environments of other_libraries.py, so this file imports NumPy alone at its top. A library builds a row
from the job ("step" or "prediction"), inputs, classes and the width of the hidden layers.
"""

from collections.abc import Callable
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from typing import Any

import numpy as np
from worker import Row, seconds

NUM_DATA, DRAWS = 60_000, 50
Work = Callable[[], int]


def rows(tiny: bool = False) -> dict[str, Row]:
    width, examples = (16, 20) if tiny else (1200, 10_000)
    rng, found = np.random.default_rng(0), dict[str, Row]()
    for job, count in (("step", 128), ("prediction", examples)):
        x, y = rng.normal(size=(count, 784)).astype("float32"), rng.integers(0, 10, count)
        here = {name: library for name, library in LIBRARIES.items() if find_spec(name)}
        found |= {f"MLP {job}, {name}": Row(partial(library, job, x, y, width)) for name, library in here.items()}
    return found


def facts() -> dict[str, Any]:
    names = ("torch", "jax", "bayesian-torch", "torchbnn", "blitz-bayesian-pytorch", "numpyro")
    return {"versions": {each.name: each.version for each in metadata.distributions() if each.name in names}}


def predicting(forward: Callable[[np.ndarray, int], np.ndarray], x: np.ndarray, vectorised: bool = False) -> Work:
    """Returns a prediction in batches of the size that is fastest for the library: larger ones until one is slower."""
    best, least = len(x), float("inf")
    for batch in (250, 1000, 2500, 10_000):
        part = x[:batch]
        forward(part, DRAWS if vectorised else 2)  # compiles
        each = seconds(lambda: len(forward(part, DRAWS if vectorised else 2)), 0)  # noqa: B023
        if each > least or len(part) < batch:
            break
        best, least = batch, each

    def predict() -> int:
        mean = np.concatenate([forward(x[i : i + best], DRAWS) for i in range(0, len(x), best)])
        if not np.allclose(mean.sum(axis=1), np.ones(len(x)), atol=1e-3):
            raise ValueError(f"A prediction needs probabilities of {len(x)} examples; got sums {mean.sum(axis=1)}.")
        return 1

    return predict


def torch_library(layers: Callable, job: str, x: np.ndarray, y: np.ndarray, width: int) -> Work:
    """Trains and predicts with a linear layer and the KL of a model; draws are taken one after another."""
    import torch
    from torch import nn

    torch.set_num_threads(2)
    linear, kl = layers()
    model = nn.Sequential(linear(784, width), nn.ReLU(), linear(width, width), nn.ReLU(), linear(width, 10))
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    inputs, classes = torch.from_numpy(x), torch.from_numpy(y)

    def step() -> int:
        optimizer.zero_grad()
        (nn.functional.cross_entropy(model(inputs), classes) + kl(model) / NUM_DATA).sum().backward()
        optimizer.step()
        return 1

    @torch.inference_mode()
    def forward(x, draws):
        return torch.stack([model(torch.from_numpy(x)) for _ in range(draws)]).softmax(-1).mean(0).numpy()

    return step if job == "step" else predicting(forward, x)


def bayesian_torch() -> tuple:
    from bayesian_torch.layers import LinearReparameterization

    class Linear(LinearReparameterization):
        def forward(self, x):
            output, self.kl = super().forward(x)
            return output

    return Linear, lambda model: sum(part.kl for part in model if isinstance(part, Linear))


def torchbnn() -> tuple:
    from torchbnn import BayesLinear, BKLLoss

    return partial(BayesLinear, 0, 0.1), BKLLoss(reduction="sum", last_layer_only=False)


def blitz() -> tuple:
    from blitz.losses import kl_divergence_from_nn
    from blitz.modules import BayesianLinear

    return BayesianLinear, kl_divergence_from_nn


def numpyro(job: str, x: np.ndarray, y: np.ndarray, width: int) -> Work:
    """The network as a function of random weights, a mean-field normal guide, compiled; draws are vectorised."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import SVI, Predictive, TraceMeanField_ELBO, autoguide, initialization

    def weight(name, *shape):
        return numpyro.sample(name, dist.Normal(0, 0.1).expand(shape).to_event(len(shape)))

    def model(x, y=None):
        for i, columns in enumerate((width, width, 10)):
            x = (x if i == 0 else jax.nn.relu(x)) @ weight(f"w{i}", x.shape[-1], columns) + weight(f"b{i}", columns)
        logits = numpyro.deterministic("logits", x)
        with numpyro.plate("data", len(x)), numpyro.handlers.scale(scale=NUM_DATA / len(x)):
            numpyro.sample("y", dist.Categorical(logits=logits), obs=y)

    start = initialization.init_to_uniform(radius=0.1)
    guide = autoguide.AutoNormal(model, init_loc_fn=start, init_scale=0.01)
    svi = SVI(model, guide, numpyro.optim.Adam(1e-3), TraceMeanField_ELBO())
    batch = jnp.asarray(x[:128]), jnp.asarray(y[:128])
    state, update = svi.init(jax.random.key(0), *batch), jax.jit(svi.update)

    def steps() -> int:
        nonlocal state
        for _ in range(5):
            state, loss = update(state, *batch)
        loss.block_until_ready()
        return 5

    @partial(jax.jit, static_argnames="draws")
    def mean(params, key, x, draws):
        sample = Predictive(
            model, guide=guide, params=params, num_samples=draws, parallel=True, return_sites=["logits"]
        )
        return jax.nn.softmax(sample(key, x)["logits"]).mean(0)

    def forward(x, draws):
        return np.asarray(mean(svi.get_params(state), jax.random.key(1), x, draws))

    return steps if job == "step" else predicting(forward, x, vectorised=True)


LIBRARIES: dict[str, Callable] = {f.__name__: partial(torch_library, f) for f in (bayesian_torch, torchbnn, blitz)}
LIBRARIES["numpyro"] = numpyro
