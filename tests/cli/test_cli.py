"""The command line: a page at the end, one line for what a user can fix."""

import runpy
import subprocess
import sys

import pytest
from made_up_stories import made_up_story

import singularbayes
from singularbayes import cli
from singularbayes.demo import STORIES, regression


@pytest.fixture
def trained(monkeypatch):
    """Stories made up instead of trained. Holds the seeds and settings that they were given."""
    given = []

    def running(name):
        def run(trainer, settings):
            given.append((trainer.seeds, settings))
            return made_up_story(name)

        return run

    for story in STORIES:
        monkeypatch.setattr(story, "run", running(story.__name__.rpartition(".")[2]))
    return given


def test_the_demo_leaves_a_page_and_prints_a_table(trained, tmp_path, capsys):
    out = tmp_path / "new" / "folder"
    assert cli.main(["demo", "--out", str(out), "--seed", "4"]) == 0
    shown = capsys.readouterr().out
    assert trained == [((4, 5, 6), story.Settings()) for story in STORIES]
    assert list(out.iterdir()) == [out / "report.html"]
    assert shown.count("7,202") == shown.count("802") == 6 and "What digits shows." in shown
    assert "report.html" in shown.splitlines()[-1] and "\x1b" not in shown
    assert "--seed 4" in (out / "report.html").read_text(encoding="utf-8")


def test_quick_trains_less_and_the_page_names_it(trained, tmp_path):
    assert cli.main(["demo", "--out", str(tmp_path), "--quick"]) == 0
    assert trained == [((1, 2, 3), story.QUICK) for story in STORIES]
    assert "<strong>Made with --quick:</strong>" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_folder_that_cannot_be_written_is_reported_before_training(trained, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as end:
        cli.main(["demo", "--out", str(tmp_path / "file" / "below")])
    assert "--out needs a folder that can be written to" in str(end.value) and "\n" not in str(end.value)
    assert trained == []


@pytest.mark.parametrize("package", ["jinja2", "matplotlib"])
def test_a_missing_extra_is_named_with_what_to_type(trained, package, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SystemExit, match=r"pip install 'singularbayes\[plots\]'"):
        cli.main(["demo", "--out", str(tmp_path)])
    assert trained == []


def test_ctrl_c_is_one_line_and_130(monkeypatch, tmp_path, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(regression, "run", interrupted)
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

    assert (files("singularbayes") / "demo" / "page.html.j2").is_file()


def test_jax_is_the_backend_when_none_is_named(tmp_path):
    code = "import singularbayes.cli, keras; print(keras.backend.backend())"
    # No KERAS_BACKEND, and a home without Keras's own settings file.
    environment = {"PATH": "", "HOME": str(tmp_path), "PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "jax"
