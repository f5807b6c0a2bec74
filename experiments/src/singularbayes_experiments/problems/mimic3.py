"""Deaths in intensive care, MIMIC-III: adults against newborns, from a folder of tables that you have access to.

    SINGULARBAYES_MIMIC3=/path/to/mimiciii singularbayes-experiments run mimic3 --seeds 0-4

Without that variable it is the open demo, 100 patients: a test of the pipeline, not a result. The demo has no newborns,
so it has no scores of out-of-distribution stays.

The paper: 40,406 stays to train (8.4 % deaths), 4,490 to test, 5,357 newborns as out-of-distribution stays. It does not
say how stays were picked. Here every stay of a patient of 16 years or more counts, a death is one in intensive care,
newborns are the admissions of that type, and patients are split, not stays: a tenth tests, a tenth of the rest
validates. Length of stay is among the paper's features and leaks the outcome, so it is used in the preset "paper"
alone.
"""

import os
import warnings
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from singularbayes_experiments import data
from singularbayes_experiments.methods.configurations import Configurations
from singularbayes_experiments.methods.experiment import Experiment
from singularbayes_experiments.problems import mimic3_features, mimic3_tables, mortality
from singularbayes_experiments.problems.icu import ALIKE, CHOICE, TRIED, VARIATIONAL
from singularbayes_experiments.problems.mortality import PAPER_METHODS, MortalitySets
from singularbayes_experiments.problems.mortality_scaling import FeatureScaling, Units

DEMO, OWN = "demo", "own"
FOLDER = (
    "SINGULARBAYES_MIMIC3"  # names the folder of one's own tables, which is no setting: it differs between machines
)
_SPLIT = 0  # one split for all seeds and methods


@dataclass(frozen=True)
class MIMIC3Settings(mortality.MortalitySettings):
    """The paper's values, whose tables ("own" or "demo"), and whether length of stay is a feature."""

    tables: str = field(default_factory=lambda: OWN if os.environ.get(FOLDER) else DEMO)
    length_of_stay: bool = True


class MIMIC3Problem(mortality.MortalityProblem):
    """MIMIC-III, adults against newborns."""

    name = "mimic3"
    paper = mortality.published(MIMIC3Settings())

    def sets(self, settings: MIMIC3Settings) -> MortalitySets:
        return split(folder_of(settings.tables), settings.length_of_stay, settings.scaling)


def folder_of(tables: str) -> str:
    """Returns the folder of one's own tables, or "demo"."""
    if tables not in (DEMO, OWN):
        raise ValueError(f"mimic3 needs tables to be {OWN!r} or {DEMO!r}; got {tables!r}.")
    folder = os.environ.get(FOLDER, "")
    if tables == OWN and not folder:
        raise data.DataError(f"mimic3 needs ${FOLDER}, the folder with the tables of MIMIC-III; it is not set.")
    return folder if tables == OWN else DEMO


@cache  # the full tables take minutes to read
def stays(folder: str) -> mimic3_tables.CareStays:
    """Returns the stays of a folder, or of the demo."""
    files = data.mimic3_demo() if folder == DEMO else data.mimic3(folder)
    return mimic3_tables.read(files.paths)


@cache
def split(folder: str, length_of_stay: bool, units: Units = "range") -> MortalitySets:
    """Returns the adults in three parts, no patient in two of them, and the newborns if there are any."""
    found = stays(folder)
    x, y = found.columns(mimic3_features.names(length_of_stay)), found.died.astype(int)
    adult = ~found.newborn
    patients = np.unique(found.patients[adult])
    if len(patients) < 10:
        raise data.DataError(f"mimic3 needs at least 10 adult patients to split; got {len(patients)} in {folder!r}.")
    order = np.random.default_rng(_SPLIT).permutation(patients)
    tenth = len(order) // 10
    tested, held, _ = np.split(order, [tenth, tenth + (len(order) - tenth) // 10])
    test, validation = (adult & np.isin(found.patients, some) for some in (tested, held))
    train = adult & ~test & ~validation
    _warn_of_empty(x[train], mimic3_features.names(length_of_stay))
    scaling = FeatureScaling.of(x[train], units)

    def part(rows: np.ndarray) -> mortality.Part:
        return scaling(x[rows]), y[rows]

    ood = part(found.newborn) if found.newborn.any() else None
    return MortalitySets(part(train), part(validation), part(test), ood)


def _warn_of_empty(features: np.ndarray, names: tuple[str, ...]) -> None:
    """Warns of features that no stay has: they are 0 for all stays, as if nothing was measured."""
    empty = [name for name, column in zip(names, features.T, strict=True) if not np.isfinite(column).any()]
    if empty:
        text = f"mimic3 trains without {', '.join(empty)}: no stay to train on has a value there."
        warnings.warn(text, stacklevel=3)


# There is nothing to choose on without the full tables: what serves the stand-in serves here.
CONFIGURATIONS = Configurations(MIMIC3Settings(length_of_stay=False), TRIED, ALIKE)
TUNED = CONFIGURATIONS.tuned(CHOICE)
QUICK = replace(
    CONFIGURATIONS.base, **VARIATIONAL["beta 0.1, range"] | {"epochs": 20, "warmup": 5, "draws": 64, "swag_epochs": 4}
)

EXPERIMENT = Experiment(
    summary="Deaths in intensive care, MIMIC-III: adults against newborns, from your own folder of tables.",
    problem=MIMIC3Problem(),
    presets={"chosen": TUNED, "paper": mortality.published(MIMIC3Settings()), "quick": QUICK},
    paper_methods=PAPER_METHODS,
    configurations=CONFIGURATIONS,
    choice=CHOICE,
)
