"""blitz: dense, LSTM and embedding layers. Each keeps log q and log p of its last draw."""

from blitz.losses import kl_divergence_from_nn
from blitz.modules import BayesianEmbedding, BayesianLinear, BayesianLSTM

from peers import torch_networks
from peers.torch_networks import Layers

PACKAGES = ("blitz-bayesian-pytorch", "torch")
VECTORISED = False


class Lstm(BayesianLSTM):
    def forward(self, x):
        return super().forward(x)[0]


LAYERS = Layers(BayesianLinear, Lstm, BayesianEmbedding)


def train(shape, variant):
    return torch_networks.trainer(shape, torch_networks.build(shape, LAYERS), kl_divergence_from_nn, variant)


def predict(shape, variant):
    return torch_networks.looper(shape, torch_networks.build(shape, LAYERS), variant)
