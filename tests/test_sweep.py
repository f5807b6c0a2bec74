"""The sweep: what it refuses, what it keeps, which trial it takes; and one that trains."""

import dataclasses
import io
import json
import math
import sys

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import singularbayes as sb
from singularbayes import LowRank, layers, ranks
from singularbayes.assess import catalogue
from singularbayes.ranks import first, live, work
from singularbayes.ranks.storage import open_study
from singularbayes.ranks.trials import Sweep, Trial

pytest.importorskip("optuna")
BUDGET = ranks.Budget(trials=5, epochs=2, draws=4)
SPACE = {"rank": (1, 8), "beta": (0.1, 1.0)}
COMPLETE = 1  # the state of a trial in a journal


def _data(ood=True):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120)
    x = (np.eye(3)[y] * 2 + rng.normal(size=(120, 3))).astype("float32")
    strange = 4 * rng.normal(size=(40, 3)).astype("float32")
    return ranks.Data((x[:80], y[:80]), (x[80:], y[80:]), strange if ood else None)


DATA = _data()


def _build(rank, units=8, rate=0.02):
    hidden = layers.Dense(units, "relu", posterior=LowRank(rank))
    model = keras.Sequential([keras.Input((3,)), hidden, layers.Dense(3, posterior=LowRank(3))])
    model.compile(keras.optimizers.Adam(rate), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


@pytest.fixture
def trained(monkeypatch):
    """Replaces the training by a formula, and returns the settings that were asked for."""
    asked = []

    def train(_, chosen, rungs):
        asked.append(dict(chosen))
        rank, beta = chosen.get("rank", 1), chosen.get("beta", 1.0)
        of_detection = {"auroc_ood_mi": 1 - 0.05 * rank}
        return [{"nll": 1 / rank + beta, **of_detection, "ece": 0.01 * rank, "num_trained": 10.0 * rank}]

    monkeypatch.setattr(work, "train", train)
    return asked


# -- one that trains -------------------------------------------------------------------------------------------------


def test_a_trial_is_the_mean_over_seeds_with_its_error_of_what_training_by_hand_gives():
    budget = ranks.Budget(trials=1, epochs=2, draws=4, seeds=2, batch_size=40)
    found = ranks.sweep(_build, DATA, {"rank": [2], "beta": [0.5]}, budget=budget)
    runs = sb.fit_many(lambda: _build(2), *DATA.train, range(2), 2, 40, callbacks=lambda: [sb.KLSchedule(80, beta=0.5)])
    results = [sb.evaluate(r.model, DATA.validation, DATA.ood, seed=i, draws=4) for i, r in enumerate(runs)]
    (trial,) = found.trials
    for name in ("nll", "ece", "auroc_ood_mi", "accuracy"):
        values = [r.metrics[name] for r in results]
        assert trial.metrics[name] == pytest.approx(np.mean(values), rel=1e-5)
        # Of two, the standard error is half of their distance.
        assert trial.errors[name] == pytest.approx(abs(values[0] - values[1]) / 2, rel=1e-3, abs=1e-6)
    assert trial.metrics["num_trained"] == 2 * 2 * (3 + 8) + 8 + 2 * 3 * (8 + 3) + 3


@pytest.mark.parametrize("at_once", [1, 4])
def test_with_one_objective_a_trial_that_falls_behind_is_stopped(monkeypatch, at_once):
    begun = []

    def train(_, chosen, rungs):
        begun.append(chosen)
        value = float(len(begun))
        rungs.look(1, value)
        return [{"nll": value}]

    monkeypatch.setattr(work, "train", train)
    found = ranks.sweep(_build, DATA, SPACE, ["nll"], ranks.Budget(trials=6, epochs=4, at_once=at_once))
    assert [trial.metrics != {} for trial in found.trials] == [True] * 4 + [False] * 2
    assert len(found.finished) == 4 and found.knee().number == 0 and len(begun) == 6


def test_a_training_is_looked_at_along_the_way(monkeypatch):
    monkeypatch.setattr(work.Work, "scores", lambda self, model, seed: {"nll": float(model.optimizer.iterations)})
    asked = work.Work(_build, DATA, (catalogue.find("nll"),), ranks.Budget(epochs=8, batch_size=80), "classification")
    assert asked({"rank": 2}) == work.Ended({"nll": 8.0}, {2: 2.0, 4: 4.0, 6: 6.0})
    others = ({2: 2.5, 4: 1.5, 6: 1.0},) * 4
    # The least so far counts: 2 against 2.5, then 2 against 1.5.
    assert dataclasses.replace(asked, curves=others)({"rank": 2}) == work.Ended({}, {2: 2.0, 4: 4.0})


@pytest.mark.parametrize(("epochs", "rungs"), [(1, []), (2, [1]), (3, [1, 2]), (4, [1, 2, 3]), (10, [3, 5, 8])])
def test_a_trial_that_has_all_its_epochs_is_not_stopped_early(epochs, rungs, monkeypatch):
    monkeypatch.setattr(work.Work, "scores", lambda self, model, seed: {"nll": 1.0})
    budget = ranks.Budget(epochs=epochs, batch_size=80)
    ended = work.Work(_build, DATA, (catalogue.find("nll"),), budget, "classification")({"rank": 2})
    assert ended == work.Ended({"nll": 1.0}, dict.fromkeys(rungs, 1.0))


# -- what is kept ----------------------------------------------------------------------------------------------------


def test_the_same_call_goes_on_from_its_storage_and_repeats_nothing(trained, tmp_path):
    path = tmp_path / "sweep.log"
    first = ranks.sweep(_build, DATA, SPACE, budget=BUDGET, storage=path)
    assert len(first.trials) == len(trained) == 5
    again = ranks.sweep(_build, DATA, SPACE, budget=BUDGET, storage=path)
    assert again == first and len(trained) == 5
    more = ranks.sweep(_build, DATA, SPACE, budget=ranks.Budget(trials=7, epochs=2, draws=4), storage=path)
    assert more.trials[:5] == first.trials and len(trained) == 7
    assert len({json.dumps(chosen) for chosen in trained}) == 7


def test_a_trial_that_was_killed_is_done_anew(trained, tmp_path, monkeypatch):
    path = tmp_path / "sweep.log"
    train = work.train

    def killed(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(work, "train", killed)
    with pytest.raises(KeyboardInterrupt):
        ranks.sweep(_build, DATA, SPACE, budget=BUDGET, storage=path)
    monkeypatch.setattr(work, "train", train)
    again = ranks.sweep(_build, DATA, SPACE, budget=BUDGET, storage=path)
    assert again == ranks.sweep(_build, DATA, SPACE, budget=BUDGET) and len(again.finished) == 5


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
    found = ranks.sweep(_build, DATA, SPACE, budget=budget, engine=engine)
    assert found == ranks.sweep(_build, DATA, SPACE, budget=budget)
    assert [trial.number for trial in found.trials] == list(range(14)) and engine.waves == [4, 4, 4, 2]


@pytest.mark.parametrize("space", [SPACE, {"rank": [1, 2, 3, 4, 5, 6, 7, 8], "beta": [0.1, 1.0]}])
def test_whatever_moment_a_sweep_is_killed_at_it_goes_on_to_the_same_trials(space, trained, tmp_path):
    budget = ranks.Budget(trials=14, epochs=2, draws=4, at_once=4)
    path = tmp_path / "sweep.log"
    whole = ranks.sweep(_build, DATA, space, budget=budget, storage=path)
    lines = path.read_bytes().splitlines(keepends=True)
    ended = [i + 1 for i, line in enumerate(lines) if json.loads(line).get("state") == COMPLETE]
    for kept in [*range(1, len(lines), 31), ended[1], ended[8], ended[10]]:  # the last two in a wave of the sampler's
        killed = tmp_path / f"killed-{kept}.log"
        killed.write_bytes(b"".join(lines[:kept]) + lines[kept][:10])  # the line that was being written
        trained.clear()
        assert ranks.sweep(_build, DATA, space, budget=budget, storage=killed) == whole
        assert len(trained) == 14 - sum(i <= kept for i in ended)


def test_a_setting_that_comes_twice_in_a_wave_is_trained_once(trained):
    found = ranks.sweep(_build, DATA, {"rank": (1, 2)}, budget=ranks.Budget(trials=8, epochs=2, draws=4, at_once=8))
    assert len(found.trials) == 8 and len(trained) == 2
    assert len({(trial.settings["rank"], trial.metrics["nll"]) for trial in found.trials}) == 2


def test_a_storage_that_another_process_has_open_is_refused(trained, tmp_path):
    path = tmp_path / "sweep.log"

    def look():
        with pytest.raises(ValueError, match=r"sweep needs a storage that no other process is at; got '.*sweep.log'"):
            ranks.sweep(_build, DATA, SPACE, budget=BUDGET, storage=path)

    ranks.sweep(_build, DATA, SPACE, budget=BUDGET, storage=path, engine=Backwards(look))


def test_the_same_seed_gives_the_same_trials(trained):
    first, second = (ranks.sweep(_build, DATA, SPACE, budget=BUDGET, seed=3) for _ in range(2))
    assert first == second != ranks.sweep(_build, DATA, SPACE, budget=BUDGET, seed=4)


def test_lists_alone_are_a_grid_and_each_setting_is_trained_once(trained):
    found = ranks.sweep(_build, DATA, {"rank": [1, 2, 4], "beta": [0.1, 1.0]}, budget=20)
    assert len(found.trials) == len(trained) == 6
    assert {(t.settings["rank"], t.settings["beta"]) for t in found.trials} == {
        (r, b) for r in (1, 2, 4) for b in (0.1, 1.0)
    }


def test_settings_of_numpy_are_those_of_python(trained, tmp_path):
    for space in ({"rank": [1, 2], "beta": (0.1, 1.0)}, {"rank": (1, 8)}):
        same = {name: type(choice)(np.array(choice)) for name, choice in space.items()}
        path = tmp_path / f"{len(space)}.log"
        found = ranks.sweep(_build, DATA, same, budget=BUDGET, storage=path)
        assert found == ranks.sweep(_build, DATA, space, budget=BUDGET, storage=path)
        assert all(type(trial.settings["rank"]) is int for trial in found.trials)


def test_the_error_over_seeds_is_told_kept_and_decides(tmp_path, monkeypatch):
    def train(asked, chosen, rungs):
        rank = chosen["rank"]
        return [{"nll": 1 / rank + 0.1 * seed, "num_trained": 10.0 * rank} for seed in range(asked.budget.seeds)]

    monkeypatch.setattr(work, "train", train)
    budget, path = ranks.Budget(trials=9, epochs=2, seeds=3), tmp_path / "sweep.log"
    found = ranks.sweep(_build, DATA, {"rank": [1, 4, 5, 6, 8, 9]}, ["nll"], budget, storage=path)
    # The best has 1/9 + 0.1, and an error of 0.1/√3; 1/6 + 0.1 is within it, 1/5 + 0.1 is not.
    assert found.why() == (
        "Take rank=6: NLL 0.2667 is within one standard error (0.058, over 3 seeds) of rank=9, the best, with "
        "NLL 0.2111. Of all such trials it has the fewest trained numbers."
    )
    assert found.recommended().settings == {"rank": 6} and found.knee().settings == {"rank": 9}
    assert "0.2667 ± 0.058" in str(found)
    monkeypatch.delattr(work, "train")  # nothing is trained again
    assert ranks.sweep(_build, DATA, {"rank": [1, 4, 5, 6, 8, 9]}, ["nll"], budget, storage=path) == found


def test_a_trial_that_diverges_is_shown_and_not_taken(monkeypatch):
    monkeypatch.setattr(work, "train", lambda _, chosen, *rest: [{"nll": math.nan if chosen["rank"] == 1 else 0.5}])
    found = ranks.sweep(_build, DATA, {"rank": [1, 2]}, ["nll"])
    assert len(found.trials) == 2 and found.knee().settings == {"rank": 2} and "–" in str(found)


# -- which trial to take ---------------------------------------------------------------------------------------------

OBJECTIVES = (catalogue.find("nll"), catalogue.find("auroc_ood_mi"))


def _found(points, errors=None):
    """Trials of rank 1, 2, … with these objectives, and of several seeds if they have errors."""
    of_seeds = {} if errors is None else dict(zip(("nll", "auroc_ood_mi"), errors, strict=True))
    trials = [
        Trial(i, {"rank": i + 1}, {"nll": x, "auroc_ood_mi": y, "ece": x, "num_trained": 10.0 * (i + 1)}, of_seeds)
        for i, (x, y) in enumerate(points)
    ]
    return Sweep("classification", OBJECTIVES, tuple(trials), 1 if errors is None else 3)


def test_the_knee_is_where_one_objective_starts_to_cost_the_other():
    found = _found([(0.1, 0.5), (0.12, 0.9), (0.5, 0.95), (0.5, 0.4)])
    assert [trial.number for trial in found.pareto()] == [0, 1, 2]
    assert found.knee().number == 1
    assert found.why() == (
        "Take rank=2: NLL 0.12 (the best, 0.1, needs rank=1) and AUROC-OOD (MI) 0.9 (the best, 0.95, needs rank=3). "
        "3 of 4 trials are beaten by no other, and it is nearest to the best of all objectives. "
        "One seed a trial decides, so small differences may be chance."
    )
    assert "One seed" not in dataclasses.replace(found, seeds=3).why()
    assert [trial.number for trial in found.pareto("ece")] == [0]
    assert str(found).splitlines()[3].split() == ["1", "2", "0.12", "0.9", "★"]


def test_of_two_on_the_front_the_range_of_all_trials_says_which_gives_up_less():
    # Rank 1 has the better NLL by a hair and detects far worse; by their own range both would be as near.
    found = _found([(0.1, 0.6), (0.101, 0.95), (0.5, 0.4)])
    assert found.knee().number == 1 and "it is nearest to the best of all objectives" in found.why()
    assert _found([(0.1, 0.94), (0.4, 0.95), (0.5, 0.4)]).knee().number == 0


def test_where_two_trials_are_as_near_the_first_objective_decides_and_that_is_said():
    found = _found([(0.101, 0.95), (0.1, 0.6)])
    assert found.knee().number == 1 and [trial.number for trial in found.nearest()] == [1, 0]
    assert found.why().startswith(
        "Take rank=2: NLL 0.1 (the best) and AUROC-OOD (MI) 0.6 (the best, 0.95, needs rank=1). 2 of 2 trials are "
        "beaten by no other, and none is nearer to the best of all objectives, so NLL, the first of them, decides."
    )


def test_a_trial_that_beats_all_others_is_said_to():
    found = _found([(0.1, 0.9), (0.2, 0.8), (0.1, 0.9)])
    assert found.why().startswith(
        "Take rank=1: NLL 0.1 (the best) and AUROC-OOD (MI) 0.9 (the best). "
        "None of 3 trials is better in any objective."
    )


def test_with_several_seeds_the_smallest_within_one_standard_error_in_every_objective_is_taken():
    points = [(0.15, 0.6), (0.15, 0.9), (0.1, 0.91), (0.5, 0.92)]
    found = _found(points, errors=(0.05 + 1e-9, 0.02))
    assert found.knee().number == 2 and found.recommended().number == 1  # the first detects too little
    assert found.why() == (
        "Take rank=2: NLL 0.15 and AUROC-OOD (MI) 0.9 are within one standard error (0.05 and 0.02, over 3 seeds) of "
        "rank=3, which is nearest to the best of all objectives, with NLL 0.1 and AUROC-OOD (MI) 0.91. Of all such "
        "trials it has the fewest trained numbers."
    )
    strict = _found(points, errors=(0.049, 0.02))
    assert strict.recommended() is strict.knee()
    assert strict.why().endswith("No smaller one is within one standard error (0.049 and 0.02, over 3 seeds) of it.")


whole = st.integers(1, 50)  # so that a change of units rounds nothing, and ties stay ties


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(whole, whole), min_size=1, max_size=8), whole, st.integers(-50, 50))
def test_the_knee_is_on_the_front_and_the_same_whatever_the_units_of_the_objectives(points, scale, shift):
    found = _found(points)
    front = {trial.number for trial in found.pareto()}
    assert found.knee().number in front
    for i, (x, y) in enumerate(points):
        beaten = any(a <= x and b >= y and (a, b) != (x, y) for a, b in points)
        assert beaten == (i not in front)
    assert _found([(scale * x + shift, y) for x, y in points]).knee().number == found.knee().number
    assert _found([(x, scale * y + shift) for x, y in points]).knee().number == found.knee().number


