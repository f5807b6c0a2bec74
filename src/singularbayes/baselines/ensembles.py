"""Ensembles: several networks trained in the same way from different seeds, whose draws are pooled."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

import keras
import numpy as np

from singularbayes.baselines import folders
from singularbayes.checks import require_integer
from singularbayes.models import count_stored, count_trained, require_model, share_programs
from singularbayes.posteriors import find_posteriors
from singularbayes.prediction import Predictive, pool
from singularbayes.training import fit_many, load


def member_seeds(seed: int, members: int) -> list[int]:
    """Returns the seeds of an ensemble's members: no two ensembles share one, and more members keep the first."""
    return [int(word) >> 1 for word in np.random.SeedSequence(seed).generate_state(members)]


class _Ensemble(ABC):
    """Members trained by `fit_many`, which predict together."""

    def __init__(self, build: Callable[..., keras.Model], members: int = 5, seed: int = 0):
        kind = type(self).__name__
        require_integer(kind, members=members)
        require_integer(kind, 0, seed=seed)
        self.build, self.members, self.seed = build, int(members), int(seed)
        self.models: list[keras.Model] = []
        self.histories: list[keras.callbacks.History] = []

    def __repr__(self) -> str:
        state = f"{len(self.models)} trained members" if self.models else f"{self.members} members, not trained"
        return f"{type(self).__name__}({state})"

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
            raise ValueError(f"{type(self).__name__} needs one or more different models; got {len(models)}.")
        for model in models:
            require_model(type(self).__name__, model)
            self._require(model, any(posterior.random for posterior in find_posteriors(model)))
        share_programs(models)
        self.models = models

    @abstractmethod
    def _require(self, model: keras.Model, random: bool) -> None:
        """Raises unless a model can be a member."""

    def _fitted(self) -> list[keras.Model]:
        if not self.models:
            raise ValueError(f"{type(self).__name__} needs trained members; call fit first.")
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

        `draws` are shared out equally, if need be a few more, and each counts the same; members without noise give one
        each, whatever `draws`.
        """
        models = self._fitted()
        return pool(lambda: models, len(models), x, draws, seed, **options)

    def save(self, folder: str | Path) -> None:
        """Writes one `.keras` file per member into a folder; an older ensemble there is replaced."""
        models = self._fitted()

        def fill(path: Path) -> None:
            for i, model in enumerate(models):
                model.save(path / _file(i))

        folders.write_folder(folder, type(self).__name__, {"members": len(models), "seed": self.seed}, fill)

    @classmethod
    def load(cls, folder: str | Path, **options) -> Self:
        """Returns a saved ensemble; `options` are those of `keras.saving.load_model`."""
        content = folders.read_folder(folder, cls.__name__)
        ensemble = cls.from_models(load(Path(folder) / _file(i), **options) for i in range(content["members"]))
        ensemble.seed = content["seed"]
        return ensemble


class DeepEnsemble(_Ensemble):
    """M deterministic networks from different seeds (Lakshminarayanan et al. 2017): M trainings, M times the
    parameters, M passes.

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

    def _require(self, model, random):
        if random:
            raise ValueError(
                f"DeepEnsemble needs deterministic networks; got {model.name!r} with a random posterior. Use "
                "LowRankEnsemble."
            )


class LowRankEnsemble(_Ensemble):
    """M variational networks from different seeds, whose posterior draws are pooled; the paper's has 5 × 20 draws.

    Members may have any random posterior. `build` and `seed` are as in `DeepEnsemble`; `fit` needs the KL
    weight: `callbacks=lambda: [sb.KLSchedule()]`.

    >>> import singularbayes as sb
    >>> def build():
    ...     model = keras.Sequential([keras.Input((3,)), sb.layers.Dense(2, posterior=sb.LowRank(2))])
    ...     model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    ...     return model
    >>> members = sb.LowRankEnsemble(build, members=3)  # .fit(x, y, callbacks=lambda: [sb.KLSchedule()]), .predict(x)
    >>> members.members
    3
    """

    def _require(self, model, random):
        if not random:
            raise ValueError(
                "LowRankEnsemble needs members with a random posterior, such as layers.Dense(8, posterior=LowRank(4)); "
                f"got {model.name!r} with none. Use DeepEnsemble."
            )


def _no_build() -> keras.Model:
    raise ValueError("fit needs build, and this ensemble was made from models; make a new one with build.")


def _file(member: int) -> str:
    return f"member_{member}.keras"
