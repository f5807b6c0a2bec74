"""`singularbayes certify`: the bound of a file on a file, and one line for what a user can fix."""

import keras
import numpy as np
import pytest

import singularbayes as sb
from singularbayes import Centred, FullRank, Normal, cli, layers

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
    assert capsys.readouterr().out.strip() == repr(sb.certify(model, X, Y, 0.1, 300, tried=2, seed=4))


def test_form_and_predictor_are_options_and_the_certificate_is_saved(files, tmp_path, capsys):
    model, arguments = files
    options = ["--form", "holdout", "--average", "7", "--draws", "20", "--save", str(tmp_path / "certificate.json")]
    assert cli.main(["certify", *arguments, *options]) == 0
    saved = sb.Certificate.load(tmp_path / "certificate.json")
    assert capsys.readouterr().out.strip() == repr(saved)
    assert saved.verify(model, X, Y) == sb.certify(model, X, Y, draws=20, form="holdout", average=7)


def test_examples_of_the_prior_come_from_a_file_or_are_declared_others(files, tmp_path, capsys):
    _, arguments = files
    np.savez(tmp_path / "prior.npz", x=X[:50])
    with pytest.raises(SystemExit, match=r"the prior was learned on these examples: 50 of 50.*pass --allow-seen"):
        cli.main(["certify", *arguments, "--draws", "10", "--prior-data", str(tmp_path / "prior.npz")])
    with pytest.raises(SystemExit, match=r"certify needs --prior-data, an \.npz file with x; got 'other'"):
        cli.main(["certify", *arguments, "--draws", "10", "--prior-data", "other"])
    assert cli.main(["certify", *arguments, "--draws", "10", "--prior-data", "disjoint"]) == 0
    assert "on the caller's word" in capsys.readouterr().out


def test_equal_examples_need_a_word(files, tmp_path, capsys):
    _, arguments = files
    np.savez(tmp_path / "data.npz", x=np.tile(X[:20], (10, 1)), y=np.tile(Y[:20], 10))
    with pytest.raises(SystemExit, match=r"180 of these 200 examples equal.*pass --duplicates independent"):
        cli.main(["certify", *arguments, "--draws", "10"])
    assert cli.main(["certify", *arguments, "--draws", "10", "--duplicates", "independent"]) == 0
    assert "180 of these 200 examples equal to an earlier one" in capsys.readouterr().out


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
