"""`singularbayes rank`: ranks by spectrum and held-out loss, and short trainings of every rank."""

import keras
import numpy as np
import pytest

import singularbayes as sb
from singularbayes import ranks
from singularbayes.cli import main

pytestmark = pytest.mark.on_torch
TRAINED = ["--train", "train.npz", "--data", "held_out.npz", "--epochs", "2"]


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A model in a folder, beside examples to train on, held-out and out-of-distribution ones."""
    monkeypatch.chdir(tmp_path)
    keras.utils.set_random_seed(0)
    stack = [keras.layers.Dense(8, "relu", name="hidden"), keras.layers.Dense(3, name="head")]
    model = keras.Sequential([keras.Input((3,)), *stack])
    model.compile(keras.optimizers.Adam(0.02), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.save("model.keras")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120)
    x = (np.eye(3)[y] * 2 + rng.normal(size=(120, 3))).astype("float32")
    np.savez("train.npz", x=x[:80], y=y[:80])
    np.savez("held_out.npz", x=x[80:], y=y[80:])
    np.savez("foreign.npz", x=4 * rng.normal(size=(40, 3)).astype("float32"))
    return model


def test_it_prints_ranks_and_reasons_and_draws(model, tmp_path, capsys):
    assert main(["rank", "model.keras", "--figure", "rank.svg"]) == 0
    shown = capsys.readouterr().out
    assert str(ranks.by_spectrum(model, 0.9)) in shown and (tmp_path / "rank.svg").is_file()
    held_out = np.load("held_out.npz")
    assert main(["rank", "model.keras", "--data", "held_out.npz"]) == 0
    assert str(ranks.by_loss(model, held_out["x"], held_out["y"])) in capsys.readouterr().out


def test_with_examples_to_train_on_it_is_a_sweep_of_the_counterparts_and_resumes(model, tmp_path, capsys):
    pytest.importorskip("optuna")
    command = ["rank", "model.keras", *TRAINED, "--ood", "foreign.npz", "--storage", "kept.log"]
    assert main([*command, "--figure", "found.svg"]) == 0
    train, held_out, foreign = (np.load(f"{name}.npz") for name in ("train", "held_out", "foreign"))
    data = ranks.Data((train["x"], train["y"]), (held_out["x"], held_out["y"]), foreign["x"])
    space = {"rank": [1, 2], "beta": [sb.KLSchedule().beta]}  # 3 · 8/(3 + 8) is 2.2
    expected = ranks.sweep(lambda rank: sb.bayesianize(model, rank), data, space, budget=ranks.Budget(2, epochs=2))
    assert str(expected) in capsys.readouterr().out and (tmp_path / "found.svg").is_file()
    kept = (tmp_path / "kept.log").read_bytes()
    assert main(command) == 0 and str(expected) in capsys.readouterr().out
    again = (tmp_path / "kept.log").read_bytes()
    assert again.count(b"trial_id") == kept.count(b"trial_id") > 0  # nothing was trained again


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--figure", "rank.doc"], "--figure needs a file that ends in .png, .svg or .pdf; got 'rank.doc'"),
        (["--figure", "nowhere/rank.png"], "The folder 'nowhere' of .* does not exist"),
        (["--data", "none.npz"], "rank needs --data, an .npz file with x and y; got 'none.npz', which does not exist"),
        (["--storage", "kept.log"], "--storage need --train, an .npz file with x and y; got none"),
        (["--train", "train.npz"], "--train needs --data, an .npz file with x and y that trained ranks are judged by"),
        ([*TRAINED, "--ood", "none.npz"], "rank needs --ood, an .npz file with x; got 'none.npz'"),
        ([*TRAINED, "--storage", "no/where.log"], "sweep needs a storage in a folder that exists"),
    ],
)
def test_what_makes_no_sense_is_one_line(more, message, model):
    with pytest.raises(SystemExit, match=f"singularbayes: .*{message}") as end:
        main(["rank", "model.keras", *more])
    assert "\n" not in str(end.value)


def test_a_model_without_a_loss_is_refused(model):
    keras.saving.load_model("model.keras", compile=False).save("plain.keras")
    with pytest.raises(SystemExit, match="sweep needs build to return a compiled Keras model"):
        main(["rank", "plain.keras", *TRAINED])
