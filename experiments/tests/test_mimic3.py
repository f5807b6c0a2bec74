"""MIMIC-III on synthetic tables: parts that share no patient, newborns out of distribution, one's own folder."""

import os
from dataclasses import replace

import made_up_mimic
import numpy as np
import pytest
from posterior_table import ON_TORCH
from singularbayes_experiments import data
from singularbayes_experiments.methods import class_scores
from singularbayes_experiments.problems import mimic3, mimic3_features, mortality

import singularbayes as sb

needs_data = pytest.mark.skipif(
    not os.environ.get("SINGULARBAYES_DATA"), reason="needs $SINGULARBAYES_DATA, a folder with the data sets"
)


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory):
    """A folder of synthetic tables with newborns."""
    return str(made_up_mimic.write(made_up_mimic.tables(40, 12), tmp_path_factory.mktemp("mimic")))


def test_no_patient_is_in_two_parts_and_newborns_are_foreign(synthetic):
    sets = mimic3.split(synthetic, False)
    assert [len(part[0]) for part in (sets.train, sets.validation, sets.test, sets.ood)] == [33, 3, 4, 12]
    assert sets.train[0].shape[1] == 43 and mimic3.split(synthetic, True).train[0].shape[1] == 44
    everyone = [tuple(row) for part in (sets.train, sets.validation, sets.test) for row in part[0]]
    assert len(set(everyone)) == 40  # every adult once


def test_features_are_scaled_by_the_stays_that_train_alone(synthetic):
    train = mimic3.split(synthetic, False).train[0]
    ends = np.stack([train.min(axis=0), train.max(axis=0)])
    varies = np.ptp(train, axis=0) > 0
    np.testing.assert_allclose(ends[:, varies], [[0] * varies.sum(), [1] * varies.sum()], atol=1e-6)
    assert varies.sum() > 30


def test_a_patients_stays_stay_together(tmp_path):
    lines = made_up_mimic.tables(20, 0)
    for number, line in enumerate(lines["ICUSTAYS"][1:], start=1):
        lines["ICUSTAYS"].append(line.replace(f",{2000 + number},", f",{3000 + number},"))
    folder = str(made_up_mimic.write(lines, tmp_path))
    sets = mimic3.split(folder, False)
    assert [len(part[0]) % 2 for part in (sets.train, sets.validation, sets.test)] == [0, 0, 0]
    assert sets.ood is None


def test_features_that_no_training_stay_has_are_named_and_others_are_not(tmp_path):
    lines = made_up_mimic.tables(20, 0)
    gone = (51, 50824)  # systolic blood pressure and sodium
    for name in ("CHARTEVENTS", "LABEVENTS"):
        lines[name] = [line for line in lines[name] if not any(f",{item},2101" in line for item in gone)]
    with pytest.warns(UserWarning, match="trains without systolic_mean, systolic_sd, sodium_mean: no stay to train on"):
        sets = mimic3.split(str(made_up_mimic.write(lines, tmp_path)), False)
    column = mimic3_features.names(length_of_stay=False).index("sodium_mean")
    assert not any(part[0][:, column].any() for part in (sets.train, sets.validation, sets.test))


def test_too_few_patients_are_refused(tmp_path):
    folder = str(made_up_mimic.write(made_up_mimic.tables(4, 2), tmp_path))
    with pytest.raises(data.DataError, match="mimic3 needs at least 10 adult patients to split; got 4 in"):
        mimic3.split(folder, False)


def test_every_vital_sign_of_a_synthetic_newborn_is_beyond_the_adults(synthetic):
    names = mimic3_features.names(length_of_stay=False)
    columns = [names.index(f"{sign}_mean") for sign in ("heart_rate", "respiratory_rate")]
    assert (mimic3.split(synthetic, False).ood[0][:, columns] > 1).all()


@ON_TORCH
def test_a_run_has_every_score_and_its_arrays_give_them_again(synthetic, monkeypatch):
    monkeypatch.setenv(mimic3.FOLDER, synthetic)
    assert mimic3.MIMIC3Settings().tables == "own"
    tiny = {"units": (8,), "rank": 2, "epochs": 3, "draws": 4, "tables": "own"}
    found = mimic3.EXPERIMENT.problem.run(
        "low_rank", 1, replace(mimic3.EXPERIMENT.presets["paper"]["low_rank"], **tiny)
    )
    wanted = "auroc auprc nll brier ece auroc_ood_mi aupr_in_mi auroc_ood_entropy auroc_ood_std mi_ratio mean_mi"
    wanted += " validation_nll unweighted_nll shifted_nll ece_equal_width_30"
    assert set(wanted.split()) <= found.metrics.keys()
    assert len(found.arrays["foreign_mi"]) == 12
    p, ood = (class_scores.read_back(name, found.arrays, 4) for name in ("test", "foreign"))
    for name, value in class_scores.of_test(p, found.arrays["test_labels"], ood).items():
        assert found.metrics[name] == pytest.approx(value, rel=1e-4, abs=1e-5), name
    corrected = mortality.without_weight(p, mortality.death_weight(mimic3.split(synthetic, True).train[1]))
    nll = sb.metrics.negative_log_likelihood(corrected.mean, found.arrays["test_labels"])
    assert found.metrics["unweighted_nll"] == pytest.approx(nll, rel=1e-4)
    assert found.paper["units"] == [128, 128] and found.settings["length_of_stay"]


def test_tables_of_ones_own_are_named_by_a_variable(monkeypatch):
    monkeypatch.delenv(mimic3.FOLDER, raising=False)
    assert mimic3.MIMIC3Settings().tables == "demo" and mimic3.folder_of("demo") == "demo"
    with pytest.raises(data.DataError, match=r"mimic3 needs \$SINGULARBAYES_MIMIC3, the folder with the tables"):
        mimic3.folder_of("own")
    with pytest.raises(ValueError, match="mimic3 needs tables to be 'own' or 'demo'; got 'ours'"):
        mimic3.folder_of("ours")


def test_length_of_stay_is_used_by_the_published_preset_alone():
    assert all(settings.length_of_stay for settings in mimic3.EXPERIMENT.presets["paper"].values())
    assert not any(settings.length_of_stay for settings in mimic3.TUNED.values()) and not mimic3.QUICK.length_of_stay
    assert next(iter(mimic3.EXPERIMENT.presets)) == "chosen"  # what `run` takes unless told
