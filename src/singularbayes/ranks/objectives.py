"""What a sweep looks for: measures by name, checked before anything is trained."""

from collections.abc import Iterable, Sequence

import numpy as np

from singularbayes.evaluation import Evaluation, evaluate
from singularbayes.metrics import Measure, find_measure
from singularbayes.prediction import ClassPredictive, Predictive, ValuePredictive

# Short names of objectives, by task.
_SHORT = {
    "classification": {"auroc_ood": "auroc_ood_mi", "aupr_ood": "aupr_ood_mi"},
    "regression": {"auroc_ood": "auroc_ood_epistemic", "aupr_ood": "aupr_ood_epistemic", "nll": "nll_total"},
}
_OOD = ("auroc_ood", "aupr_ood", "aupr_in", "fpr_at_95_tpr", "tpr_at_5_fpr", "mi_ratio", "iqr_")


def is_ood(name: str) -> bool:
    """Whether a measure needs out-of-distribution examples.

    >>> is_ood("auroc_ood"), is_ood("digits/mi_ratio"), is_ood("auroc")
    (True, True, False)
    """
    return name.rpartition("/")[2].startswith(_OOD)


def full_name(name: str, task: str) -> str:
    """Returns the name that an evaluation of the task uses; a full name stays.

    >>> full_name("auroc_ood", "regression"), full_name("digits/auroc_ood", "classification")
    ('auroc_ood_epistemic', 'digits/auroc_ood_mi')
    """
    where, bar, base = name.rpartition("/")
    return f"{where}{bar}{_SHORT[task].get(base, base)}"


def measures(names: Sequence[str], task: str, ood: Iterable[str], noise: bool = True) -> tuple[Measure, ...]:
    """Returns the measures of these names; raises for what a trial will not have, or has no direction.

    Args:
        ood: the names of the out-of-distribution sets, "" for one without a name.
        noise: whether the likelihood of a regression has a noise.
    """
    full = [] if isinstance(names, str) else [full_name(name, task) for name in names]
    if not full or len(set(full)) < len(full):
        raise ValueError(
            f"sweep needs a list of different objectives, such as ('nll', 'auroc_ood'); got objectives={names!r}."
        )
    ood = list(ood)
    for name in names:
        _require_ood(name, ood)
    scores = _example(task, ood, noise)
    return tuple(_measure(name, found, scores) for name, found in zip(names, full, strict=True))


def _require_ood(name: str, ood: list[str]) -> None:
    where, _, base = name.rpartition("/")
    if is_ood(name) and where not in ood:
        there = f"sets called {ood}" if ood else "none"
        raise ValueError(
            f"sweep needs out-of-distribution examples for the objective {name!r}: Data(train, validation, ood=x_ood), "
            f"or a dict of sets by name and the objective 'name/{base}'; got {there}."
        )


def _measure(name: str, full: str, scores: Evaluation) -> Measure:
    """Returns the measure of an objective that the trials will have."""
    known = {key: find_measure(key) for key in ("num_trained", *scores.metrics) if key not in scores.undefined}
    if full in scores.undefined:
        help_ = " Compile with singularbayes.GaussianNLL(scale), or take 'rmse'." if full.endswith("_total") else ""
        raise ValueError(
            f"sweep needs objectives that its trials have; got {name!r}, and {scores.undefined[full]}.{help_}"
        )
    if full not in known:
        there = sorted(key for key, measure in known.items() if measure.has_direction)
        raise ValueError(f"sweep needs objectives that exist in {scores.task}; got {name!r}. There are {there}.")
    if not known[full].has_direction:
        raise ValueError(f"sweep needs objectives of which more or less is better; got {name!r}, with neither.")
    return known[full]


def _example(task: str, ood: list[str], noise: bool) -> Evaluation:
    """Returns the scores of predictions that are made up, which show the scores that a trial will have."""
    p: Predictive
    if task == "classification":
        p = ClassPredictive.of_draws([[[0.9, 0.1], [0.7, 0.3], [0.2, 0.8]], [[0.8, 0.2], [0.6, 0.4], [0.4, 0.6]]])
        y = np.array([0, 1, 1])
    else:
        p = ValuePredictive(np.array([0.0, 1.0, 2.0]), np.array([0.1, 0.2, 0.3]), 2, noise=1.0 if noise else None)
        y = np.array([0.5, 1.0, 3.0])
    return evaluate(p, y, p if ood == [""] else dict.fromkeys(ood, p) or None)