def test_a_sweep_without_a_finished_trial_says_so():
    with pytest.raises(
        ValueError, match=r"pareto needs a finished trial with \['nll', 'auroc_ood_mi'\]; got none among 0"
    ):
        Sweep("classification", OBJECTIVES, ()).pareto()


def test_on_a_terminal_the_table_grows_and_elsewhere_nothing_is_written():
    for terminal in (True, False):
        console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
        with live.table(OBJECTIVES, console) as show:
            for number in range(3):
                show(list(_found([(0.1, 0.5), (0.12, 0.9), (0.5, 0.95)]).trials[:number]))
        text = console.file.getvalue()
        assert ("2 trials" in text and "★" in text) if terminal else text == ""


@pytest.mark.parametrize(
    ("loss", "task", "noise"),
    [
        ("sparse_categorical_crossentropy", "classification", True),
        (keras.losses.CategoricalCrossentropy(), "classification", True),
        (keras.losses.BinaryCrossentropy(from_logits=True), "classification", True),
        ("mse", "regression", False),
        (keras.losses.Huber(), "regression", False),
        (sb.GaussianNLL(0.5), "regression", True),
        (sb.MeanScaleNLL(), "regression", True),
    ],
)
def test_the_task_is_that_of_the_compiled_loss(loss, task, noise):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])
    model.compile("sgd", loss)
    assert (first.task_of(model), first.says_noise(model)) == (task, noise)


