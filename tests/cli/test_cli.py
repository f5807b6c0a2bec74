"""The command line: one line for what a user can fix."""

import runpy
import subprocess
import sys

import pytest

import singularbayes
from singularbayes import cli


def test_ctrl_c_is_one_line_and_130(monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("singularbayes.models.saving.load_without_optimizer", interrupted)
    assert cli.main(["spectrum", "model.keras"]) == 130
    assert capsys.readouterr().err == "singularbayes: stopped.\n"


@pytest.mark.parametrize("arguments", [["rnak", "m.keras"], ["rank"], ["rank", "m.keras", "--epochs", "0"]])
def test_wrong_arguments_are_refused(arguments):
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    assert end.value.code == 2


def test_help_and_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == singularbayes.__version__
    assert cli.main(["convert", "--help"]) == 0
    assert "--unsupported" in capsys.readouterr().out


def test_the_package_run_as_a_module_is_the_command_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["singularbayes", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("singularbayes", run_name="__main__")
    assert ended.value.code == 0 and capsys.readouterr().out.strip() == singularbayes.__version__


def test_jax_is_the_backend_when_none_is_named(tmp_path):
    code = "import singularbayes.cli, keras; print(keras.backend.backend())"
    # No KERAS_BACKEND, and a home without Keras's own settings file.
    environment = {"PATH": "", "HOME": str(tmp_path), "PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "jax"
