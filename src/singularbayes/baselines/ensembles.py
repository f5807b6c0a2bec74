"""Ensembles: several networks trained in the same way from different seeds, whose draws are pooled."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

import keras
import numpy as np

from singularbayes.checks import require_integer
from singularbayes.models import count_stored, count_trained
from singularbayes.models.inputs import require_model
from singularbayes.prediction import Predictive, pool
from singularbayes.training import fit_many, load


def member_seeds(seed: int, members: int) -> list[int]:
    """Returns the seeds of an ensemble's members: no two ensembles share one, and more members keep the first."""
    return [int(word) >> 1 for word in np.random.SeedSequence(seed).generate_state(members)]


class DeepEnsemble:
    """M networks from different seeds (Lakshminarayanan et al. 2017): M trainings, M times the parameters.

    Deterministic members give one draw each, whatever `draws`. Members with random posteriors give equal shares of the
    draws, and `fit` needs their KL weight: `callbacks=lambda: [sb.KLSchedule()]`; the paper has 5 × 20 draws.

    Args:
        build: makes a new compiled model, as in `fit_many`.
        seed: the members' seeds are hashed from it.

    >>> import keras, numpy as np
    >>> def build():
    ...     model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
    ...     model.compile("adam", "mse")
    ...     return model
    >>> x = np.linspace(-1, 1, 32)[:, None]
    >>> ensemble = DeepEnsemble(build, members=3).fit(x, x**2, epochs=2)
    >>> ensemble.num_trained, ensemble.predict(x).num_draws  # 3 · 25
    (75, 3)
    """

    def __init__(self, build: Callable[..., keras.Model], members: int = 5, seed: int = 0):
        require_integer("DeepEnsemble", members=members)
        require_integer("DeepEnsemble", 0, seed=seed)
        self.build, self.members, self.seed = build, int(members), int(seed)
        self.models: list[keras.Model] = []
        self.histories: list[keras.callbacks.History] = []

    @property
    def seeds(self) -> list[int]:
        """The members' own seeds, hashed from `seed`: no two ensembles share a member, more members keep the first."""
        return member_seeds(self.seed, self.members)

    @classmethod
    def from_models(cls, models: Iterable[keras.Model]) -> Self:
        """Returns the ensemble of models that are trained already."""
        models = list(models)
        ensemble = cls(_no_build, max(1, len(models)))
        ensemble._join(models)
        return ensemble

    def fit(self, x, y, epochs: int = 1, batch_size: int = 32, **options) -> Self:
        """Trains all members, on JAX as one program; data and `options` are `fit_many`'s, the defaults Keras's. Returns
        the ensemble.
        """
        histories = fit_many(self.build, x, y, self.seeds, epochs, batch_size, **options)
        self._join([history.model for history in histories])
        self.histories = histories
        return self

    def _join(self, models: list[keras.Model]) -> None:
        if not models or len({id(model) for model in models}) < len(models):
            raise ValueError(f"DeepEnsemble needs one or more different models; got {len(models)}.")
        for model in models:
            require_model("DeepEnsemble", model)
        self.models = models

    def _fitted(self) -> list[keras.Model]:
        if not self.models:
            raise ValueError("DeepEnsemble needs trained members; call fit first.")
        return self.models

    @property
    def num_trained(self) -> int:
        """The trainable parameters of all members."""
        return sum(map(count_trained, self._fitted()))

    @property
    def num_stored(self) -> int:
        """The stored parameters of all members."""
        return sum(map(count_stored, self._fitted()))

    def predict(self, x, draws: int = 100, seed: int = 0, **options) -> Predictive:
        """Returns what all members predict together; `options` are those of `singularbayes.predict`.

        `draws` are shared out equally, if need be a few more, and each counts the same.
        """
        models = self._fitted()
        return pool(lambda: models, len(models), x, draws, seed, **options)

    def save(self, folder: str | Path) -> None:
        """Writes one `.keras` file per member into a folder, and removes those of an older ensemble there."""
        models = self._fitted()
        Path(folder).mkdir(parents=True, exist_ok=True)
        for old in Path(folder).glob("member_*.keras"):
            old.unlink()
        for number, model in enumerate(models):
            model.save(Path(folder) / f"member_{number:03}.keras")

    @classmethod
    def load(cls, folder: str | Path, **options) -> Self:
        """Returns a saved ensemble; `options` are those of `keras.saving.load_model`."""
        files = sorted(Path(folder).glob("member_*.keras"))
        if not files:
            raise FileNotFoundError(f"load needs a folder that DeepEnsemble.save wrote; got {str(folder)!r}.")
        return cls.from_models(load(file, **options) for file in files)


def _no_build() -> keras.Model:
    raise ValueError("fit needs build, and this ensemble was made from models; make a new one with build.")
