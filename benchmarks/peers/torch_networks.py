"""The networks in PyTorch, given a library's layers; training and prediction as that library's guide shows them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from shapes import NUM_DATA, Lstm, Mlp, Shape, Transformer, targets
from torch import nn
from torch.nn import functional

from peers import NoSuchLayer

torch.set_num_threads(2)


@dataclass(frozen=True)
class Layers:
    """Makers of layers from two sizes; an LSTM maps (batch, hours, features) to (batch, hours, units)."""

    linear: Callable[[int, int], nn.Module]
    lstm: Callable[[int, int], nn.Module] | None = None
    embedding: Callable[[int, int], nn.Module] = nn.Embedding


def build(shape: Shape, layers: Layers) -> nn.Module:
    torch.manual_seed(0)
    match shape:
        case Mlp():
            dense = [layers.linear(m, n) for m, n in zip(shape.widths, shape.widths[1:], strict=False)]
            return nn.Sequential(*[part for layer in dense[:-1] for part in (layer, nn.ReLU())], dense[-1])
        case Lstm():
            if layers.lstm is None:
                raise NoSuchLayer("LSTM")
            return Forecaster(shape, layers)
        case Transformer():
            return Classifier(shape, layers)
    raise NoSuchLayer(type(shape).__name__)


class Forecaster(nn.Module):
    def __init__(self, shape: Lstm, layers: Layers):
        super().__init__()
        assert layers.lstm is not None
        self.first = layers.lstm(shape.features, shape.units)
        self.second = layers.lstm(shape.units, shape.units)
        self.head = layers.linear(shape.units, shape.outputs)

    def forward(self, x):
        return self.head(self.second(self.first(x))[:, -1])


class Block(nn.Module):
    def __init__(self, shape: Transformer, layers: Layers):
        super().__init__()
        self.heads = shape.heads
        self.norms = nn.ModuleList([nn.LayerNorm(shape.width) for _ in range(2)])
        self.query, self.key, self.value, self.output = (layers.linear(shape.width, shape.width) for _ in range(4))
        self.inner = layers.linear(shape.width, shape.feed_forward)
        self.outer = layers.linear(shape.feed_forward, shape.width)

    def forward(self, x, mask):
        n = self.norms[0](x)
        projected = (self.query(n), self.key(n), self.value(n))
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in projected)
        attended = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.output(attended.transpose(1, 2).flatten(-2))
        return x + self.outer(functional.relu(self.inner(self.norms[1](x))))


class Classifier(nn.Module):
    def __init__(self, shape: Transformer, layers: Layers):
        super().__init__()
        self.embedding = layers.embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList([Block(shape, layers) for _ in range(shape.blocks)])
        self.head = layers.linear(shape.width, shape.outputs)

    def forward(self, ids):
        x = self.embedding(ids)
        mask = (ids != 0)[:, None, None, :]
        for block in self.blocks:
            x = block(x, mask)
        return self.head(x[:, 0])


def tensors(shape: Shape, examples: int) -> tuple[torch.Tensor, torch.Tensor]:
    y = torch.from_numpy(targets(shape, examples))
    return torch.from_numpy(shape.inputs(examples)), y if shape.outputs == 1 else y.long()


def criterion(shape: Shape) -> Callable:
    return functional.mse_loss if shape.outputs == 1 else functional.cross_entropy


def trainer(shape: Shape, model: nn.Module, kl: Callable[[nn.Module], torch.Tensor], variant: str) -> Callable[[], int]:
    """Returns a function that trains one step; the variant "compiled" compiles the whole loss."""
    x, y = tensors(shape, shape.batch)
    error = criterion(shape)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)  # one pass over the parameters

    def objective(x, y):
        return (error(model(x), y) + kl(model) / NUM_DATA).sum()

    loss = torch.compile(objective) if variant == "compiled" else objective

    def step() -> int:
        optimizer.zero_grad()
        loss(x, y).backward()
        optimizer.step()
        return 1

    return step


def looper(shape: Shape, model: nn.Module, variant: str) -> Callable[[np.ndarray, int, int], np.ndarray]:
    """Returns a function that calls the model once a draw, as none of these libraries takes draws together."""
    model.eval()
    forward = torch.compile(model) if variant == "compiled" else model

    @torch.inference_mode()
    def mean(x: np.ndarray, draws: int, batch: int) -> np.ndarray:
        return np.concatenate([_mean(forward, part, draws, shape).numpy() for part in torch.from_numpy(x).split(batch)])

    return mean


def _mean(forward: Callable, part: torch.Tensor, draws: int, shape: Shape) -> torch.Tensor:
    outputs = torch.stack([forward(part) for _ in range(draws)])
    return average(outputs, shape)


def average(outputs: torch.Tensor, shape: Shape) -> torch.Tensor:
    """Returns the mean over draws (the first axis) of values or of class probabilities."""
    return (outputs if shape.outputs == 1 else outputs.softmax(-1)).mean(0)
