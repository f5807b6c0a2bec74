"""Training steps of PEFT's MonteCLoRA without waiting for the device, on CUDA as one graph per length of a batch.

A step of 36 adapters has about 39,000 calls of torch operations, five times those of LoRA, nearly all on matrices of
8 × 8, and each adapter asks twice whether a draw is NaN, which waits for the device. So the time of a step is that of
launching, a second beside other work. Three calls of PEFT are answered without waiting, and change no value:
- the Cholesky factor of its matrices, which are all diagonal, is the root of the diagonal;
- constants are filled on the device instead of copied to it;
- whether a draw is NaN is asked once, of the trained weights, at the end.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np

_WARM_UP = 3  # steps before a capture, as torch asks for


def diagonal_cholesky(matrix):
    """Returns the Cholesky factor of a diagonal matrix."""
    import torch

    return torch.diag(matrix.diagonal().sqrt())


class _Never:
    def any(self) -> bool:
        return False


@contextlib.contextmanager
def without_waiting() -> Iterator[None]:
    """Answers PEFT's questions to the device on the host, see above."""
    import torch

    tensor = torch.tensor

    def filled(values: Any, *more: Any, device: Any = None, **how: Any):
        array = np.asarray(values)
        if device is None or torch.device(device).type == "cpu" or more or array.dtype == object:
            return tensor(values, *more, device=device, **how)
        if not (array == array.flat[0]).all():
            return tensor(values, device=device, **how)
        return torch.full(array.shape, array.flat[0].item(), device=device, **how)

    with (
        mock.patch.object(torch.linalg, "cholesky", diagonal_cholesky),
        mock.patch.object(torch, "isnan", lambda draws: _Never()),
        mock.patch.object(torch, "tensor", filled),
    ):
        yield


class FixedDraws:
    """Stands in for the buffer of a sampler of PEFT: its draws, one after the other, in the same memory."""

    def __init__(self, buffered: Any):
        self._buffered = buffered
        self._draw = {name: values.clone() for name, values in buffered.get().items()}

    def get(self) -> dict[str, Any]:
        return self._draw

    def next(self) -> list[tuple[Any, Any]]:
        """Returns pairs of a place and its next values."""
        new = self._buffered.get()
        return [(self._draw[name], new[name]) for name in self._draw]


def fix_draws(body: Any) -> list[FixedDraws]:
    """Gives every sampler of a PEFT model fixed memory for its draws."""
    from peft.tuners.lora.monteclora import MontecloraSampler

    samplers = [module for module in body.modules() if isinstance(module, MontecloraSampler)]
    for sampler in samplers:
        sampler.sampler = FixedDraws(sampler.sampler)
    return [sampler.sampler for sampler in samplers]


class Steps:
    """Steps of Adam on a loss of tokens and labels.

    Args:
        loss: of tokens (batch, length) and labels (batch,), tensors of the device.
        trained: the weights that it trains.
        draws: those of `fix_draws`.
        lengths: that batches are padded to.
        graphs: whether steps are captured, which needs CUDA.
    """

    def __init__(
        self,
        loss: Callable[[Any, Any], Any],
        trained: Sequence[Any],
        draws: Sequence[FixedDraws],
        lengths: Sequence[int],
        graphs: bool,
    ):
        import torch

        self._loss, self._draws, self._lengths = loss, draws, lengths
        self._device = trained[0].device
        self._rate = torch.zeros((), device=self._device)
        self._optimizer = torch.optim.Adam(trained, self._rate, capturable=graphs)
        self._trained, self._use_graphs = list(trained), graphs
        self._graphs: dict[int, tuple] = {}

    def prepare(self, lengths: Sequence[int], batch: int) -> None:
        """Captures a step of every length of batches that will come; weights and optimizer stay as they were."""
        import torch

        if not self._use_graphs:
            return
        before = [weight.detach().clone() for weight in self._trained]
        pool = torch.cuda.graph_pool_handle()
        for length in sorted({self._padded(one) for one in lengths}, reverse=True):
            tokens = torch.ones((batch, length), dtype=torch.int64, device=self._device)
            labels = torch.zeros(batch, dtype=torch.int64, device=self._device)
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(_WARM_UP):
                    self._one(tokens, labels)
            torch.cuda.current_stream().wait_stream(side)
            self._optimizer.zero_grad(set_to_none=True)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                self._one(tokens, labels)
            self._graphs[length] = graph, tokens, labels
        with torch.no_grad():
            for weight, value in zip(self._trained, before, strict=True):
                weight.copy_(value)
            for state in self._optimizer.state.values():
                for values in state.values():
                    values.zero_()

    def _padded(self, length: int) -> int:
        return next(one for one in self._lengths if one >= length)

    def _one(self, tokens, labels) -> None:
        self._optimizer.zero_grad(set_to_none=True)
        with without_waiting():
            self._loss(tokens, labels).backward()
        self._optimizer.step()

    def __call__(self, tokens: np.ndarray, labels: np.ndarray, rate: float) -> None:
        """One step with tokens (batch, length), 0 is padding, and a learning rate."""
        import torch

        length = self._padded(tokens.shape[1])
        padded = np.zeros((len(tokens), length), "int64")
        padded[:, : tokens.shape[1]] = tokens
        self._rate.fill_(rate)
        pairs = [pair for one in self._draws for pair in one.next()]
        torch._foreach_copy_([place for place, _ in pairs], [values for _, values in pairs])
        x, y = torch.from_numpy(padded), torch.from_numpy(labels.astype("int64"))
        if self._use_graphs:
            graph, x_place, y_place = self._graphs[length]
            x_place.copy_(x)
            y_place.copy_(y)
            graph.replay()
        else:
            self._one(x.to(self._device), y.to(self._device))
