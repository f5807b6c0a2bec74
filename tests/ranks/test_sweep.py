"""The sweep: one that trains, what is kept of it, and that it resumes."""

import dataclasses
import json
import math

import keras
import numpy as np
import pytest
import small_sweep
from posterior_table import TORCH_FIRST
from small_sweep import BUDGET, DATA, SPACE, build

import singularbayes as sb
from singularbayes import LowRank, layers, ranks
from singularbayes.metrics import find_measure
from singularbayes.ranks import work

pytest.importorskip("optuna")

pytestmark = pytest.mark.on_torch
COMPLETE = 1  # the state of a trial in a journal


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


@pytest.mark.parametrize("at_once", [1, 4])
def test_with_one_objective_a_trial_that_falls_behind_is_stopped(monkeypatch, at_once):
    begun = []

    def train(_, chosen, rungs):
        begun.append(chosen)
        value = float(len(begun))
        rungs.look(1, value)
        return [{"nll": value}]

    monkeypatch.setattr(work, "train", train)
    found = ranks.sweep(build, DATA, SPACE, ["nll"], ranks.Budget(trials=6, epochs=4, at_once=at_once))
    assert [trial.metrics != {} for trial in found.trials] == [True] * 4 + [False] * 2
    assert len(found.finished) == 4 and found.knee().number == 0 and len(begun) == 6


def test_a_training_is_looked_at_along_the_way(monkeypatch):
    monkeypatch.setattr(work.Work, "scores", lambda self, model, seed: {"nll": float(model.optimizer.iterations)})
    asked = work.Work(build, DATA, (find_measure("nll"),), ranks.Budget(epochs=8, batch_size=80), "classification")
    assert asked({"rank": 2}) == work.Ended({"nll": 8.0}, {2: 2.0, 4: 4.0, 6: 6.0})
    others = ({2: 2.5, 4: 1.5, 6: 1.0},) * 4
    # The least so far counts: 2 against 2.5, then 2 against 1.5.
    assert dataclasses.replace(asked, curves=others)({"rank": 2}) == work.Ended({}, {2: 2.0, 4: 4.0})


@pytest.mark.parametrize(("epochs", "rungs"), [(1, []), (2, [1]), (3, [1, 2]), (4, [1, 2, 3]), (10, [3, 5, 8])])
def test_a_trial_that_has_all_its_epochs_is_not_stopped_early(epochs, rungs, monkeypatch):
    monkeypatch.setattr(work.Work, "scores", lambda self, model, seed: {"nll": 1.0})
    budget = ranks.Budget(epochs=epochs, batch_size=80)
    ended = work.Work(build, DATA, (find_measure("nll"),), budget, "classification")({"rank": 2})
    assert ended == work.Ended({"nll": 1.0}, dict.fromkeys(rungs, 1.0))


# -- what is kept ----------------------------------------------------------------------------------------------------


@TORCH_FIRST
def test_the_same_call_resumes_from_its_storage_and_repeats_nothing(trained, tmp_path):
    path = tmp_path / "sweep.log"
    first = ranks.sweep(build, DATA, SPACE, budget=BUDGET, storage=path)
    assert len(first.trials) == len(trained) == 5
    again = ranks.sweep(build, DATA, SPACE, budget=BUDGET, storage=path)
    assert again == first and len(trained) == 5
    more = ranks.sweep(build, DATA, SPACE, budget=ranks.Budget(trials=7, epochs=2, draws=4), storage=path)
    assert more.trials[:5] == first.trials and len(trained) == 7
    assert len({json.dumps(chosen) for chosen in trained}) == 7


