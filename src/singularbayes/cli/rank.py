"""The command `rank`. Keras and matplotlib are imported when it is called."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from singularbayes.checks import require_package
from singularbayes.cli.files import Packages, load_model, read_arrays, require_figure

if TYPE_CHECKING:
    from singularbayes.ranks import Engine, Sweep


@dataclass(frozen=True)
class EngineOptions:
    """Which engine, and what each piece of work takes of it.

    Args:
        engine: local, or ray for the machines of a Ray cluster.
        address: HOST:PORT of the cluster's head; by default the cluster that this machine belongs to, else a new one
            of this machine alone.
        cpus: cores that Ray sets aside for a run.
        gpus: GPUs that Ray sets aside for a run; 0.5 lets two runs share one.
    """

    engine: Literal["local", "ray"] = "local"
    address: str | None = None
    cpus: float = 1
    gpus: float = 0

    def start(self, *packages: str) -> "Engine":
        """Returns the engine, connected, with the code of these packages sent; raises where that cannot be."""
        from singularbayes.ranks import Local, Ray

        if self.engine == "ray":
            return Ray(self.address, self.cpus, self.gpus, packages)
        if self != EngineOptions():
            raise ValueError("--address, --cpus and --gpus need --engine ray; got --engine local.")
        return Local()


@dataclass(frozen=True)
class Training:
    """What a sweep trains, and for how long.

    Args:
        train: An .npz file with arrays x and y to train on: then every rank is trained.
        ood: An .npz file with an array x, out-of-distribution examples that the model should be unsure of.
        epochs: Epochs of every training.
        beta: The weight of the KL; 1 is the ELBO, and 0.03 the default.
        seeds: Trainings of every rank; from 2 on the smallest rank within one standard error of the best is taken.
        storage: A file that keeps the trainings. After an interruption the same command resumes.
    """

    train: Path | None = None
    ood: Path | None = None
    epochs: Annotated[int, Parameter(validator=Number(gte=1))] = 10
    beta: Annotated[float | None, Parameter(validator=Number(gt=0))] = None
    seeds: Annotated[int, Parameter(validator=Number(gte=1))] = 1
    storage: Path | None = None


def rank(
    model: Path,
    /,
    *,
    data: Path | None = None,
    explained: Annotated[float | None, Parameter(validator=Number(gt=0, lte=1))] = None,
    figure: Path | None = None,
    likelihood: str | None = None,
    packages: Packages = None,
    training: Annotated[Training, Parameter(name="*")] = Training(),
    where: Annotated[EngineOptions, Parameter(name="*")] = EngineOptions(),
) -> int:
    """Recommend a rank for the weight matrices of a trained model, with the reasons and a figure.

    With held-out examples: the smallest ranks whose truncation is as good on them. Without: the ranks that keep 90 % of
    each squared Frobenius norm (explained variance). With examples to train on: Bayesian counterparts of the model at
    ranks 1, 2, 4, … are trained from its weights and judged by the held-out examples; with --engine ray by the machines
    of a Ray cluster, with the same result.

    Parameters
    ----------
    model
        The .keras file of a trained model, plain or Bayesian; with --train a plain one, compiled.
    data
        An .npz file with arrays x and y: held-out examples and their targets.
    explained
        Take the ranks that keep this share of each squared Frobenius norm, whatever the held-out loss.
    figure
        The file for the figure: .png, .svg or .pdf; one that is there is replaced. By default rank.png, or the first of
        rank-2.png, rank-3.png, … that is not there yet.
    likelihood
        What the outputs mean, such as categorical_logits, where the file does not specify it.
    packages
        A package that defines layers of the model, such as keras_hub; may be given more than once.
    """
    require_package("matplotlib", "plots", "rank")
    figure = _free(Path("rank.png")) if figure is None else figure
    require_figure(figure)
    if training.train is None:
        _require_no_training(training, where)
        _without_training(model, data, explained, figure, likelihood, packages or ())
    else:
        _require_held_out(data, explained, likelihood)
        _draw(_swept(model, _examples("--data", data), packages or (), training, where), figure)
    return 0


def _free(path: Path) -> Path:
    """Returns the name of a file that is not there yet: a figure that nobody named replaces no file of the user's."""
    names = (path if i == 1 else path.with_stem(f"{path.stem}-{i}") for i in itertools.count(1))
    # A sweep writes further figures as rank_….png beside it.
    return next(name for name in names if not name.exists() and not any(name.parent.glob(f"{name.stem}_*")))


