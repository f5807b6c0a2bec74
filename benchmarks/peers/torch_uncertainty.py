"""torch-uncertainty: a dense layer and a KL loss over the model."""

import torch

from peers import torch_networks
from peers.torch_networks import Layers

try:
    import torchvision  # noqa: F401
except RuntimeError:
    # Its compiled part fits only the torch it was built with. Dense layers need none of it: naming two operators does.
    for operator in ("nms", "qnms"):
        torch.library.define(f"torchvision::{operator}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from torch_uncertainty.layers.bayesian import BayesLinear
from torch_uncertainty.losses import KLDiv

PACKAGES = ("torch-uncertainty", "torch")
VECTORISED = False
LAYERS = Layers(BayesLinear)


def train(shape, variant):
    model = torch_networks.build(shape, LAYERS)
    kl = KLDiv(model)
    return torch_networks.trainer(shape, model, lambda model: kl(), variant)


def predict(shape, variant):
    return torch_networks.looper(shape, torch_networks.build(shape, LAYERS), variant)