# -- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"objectives": ("nll", "speed")},
            r"sweep needs objectives that exist in classification; got 'speed'. There are \['accuracy'",
        ),
        ({"objectives": ("rmse",)}, "objectives that exist in classification; got 'rmse'"),
        ({"objectives": ("seconds",)}, "objectives that exist in classification; got 'seconds'"),
        ({"objectives": ("auroc_ood", "auroc_ood_mi")}, r"different objectives.*got objectives=\('auroc_ood', 'auroc"),
        ({"task": "regression"}, "sweep needs task to be one of .* that of the compiled loss; got task='regression'"),
        ({"task": "images"}, "got task='images'"),
        ({"objectives": ("mean_entropy",)}, "objectives of which more or less is better; got 'mean_entropy'"),
        ({"objectives": "nll"}, "sweep needs a list of different objectives"),
        ({"objectives": ()}, "sweep needs a list of different objectives"),
        ({"data": _data(ood=False)}, r"sweep needs foreign examples for the objective 'auroc_ood'.*; got none"),
        ({"objectives": ("nll", "digits/auroc_ood")}, r"objective 'digits/auroc_ood'.*got sets called \[''\]"),
        ({"space": {}}, "sweep needs a space of settings by name"),
        (
            {"space": {"rank": (8, 2)}},
            r"sweep needs \(low, high\) with 0 < low < high, or a list, for 'rank'; got \(8, 2\)",
        ),
        ({"space": {"rank": []}}, r"for 'rank'; got \[\]"),
        (
            {"space": {"rank": [[2, 3]]}},
            r"a list of numbers, texts, booleans or None for 'rank'; got \[2, 3\] in it",
        ),
        ({"data": DATA.train}, r"sweep needs ranks.Data\(train=\(x, y\), .*; got data of type tuple"),
        (
            {"storage": "no/folder/sweep.log"},
            "sweep needs a storage in a folder that exists; got 'no/folder/sweep.log'",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_trained(change, said, trained):
    arguments = {"data": DATA, "space": SPACE, "budget": BUDGET, **change}
    with pytest.raises(ValueError, match=said):
        ranks.sweep(_build, **arguments)
    assert trained == []


def _values(rank):
    model = keras.Sequential([keras.Input((3,)), layers.Dense(1, posterior=LowRank(rank))])
    model.compile("adam", "mse")
    return model


@pytest.mark.parametrize("made", [None, keras.Sequential([keras.layers.Dense(3)])])
def test_what_is_not_compiled_is_refused_before_anything_is_trained(made, trained):
    with pytest.raises(ValueError, match=r"sweep needs build to return a compiled Keras model; got (None|<Sequential)"):
        ranks.sweep(lambda rank: made, DATA, SPACE)
    assert trained == []


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        ("nll", "got 'nll', and the likelihood says no noise. Compile with singularbayes.GaussianNLL"),
        ("crps_total", "got 'crps_total', and the likelihood says no noise"),
        ("iqr_ratio", "got 'iqr_ratio', and the draws were not kept"),
        ("accuracy", "objectives that exist in regression; got 'accuracy'"),
    ],
)
def test_an_objective_that_a_regression_will_not_have_is_refused_before_anything_is_trained(objective, said, trained):
    with pytest.raises(ValueError, match=said):
        ranks.sweep(_values, DATA, {"rank": [1]}, [objective])
    assert trained == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"space": {"rank": (1, 4)}},
            r"space was \{'rank': \[1, 8\], 'beta': \[0.1, 1.0\]\} and is now \{'rank': \[1, 4\]\}",
        ),
        ({"objectives": ("nll",)}, r"objectives was \['nll', 'auroc_ood_mi'\] and is now \['nll'\]"),
        ({"data": ranks.Data(DATA.validation, DATA.train, DATA.ood)}, "data was"),
        ({"budget": ranks.Budget(trials=9, epochs=3, draws=4)}, "epochs was 2 and is now 3"),
        ({"seed": 1}, "seed was 0 and is now 1"),
        ({"build": lambda rank: _build(rank, units=9)}, "model was '.*' and is now '"),
        ({"build": lambda rank: _build(rank, rate=0.01)}, "model was"),
    ],
)
def test_a_storage_of_another_experiment_is_refused_with_what_differs(change, said, trained, tmp_path):
    arguments = {"build": _build, "data": DATA, "space": SPACE, "budget": BUDGET, "storage": tmp_path / "sweep.log"}
    ranks.sweep(**arguments)
    with pytest.raises(ValueError, match=f"sweep needs a storage of the same experiment; got .*sweep.log.*{said}"):
        ranks.sweep(**{**arguments, **change})


