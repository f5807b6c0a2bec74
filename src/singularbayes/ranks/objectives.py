"""What a sweep looks for: measures by name, checked before anything is trained."""

from collections.abc import Iterable, Sequence

from singularbayes.assess import catalogue
from singularbayes.assess.measure import BETTER, Measure

# Names that say less than an evaluation does, by task.
_SHORT = {
    "classification": {"auroc_ood": "auroc_ood_mi", "aupr_ood": "aupr_ood_mi"},
    "regression": {"auroc_ood": "auroc_ood_epistemic", "aupr_ood": "aupr_ood_epistemic", "nll": "nll_total"},
}
_FOREIGN = ("auroc_ood", "aupr_ood", "aupr_in", "fpr_at_95_tpr", "tpr_at_5_fpr", "mi_ratio", "iqr_")


def is_foreign(name: str) -> bool:
    """Whether a measure needs foreign examples.

    >>> is_foreign("auroc_ood"), is_foreign("digits/mi_ratio"), is_foreign("auroc")
    (True, True, False)
    """
    return name.rpartition("/")[2].startswith(_FOREIGN)


def full_name(name: str, task: str) -> str:
    """Returns the name that an evaluation of the task uses; a name that says enough stays.

    >>> full_name("auroc_ood", "regression"), full_name("digits/auroc_ood", "classification")
    ('auroc_ood_epistemic', 'digits/auroc_ood_mi')
    """
    where, bar, base = name.rpartition("/")
    return f"{where}{bar}{_SHORT[task].get(base, base)}"


def measures(names: Sequence[str], task: str, foreign: Iterable[str]) -> tuple[Measure, ...]:
    """Returns the measures of these names; raises for what does not exist, has no direction, or needs other data.

    Args:
        foreign: the names of the sets of foreign examples, "" for one without a name.
    """
    if isinstance(names, str) or not names or len(set(names)) < len(names):
        raise ValueError(f"sweep needs different objectives, such as ('nll', 'auroc_ood'); got objectives={names!r}.")
    foreign = list(foreign)
    found = []
    for name in names:
        where = name.rpartition("/")[0]
        if is_foreign(name) and where not in foreign:
            there = f"sets called {foreign}" if foreign else "none"
            raise ValueError(
                f"sweep needs foreign examples for the objective {name!r}: Data(train, validation, ood=x_ood), or a "
                f"dict of sets by name and the objective 'name/{name.rpartition('/')[2]}'; got {there}."
            )
        try:
            measure = catalogue.find(full_name(name, task))
        except ValueError as error:
            known = sorted(m.name for m in catalogue.MEASURES.values() if m.better in BETTER)
            raise ValueError(f"sweep needs objectives that exist; got {name!r}. There are {known}.") from error
        if measure.better not in BETTER:
            raise ValueError(f"sweep needs objectives of which more or less is better; got {name!r}, with neither.")
        found.append(measure)
    return tuple(found)
