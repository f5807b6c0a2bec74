"""The command `certify`. Keras is imported when it is called."""

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from cyclopts import Parameter
from cyclopts.validators import Number

from singularbayes.cli.files import Packages, load_model, read_arrays


def certify(
    model: Path,
    /,
    *,
    data: Path,
    delta: Annotated[float, Parameter(validator=Number(gt=0, lt=1))] = 0.05,
    draws: Annotated[int, Parameter(validator=Number(gte=1))] = 10_000,
    form: Literal["best", "kl", "catoni", "tandem", "holdout"] = "best",
    average: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    constant: Annotated[float | None, Parameter(validator=Number(gt=0))] = None,
    unseen: Annotated[bool, Parameter(negative="")] = False,
    tried: Annotated[int, Parameter(validator=Number(gte=1))] = 1,
    frozen: Annotated[bool, Parameter(negative="")] = False,
    prior_data: str | None = None,
    duplicates: Literal["independent"] | None = None,
    allow_seen: Annotated[bool, Parameter(negative="")] = False,
    likelihood: str | None = None,
    seed: Annotated[int, Parameter(validator=Number(gte=0))] = 0,
    save: Path | None = None,
    packages: Packages = None,
) -> int:
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
        The form of the bound; best compares those that apply, and they share delta. holdout needs a model that was
        neither trained nor selected on these examples.
    average
        Certify the classifier that averages this number of draws, as sb.predict does.
    constant
        C of Catoni's bound, fixed without these examples.
    unseen
        The model was neither trained nor selected on these examples, so best compares holdout too.
    tried
        How many models were compared on these examples, this one included.
    frozen
        Weights outside posteriors were fixed before these examples were seen.
    prior_data
        An .npz file with an array x, the examples that the prior was learned on, where the model does not remember
        them; or the word disjoint, if examples that look the same were drawn apart.
    duplicates
        The word independent, if examples that are equal were drawn independently.
    allow_seen
        Print a number even if the prior saw the examples; it is not a certificate.
    likelihood
        What the outputs mean, such as categorical_logits, where the file does not specify it.
    seed
        Seed of the draws.
    save
        A .json file for the certificate, with all that is needed to check it later.
    packages
        A package that defines layers of the model, such as keras_hub; may be given more than once.
    """
    from singularbayes import evaluation

    x, y = read_arrays("certify", "--data", data, ("x", "y"))
    bound = evaluation.certify(
        load_model(model, packages),
        x,
        y,
        delta,
        draws,
        form=form,
        average=average,
        constant=constant,
        unseen=unseen,
        tried=tried,
        frozen=frozen,
        prior_data=_prior_data(prior_data),
        duplicates=duplicates,
        allow_seen=allow_seen,
        likelihood=likelihood,
        seed=seed,
    )
    print(bound)
    if save is not None:
        bound.save(save)
    return 0


def _prior_data(named: str | None) -> np.ndarray | str | None:
    """Returns the inputs of the file that is named; "disjoint" and nothing stay."""
    return named if named in (None, "disjoint") else read_arrays("certify", "--prior-data", Path(named), ("x",))[0]