class Unsaid(keras.Model):
    """A model that does not say how it is made."""

    def __init__(self, function, units):
        super().__init__()
        self.function, self.head = function, keras.layers.Dense(units)

    def call(self, inputs):
        return self.head(self.function(inputs))


def test_a_model_is_known_again_by_all_that_can_be_written_down():
    def made(units=2, rate=0.1):
        inputs = keras.Input((2,))
        h = keras.layers.Dense(4)(inputs)
        model = keras.Model(inputs, keras.layers.Dense(units)(keras.layers.Dense(4)(h) + h))
        model.compile(keras.optimizers.SGD(rate), lambda y, p: keras.ops.mean((y - p) ** 2))
        return first.digest_of(model)

    def unsaid(units=2, loss="mse"):
        model = Unsaid(lambda inputs: inputs, units)
        model.compile("sgd", loss)
        model(np.zeros((1, 2)))
        return first.digest_of(model)

    assert made() == made() and unsaid() == unsaid()  # Keras counts names on
    assert len({made(), made(units=3), made(rate=0.2), unsaid(), unsaid(units=3), unsaid(loss="mae")}) == 6


def test_a_file_that_is_no_storage_is_refused_and_left_as_it_was(trained, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a journal\n")
    with pytest.raises(
        ValueError, match=r"sweep needs a storage that a sweep wrote, or a path that is free; got .*notes"
    ):
        ranks.sweep(_build, DATA, SPACE, storage=path)
    assert path.read_text() == "not a journal\n"


def test_a_journal_of_other_studies_is_refused(tmp_path, trained):
    import optuna
    from optuna.storages.journal import JournalFileBackend

    path = tmp_path / "other.log"
    storage = optuna.storages.JournalStorage(JournalFileBackend(str(path)))
    optuna.create_study(study_name="mine", storage=storage)
    with pytest.raises(ValueError, match=r"sweep needs a storage of its own; got .*which holds the studies \['mine'\]"):
        ranks.sweep(_build, DATA, SPACE, storage=path)


def test_without_optuna_it_says_what_to_type(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(
        ImportError, match=r"A sweep needs Optuna; got no optuna. Type: pip install 'singularbayes\[sweep\]'"
    ):
        ranks.sweep(_build, DATA, SPACE)


@pytest.mark.parametrize(("name", "value"), [("trials", 0), ("epochs", 2.5), ("draws", True), ("warmup", -1)])
def test_a_budget_is_of_whole_numbers(name, value):
    with pytest.raises(ValueError, match=f"Budget needs {name} to be a whole number"):
        ranks.Budget(**{name: value})


def test_a_budget_reaches_the_full_kl_weight():
    with pytest.raises(ValueError, match="Budget needs warmup < epochs; got warmup=4 and epochs=4"):
        ranks.Budget(epochs=4, warmup=4)


def test_what_a_build_refuses_ends_the_sweep_with_its_reason(tmp_path):
    with pytest.raises(ValueError, match="LowRank needs 1 <= rank <= 3; got rank=5"):
        ranks.sweep(_build, DATA, {"rank": [3, 5]}, ["nll"], BUDGET, storage=tmp_path / "sweep.log")
    study = open_study(tmp_path / "sweep.log", ["minimize"], _kept(tmp_path))
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "FAIL"]


def _kept(folder):
    lines = [json.loads(line) for line in (folder / "sweep.log").read_text().splitlines()]
    return next(line["user_attr"]["what"] for line in lines if "what" in line.get("user_attr", {}))
