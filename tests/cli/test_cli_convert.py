"""The commands `convert` and `spectrum`: a plan and a file, a table and a figure, one line for what a user can fix."""

import sys

import keras
import numpy as np
import pytest

import singularbayes as sb
from singularbayes import cli, posteriors

X = np.random.default_rng(0).normal(size=(5, 8)).astype("float32")


@pytest.fixture
def trained(tmp_path):
    """A trained model in a file."""
    stack = [keras.layers.Dense(6, "relu", name="hidden"), keras.layers.Dense(2, name="head")]
    model = keras.Sequential([keras.Input((8,)), *stack], name="small")
    model.save(tmp_path / "trained.keras")
    return model, tmp_path / "trained.keras"


def _refused(arguments) -> str:
    with pytest.raises(SystemExit) as end:
        cli.main([str(argument) for argument in arguments])
    assert "\n" not in str(end.value)
    return str(end.value)


def test_convert_prints_the_plan_and_writes_the_model_that_bayesianize_makes(trained, tmp_path, capsys):
    model, path = trained
    out = tmp_path / "bayes.keras"
    assert cli.main(["convert", str(path), str(out), "--rank", "2"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(str(sb.plan(model, 2, init="svd")))
    assert shown.splitlines()[-1] == f"Written: {out}"
    made, expected = sb.load(out), sb.bayesianize(model, 2, init="svd")
    np.testing.assert_allclose(made(X), expected(X), rtol=1e-5, atol=1e-6)
    assert [posterior.rank for posterior in sb.find_posteriors(made)] == [2, 2]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["bayes.keras", "trained.keras"]


def test_the_default_rank_in_the_help_is_that_of_the_posterior(capsys):
    assert cli.main(["convert", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    rank, of_adapter = (posteriors.get_posterior(name).rank for name in ("low_rank", "adapter"))
    assert f"LowRank({rank})" in repr(posteriors.get_posterior("mixture"))
    assert f"{rank} by default, {of_adapter} for adapter" in shown


def test_an_adapter_predicts_what_the_trained_model_did(trained, tmp_path, capsys):
    model, path = trained
    out = tmp_path / "bayes.keras"
    assert cli.main(["convert", str(path), str(out), "--posterior", "adapter"]) == 0
    shown = capsys.readouterr().out
    assert "Adapter(16 → 6) " in shown and "Adapter(16 → 2) " in shown
    made = sb.load(out)
    np.testing.assert_allclose(made(X), model(X), rtol=1e-6)
    assert [posterior.effective_rank for posterior in sb.find_posteriors(made)] == [6, 2]


def test_a_file_is_written_over_only_when_forced(trained, tmp_path, capsys):
    _, path = trained
    out = tmp_path / "bayes.keras"
    out.write_text("mine")
    assert _refused(["convert", path, out, "--rank", 2]).endswith("is there already; --force writes over it.")
    assert out.read_text() == "mine" and capsys.readouterr().out == ""
    assert cli.main(["convert", str(path), str(out), "--rank", "2", "--force"]) == 0
    assert sb.find_posteriors(sb.load(out))


def test_what_can_be_fixed_is_one_line_and_leaves_no_file(trained, tmp_path):
    _, path = trained
    out = tmp_path / "bayes.keras"
    message = _refused(["convert", tmp_path / "none.keras", out, "--rank", 2])
    assert message.startswith("singularbayes: load needs a .keras file; got") and "none.keras" in message
    assert "needs an output file that ends in .keras" in _refused(["convert", path, tmp_path / "out.h5", "--rank", 2])
    message = _refused(["convert", path, tmp_path / "no" / "folder.keras", "--rank", 2])
    assert "no' of " in message and "does not exist" in message
    (tmp_path / "text.keras").write_text("text")
    assert "not a zip archive" in _refused(["convert", tmp_path / "text.keras", out, "--rank", 2])
    assert "No module named 'no_such'" in _refused(["convert", path, out, "--rank", 2, "--import", "no_such"])
    assert not out.exists() and not [file for file in tmp_path.iterdir() if file.name.startswith(".")]


def test_a_layer_without_a_counterpart_is_named_with_what_to_type(tmp_path, capsys):
    stack = [keras.layers.Conv1DTranspose(2, 2, name="up"), keras.layers.Conv1D(2, 2, name="down")]
    keras.Sequential([keras.Input((4, 2)), *stack]).save(tmp_path / "trained.keras")
    command = ["convert", tmp_path / "trained.keras", tmp_path / "bayes.keras", "--rank", 2]
    message = _refused(command)
    assert "Conv1DTranspose 'up' (no Bayesian counterpart)" in message
    assert message.endswith("Keep them as they are with --unsupported keep; the plan shows them all.")
    assert cli.main([*map(str, command), "--unsupported", "keep"]) == 0
    shown = capsys.readouterr().out
    assert "no Bayesian counterpart" in shown
    assert "Layers that cannot be converted: 1; --unsupported keep leaves them as they are." in shown
    assert len(sb.find_posteriors(sb.load(tmp_path / "bayes.keras"))) == 1


def test_a_class_that_is_not_known_is_named_with_what_to_type(tmp_path, monkeypatch):
    (tmp_path / "own_layers.py").write_text(
        "import keras\n\n\n@keras.saving.register_keras_serializable('own')\nclass Own(keras.layers.Dense):\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import own_layers

    path, out = tmp_path / "trained.keras", tmp_path / "bayes.keras"
    keras.Sequential([keras.Input((8,)), own_layers.Own(3)]).save(path)
    keras.saving.get_custom_objects().pop("own>Own")
    monkeypatch.delitem(sys.modules, "own_layers")
    message = _refused(["convert", path, out, "--rank", 2])
    assert "Name the packages by --import, and" in message and "Could not locate class 'Own'" in message
    assert "custom_objects" not in message and "'config'" not in message
    assert cli.main(["convert", str(path), str(out), "--rank", "2", "--import", "own_layers"]) == 0


def test_the_optimizer_of_the_file_is_passed_over_in_silence(trained, tmp_path, recwarn):
    model, path = trained
    model.compile("adam", "mse")  # never fitted: Keras warns that the file has no state for all its weights
    model.save(path)
    assert cli.main(["convert", str(path), str(tmp_path / "bayes.keras"), "--rank", "2"]) == 0
    assert cli.main(["spectrum", str(tmp_path / "bayes.keras")]) == 0
    assert [str(warning.message) for warning in recwarn if "optimizer" in str(warning.message)] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["convert", "a.keras", "b.keras", "--rank", "0"],
        ["convert", "a.keras", "b.keras", "--rank", "2.5"],
        ["convert", "a.keras", "b.keras", "--rank", "2", "--init", "zeros"],
        ["convert", "a.keras", "--rank", "2"],
        ["spectrum", "a.keras", "--explained", "0"],
        ["spectrum", "a.keras", "--explained", "90"],
        ["spectrum"],
    ],
    ids=" ".join,
)
def test_wrong_arguments_are_refused(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    assert end.value.code == 2


def test_spectrum_prints_the_table_and_draws_the_figure(trained, tmp_path, capsys):
    model, path = trained
    assert cli.main(["spectrum", str(path), "--explained", "0.8", "--figure", str(tmp_path / "s.png")]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(sb.spectrum(model).table(0.8)) and "rank for 80 %" in shown
    assert shown.splitlines()[-1] == f"The figure: {tmp_path / 's.png'}"
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")


def test_spectrum_refuses_what_it_cannot_read_or_draw(trained, tmp_path, monkeypatch):
    _, path = trained
    assert "which is not there" in _refused(["spectrum", tmp_path / "none.keras"])
    assert "ends in .png, .svg or .pdf" in _refused(["spectrum", path, "--figure", "s.txt"])
    keras.Sequential([keras.Input((4,)), keras.layers.Activation("relu")], name="flat").save(tmp_path / "flat.keras")
    assert "at least one of" in _refused(["spectrum", tmp_path / "flat.keras"])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install 'singularbayes[plots]'" in _refused(["spectrum", path, "--figure", "s.png"])
