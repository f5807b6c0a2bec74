"""What a sweep refuses before anything is trained, and a storage of something else."""

import json
import sys

import keras
import numpy as np
import pytest
import small_sweep
from small_sweep import BUDGET, DATA, SPACE, build, data

import singularbayes as sb
from singularbayes import LowRank, layers, ranks
from singularbayes.ranks import fingerprint
from singularbayes.ranks.storage import open_study

pytest.importorskip("optuna")

pytestmark = pytest.mark.on_torch


@pytest.fixture
def trained(monkeypatch):
    return small_sweep.train_by_formula(monkeypatch)


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
    assert (fingerprint.task_of(model), fingerprint.has_noise(model)) == (task, noise)


@pytest.mark.parametrize(
    ("change", "message"),
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
        (
            {"data": data(ood=False)},
            r"needs out-of-distribution examples for the objective 'auroc_ood'.*; got none",
        ),
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
def test_what_makes_no_sense_is_refused_before_anything_is_trained(change, message, trained):
    arguments = {"data": DATA, "space": SPACE, "budget": BUDGET, **change}
    with pytest.raises(ValueError, match=message):
        ranks.sweep(build, **arguments)
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
    ("objective", "message"),
    [
        ("nll", "got 'nll', and the likelihood does not specify the noise. Compile with singularbayes.GaussianNLL"),
        ("crps_total", "got 'crps_total', and the likelihood does not specify the noise"),
        ("iqr_ratio", "got 'iqr_ratio', and the draws were not kept"),
        ("accuracy", "objectives that exist in regression; got 'accuracy'"),
    ],
)
def test_an_objective_that_a_regression_will_not_have_is_refused_before_anything_is_trained(
    objective, message, trained
):
    with pytest.raises(ValueError, match=message):
        ranks.sweep(_values, DATA, {"rank": [1]}, [objective])
    assert trained == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"space": {"rank": (1, 4)}},
            r"space was \{'rank': \[1, 8\], 'beta': \[0.1, 1.0\]\} and is now \{'rank': \[1, 4\]\}",
        ),
        ({"objectives": ("nll",)}, r"objectives was \['nll', 'auroc_ood_mi'\] and is now \['nll'\]"),
        ({"data": ranks.Data(DATA.validation, DATA.train, DATA.ood)}, "data was"),
        ({"budget": ranks.Budget(trials=9, epochs=3, draws=4)}, "epochs was 2 and is now 3"),
        ({"seed": 1}, "seed was 0 and is now 1"),
        ({"build": lambda rank: build(rank, units=9)}, "model was '.*' and is now '"),
        ({"build": lambda rank: build(rank, rate=0.01)}, "model was"),
    ],
)
def test_a_storage_of_another_experiment_is_refused_with_what_differs(change, message, trained, tmp_path):
    arguments = {"build": build, "data": DATA, "space": SPACE, "budget": BUDGET, "storage": tmp_path / "sweep.log"}
    ranks.sweep(**arguments)
    with pytest.raises(ValueError, match=f"sweep needs a storage of the same experiment; got .*sweep.log.*{message}"):
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
        return fingerprint.digest_of(model)

    def unsaid(units=2, loss="mse"):
        model = Unsaid(lambda inputs: inputs, units)
        model.compile("sgd", loss)
        model(np.zeros((1, 2)))
        return fingerprint.digest_of(model)

    assert made() == made() and unsaid() == unsaid()  # Keras counts names on
    assert len({made(), made(units=3), made(rate=0.2), unsaid(), unsaid(units=3), unsaid(loss="mae")}) == 6


def test_a_file_that_is_no_storage_is_refused_and_left_as_it_was(trained, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a journal\n")
    with pytest.raises(
        ValueError, match=r"sweep needs a storage that a sweep wrote, or a path that is free; got .*notes"
    ):
        ranks.sweep(build, DATA, SPACE, storage=path)
    assert path.read_text() == "not a journal\n"


def test_a_journal_of_other_studies_is_refused(tmp_path, trained):
    import optuna
    from optuna.storages.journal import JournalFileBackend

    path = tmp_path / "other.log"
    storage = optuna.storages.JournalStorage(JournalFileBackend(str(path)))
    optuna.create_study(study_name="mine", storage=storage)
    with pytest.raises(ValueError, match=r"sweep needs a storage of its own; got .*which holds the studies \['mine'\]"):
        ranks.sweep(build, DATA, SPACE, storage=path)


def test_without_optuna_the_error_has_what_to_type(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(
        ImportError, match=r"A sweep needs Optuna; got no optuna. Type: pip install 'singularbayes\[sweep\]'"
    ):
        ranks.sweep(build, DATA, SPACE)


@pytest.mark.parametrize(("name", "value"), [("trials", 0), ("epochs", 2.5), ("draws", True), ("warmup", -1)])
def test_a_budget_is_of_whole_numbers(name, value):
    with pytest.raises(ValueError, match=f"Budget needs {name} to be an integer"):
        ranks.Budget(**{name: value})


def test_a_budget_reaches_the_full_kl_weight():
    with pytest.raises(ValueError, match="Budget needs warmup < epochs; got warmup=4 and epochs=4"):
        ranks.Budget(epochs=4, warmup=4)


def test_what_a_build_refuses_ends_the_sweep_with_its_reason(tmp_path):
    with pytest.raises(ValueError, match="LowRank needs rank to be an integer >= 1; got rank=0"):
        ranks.sweep(build, DATA, {"rank": [3, 0]}, ["nll"], BUDGET, storage=tmp_path / "sweep.log")
    study = open_study(tmp_path / "sweep.log", ["minimize"], _kept(tmp_path))
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "FAIL"]


def _kept(folder):
    lines = [json.loads(line) for line in (folder / "sweep.log").read_text().splitlines()]
    return next(line["user_attr"]["what"] for line in lines if "what" in line.get("user_attr", {}))
