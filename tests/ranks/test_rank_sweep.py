"""`singularbayes rank … --train …`: a sweep of ranks by one command, here or on a Ray cluster."""

import contextlib
import importlib.util
import io
import os
import pickle
import subprocess
import sys

import keras
import numpy as np
import pytest
from posterior_table import TORCH_FIRST

import singularbayes as sb
from singularbayes import ranks
from singularbayes.cli import EngineOptions, main
from singularbayes.ranks import waves, work

pytest.importorskip("optuna")

pytestmark = pytest.mark.on_torch
with_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason='needs pip install "singularbayes[ray]"')
SEARCHED = [os.path.abspath(path) for path in sys.path if path]  # before a test goes elsewhere


def _command(*more):
    return ["rank", "model.keras", "--train", "train.npz", "--data", "held_out.npz", "--epochs", "2", *more]


SPREAD = _command("--ood", "foreign.npz", "--beta", "0.5", "--figure", "found.svg")  # which is spread out below


def _model(**options):
    keras.utils.set_random_seed(0)
    hidden = keras.layers.Dense(8, "relu", name="hidden", **options)
    model = keras.Sequential([keras.Input((3,)), hidden, keras.layers.Dense(3, name="head")])
    model.compile(keras.optimizers.Adam(0.02), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a model, examples to train on, held-out and out-of-distribution ones, and what was found."""
    folder = tmp_path_factory.mktemp("rank")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120)
    x = (np.eye(3)[y] * 2 + rng.normal(size=(120, 3))).astype("float32")
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as message:
        _model().save("model.keras")
        np.savez("train.npz", x=x[:80], y=y[:80])
        np.savez("held_out.npz", x=x[80:], y=y[80:])
        np.savez("foreign.npz", x=4 * rng.normal(size=(40, 3)).astype("float32"))
        assert main([*SPREAD, "--storage", "near.log"]) == 0
    return folder, message.getvalue()


@pytest.fixture
def folder(made, monkeypatch):
    monkeypatch.chdir(made[0])
    return made[0]


def _trials(path):
    import optuna
    from optuna.storages.journal import JournalFileBackend

    storage = optuna.storages.JournalStorage(JournalFileBackend(str(path)))
    return waves.ended_trials(optuna.load_study(study_name="sweep", storage=storage))


def test_the_command_trains_at_the_library_s_own_beta_and_says_so(folder, monkeypatch, capsys):
    spaces = []

    def sweep(build, data, space, *rest, **options):
        spaces.append(space)
        raise ValueError("enough")

    monkeypatch.setattr(ranks, "sweep", sweep)
    for more in ((), ("--beta", "0.7")):
        with pytest.raises(SystemExit, match="enough"):
            main(_command(*more))
    assert [space["beta"] for space in spaces] == [[sb.KLSchedule().beta], [0.7]]
    assert main(["rank", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert f"1 is the ELBO, and {sb.KLSchedule().beta} the default" in shown


@TORCH_FIRST
def test_the_command_is_a_sweep_of_the_model_s_counterparts_and_draws_it(folder, made):
    counterpart = ranks.Counterpart.read(folder / "model.keras")
    assert counterpart.ranks() == [1, 2]  # 3 · 8/(3 + 8) is 2.2
    train, held_out, foreign = (np.load(f"{name}.npz") for name in ("train", "held_out", "foreign"))
    data = ranks.Data((train["x"], train["y"]), (held_out["x"], held_out["y"]), foreign["x"])
    asked = work.Work(counterpart, data, (), ranks.Budget(epochs=2), "classification")
    first, second = _trials("near.log")
    assert {trial.settings["rank"] for trial in (first, second)} == {1, 2}
    assert asked(first.settings).metrics == pytest.approx(first.metrics, nan_ok=True)
    assert "Take rank=" in made[1] and "AUROC-OOD" in made[1]
    assert {path.name for path in folder.glob("found*")} == {"found.svg", "found_auroc_ood_mi_against_ece.svg"}


@pytest.mark.exhaustive  # starts Ray; test_sweep.py has the engine without it
@with_ray
def test_with_ray_the_same_command_and_a_sweep_of_mixtures_give_the_same_to_the_last_bit(folder, made):
    program = f"""
import keras, numpy as np, singularbayes as sb
from singularbayes import cli, ranks

assert cli.main({[*SPREAD, "--storage", "far.log", "--engine", "ray"]}) == 0

def build(examples):
    head = sb.layers.Dense(3, posterior=sb.Mixture(sb.LowRank(2), components=2, examples=examples))
    model = keras.Sequential([keras.Input((3,)), head])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model

held_out = np.load("held_out.npz")
data = ranks.Data(*2 * [(held_out["x"], held_out["y"])])
asked = data, {{"examples": ["split", "repeat"]}}, ["nll"], ranks.Budget(trials=2, epochs=1, draws=4)
near, far = (ranks.sweep(build, *asked, engine=engine) for engine in (ranks.Local(), ranks.Ray()))
assert near.trials == far.trials and len({{trial.metrics["nll"] for trial in near.trials}}) == 2, (near, far)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(SEARCHED)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == made[1]
    near, far = map(_trials, ("near.log", "far.log"))
    assert near == far and len(near) == 2 and all(trial.metrics["nll"] > 0 for trial in near)


def test_a_counterpart_starts_from_the_truncated_weights_on_whatever_machine(folder):
    counterpart = pickle.loads(pickle.dumps(ranks.Counterpart.read(folder / "model.keras")))
    made = counterpart(rank=2)
    kernel = keras.ops.convert_to_numpy(_model().layers[0].kernel)
    u, s, vt = np.linalg.svd(kernel, full_matrices=False)
    found = keras.ops.convert_to_numpy(sb.find_posteriors(made)[0].mean().dense())
    np.testing.assert_allclose(found, (u[:, :2] * s[:2]) @ vt[:2], atol=1e-5)
    assert made.compiled and [q.effective_rank for q in sb.find_posteriors(counterpart(rank=8))] == [3, 3]


def test_with_several_seeds_the_command_takes_the_smallest_rank_within_one_standard_error(folder, monkeypatch, capsys):
    def train(asked, settings, rungs):
        size = 10.0 * settings["rank"]
        return [{"nll": 1 - 0.01 * size + 0.2 * seed, "num_trained": size} for seed in range(asked.budget.seeds)]

    monkeypatch.setattr(work, "train", train)
    assert main(_command()) == 0
    message = "Take rank=2, beta=0.03: NLL 0.8 is the best of 2 trials. It is the highest rank tried: a higher one may"
    assert f"{message} do better. One seed" in capsys.readouterr().out
    assert main(_command("--seeds", "3")) == 0
    message = (
        "Take rank=1, beta=0.03: NLL 1.1 is within one standard error (0.12, over 3 seeds) of rank=2, beta=0.03, the "
        "best"
    )
    assert message in capsys.readouterr().out


class Elsewhere:
    """Machines that are made up: they end in the opposite order, and what they are given has been pickled."""

    def map(self, function, items, tick=None):
        for position in reversed(range(len(items))):
            yield position, pickle.loads(pickle.dumps(function))(items[position])


def test_what_one_engine_began_another_resumes(folder, monkeypatch, capsys):
    trained, kept = [], ("--storage", "kept.log", "--figure", "kept.png")

    def train(_, settings, rungs):
        trained.append(settings["rank"])
        return [{"nll": 1 / settings["rank"], "num_trained": 2.0}]

    monkeypatch.setattr(work, "train", train)
    with monkeypatch.context() as patch:
        patch.setattr(EngineOptions, "start", lambda self, *_: Elsewhere())
        assert main(_command(*kept, "--engine", "ray")) == 0
    first = capsys.readouterr().out
    assert main(_command(*kept)) == 0
    assert capsys.readouterr().out == first and sorted(trained) == [1, 2]
    _model(use_bias=False).save("other.keras")
    with pytest.raises(SystemExit, match=r"a storage of the same experiment; got 'kept.log', where model was"):
        main(["rank", "other.keras", *_command("--storage", "kept.log")[2:]])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--engine", "ray"], r"--storage and --engine need --train, an .npz file with x and y; got none"),
        (["--epochs", "3"], "need --train"),
        (["--seeds", "3"], "need --train"),
        (["--train", "train.npz"], "--train needs --data, an .npz file with x and y that trained ranks are judged by"),
        (["--train", "none.npz", "--data", "held_out.npz"], "rank needs --train, an .npz file .*which does not exist"),
        (
            ["--train", "train.npz", "--data", "held_out.npz", "--explained", "0.5"],
            "--train needs neither --explained nor",
        ),
        (_command("--ood", "none.npz")[2:], "rank needs --ood, an .npz file with x; got 'none.npz'"),
        (_command("--address", "a:1")[2:], "--address, --cpus and --gpus need --engine ray; got --engine local"),
        (_command("--storage", "no/where.log")[2:], "sweep needs a storage in a folder that exists"),
        pytest.param(
            _command("--engine", "ray", "--address", "localhost:1")[2:],
            "needs the address of the head of a cluster that answers; got --address 'localhost:1'",
            marks=[with_ray, pytest.mark.filterwarnings("default")],
        ),
    ],
)
def test_what_makes_no_sense_is_one_line(more, message, folder):
    with pytest.raises(SystemExit, match=f"singularbayes: .*{message}") as end:
        main(["rank", "model.keras", *more])
    assert "\n" not in str(end.value)


def test_a_model_without_a_loss_is_refused(folder):
    keras.saving.load_model("model.keras", compile=False).save("plain.keras")
    with pytest.raises(SystemExit, match=r"--train needs a model that was compiled, with its loss; got 'plain.keras'"):
        main(["rank", "plain.keras", *_command()[2:]])


@pytest.mark.parametrize(("loss", "quality"), [("mse", "rmse"), (sb.GaussianNLL(0.5), "nll_total")])
def test_whole_numbers_are_a_regression_by_the_loss_judged_by_what_it_has(loss, quality, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
    model.compile("adam", loss)
    model.save("model.keras")
    x = np.random.default_rng(0).normal(size=(40, 3)).astype("float32")
    for name in ("train", "held_out"):
        np.savez(f"{name}.npz", x=x, y=np.round(3 * x[:, :1]))
    assert main(_command("--storage", "kept.log")) == 0
    label = {"rmse": "RMSE", "nll_total": "NLL (total)"}[quality]
    assert f"{label} ↓" in capsys.readouterr().out and (tmp_path / "rank.png").exists()
    assert all(np.isfinite(trial.metrics[quality]) for trial in _trials("kept.log"))
