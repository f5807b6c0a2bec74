"""The command `convert`. Keras is imported when it is called."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from singularbayes.cli.errors import in_shell
from singularbayes.cli.files import Packages, load_model, require_folder, show, write_model


def _integer(_, tokens) -> int:
    return int(tokens[0].value)  # of itself cyclopts rounds 2.5


def convert(
    model: Path,
    out: Path,
    /,
    *,
    rank: Annotated[int | None, Parameter(converter=_integer, validator=Number(gte=1))] = None,
    init: Literal["svd", "random"] = "svd",
    posterior: Literal["low_rank", "mixture", "adapter"] = "low_rank",
    unsupported: Literal["error", "keep"] = "error",
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
    require_folder(out)
    if out.exists() and not force:
        raise ValueError(f"{str(out)!r} is there already; --force writes over it.")
    from singularbayes import bayesianize, plan, posteriors

    trained = load_model(model, packages)
    chosen = posteriors.get_posterior(posterior)
    chosen = chosen if rank is None else chosen.with_rank(rank)
    show(in_shell(str(plan(trained, chosen, init=init))))
    write_model(bayesianize(trained, chosen, init=init, unsupported=unsupported), out)
    show(f"\nWritten: {out}")
    return 0
