"""Intensive care: features by an independent implementation, splits that keep apart what they say, published sizes."""

import os
from dataclasses import replace

import numpy as np
import pytest
from singularbayes_experiments import data
from singularbayes_experiments.methods import Weights
from singularbayes_experiments.problems import care, care_features
from singularbayes_experiments.problems.care import ENDS, OOD, CareSettings
from singularbayes_experiments.problems.care_features import APACHE, FEATURES, SIGNS

from singularbayes.models import count_trained

needs_data = pytest.mark.skipif(
    not os.environ.get("SINGULARBAYES_DATA"), reason="needs $SINGULARBAYES_DATA, a folder with the data sets"
)


def test_outliers_and_gaps_become_the_median_and_training_fills_the_unit_interval():
    column = np.array([0.0, 1, 2, 3, 4, 1000, np.nan])[:, None]  # quartiles 1.25 and 3.75, so up to 23.75 counts
    scale = care.scaling(column, "range")
    np.testing.assert_allclose(scale(column)[:, 0], [0, 0.25, 0.5, 0.75, 1, 2.5 / 4, 2.5 / 4])
    # Beyond training is not clipped, an outlier is filled.
    np.testing.assert_allclose(scale(np.array([[20.0], [24.0], [-20.0]]))[:, 0], [5, 2.5 / 4, 2.5 / 4])
    x = np.random.default_rng(0).normal(5, 3, (200, 2))
    x[::7, 0] = np.nan
    scaled = care.scaling(x, "deviation")(x)
    np.testing.assert_allclose([scaled.mean(axis=0), scaled.std(axis=0)], [[0, 0], [1, 1]], atol=1e-6)
    mostly_one = np.array([1.0] * 9 + [0.0])[:, None]
    np.testing.assert_array_equal(care.scaling(mostly_one, "range")(mostly_one), mostly_one)
    never_seen = care.scaling(np.array([[1.0, np.nan], [3.0, np.nan]]), "range")
    np.testing.assert_array_equal(never_seen(np.array([[2.0, 7.0], [np.nan, np.nan]])), [[0.5, 0], [0.5, 0]])


@needs_data
def test_features_are_those_of_an_independent_implementation():
    assert len(FEATURES) == len(set(FEATURES)) == 44 and len(APACHE) == 23
    stays, published = care_features.physionet("a"), data.physionet2012("a")
    ids = published.outcomes.index[:40]
    records = published.records[published.records["RecordID"].isin(ids)]
    hours = records["Time"].astype(str).str.split(":").str[0].astype(int)
    first_day = (hours < 24) | (records["Time"] == "24:00")
    for sign in SIGNS.itertuples():
        parameters, kinds = sign.parameters.split(), sign.statistics.split()
        rows = records["Parameter"].isin(parameters) & records["Value"].between(sign.low, sign.high)
        values = records[rows].groupby("RecordID")["Value"]
        expected = {
            "mean": values.mean().reindex(ids),
            "sd": values.std().reindex(ids),
            "sum": values.sum().reindex(ids),
            "any": values.count().reindex(ids).fillna(0).clip(upper=1),
        }
        for kind in kinds:
            column = stays.features[:40, FEATURES.index(f"{sign.name}_{kind}")]
            np.testing.assert_allclose(column, expected[kind], rtol=1e-9, atol=1e-9, err_msg=sign.name)
        if sign.apache and kinds[0] not in ("sum", "any"):
            early = records[rows & first_day].groupby("RecordID")["Value"]
            furthest = np.maximum(sign.normal - early.min(), early.max() - sign.normal).reindex(ids)
            column = stays.apache[:40, list(APACHE["name"]).index(sign.name)]
            np.testing.assert_allclose(np.abs(column - sign.normal), furthest, rtol=1e-9, err_msg=sign.name)
    assert stays.died.sum() == 554 and np.bincount(stays.unit)[1:].tolist() == [577, 874, 1481, 1068]
    elsewhere = care_features.eicu()  # in the units of PhysioNet
    assert elsewhere.features.shape == (2205, 23) and np.nansum(elsewhere.died) == 196
    low, high = np.nanquantile(stays.apache, [0.01, 0.99], axis=0)
    middle = np.nanmedian(elsewhere.features, axis=0)
    assert ((middle >= low) & (middle <= high)).all()


@needs_data
@pytest.mark.parametrize("shift", care.SHIFTS)
def test_a_shift_trains_on_no_stay_of_its_kind_and_tests_on_another_set(shift, monkeypatch):
    """Set a alone, its last thousand stays as if they were set c."""
    stays, kind = care_features.physionet("a"), care.SHIFTS[shift]
    stays = replace(stays, sets=np.where(np.arange(4000) < 3000, "a", "c"))
    monkeypatch.setattr(care_features, "physionet", lambda sets: stays)
    found = care.Care().data(shift, 0, CareSettings(), "result")
    inside = np.ones(4000, bool) if kind is None else stays.unit != kind
    used = inside & (stays.sets == "a")
    assert len(found.train.x) + len(found.validation.x) == used.sum()
    assert len(found.validation.x) == pytest.approx(used.sum() / 5, abs=8)
    assert len(found.test.x) == (inside & (stays.sets == "c")).sum()
    assert len(found.ood[OOD]) == len(found.ood[ENDS]) == (2205 if kind is None else (stays.unit == kind).sum())
    assert found.train.x.min() == 0 and found.train.x.max() == 1
    assert found.train.x.shape[1] == (23 if kind is None else 44)
    assert found.validation.y.mean() == pytest.approx(found.train.y.mean(), abs=0.005)  # by outcome


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [("deterministic", 22_401), ("full_rank", 44_802), ("low_rank", 13_612), ("rank_one", 23_257)],
)
def test_networks_have_the_published_sizes(kind, parameters):
    settings = CareSettings()
    assert count_trained(care.Care().network(Weights(kind, settings, inputs=(44,)), settings)) == parameters
