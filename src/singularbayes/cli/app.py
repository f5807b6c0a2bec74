"""The command line. Keras is imported by the commands that train, not by `--help`."""

import importlib
import shlex
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter
from cyclopts.validators import Number
from rich.console import Console

import singularbayes
from singularbayes.cli import certify as assess_command
from singularbayes_experiments.cli import data as data_commands
from singularbayes_experiments.cli import run as command
from singularbayes_experiments.cli.run import require_writable
from singularbayes_experiments.runs.progress import progress
from singularbayes_experiments.cli import report as report_command
from singularbayes.cli import rank as rank_command
from singularbayes.plots import require_extra

INTERRUPTED = 130  # what shells say for Ctrl-C

app = App(
    name="singularbayes",
    help="Low-rank variational Bayesian neural networks for Keras 3.",
    version=singularbayes.__version__,
    suppress_keyboard_interrupt=False,
)
app.command(command.run)
app.command(command.list_experiments, name="list")
app.command(command.merge)
app.command(data_commands.app)
app.command(report_command.report)
app.command(rank_command.rank)
app.command(assess_command.certify)


@app.command
def demo(
    *,
    out: Path = Path("runs/demo"),
    seed: Annotated[int, Parameter(validator=Number(gte=0, lt=2**32))] = 0,
    quick: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Train the toy regression and the digit classifiers, and leave one page with what they show.

    Needs no download and about a minute on two cores.

    Parameters
    ----------
    out
        Folder for report.html, records.jsonl and the arrays of the figures.
    seed
        Seed of the digits' split, initial weights and draws; the same seed gives the same numbers.
    quick
        Train for fewer epochs; the page says so.
    """
    require_extra()
    require_writable(out)
    from singularbayes_experiments.problems import digits, toy
    from singularbayes_experiments.records import record
    from singularbayes_experiments.report import chapters, page, terminal

    console = Console()
    jobs: list[tuple[str, Any, str]] = [("toy", toy, method) for method in ("low_rank", "full_rank")]
    jobs += [("digits", digits, method) for method in digits.METHODS]
    records = []
    for done, (name, experiment, method) in enumerate(jobs, start=1):
        scale = "quick" if quick else next(iter(experiment.PRESETS))
        settings = experiment.PRESETS[scale]
        label = f"{done}/{len(jobs)} {name} {method.replace('_', '-')}"
        with progress(console, label, settings.epochs) as watch:
            records.append(replace(experiment.run(method, seed, settings, watch), preset=scale))
    record.write(records, out)
    made = chapters.of(records)
    path = page.write(made, out, page.demo(_command(out, seed, quick)))
    for chapter in made:
        terminal.show(console, chapter.section.title, chapter.parts[0].tables[0])
    console.print(f"\nThe page: {path}", soft_wrap=True, highlight=False)
    return 0


def _whole(_, tokens) -> int:
    return int(tokens[0].value)  # of itself cyclopts rounds 2.5


Packages = Annotated[list[str] | None, Parameter(name="--import", negative="", consume_multiple=False)]


@app.command
def convert(
    model: Path,
    out: Path,
    /,
    *,
    rank: Annotated[int, Parameter(converter=_whole, validator=Number(gte=1))],
    init: Literal["svd", "random"] = "svd",
    posterior: Literal["low_rank", "adapter"] = "low_rank",
    unsupported: Literal["error", "keep"] = "error",
    cap: Annotated[bool, Parameter(negative="")] = False,
    force: Annotated[bool, Parameter(negative="")] = False,
    packages: Packages = None,
) -> int:
    """Make a Bayesian model of a trained Keras model; the plan is printed first.

    Parameters
    ----------
    model
        The .keras file of a trained model.
    out
        The .keras file to write.
    rank
        Rank of the random factors of every weight matrix.
    init
        Start the means at the trained weights (svd), or anew (random).
    posterior
        low_rank: A Bᵀ, truncated to the rank. adapter: the trained weight, frozen, plus a random A Bᵀ.
    unsupported
        What to do with layers that have weight matrices and no Bayesian twin.
    cap
        Lower the rank where a matrix is smaller.
    force
        Write over an existing file.
    packages
        A package that defines layers of the model, such as keras_hub; may be said more than once.
    """
    if out.suffix != ".keras":
        sys.exit(f"singularbayes: convert needs an output file that ends in .keras; got {str(out)!r}.")
    _require_folder(out)
    if out.exists() and not force:
        sys.exit(f"singularbayes: {str(out)!r} is there already; --force writes over it.")
    from singularbayes import Adapter, LowRank, bayesianize, plan

    with _one_line():
        trained = _load(model, packages)
        chosen = {"low_rank": LowRank, "adapter": Adapter}[posterior](rank)
        _print(_in_shell(str(plan(trained, chosen, init=init, cap=cap))))
        _write(bayesianize(trained, chosen, init=init, unsupported=unsupported, cap=cap), out)
    _print(f"\nWritten: {out}")
    return 0


@app.command
def spectrum(
    model: Path,
    /,
    *,
    energy: Annotated[float, Parameter(validator=Number(gt=0, lte=1))] = 0.9,
    figure: Path | None = None,
    packages: Packages = None,
) -> int:
    """Show how fast the singular values of a model's matrices fall, and the rank that keeps a share of the energy.

    Parameters
    ----------
    model
        The .keras file of a Keras model, plain or Bayesian.
    energy
        The share of ‖W‖² to keep.
    figure
        A file for the figure: .png, .svg or .pdf.
    packages
        A package that defines layers of the model, such as keras_hub; may be said more than once.
    """
    if figure is not None:
        require_extra()
        if figure.suffix not in (".png", ".svg", ".pdf"):
            sys.exit(f"singularbayes: --figure needs a file that ends in .png, .svg or .pdf; got {str(figure)!r}.")
        _require_folder(figure)
    import singularbayes as sb

    with _one_line():
        found = sb.spectrum(_load(model, packages))
    _print(found.table(energy))
    if figure is not None:
        from singularbayes.plots import spectra

        _print(f"\nThe figure: {spectra.write(found, figure, energy)}")
    return 0


def _require_folder(path: Path) -> None:
    if not path.parent.is_dir():
        sys.exit(f"singularbayes: {str(path)!r} needs a folder that exists; {str(path.parent)!r} is none.")


def _load(path: Path, packages: Sequence[str] | None) -> Any:
    from singularbayes import load

    for package in packages or ():
        importlib.import_module(package)
    with warnings.catch_warnings():
        # The optimizer of the trained model has no use here.
        warnings.filterwarnings("ignore", message="Skipping variable loading for optimizer")
        return load(path)


def _write(model: Any, path: Path) -> None:
    """Saves a model under its name when it is whole: a failure leaves the old file, or none."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".singularbayes-") as folder:
        model.save(Path(folder) / path.name)
        (Path(folder) / path.name).replace(path)


_IN_SHELL = {
    'unsupported="keep"': "--unsupported keep",
    "cap=True": "--cap",
    ", or by a rule with None; plan(model, …) shows them all": "; the plan shows them all",
    "Import the package that defines its layers, or pass custom_objects": "Name the package of its layers by --import",
}


@contextmanager
def _one_line() -> Iterator[None]:
    """Ends with one line, in the words of the command line, for what a user can mend."""
    try:
        yield
    except ValueError as error:
        sys.exit(f"singularbayes: {_in_shell(' '.join(str(error).split()))}")


def _in_shell(text: str) -> str:
    for python, shell in _IN_SHELL.items():
        text = text.replace(python, shell)
    return text


def _print(text: object) -> None:
    Console().print(str(text), soft_wrap=True, highlight=False, markup=False)


def _command(out: Path, seed: int, quick: bool) -> str:
    """Returns what to type to get the same page."""
    where = [] if out == Path("runs/demo") else ["--out", str(out)]
    return shlex.join(["singularbayes", "demo", *where, "--seed", str(seed), *(["--quick"] if quick else [])])


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status; what a user can mend ends in one line."""
    try:
        return app(arguments, result_action="return_value") or 0
    except KeyboardInterrupt:
        print("singularbayes: stopped.", file=sys.stderr)
        return INTERRUPTED
    except (ImportError, OSError) as error:
        sys.exit(f"singularbayes: {error}")


if __name__ == "__main__":
    sys.exit(main())
