"""Laplace's approximation of the last layer (Daxberger et al. 2021), Kronecker-factored, on a deterministic network."""

import keras
import numpy as np
from scipy import special

from singularbayes.models import count_stored, count_trained
from singularbayes.prediction import ClassPredictive
from singularbayes_experiments.methods.base import Member, Trainer, method

PRECISIONS = tuple(10.0 ** np.arange(-2, 4.1, 0.5))


@method("laplace", "Laplace's approximation of the last layer of a deterministic network")
def laplace(trainer: Trainer, members: list[Member]) -> list:
    models = trainer.fit("deterministic", members)
    return [LastLayerLaplace(model, member) for model, member in zip(models, members, strict=True)]


class LastLayerLaplace:
    """N(W, Σ) of kernel and bias W of the last layer, Σ⁻¹ = A ⊗ B + δ.

    A is the sum of φ φᵀ over the training examples, φ what the layer sees and a 1; B the mean of the Hessians diag(p) −
    p pᵀ of the loss. δ is the precision of the prior, of `PRECISIONS` the one with the least NLL on validation.
    """

    def __init__(self, model: keras.Model, member: Member):
        self.model, head = model, model.layers[-1]
        self._seen = keras.Model(model.inputs, head.input)
        kernel = head.posterior.mean().dense() if hasattr(head, "posterior") else head.kernel
        self.weights = np.concatenate([_numpy(kernel), _numpy(head.bias)[None]]).astype("float64")
        train, held = member.data.train, member.data.validation
        assert held is not None  # it chooses the precision
        phi = self.features(train.x)
        p = special.softmax(phi @ self.weights, axis=1)
        self.a, self.u = np.linalg.eigh(phi.T @ phi)
        self.b, self.v = np.linalg.eigh(np.diag(p.mean(axis=0)) - p.T @ p / len(p))
        known = self.features(held.x)

        def nll(precision: float) -> float:
            found = self._predicted(known, precision, member.settings.draws, member.seed).mean
            return -float(np.log(np.maximum(found[np.arange(len(known)), held.y], 1e-30)).mean())

        self.precision = min(PRECISIONS, key=nll)

    @property
    def num_trained(self) -> int:
        return count_trained(self.model)

    @property
    def num_stored(self) -> int:
        return count_stored(self.model) + self.u.size + self.v.size + len(self.a) + len(self.b)

    def features(self, x: np.ndarray) -> np.ndarray:
        """Returns what the last layer sees, and a 1."""
        found = self._seen.predict(x, batch_size=256, verbose=0).astype("float64")
        return np.concatenate([found, np.ones((len(found), 1))], axis=1)

    def drawn(self, precision: float, draws: int, seed: int) -> np.ndarray:
        """Returns draws of kernel and bias, (draws, rows + 1, classes)."""
        noise = np.random.default_rng(seed).standard_normal((draws, *self.weights.shape))
        variance = 1 / (np.maximum(np.outer(self.a, self.b), 0.0) + precision)
        return self.weights + self.u @ (np.sqrt(variance) * noise) @ self.v.T

    def predict(self, x: np.ndarray, draws: int = 100, seed: int = 0) -> ClassPredictive:
        return self._predicted(self.features(x), self.precision, draws, seed)

    def _predicted(self, phi: np.ndarray, precision: float, draws: int, seed: int) -> ClassPredictive:
        mean, squares, entropy = (np.zeros(()) for _ in range(3))
        for weights in self.drawn(precision, draws, seed):
            p = special.softmax(phi @ weights, axis=1)
            mean, squares = mean + p / draws, squares + p**2 / draws
            entropy = entropy + special.entr(p).sum(axis=1) / draws
        return ClassPredictive(mean, np.sqrt(np.maximum(squares - mean**2, 0)), draws, expected_entropy=entropy)


def _numpy(variable) -> np.ndarray:
    return keras.ops.convert_to_numpy(variable)
