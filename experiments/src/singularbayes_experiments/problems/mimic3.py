"""Deaths in intensive care, MIMIC-III: adults against newborns, from a folder of tables that you have access to.

    SINGULARBAYES_MIMIC3=/path/to/mimiciii singularbayes-experiments run mimic3 --preset chosen

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
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

import numpy as np

from singularbayes_experiments import data, protocol
from singularbayes_experiments.problems import mimic3_tables
from singularbayes_experiments.problems.base import TUNING, Data, Part
from singularbayes_experiments.problems.care import ENDS, OOD, CareSettings, Mortality, scaling, weighted

FOLDER = "SINGULARBAYES_MIMIC3"  # names the folder of one's own tables; no setting, because it differs by machine
_SPLIT = 0  # one split for all seeds and methods


@dataclass(frozen=True)
class MIMIC3Settings(CareSettings):
    """The paper's values, whose tables, and whether length of stay is a feature."""

    tables: Literal["own", "demo"] = field(default_factory=lambda: "own" if os.environ.get(FOLDER) else "demo")
    length_of_stay: bool = False


class MIMIC3(Mortality):
    """MIMIC-III, adults against newborns."""

    Settings = MIMIC3Settings

    def data(self, task, seed, settings: MIMIC3Settings, stage) -> Data:
        """Returns the adults in three parts, no patient in two of them, and the newborns if there are any."""
        stays = read(settings.tables)
        names = [name for name in mimic3_tables.FEATURES if settings.length_of_stay or name != mimic3_tables.LEAK]
        x, adult = stays.columns(names), ~stays.newborn
        patients = np.unique(stays.patients[adult])
        if len(patients) < 10:
            raise data.DataError(f"mimic3 needs at least 10 adult patients to split; got {len(patients)}.")
        order = np.random.default_rng(_SPLIT).permutation(patients)
        tenth = len(order) // 10
        tested, held, _ = np.split(order, [tenth, tenth + (len(order) - tenth) // 10])
        test, validation = (adult & np.isin(stays.patients, some) for some in (tested, held))
        train = adult & ~test & ~validation
        empty = [name for name, known in zip(names, np.isfinite(x[train]).any(axis=0), strict=True) if not known]
        if empty:  # they are 0 for all stays, as if nothing was measured
            warnings.warn(f"mimic3 trains without {', '.join(empty)}: no stay to train on has a value.", stacklevel=2)
        scale = scaling(x[train], settings.scaling)

        def part(rows: np.ndarray) -> Part:
            return Part(scale(x[rows]), stays.died[rows, None].astype("float32"))

        known = weighted(part(train), settings)
        if stage == TUNING:
            return Data(known, part(validation), ood={"perturbed": protocol.perturbed(known.x)})
        newborn = stays.newborn
        ood = {OOD: scale(x[newborn]), ENDS: stays.died[newborn].astype(int)} if newborn.any() else {}
        return Data(known, part(validation), part(test), ood)


def read(tables: str) -> mimic3_tables.CareStays:
    """Returns the stays of one's own tables, or of the demo."""
    folder = os.environ.get(FOLDER, "")
    if tables == "own" and not folder:
        raise data.DataError(f"mimic3 needs ${FOLDER}, the folder with the tables of MIMIC-III; it is not set.")
    return _read(folder if tables == "own" else None)


@cache  # the full tables take minutes to read
def _read(folder: str | None) -> mimic3_tables.CareStays:
    return mimic3_tables.read(data.mimic3_demo() if folder is None else data.mimic3(folder))
