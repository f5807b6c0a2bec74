"""Watching a model in service: an alarm when its inputs, or its errors, are no longer those it was checked on."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from singularbayes.checks import aligned, labelled, require_finite, require_integer, require_share
from singularbayes.likelihoods import ClassPredictive, Predictive, ValuePredictive
from singularbayes.metrics import ConformalMartingale, label_nll
from singularbayes.models.saving import write_whole

_SCORES = {"classification": "entropy", "regression": "epistemic"}
_VERSION = 4
_FEWEST = 20  # reference examples of a stream


@dataclass(frozen=True)
class MonitorStatus:
    """What a monitor has found so far.

    Attributes:
        alarm: whether the evidence of any watched stream ever reached its threshold since the last reset.
        first: the stream that alarmed first and how many of its inputs it had seen then; None without an alarm.
        seen: inputs so far, over all groups.
        evidence: the largest wealth of a bet against "nothing has changed" now, as a multiple of its threshold.

    >>> status = Monitor(np.linspace(0, 1, 500)).update(np.full(50, 2.0))
    >>> status.alarm, status.seen, status.first is not None
    (True, 50, True)
    """

    alarm: bool
    first: tuple[str, int] | None
    seen: int
    evidence: float

    def __str__(self) -> str:
        if self.first is None:
            return f"No alarm after {self.seen} inputs; the evidence is at {self.evidence:.2g} of its threshold."
        return f"Alarm: {self.first[0]}, after {self.first[1]} inputs of {self.seen}."


class Monitor:
    """Compares the uncertainty of predictions in service with that of reference predictions, and errors once known.

    As long as new inputs are exchangeable with those of the reference, an alarm is false with probability at most
    `alpha`, however long the monitor runs (Ville's inequality); every group and the errors are watched at an equal
    share of `alpha`. Nothing is promised about how soon a change is found; a change that does not raise the
    uncertainty, or the errors, is not found.

    Args:
        reference: predictions for examples that served neither training nor tuning, as `predict` returns them, in no
            special order; or an array with one score per example, higher where the model is less certain.
        y: targets of the reference, where labels will arrive later: then `update_labels` watches the errors.
        alpha: the probability of a false alarm, ever.
        score: which uncertainty, a name in `Predictive.uncertainties()`; by default "entropy" of classes and
            "epistemic" of regression.
        groups: the group of every reference example, where groups (hospitals, sensors, …) are watched apart.

    >>> rng = np.random.default_rng(0)
    >>> monitor = Monitor(rng.normal(size=1000), alpha=0.01)
    >>> print(monitor.update(rng.normal(size=200)))  # doctest: +ELLIPSIS
    No alarm after 200 inputs; the evidence is at ... of its threshold.
    >>> monitor.update(rng.normal(3, 1, size=100)).alarm
    True
    >>> monitor
    Monitor(by scores, alpha 0.01). Alarm: uncertainty, after ... inputs of 300.
    """

    def __init__(self, reference, *, y=None, alpha: float = 0.01, score: str | None = None, groups=None, seed: int = 0):
        require_share("Monitor", alpha=alpha)
        require_integer("Monitor", 0, seed=seed)
        self.alpha, self.seed = float(alpha), int(seed)
        self.score = score or (_SCORES[reference.task] if isinstance(reference, Predictive) else None)
        scores = self._scores(reference)
        names = self._groups(groups, len(scores), "Monitor")
        watched = {_stream("uncertainty", name): scores[names == name] for name in np.unique(names)}
        if y is not None:
            losses = _losses("Monitor", reference, y)
            watched |= {_stream("errors", name): losses[names == name] for name in np.unique(names)}
        few = [f"{len(values)} of {name}" for name, values in watched.items() if len(values) < _FEWEST]
        if few:
            raise ValueError(f"Monitor needs at least {_FEWEST} scores of every group as its reference; got {few[0]}.")
        self._martingales = {
            name: ConformalMartingale.from_reference(values, seed=seed + i)
            for i, (name, values) in enumerate(watched.items())
        }
        self.first: tuple[str, int] | None = None

    # -- what comes in -------------------------------------------------------------------------------------------------

    def update(self, predictions, groups=None) -> MonitorStatus:
        """Adds predictions in the order in which their inputs came, and returns what is known now."""
        return self._add("uncertainty", self._scores(predictions), groups)

    def update_labels(self, predictions, y, groups=None) -> MonitorStatus:
        """Adds predictions whose targets have become known: their errors are watched beside the uncertainty."""
        if not any(name.startswith("errors") for name in self._martingales):
            raise ValueError("update_labels needs the errors of the reference; make the monitor by Monitor(p, y=y).")
        return self._add("errors", _losses("update_labels", predictions, y), groups)

    def _add(self, kind: str, scores: np.ndarray, groups) -> MonitorStatus:
        names = self._groups(groups, len(scores), "update")
        if len(scores):
            require_finite("update", scores=scores)  # before any stream has changed
        streams = {str(name): _stream(kind, name) for name in np.unique(names)}
        unknown = [name for name, stream in streams.items() if stream not in self._martingales]
        if unknown:
            known = sorted({stream.partition(" of ")[2] for stream in self._martingales})
            raise ValueError(f"update needs the groups of the reference, {known}; got {unknown}.")
        alarms: list[tuple[int, str, int]] = []  # input among these, stream, and its inputs until then
        for name, stream in streams.items():
            martingale, rows = self._martingales[stream], np.flatnonzero(names == name)
            before = martingale.seen
            above = martingale.update(scores[rows]) >= math.log(self.threshold)
            if above.any():
                alarms.append((int(rows[above.argmax()]), stream, before + int(above.argmax()) + 1))
        if self.first is None and alarms:
            self.first = min(alarms)[1:]
        return self.status

    def _scores(self, predictions) -> np.ndarray:
        if not isinstance(predictions, Predictive):
            needed = "Monitor needs predictions, such as sb.predict(model, x), or one score per example"
            if callable(predictions):  # the model itself
                raise ValueError(f"{needed}; got {predictions!r}.")
            if isinstance(predictions, Mapping):  # what a frozen model gives
                advised = 'outputs["entropy"]' if "entropy" in predictions else 'outputs["std"].ravel()'
                raise ValueError(
                    f"{needed}; got a dictionary of {sorted(predictions)}. Pass the score that the reference has: of a "
                    f"frozen model's outputs, {advised}."
                )
            scores = np.asarray(predictions, "float64")
            if scores.ndim != 1:
                raise ValueError(f"{needed}; got shape {scores.shape}.")
            require_finite("Monitor", scores=scores)
            return scores
        found = predictions.uncertainties()
        if self.score not in found:
            raise ValueError(f"Monitor needs score to be one of {sorted(found)}; got score={self.score!r}.")
        chosen = found[self.score]
        if isinstance(chosen, str):
            raise ValueError(f"Monitor cannot use score={self.score!r}: {chosen}.")
        return chosen.reshape(len(chosen), -1).mean(axis=1)

    @staticmethod
    def _groups(groups, examples: int, name: str) -> np.ndarray:
        names = np.full(examples, "") if groups is None else np.asarray(groups).astype(str)
        if names.shape != (examples,):
            raise ValueError(f"{name} needs one group per example, shape ({examples},); got shape {names.shape}.")
        return names

    # -- what is known -------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"Monitor(by {self.score or 'scores'}, alpha {self.alpha:g}). {self.status}"

    @property
    def threshold(self) -> float:
        """The wealth at which a stream alarms: the number of streams over `alpha`."""
        return len(self._martingales) / self.alpha

    @property
    def status(self) -> MonitorStatus:
        """What the monitor has found since the last reset."""
        seen = sum(m.seen for name, m in self._martingales.items() if name.startswith("uncertainty"))
        now = max(float(np.logaddexp.reduce(m.log_wealth)) for m in self._martingales.values())
        return MonitorStatus(self.first is not None, self.first, seen, math.exp(min(now, 700)) / self.threshold)

    # -- its life ------------------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Starts anew: wealth 1, against the same reference.

        A false alarm after it has a probability of at most `alpha` if its time does not depend on the scores, such as
        every Monday. After an alarm make a new `Monitor` from new reference predictions: a reference that happened to
        be low raises false alarms again (more than one in five of those that had one, with references of 40 scores and
        alpha 0.1). The same holds after the model was trained again.
        """
        self._martingales = {name: martingale.restarted() for name, martingale in self._martingales.items()}
        self.first = None

    def save(self, path) -> None:
        """Writes the state into a JSON file, about 20 kB per stream; `Monitor.load` resumes it."""
        streams = {name: martingale.to_dict() for name, martingale in self._martingales.items()}
        state = {"version": _VERSION, "alpha": self.alpha, "seed": self.seed, "score": self.score, "first": self.first}
        text = json.dumps({**state, "streams": streams})
        write_whole(path, lambda part: part.write_text(text))

    @classmethod
    def load(cls, path) -> "Monitor":
        """Returns the monitor that `save` wrote."""
        monitor = cls.__new__(cls)
        try:
            state: dict[str, Any] = json.loads(Path(path).read_text())
            version = state["version"]
            if version == _VERSION:
                monitor.alpha, monitor.seed, monitor.score = state["alpha"], state["seed"], state["score"]
                monitor.first = None if state["first"] is None else (state["first"][0], state["first"][1])
                streams = state["streams"].items()
                monitor._martingales = {name: ConformalMartingale.from_dict(each) for name, each in streams}
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ValueError(
                f"Monitor.load needs a file that Monitor.save wrote; got {path}, which is not such a file."
            ) from error
        if version != _VERSION:
            raise ValueError(f"Monitor.load needs a file of version {_VERSION}; got {path} of version {version}.")
        return monitor


def _stream(kind: str, group: str) -> str:
    return f"{kind} of {group}" if group else kind


def _losses(name: str, predictions, y) -> np.ndarray:
    """Returns −log p(label), or the absolute error in standard deviations where the noise is known."""
    if isinstance(predictions, ClassPredictive):
        probabilities, labels = labelled(name, predictions.mean, y)
        return label_nll(probabilities, labels)
    if isinstance(predictions, ValuePredictive):
        sd = np.ones_like(predictions.mean) if predictions.noise is None else np.sqrt(predictions.variance("total"))
        targets, mean, sd = aligned(name, y=y, predictions=predictions.mean, sd=sd)
        return (np.abs(targets - mean) / sd).reshape(len(mean), -1).mean(axis=1)
    raise TypeError(f"{name} needs predictions, as predict returns them, beside y; got {type(predictions).__name__}.")
