"""posteriors: any PyTorch network as a function of its parameters; all of them are random. Draws are vectorised."""

from functools import partial

import numpy as np
import posteriors
import shapes
import torch
import torchopt
from shapes import NUM_DATA
from torch import nn
from torch.func import functional_call

from peers import torch_networks
from peers.torch_networks import Layers

PACKAGES = ("posteriors", "torchopt", "torch")
VECTORISED = True


class Lstm(nn.LSTM):
    def __init__(self, features: int, units: int):
        super().__init__(features, units, batch_first=True)

    def forward(self, x):
        return super().forward(x)[0]


LAYERS = Layers(nn.Linear, Lstm)


def _build(shape):
    model = torch_networks.build(shape, LAYERS)
    error = torch_networks.criterion(shape)

    def log_posterior(params, batch):
        x, y = batch
        prior = posteriors.diag_normal_log_prob(params, sd_diag=0.1)
        return -error(functional_call(model, params, x), y) + prior / NUM_DATA, torch.tensor([])

    transform = posteriors.vi.diag.build(log_posterior, torchopt.adam(lr=1e-3), 1 / NUM_DATA, init_log_sds=-5.0)
    return model, transform, transform.init(dict(model.named_parameters()))


def train(shape, variant):
    _, transform, state = _build(shape)
    batch = torch_networks.tensors(shape, shape.batch)

    def step() -> int:
        nonlocal state
        state, _ = transform.update(state, batch, inplace=False)
        return 1

    return step


def predict(shape, variant):
    model, _, state = _build(shape)
    outputs = partial(_one_by_one if isinstance(shape, shapes.Lstm) else _together, model)

    @torch.inference_mode()
    def mean(x: np.ndarray, draws: int, batch: int) -> np.ndarray:
        params = posteriors.vi.diag.sample(state, (draws,))
        parts = torch.from_numpy(x).split(batch)
        return np.concatenate([torch_networks.average(outputs(params, part), shape).numpy() for part in parts])

    return mean


def _together(model, params, x):
    return torch.vmap(lambda params: functional_call(model, params, x))(params)


def _one_by_one(model, params, x):
    # vmap has no rule for PyTorch's LSTM.
    draws = len(next(iter(params.values())))
    return torch.stack([functional_call(model, {k: v[i] for k, v in params.items()}, x) for i in range(draws)])
