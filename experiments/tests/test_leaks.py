"""What is scaled and tuned knows no stay or row that it may not, and a detector has the recorded direction."""

import os
from functools import partial

import numpy as np
import pytest
from singularbayes_experiments.problems import care, care_features, tables
from singularbayes_experiments.problems.base import Data

pytestmark = pytest.mark.on_torch
needs_data = pytest.mark.skipif(
    not os.environ.get("SINGULARBAYES_DATA"), reason="needs $SINGULARBAYES_DATA, a folder with the data sets"
)

# -- scaling of stays ------------------------------------------------------------------------------------------------

STAYS = 600


def made_up_stays(rng: np.random.Generator) -> care_features.Stays:
    """Features of other sizes each, a tenth of them missing; the first of both kinds is the number of the stay."""

    def features(columns: int) -> np.ndarray:
        x = rng.normal(size=(STAYS, columns)) * np.geomspace(0.1, 100, columns) + np.arange(columns)
        x[rng.random(x.shape) < 0.1] = np.nan
        x[:, 0] = np.arange(STAYS)
        return x

    died, unit = (rng.random(STAYS) < 0.2).astype(int), rng.integers(1, 5, STAYS)
    return care_features.Stays(features(44), features(23), died, unit, np.array(list("abc"))[np.arange(STAYS) % 3])


def numbers(sets: Data) -> list[np.ndarray]:
    """Returns the numbers of the stays in training, validation, test and, of PhysioNet, out of distribution."""
    parts = [x[:, 0].astype("float64") for x in (sets.train.x, sets.validation.x, sets.test.x, sets.ood[care.OOD])]
    parts = parts if sum(map(len, parts)) == STAYS else parts[:3]
    least, most = (end(np.concatenate(parts)) for end in (np.min, np.max))
    return [np.rint((part - least) / (most - least) * (STAYS - 1)).astype(int) for part in parts]


@pytest.mark.parametrize("scaling", ["range", "deviation"])
@pytest.mark.parametrize("shift", care.SHIFTS)
def test_stays_that_do_not_train_change_nothing_that_trains(shift, scaling, monkeypatch):
    rng = np.random.default_rng(0)
    stays = made_up_stays(rng)
    elsewhere = care_features.Elsewhere(rng.normal(size=(50, 23)), np.zeros(50))
    monkeypatch.setattr(care_features, "physionet", lambda sets: stays)
    monkeypatch.setattr(care_features, "eicu", lambda: elsewhere)
    data_of = partial(care.Care().data, shift, 0, care.CareSettings(scaling=scaling), "result")
    before = data_of()
    found = numbers(before)
    assert len(np.unique(np.concatenate(found))) == STAYS  # every stay is in one part
    for part, name in zip(found[1:], ("validation", "test", "ood")[: len(found) - 1], strict=True):
        for x in (stays.features, stays.apache):
            x[part] = rng.normal(1000, 5000, (len(part), x.shape[1]))
            x[part, 3] = np.nan
        if name != "validation":  # whose outcomes choose it
            stays.died[part] = 1 - stays.died[part]
        after = data_of()
        for array in ("x", "y", "weight"):
            np.testing.assert_array_equal(getattr(after.train, array), getattr(before.train, array))
        one, other = (each.ood[care.OOD] if name == "ood" else getattr(each, name).x for each in (before, after))
        assert not np.array_equal(one, other)


# -- tuning of tables ------------------------------------------------------------------------------------------------


def _ridge(x, y, seed, alpha=1.0, power=1):
    """Linear regression with a penalty; its deviation is that of the training errors."""
    design = np.hstack([x**power, np.ones((len(x), 1))])
    weights = np.linalg.solve(design.T @ design + alpha * np.eye(design.shape[1]), design.T @ y)
    deviation = np.std(y - design @ weights)

    def predict(new):
        mean = np.hstack([new**power, np.ones((len(new), 1))]) @ weights
        return tables._normal(mean, np.full(len(new), deviation))

    return predict


METHOD = tables.TableMethod(_ridge, {"alpha": (0.01, 1.0, 30.0, 1000.0), "power": (1, 3)})


def test_tuning_reads_no_test_row_of_the_split_that_chooses():
    rng, rows = np.random.default_rng(1), np.arange(90)
    x = rng.normal(size=(90, 3))
    y = x[:, 0] ** 3 + x[:, 1] + rng.normal(size=90)
    one = tables.Table(x, y, tuple((rows[rows % 5 != i], rows[rows % 5 == i]) for i in range(5)))
    train, test = one.splits[0]
    changes, before = tables.tune(one, METHOD)
    result = tables.scores_of_fit(one, METHOD.fit, changes, train, test, 0)
    x[test] = -3 * x[test]
    y[test] += 40
    again, after = tables.tune(one, METHOD)
    assert again == changes and after["validation_nll"] == before["validation_nll"]
    assert tables.scores_of_fit(one, METHOD.fit, changes, train, test, 0)["nll"] != result["nll"]
    fitted, validation = one.validation(0)
    assert not {*fitted, *validation} & {*test} and not {*fitted} & {*validation}
