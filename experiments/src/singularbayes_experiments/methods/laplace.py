"""Laplace's approximation of the last layer (Daxberger et al. 2021), Kronecker-factored, on a deterministic network."""

import keras
import numpy as np
from scipy import special

from singularbayes.metrics import negative_log_likelihood
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
        numbers = [keras.ops.convert_to_numpy(variable) for variable in (kernel, head.bias)]
        self.weights = np.concatenate([numbers[0], numbers[1][None]]).astype("float64")
        train, held = member.data.train, member.data.validation
        assert held is not None  # it chooses the precision
        phi = self.features(train.x)
        p = special.softmax(phi @ self.weights, axis=1)
        self.a, self.u = np.linalg.eigh(phi.T @ phi)
        self.b, self.v = np.linalg.eigh(np.diag(p.mean(axis=0)) - p.T @ p / len(p))
        known, settings = self.features(held.x), member.settings

        def nll(precision: float) -> float:
            found = _predicted(known, self.drawn(precision, settings.draws, member.seed))
            return negative_log_likelihood(found.mean, held.y)

        self.precision = min(PRECISIONS, key=nll)
        self.num_trained = count_trained(model)
        self.num_stored = count_stored(model) + sum(each.size for each in (self.a, self.u, self.b, self.v))

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
        return _predicted(self.features(x), self.drawn(self.precision, draws, seed))


def _predicted(phi: np.ndarray, drawn: np.ndarray) -> ClassPredictive:
    logits = np.tensordot(drawn, phi, (1, 1)).swapaxes(1, 2)  # one product: (draws, examples, classes)
    return ClassPredictive.of_draws(special.softmax(logits, axis=-1))
