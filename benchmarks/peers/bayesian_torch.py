"""bayesian-torch: its layers return their KL beside the output, in training. It redraws an LSTM at every time step."""

from bayesian_torch.layers import LinearReparameterization, LSTMReparameterization

from peers import torch_networks
from peers.torch_networks import Layers

PACKAGES = ("bayesian-torch", "torch")
VECTORISED = False


class Linear(LinearReparameterization):
    def forward(self, x):
        if not self.training:
            return super().forward(x, return_kl=False)
        output, self.kl = super().forward(x)
        return output


class Lstm(LSTMReparameterization):
    def forward(self, x):
        output, _, self.kl = super().forward(x)
        return output


LAYERS = Layers(Linear, Lstm)


def kl(model):
    return sum(layer.kl for layer in model.modules() if isinstance(layer, Linear | Lstm))


def train(shape, variant):
    return torch_networks.trainer(shape, torch_networks.build(shape, LAYERS), kl, variant)


def predict(shape, variant):
    return torch_networks.looper(shape, torch_networks.build(shape, LAYERS), variant)
