"""The sweep: one that trains, what its storage keeps, and what it refuses before anything is trained."""

import json
import math
import sys

import keras
import numpy as np
import pytest
import small_sweep
from posterior_table import TORCH_FIRST
from small_sweep import BUDGET, DATA, GRID, SPACE, build, data

import singularbayes as sb
from singularbayes import LowRank, layers, ranks
from singularbayes.ranks import search

pytest.importorskip("optuna")

pytestmark = pytest.mark.on_torch


@pytest.fixture
def trained(monkeypatch):
    return small_sweep.train_by_formula(monkeypatch)


# -- one that trains -------------------------------------------------------------------------------------------------


@TORCH_FIRST
def test_a_trial_is_the_mean_over_seeds_with_its_error_of_what_training_by_hand_gives():
    budget = ranks.Budget(trials=1, epochs=2, draws=4, seeds=2, batch_size=40)
    found = ranks.sweep(build, DATA, {"rank": [2], "beta": [0.5]}, budget=budget)
    runs = sb.fit_many(lambda: build(2), *DATA.train, range(2), 2, 40, callbacks=lambda: [sb.KLSchedule(80, beta=0.5)])
    results = [sb.evaluate(r.model, DATA.validation, DATA.ood, seed=i, draws=4) for i, r in enumerate(runs)]
    (trial,) = found.trials
    for name in ("nll", "ece", "auroc_ood_mi", "accuracy"):
        values = [r.metrics[name] for r in results]
        assert trial.metrics[name] == pytest.approx(np.mean(values), rel=1e-5)
        # Of two, the standard error is half of their distance.
        assert trial.errors[name] == pytest.approx(abs(values[0] - values[1]) / 2, rel=1e-3, abs=1e-6)
    assert trial.metrics["num_trained"] == 2 * 2 * (3 + 8) + 8 + 2 * 3 * (8 + 3) + 3


def test_a_space_without_beta_trains_at_the_library_s_own():
    found = ranks.sweep(build, DATA, {"rank": [2]}, ["nll"], ranks.Budget(trials=1, epochs=2, draws=4, batch_size=40))
    (run,) = sb.fit_many(lambda: build(2), *DATA.train, range(1), 2, 40, callbacks=lambda: [sb.KLSchedule()])
    (trial,) = found.trials
    expected = sb.evaluate(run.model, DATA.validation, seed=0, draws=4).metrics["nll"]
    assert trial.metrics["nll"] == pytest.approx(expected, rel=1e-5)


def test_with_one_objective_a_trial_that_falls_behind_is_stopped_at_the_next_look(monkeypatch):
    looks = []

    def scores(self, model, seed):
        looks.append(int(model.optimizer.iterations))
        return {"nll": float(len(looks))}  # ever worse

    monkeypatch.setattr(search._Objective, "scores", scores)
    budget = ranks.Budget(trials=6, epochs=8, batch_size=80)
    found = ranks.sweep(build, DATA, {"rank": [1, 2, 3, 4, 5, 6]}, ["nll"], budget)
    # A step an epoch: three looks on the way and the end, for four trials; the others end at their first look.
    assert looks == [2, 4, 6, 8] * 4 + [2, 2]
    assert [bool(trial.metrics) for trial in found.trials] == [True] * 4 + [False] * 2
    assert len(found.finished) == 4 and found.knee().number == 0


def test_several_inputs_have_as_many_examples_as_each_of_them():
    def build(rank):
        first, second = keras.Input((3,)), keras.Input((3,))
        outputs = layers.Dense(3, posterior=LowRank(rank))(keras.layers.Concatenate()([first, second]))
        model = keras.Model([first, second], outputs)
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return model

    (x, y), (held, targets) = DATA.train, DATA.validation
    both = ranks.Data(([x, x], y), ([held, held], targets))
    (trial,) = ranks.sweep(build, both, {"rank": [2]}, ["nll"], BUDGET).trials
    assert np.isfinite(trial.metrics["nll"])


# -- what is kept ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("storage", ["{}/sweep.log", "sqlite:///{}/sweep.db"])
def test_the_same_call_resumes_from_its_storage_and_repeats_nothing(storage, trained, tmp_path):
    where = storage.format(tmp_path)
    first = ranks.sweep(build, DATA, SPACE, budget=BUDGET, storage=where)
    assert len(first.trials) == len(trained) == 5
    assert ranks.sweep(build, DATA, SPACE, budget=BUDGET, storage=where) == first and len(trained) == 5
    more = ranks.sweep(build, DATA, SPACE, budget=ranks.Budget(trials=7, epochs=2, draws=4), storage=where)
    assert more.trials[:5] == first.trials and len(trained) == 7
    assert len({json.dumps(chosen) for chosen in trained}) == 7
    # What was interrupted and resumed has the trials of a sweep in one go.
    assert ranks.sweep(build, DATA, SPACE, budget=ranks.Budget(trials=7, epochs=2, draws=4)) == more


