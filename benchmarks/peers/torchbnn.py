"""torchbnn: a dense layer and a KL loss over the model."""

from functools import partial

from torchbnn import BayesLinear, BKLLoss

from peers import torch_networks
from peers.torch_networks import Layers

PACKAGES = ("torchbnn", "torch")
VECTORISED = False
LAYERS = Layers(partial(BayesLinear, 0, 0.1))


def train(shape, variant):
    kl = BKLLoss(reduction="sum", last_layer_only=False)
    return torch_networks.trainer(shape, torch_networks.build(shape, LAYERS), kl, variant)


def predict(shape, variant):
    return torch_networks.looper(shape, torch_networks.build(shape, LAYERS), variant)
