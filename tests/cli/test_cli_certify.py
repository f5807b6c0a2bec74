"""`singularbayes certify`: the bound of a file on a file, and one line for what a user can fix."""

import keras
import numpy as np
import pytest

from singularbayes import Centred, FullRank, Normal, certify, cli, layers

X = np.random.default_rng(0).normal(size=(200, 3)).astype("float32")
Y = (X[:, 0] > 0).astype("int64")


def _saved(folder, **options):
    dense = layers.Dense(2, posterior=FullRank(prior=Centred(Normal(0.5))), **options)
    model = keras.Sequential([keras.Input((3,)), dense])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.save(folder / "model.keras")
    return model


@pytest.fixture
def files(tmp_path):
    model = _saved(tmp_path, use_bias=False)
    np.savez(tmp_path / "data.npz", x=X, y=Y)
    return model, [str(tmp_path / "model.keras"), "--data", str(tmp_path / "data.npz")]


def test_it_prints_the_bound_that_the_function_returns(files, capsys):
    model, arguments = files
    assert cli.main(["certify", *arguments, "--delta", "0.1", "--draws", "300", "--tried", "2", "--seed", "4"]) == 0
    assert capsys.readouterr().out.strip() == repr(certify(model, X, Y, 0.1, 300, tried=2, seed=4))


def test_form_and_predictor_are_options(files, capsys):
    model, arguments = files
    assert cli.main(["certify", *arguments, "--form", "holdout", "--average", "7", "--draws", "20"]) == 0
    assert capsys.readouterr().out.strip() == repr(certify(model, X, Y, draws=20, form="holdout", average=7))


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda folder: (folder / "data.npz").unlink(), "which does not exist"),
        (lambda folder: (folder / "data.npz").write_text("no archive"), "an .npz file with x and y"),
        (lambda folder: np.savez(folder / "data.npz", x=X), "no array called y"),
        (lambda folder: np.savez(folder / "data.npz", x=X, y=Y[:-1]), "one label per example"),
        (lambda folder: _saved(folder), "every trained weight inside a posterior.*pass --frozen"),
    ],
)
def test_what_a_user_can_fix_is_one_line(files, damage, message, tmp_path):
    damage(tmp_path)
    with pytest.raises(SystemExit, match=f"singularbayes: .*{message}") as end:
        cli.main(["certify", *files[1], "--draws", "10"])
    assert "\n" not in str(end.value)


def test_a_delta_that_is_no_probability_is_refused(files, capsys):
    with pytest.raises(SystemExit):
        cli.main(["certify", *files[1], "--delta", "1.5"])
    assert "--delta" in capsys.readouterr().err