def _require_no_training(training: Training, where: EngineOptions) -> None:
    if (training, where) != (Training(), EngineOptions()):
        raise ValueError(
            "--ood, --epochs, --beta, --seeds, --storage and --engine need --train, an .npz file with x and y; got "
            "none, and without it nothing is trained."
        )


def _require_held_out(data: Path | None, explained: float | None, likelihood: str | None) -> None:
    if data is None:
        raise ValueError("--train needs --data, an .npz file with x and y that trained ranks are judged by; got none.")
    if explained is not None or likelihood is not None:
        raise ValueError("--train needs neither --explained nor --likelihood: ranks are trained by the compiled loss.")


def _without_training(
    model: Path,
    data: Path | None,
    explained: float | None,
    figure: Path,
    likelihood: str | None,
    packages: Sequence[str],
) -> None:
    """Prints ranks by the spectra of a model, or by what truncations of it cost, and draws the spectra."""
    from singularbayes import plots, ranks
    from singularbayes.convert import spectrum

    trained = load_model(model, packages)
    if data is None:
        share = 0.9 if explained is None else explained
        found: object = ranks.by_spectrum(trained, share)
    else:
        shares = ranks.SHARES if explained is None else (explained,)
        x, y = _examples("--data", data)
        tried = ranks.by_loss(trained, x, y, shares, likelihood=likelihood)
        found, share = tried, tried.explained if explained is None else explained
    print(found)
    print(f"\nThe figure: {plots.write(plots.spectra(spectrum(trained), share), figure, dpi=130)}")


def _examples(option: str, path: Path | None) -> tuple[Any, Any]:
    assert path is not None
    x, y = read_arrays("rank", option, path, ("x", "y"))
    return x, y


def _swept(model: Path, held_out: Any, packages: Sequence[str], training: Training, where: EngineOptions) -> "Sweep":
    """Returns the trainings of all ranks, wherever they are to be done."""
    train = _examples("--train", training.train)
    ood = None if training.ood is None else read_arrays("rank", "--ood", training.ood, ("x",))[0]
    engine = where.start()  # before JAX has threads: a cluster of this machine is forked from this process
    from singularbayes import ranks
    from singularbayes.ranks import has_noise
    from singularbayes.training import BETA

    counterpart = ranks.Counterpart.read(model, tuple(packages))
    tried = counterpart.ranks()
    # What cannot be made Bayesian is an error here, not one of every worker.
    smallest = counterpart(rank=1)
    if not smallest.compiled:
        raise ValueError(f"--train needs a model that was compiled, with its loss; got {str(model)!r}, which was not.")
    quality = "nll" if has_noise(smallest) else "rmse"
    return ranks.sweep(
        counterpart,
        ranks.Data(train, held_out, ood),
        {"rank": tried, "beta": [BETA if training.beta is None else training.beta]},
        (quality,) if ood is None else (quality, "auroc_ood"),
        ranks.Budget(len(tried), training.epochs, seeds=training.seeds, at_once=len(tried)),
        storage=training.storage,
        engine=engine,
    )


def _draw(found: "Sweep", figure: Path) -> None:
    """Prints the trainings and which rank to take, and draws their trade-offs: the first as `figure`."""
    from singularbayes import plots

    print(found, end="\n\n")
    for i, (name, drawn) in enumerate(plots.trade_offs(found).items()):
        path = figure if i == 0 else figure.with_stem(f"{figure.stem}_{name}")
        print(f"The figure: {plots.write(drawn, path)}")