@pytest.mark.parametrize("space", [SPACE, GRID])
def test_a_trial_that_was_killed_is_done_anew(space, trained, tmp_path, monkeypatch):
    path = tmp_path / "sweep.log"
    asked = search._Objective._trained

    def killed(self, trial, settings):
        if len(trained) == 2:
            raise KeyboardInterrupt
        return asked(self, trial, settings)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(search._Objective, "_trained", killed)
        ranks.sweep(build, DATA, space, budget=6, storage=path)
    found = ranks.sweep(build, DATA, space, budget=6, storage=path)
    assert len(found.finished) == len(trained) == 6
    assert len({json.dumps(chosen) for chosen in trained}) == 6


def test_two_processes_at_one_storage_share_a_grid(trained, tmp_path, monkeypatch):
    path, asked = tmp_path / "sweep.log", search._Objective._trained

    def joined(self, trial, settings):
        if not trained:  # while the first process trains its first point, another joins it and does the rest
            trained.append(settings)
            with monkeypatch.context() as patch:
                patch.setattr(search._Objective, "_trained", asked)
                ranks.sweep(build, DATA, GRID, budget=ranks.Budget(trials=5), storage=path)
            trained.pop(0)
        return asked(self, trial, settings)

    with monkeypatch.context() as patch:
        patch.setattr(search._Objective, "_trained", joined)
        found = ranks.sweep(build, DATA, GRID, budget=ranks.Budget(trials=5), storage=path)
    assert len(found.trials) == len(trained) == 6
    assert len({json.dumps(chosen) for chosen in trained}) == 6


def test_a_setting_that_comes_twice_is_trained_once(trained):
    found = ranks.sweep(build, DATA, {"rank": (1, 2)}, budget=8)
    assert len(found.trials) == 8 and len(trained) == 2
    assert len({(trial.settings["rank"], trial.metrics["nll"]) for trial in found.trials}) == 2


def test_the_same_seed_gives_the_same_trials(trained):
    budget = ranks.Budget(trials=12, epochs=2)  # the last ones are chosen by what was found
    first, second = (ranks.sweep(build, DATA, SPACE, budget=budget, seed=3) for _ in range(2))
    assert first == second != ranks.sweep(build, DATA, SPACE, budget=budget, seed=4)


def test_lists_alone_are_a_grid_and_each_setting_is_trained_once(trained):
    found = ranks.sweep(build, DATA, GRID, budget=20)
    assert len(found.trials) == len(trained) == 6
    assert {(t.settings["rank"], t.settings["beta"]) for t in found.trials} == {
        (r, b) for r in (1, 2, 4) for b in (0.1, 1.0)
    }


def test_settings_of_numpy_are_those_of_python(trained):
    for space in ({"rank": [1, 2], "beta": (0.1, 1.0)}, {"rank": (1, 8)}):
        same = {name: type(choice)(np.array(choice)) for name, choice in space.items()}
        found = ranks.sweep(build, DATA, same, budget=BUDGET)
        assert found == ranks.sweep(build, DATA, space, budget=BUDGET)
        assert all(type(trial.settings["rank"]) is int for trial in found.trials)


def test_the_error_over_seeds_is_reported_kept_and_decides(tmp_path, monkeypatch):
    trained = small_sweep.train_by_formula(monkeypatch)
    budget, path = ranks.Budget(trials=9, epochs=2, seeds=3), tmp_path / "sweep.log"
    found = ranks.sweep(build, DATA, {"rank": [1, 4, 5, 6, 8, 9]}, ["nll"], budget, storage=path)
    # The best has 1/9 + 1.1, and an error of 0.1/√3; 1/6 + 1.1 is within it, 1/5 + 1.1 is not.
    assert found.why() == (
        "Take rank=6: NLL 1.267 ± 0.058. It is the smallest within one standard error of rank=9, NLL 1.211 ± 0.058."
    )
    assert found.recommended().settings == {"rank": 6} and found.knee().settings == {"rank": 9}
    assert "1.267 ± 0.058" in str(found)
    again = ranks.sweep(build, DATA, {"rank": [1, 4, 5, 6, 8, 9]}, ["nll"], budget, storage=path)
    assert again == found and len(trained) == 6