def test_a_trial_that_was_killed_is_done_anew(trained, tmp_path, monkeypatch):
    path = tmp_path / "sweep.log"
    train = work.train

    def killed(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(work, "train", killed)
    with pytest.raises(KeyboardInterrupt):
        ranks.sweep(build, DATA, SPACE, budget=BUDGET, storage=path)
    monkeypatch.setattr(work, "train", train)
    again = ranks.sweep(build, DATA, SPACE, budget=BUDGET, storage=path)
    assert again == ranks.sweep(build, DATA, SPACE, budget=BUDGET) and len(again.finished) == 5


class Backwards:
    """An engine that ends a wave in the opposite order, and lets us look after every trial."""

    def __init__(self, look=lambda: None):
        self.look, self.waves = look, []

    def map(self, function, items):
        self.waves.append(len(items))
        for position in reversed(range(len(items))):
            yield position, function(items[position])
            self.look()


def test_trials_do_not_depend_on_the_engine_nor_on_who_ends_first(trained):
    budget = ranks.Budget(trials=14, epochs=2, draws=4, at_once=4)  # the last ones are chosen by what was found
    engine = Backwards()
    found = ranks.sweep(build, DATA, SPACE, budget=budget, engine=engine)
    assert found == ranks.sweep(build, DATA, SPACE, budget=budget)
    assert [trial.number for trial in found.trials] == list(range(14)) and engine.waves == [4, 4, 4, 2]


@pytest.mark.parametrize("space", [SPACE, {"rank": [1, 2, 3, 4, 5, 6, 7, 8], "beta": [0.1, 1.0]}])
def test_whatever_moment_a_sweep_is_killed_at_it_resumes_to_the_same_trials(space, trained, tmp_path):
    budget = ranks.Budget(trials=14, epochs=2, draws=4, at_once=4)
    path = tmp_path / "sweep.log"
    whole = ranks.sweep(build, DATA, space, budget=budget, storage=path)
    lines = path.read_bytes().splitlines(keepends=True)
    ended = [i + 1 for i, line in enumerate(lines) if json.loads(line).get("state") == COMPLETE]
    for kept in [*range(1, len(lines), 31), ended[1], ended[8], ended[10]]:  # the last two in a wave of the sampler's
        killed = tmp_path / f"killed-{kept}.log"
        killed.write_bytes(b"".join(lines[:kept]) + lines[kept][:10])  # the line that was being written
        trained.clear()
        assert ranks.sweep(build, DATA, space, budget=budget, storage=killed) == whole
        assert len(trained) == 14 - sum(i <= kept for i in ended)


def test_a_setting_that_comes_twice_in_a_wave_is_trained_once(trained):
    found = ranks.sweep(build, DATA, {"rank": (1, 2)}, budget=ranks.Budget(trials=8, epochs=2, draws=4, at_once=8))
    assert len(found.trials) == 8 and len(trained) == 2
    assert len({(trial.settings["rank"], trial.metrics["nll"]) for trial in found.trials}) == 2


def test_a_storage_that_another_process_has_open_is_refused(trained, tmp_path):
    path = tmp_path / "sweep.log"

    def look():
        with pytest.raises(ValueError, match=r"sweep needs a storage that no other process is at; got '.*sweep.log'"):
            ranks.sweep(build, DATA, SPACE, budget=BUDGET, storage=path)

    ranks.sweep(build, DATA, SPACE, budget=BUDGET, storage=path, engine=Backwards(look))


def test_the_same_seed_gives_the_same_trials(trained):
    first, second = (ranks.sweep(build, DATA, SPACE, budget=BUDGET, seed=3) for _ in range(2))
    assert first == second != ranks.sweep(build, DATA, SPACE, budget=BUDGET, seed=4)


def test_lists_alone_are_a_grid_and_each_setting_is_trained_once(trained):
    found = ranks.sweep(build, DATA, {"rank": [1, 2, 4], "beta": [0.1, 1.0]}, budget=20)
    assert len(found.trials) == len(trained) == 6
    assert {(t.settings["rank"], t.settings["beta"]) for t in found.trials} == {
        (r, b) for r in (1, 2, 4) for b in (0.1, 1.0)
    }


def test_settings_of_numpy_are_those_of_python(trained, tmp_path):
    for space in ({"rank": [1, 2], "beta": (0.1, 1.0)}, {"rank": (1, 8)}):
        same = {name: type(choice)(np.array(choice)) for name, choice in space.items()}
        path = tmp_path / f"{len(space)}.log"
        found = ranks.sweep(build, DATA, same, budget=BUDGET, storage=path)
        assert found == ranks.sweep(build, DATA, space, budget=BUDGET, storage=path)
        assert all(type(trial.settings["rank"]) is int for trial in found.trials)


def test_the_error_over_seeds_is_reported_kept_and_decides(tmp_path, monkeypatch):
    def train(asked, chosen, rungs):
        rank = chosen["rank"]
        return [{"nll": 1 / rank + 0.1 * seed, "num_trained": 10.0 * rank} for seed in range(asked.budget.seeds)]

    monkeypatch.setattr(work, "train", train)
    budget, path = ranks.Budget(trials=9, epochs=2, seeds=3), tmp_path / "sweep.log"
    found = ranks.sweep(build, DATA, {"rank": [1, 4, 5, 6, 8, 9]}, ["nll"], budget, storage=path)
    # The best has 1/9 + 0.1, and an error of 0.1/√3; 1/6 + 0.1 is within it, 1/5 + 0.1 is not.
    assert found.why() == (
        "Take rank=6: NLL 0.2667 is within one standard error (0.058, over 3 seeds) of rank=9, the best, with "
        "NLL 0.2111. Of all such trials it has the fewest trainable parameters."
    )
    assert found.recommended().settings == {"rank": 6} and found.knee().settings == {"rank": 9}
    assert "0.2667 ± 0.058" in str(found)
    monkeypatch.delattr(work, "train")  # nothing is trained again
    assert ranks.sweep(build, DATA, {"rank": [1, 4, 5, 6, 8, 9]}, ["nll"], budget, storage=path) == found


def test_a_trial_that_diverges_is_shown_and_not_taken(monkeypatch):
    monkeypatch.setattr(work, "train", lambda _, chosen, *rest: [{"nll": math.nan if chosen["rank"] == 1 else 0.5}])
    found = ranks.sweep(build, DATA, {"rank": [1, 2]}, ["nll"])
    assert len(found.trials) == 2 and found.knee().settings == {"rank": 2} and "–" in str(found)


def test_several_inputs_have_as_many_examples_as_each_of_them():
    def build(rank):
        first, second = keras.Input((3,)), keras.Input((3,))
        outputs = layers.Dense(3, posterior=LowRank(rank))(keras.layers.Concatenate()([first, second]))
        model = keras.Model([first, second], outputs)
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return model

    (x, y), (held, targets) = DATA.train, DATA.validation
    both = ranks.Data(([x, x], y), ([held, held], targets))
    made = work.Work(build, both, (find_measure("nll"),), BUDGET, "classification")
    (scores,) = work.train(made, {"rank": 2}, None)  # a wrong number of examples is a warning
    assert np.isfinite(scores["nll"])
