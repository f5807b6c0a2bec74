"""The command line. Keras is imported by the commands that need it, not by `--help`."""

import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from rich.console import Console

try:
    from cyclopts import App, Parameter
    from cyclopts.validators import Number
except ImportError as error:
    raise ImportError("The command line needs cyclopts. Type: pip install 'singularbayes[cli]'") from error

import singularbayes
from singularbayes.checks import require_package

INTERRUPTED = 130  # the exit status that shells give to Ctrl-C
# What errors and plans call an argument in Python, and what it is called on the command line.
_IN_SHELL = {
    "Import the packages that define its classes (or pass custom_objects)": "Name the packages by --import",
    'unsupported="keep"': "--unsupported keep",
    ", or by a rule with None; plan(model, …) shows them all": "; the plan shows them all",
    "frozen=True": "--frozen",
    'form="holdout"': "--form holdout",
}

app = App(
    name="singularbayes",
    help="Low-rank variational Bayesian neural networks for Keras 3.",
    version=singularbayes.__version__,
    suppress_keyboard_interrupt=False,
)
Packages = Annotated[list[str] | None, Parameter(name="--import", negative="", consume_multiple=False)]
Switch = Annotated[bool, Parameter(negative="")]
Natural = Annotated[int, Parameter(validator=Number(gte=1))]
Share = Annotated[float, Parameter(validator=Number(gt=0, lte=1))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `singularbayes`."""
    return run_app(app, arguments)


def run_app(app: App, arguments: Sequence[str] | None) -> int:
    """Runs a command and returns its exit status; an error that a user can fix ends in one line."""
    name = app.name[0]
    try:
        return app(arguments, result_action="return_value") or 0
    except KeyboardInterrupt:
        print(f"{name}: stopped.", file=sys.stderr)
        return INTERRUPTED
    except (ImportError, OSError, TypeError, ValueError) as error:
        sys.exit(f"{name}: {_in_shell(' '.join(str(error).split()))}")


def _in_shell(text: str) -> str:
    for python, shell in _IN_SHELL.items():
        text = text.replace(python, shell)
    return text


def _integer(_, tokens) -> int:
    return int(tokens[0].value)  # of itself cyclopts rounds 2.5


@app.command
def convert(
    model: Path,
    out: Path,
    /,
    *,
    rank: Annotated[
        int | None, Parameter(converter=lambda _, tokens: int(tokens[0].value), validator=Number(gte=1))
    ] = None,
    init: Literal["svd", "random"] = "svd",
    posterior: Literal["low_rank", "mixture", "adapter"] = "low_rank",
    unsupported: Literal["error", "keep"] = "error",
    force: Switch = False,
    packages: Packages = None,
) -> None:
    """Make a Bayesian model of a trained Keras model; the plan is printed first.

    Parameters
    ----------
    model
        The .keras file of a trained model.
    out
        The .keras file to write.
    rank
        Rank of the random factors of every weight matrix, 32 by default, 16 for adapter; a matrix that is smaller
        lowers it.
    init
        Initialise the means at the trained weights (svd), or at random (random).
    posterior
        low_rank: A Bᵀ, truncated to the rank. mixture: four of these, each a mode of its own. adapter: the trained
        weight, frozen, plus a random A Bᵀ.
    unsupported
        What to do with layers that have weight matrices and no Bayesian counterpart.
    force
        Write over an existing file.
    packages
        A package that defines layers of the model, such as keras_hub; may be given more than once.
    """
    if out.suffix != ".keras":
        raise ValueError(f"convert needs an output file that ends in .keras; got {str(out)!r}.")
    _require_folder(out)
    if out.exists() and not force:
        raise ValueError(f"{str(out)!r} is there already; --force writes over it.")
    from singularbayes import bayesianize, plan, posteriors
    from singularbayes.models.saving import load_without_optimizer, write_whole

    trained = load_without_optimizer(model, packages or ())
    chosen = posteriors.get_posterior(posterior)
    chosen = chosen if rank is None else chosen.with_rank(rank)
    _show(_in_shell(str(plan(trained, chosen, init=init))))
    write_whole(out, bayesianize(trained, chosen, init=init, unsupported=unsupported).save)
    _show(f"\nWritten: {out}")


@app.command
def spectrum(model: Path, /, *, explained: Share = 0.9, figure: Path | None = None, packages: Packages = None) -> None:
    """Show how fast the singular values of a model's matrices fall, and the rank that keeps a share of ‖W‖².

    Parameters
    ----------
    model
        The .keras file of a Keras model, plain or Bayesian.
    explained
        The share of each squared Frobenius norm ‖W‖² to keep (explained variance).
    figure
        A file for the figure: .png, .svg or .pdf.
    packages
        A package that defines layers of the model, such as keras_hub; may be given more than once.
    """
    _require_figure(figure)
    from singularbayes.convert import spectrum
    from singularbayes.models.saving import load_without_optimizer

    found = spectrum(load_without_optimizer(model, packages or ()))
    _show(found.table(explained))
    if figure is not None:
        from singularbayes import plots

        _write(figure, plots.spectra(found, explained))


@app.command
def rank(
    model: Path,
    /,
    *,
    data: Path | None = None,
    explained: Annotated[float | None, Parameter(validator=Number(gt=0, lte=1))] = None,
    figure: Path | None = None,
    likelihood: str | None = None,
    packages: Packages = None,
    train: Path | None = None,
    ood: Path | None = None,
    epochs: Natural = 10,
    beta: Annotated[float | None, Parameter(validator=Number(gt=0))] = None,
    seeds: Natural = 1,
    storage: str | None = None,
) -> None:
    """Recommend a rank for the weight matrices of a trained model, with the reasons.

    With held-out examples: the smallest ranks whose truncation is as good on them. Without: the ranks that keep 90 % of
    each squared Frobenius norm (explained variance). With examples to train on: Bayesian counterparts of the model at
    ranks 1, 2, 4, … are trained from its weights and judged by the held-out examples.

    Parameters
    ----------
    model
        The .keras file of a trained model, plain or Bayesian; with --train a plain one, compiled.
    data
        An .npz file with arrays x and y: held-out examples and their targets.
    explained
        Take the ranks that keep this share of each squared Frobenius norm, whatever the held-out loss.
    figure
        A file for the figure: .png, .svg or .pdf.
    likelihood
        What the outputs mean, such as categorical_logits, where the file does not specify it.
    packages
        A package that defines layers of the model, such as keras_hub; may be given more than once.
    train
        An .npz file with arrays x and y to train on: then every rank is trained.
    ood
        An .npz file with an array x, out-of-distribution examples that the model should be unsure of.
    epochs
        Epochs of every training.
    beta
        The weight of the KL; 1 is the ELBO, and 0.03 the default.
    seeds
        Trainings of every rank; from 2 on the smallest rank within one standard error of the best is taken.
    storage
        A file that keeps the trainings, or a URL of Optuna's: after an interruption the same command resumes, and
        several processes with the same storage share the work.
    """
    _require_figure(figure)
    if train is None and (ood, beta, storage) != (None, None, None):
        raise ValueError("--ood, --beta and --storage need --train, an .npz file with x and y; got none.")
    if train is not None and data is None:
        raise ValueError("--train needs --data, an .npz file with x and y that trained ranks are judged by; got none.")
    from singularbayes import bayesianize, ranks
    from singularbayes.convert import spectrum
    from singularbayes.models.saving import load_without_optimizer
    from singularbayes.training import BETA

    held_out: Any = None if data is None else _read("rank", "--data", data, "x", "y")
    foreign = None if ood is None else _read("rank", "--ood", ood, "x")
    trained = load_without_optimizer(model, packages or ())
    found = spectrum(trained)
    if train is not None:
        most = max(max(m * n // (m + n) for m, n in (row.shape for row in found.rows)), 1)
        swept = ranks.sweep(
            lambda rank: bayesianize(trained, rank),
            ranks.Data(_read("rank", "--train", train, "x", "y"), held_out, foreign),
            {"rank": [2**i for i in range(most.bit_length())], "beta": [BETA if beta is None else beta]},
            budget=ranks.Budget(most.bit_length(), epochs, seeds=seeds),
            storage=storage,
        )
        _show(swept)
        if figure is not None:
            _write(figure, swept.plot())
        return
    if held_out is None:
        share = 0.9 if explained is None else explained
        _show(ranks.by_spectrum(trained, share))
    else:
        shares: Any = {} if explained is None else {"shares": (explained,)}
        tried = ranks.by_loss(trained, held_out[0], held_out[1], likelihood=likelihood, **shares)
        share = tried.explained if explained is None else explained
        _show(tried)
    if figure is not None:
        from singularbayes import plots

        _write(figure, plots.spectra(found, share))


@app.command
def certify(
    model: Path,
    /,
    *,
    data: Path,
    delta: Annotated[float, Parameter(validator=Number(gt=0, lt=1))] = 0.05,
    draws: Natural = 10_000,
    form: Literal["kl", "catoni", "holdout"] = "kl",
    average: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    constant: Annotated[float | None, Parameter(validator=Number(gt=0))] = None,
    tried: Natural = 1,
    frozen: Switch = False,
    likelihood: str | None = None,
    seed: Annotated[int, Parameter(validator=Number(gte=0))] = 0,
    packages: Packages = None,
) -> None:
    """Certify a trained classifier: an upper bound of its error rate on new data.

    The predictor draws a network for every prediction, or with --average averages draws. All trained weights must have
    posteriors, except for --form holdout.

    Parameters
    ----------
    model
        The .keras file of a model with posteriors.
    data
        An .npz file with arrays x and y: examples that the prior has not seen, and their labels from 0.
    delta
        The probability with which the bound may be wrong.
    draws
        Networks to draw; more make the bound tighter. Choose before you see a result.
    form
        The form of the bound. holdout needs a model that was neither trained nor selected on these examples.
    average
        Certify the classifier that averages this number of draws, as sb.predict does.
    constant
        C of Catoni's bound, fixed without these examples.
    tried
        How many models were compared on these examples, this one included.
    frozen
        Weights outside posteriors were fixed before these examples were seen.
    likelihood
        What the outputs mean, such as categorical_logits, where the file does not specify it.
    seed
        Seed of the draws.
    packages
        A package that defines layers of the model, such as keras_hub; may be given more than once.
    """
    from singularbayes import evaluation
    from singularbayes.models.saving import load_without_optimizer

    x, y = _read("certify", "--data", data, "x", "y")
    bound = evaluation.certify(
        load_without_optimizer(model, packages or ()),
        x,
        y,
        delta,
        draws,
        form=form,
        average=average,
        constant=constant,
        tried=tried,
        frozen=frozen,
        likelihood=likelihood,
        seed=seed,
    )
    print(bound)


def _show(text: object) -> None:
    """Prints a text as it is, without breaking its lines."""
    Console().print(str(text), soft_wrap=True, highlight=False, markup=False)


def _write(figure: Path, drawn: Any) -> None:
    from singularbayes import plots

    _show(f"\nThe figure: {plots.write(drawn, figure, dpi=130)}")


def _require_folder(path: Path) -> None:
    if not path.parent.is_dir():
        raise ValueError(f"The folder {str(path.parent)!r} of {str(path)!r} does not exist.")


def _require_figure(path: Path | None) -> None:
    """Raises unless a figure can be written under this name, if there is one."""
    if path is not None:
        require_package("matplotlib", "plots", "--figure")
        if path.suffix not in (".png", ".svg", ".pdf"):
            raise ValueError(f"--figure needs a file that ends in .png, .svg or .pdf; got {str(path)!r}.")
        _require_folder(path)


def _read(command: str, option: str, path: Path, *names: str) -> Any:
    """Returns the arrays of an .npz file that have these names, or the one; the command and the option need them."""
    wanted = f"{command} needs {option}, an .npz file with {' and '.join(names)}; got {str(path)!r}"
    if not path.is_file():
        raise ValueError(f"{wanted}, which does not exist.")
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{wanted}, which is not an archive.")
    with np.load(path, allow_pickle=False) as arrays:
        missing = sorted(set(names) - set(arrays.files))
        if missing:
            raise ValueError(f"{wanted}, which has no array called {' or '.join(missing)}.")
        found = [arrays[name] for name in names]
    return found if len(found) > 1 else found[0]
