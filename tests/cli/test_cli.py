"""The command line: a page at the end, one line for what a user can mend."""

import runpy
import subprocess
import sys

import pytest
from made_up import digits_record, toy_record
from singularbayes_experiments.problems import digits, toy

import singularbayes
from singularbayes import cli


@pytest.fixture
def trained(monkeypatch):
    """Training made up: it calls back after the first and the last epoch. Holds the settings it was asked for."""
    asked = []

    def train(make):
        def run(method, seed, settings, watch):
            asked.append(settings)
            for epoch in (0, settings.epochs - 1):
                watch(epoch, {"loss": 1.5})
            return make(method, seed=seed, settings=settings)

        return run

    monkeypatch.setattr(toy, "run", train(toy_record))
    monkeypatch.setattr(digits, "run", train(digits_record))
    return asked


def test_the_demo_leaves_a_page_records_and_a_table(trained, tmp_path, capsys):
    out = tmp_path / "new" / "folder"
    assert cli.main(["demo", "--out", str(out), "--seed", "4"]) == 0
    shown = capsys.readouterr().out
    assert trained == [toy.Settings()] * 2 + [digits.Settings()] * 3
    assert (out / "report.html").is_file() and len((out / "records.jsonl").read_text().splitlines()) == 5
    assert "7,202" in shown and "20,802" in shown and "deterministic" in shown
    assert "report.html" in shown.splitlines()[-1]
    assert "--seed 4" in (out / "report.html").read_text(encoding="utf-8")


def test_off_a_terminal_a_run_is_one_line(trained, tmp_path, capsys):
    cli.main(["demo", "--out", str(tmp_path)])
    shown = capsys.readouterr().out
    *words, seconds, unit = shown.splitlines()[0].split()
    assert words == ["1/5", "toy", "low-rank", "800", "epochs,", "loss", "1.500,"]
    assert int(seconds) < 60 and unit == "s"
    assert "\x1b" not in shown


def test_quick_trains_less(trained, tmp_path):
    assert cli.main(["demo", "--out", str(tmp_path), "--quick"]) == 0
    assert trained == [toy.QUICK] * 2 + [digits.QUICK] * 3


def test_a_folder_that_cannot_be_written_is_said_before_training(trained, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as end:
        cli.main(["demo", "--out", str(tmp_path / "file" / "below")])
    assert "--out needs a folder that can be written to" in str(end.value) and "\n" not in str(end.value)
    assert trained == []


@pytest.mark.parametrize("package", ["jinja2", "matplotlib"])
def test_a_missing_extra_is_named_with_what_to_type(trained, package, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SystemExit, match=r"pip install 'singularbayes\[report\]'"):
        cli.main(["demo", "--out", str(tmp_path)])
    assert trained == []


def test_ctrl_c_is_one_line_and_130(monkeypatch, tmp_path, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(toy, "run", interrupted)
    assert cli.main(["demo", "--out", str(tmp_path)]) == 130
    assert capsys.readouterr().err == "singularbayes: stopped.\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments", [["demo", "--seed", "-1"], ["demo", "--seed", "x"], ["dmeo"], ["demo", "--ranks"]]
)
def test_wrong_arguments_are_refused(trained, arguments):
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    assert end.value.code == 2 and trained == []


def test_help_and_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == singularbayes.__version__
    assert cli.main(["demo", "--help"]) == 0
    assert "--out" in capsys.readouterr().out


def test_the_package_run_as_a_module_is_the_command_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["singularbayes", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("singularbayes", run_name="__main__")
    assert ended.value.code == 0 and capsys.readouterr().out.strip() == singularbayes.__version__


def test_the_page_template_is_part_of_the_package():
    from importlib.resources import files

    assert (files("singularbayes") / "report" / "page.html.j2").is_file()


def test_jax_is_the_backend_when_none_is_named(tmp_path):
    code = "import singularbayes.cli, keras; print(keras.backend.backend())"
    # No KERAS_BACKEND, and a home without Keras's own settings file.
    environment = {"PATH": "", "HOME": str(tmp_path), "PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "jax"