@pytest.mark.parametrize("names", [["nll"], ["nll", "ece"]])
def test_a_trial_that_diverges_is_shown_and_not_taken(names, monkeypatch):
    def scores(settings, seed):
        return {"nll": math.nan if settings["rank"] == 1 else 0.5, "ece": 0.1}

    small_sweep.train_by_formula(monkeypatch, scores)
    found = ranks.sweep(build, DATA, {"rank": [1, 2]}, names)
    assert len(found.trials) == 2 and found.knee().settings == {"rank": 2} and "–" in str(found)


# -- objectives, and what is refused before anything is trained ------------------------------------------------------


def _values(loss):
    def build(rank):
        model = keras.Sequential([keras.Input((3,)), layers.Dense(1, posterior=LowRank(rank))])
        model.compile("adam", loss)
        return model

    return build


@pytest.mark.parametrize(
    ("build", "ood", "names"),
    [
        (build, True, ["nll", "auroc_ood_mi"]),
        (build, False, ["nll"]),
        (_values(sb.Gaussian(0.5)), True, ["nll_total", "auroc_ood_epistemic"]),
        (_values("mse"), False, ["rmse"]),
    ],
)
def test_without_names_the_objectives_are_what_the_data_and_the_likelihood_allow(build, ood, names, monkeypatch):
    small_sweep.train_by_formula(monkeypatch, lambda settings, seed: dict.fromkeys(names, 1.0))
    found = ranks.sweep(build, data(ood), {"rank": [1]})
    assert [measure.name for measure in found.objectives] == names


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"objectives": ["nll", "speed"]},
            r"objectives that a trial has, .* got 'speed' in classification",
        ),
        ({"objectives": ["rmse"]}, "got 'rmse' in classification"),
        ({"objectives": ["mean_entropy"]}, "of which more or less is better; got 'mean_entropy'"),
        ({"objectives": "nll"}, "sweep needs a list of objectives"),
        ({"objectives": []}, "sweep needs a list of objectives"),
        ({"data": data(ood=False)}, "got 'auroc_ood' in classification: of out-of-distribution examples"),
        ({"objectives": ["digits/auroc_ood"]}, "got 'digits/auroc_ood'"),
        ({"build": _values("mse")}, "got 'nll' in regression: the likelihood does not specify the noise"),
        ({"task": "images"}, "got task='images'"),
        ({"space": {}}, "sweep needs a space of settings by name"),
        ({"space": {"rank": (8, 2)}}, r"\(low, high\) with 0 < low < high, or a list, for 'rank'; got \(8, 2\)"),
        ({"space": {"rank": []}}, r"for 'rank'; got \[\]"),
        ({"data": DATA.train}, r"sweep needs ranks.Data\(train=\(x, y\), .*; got data of type tuple"),
        ({"storage": "no/folder/sweep.log"}, "a storage in a folder that exists; got 'no/folder/sweep.log'"),
        ({"build": lambda rank: None}, "sweep needs build to return a compiled Keras model; got None"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_trained(change, message, trained):
    arguments = {"build": build, "data": DATA, "space": {"rank": (1, 8)}, "objectives": ["nll", "auroc_ood"]}
    with pytest.raises(ValueError, match=message):
        ranks.sweep(**{**arguments, **change})
    assert trained == []


def test_a_file_that_is_no_storage_is_refused_and_left_as_it_was(trained, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a journal\n")
    with pytest.raises(ValueError, match=r"a storage that a sweep wrote, or a path that is free; got .*notes"):
        ranks.sweep(build, DATA, SPACE, storage=path)
    assert path.read_text() == "not a journal\n"


def test_without_optuna_the_error_has_what_to_type(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match=r"sweep needs optuna.*Type: pip install 'singularbayes\[sweep\]'"):
        ranks.sweep(build, DATA, SPACE)


@pytest.mark.parametrize(("name", "value"), [("trials", 0), ("epochs", 2.5), ("warmup", -1)])
def test_a_budget_is_of_whole_numbers(name, value):
    with pytest.raises(ValueError, match=f"Budget needs {name} to be an integer"):
        ranks.Budget(**{name: value})


def test_a_budget_reaches_the_full_kl_weight():
    with pytest.raises(ValueError, match="Budget needs warmup < epochs; got warmup=4 and epochs=4"):
        ranks.Budget(epochs=4, warmup=4)
