"""The command `rank`. Keras and matplotlib are imported when it is called."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from singularbayes.assess.command import load_model, read_arrays
from singularbayes.report import require_extra

_FORMATS = (".png", ".svg", ".pdf")


def rank(
    model: Path,
    /,
    *,
    data: Path | None = None,
    energy: Annotated[float | None, Parameter(validator=Number(gt=0, lte=1))] = None,
    figure: Path = Path("rank.png"),
    likelihood: str | None = None,
    packages: Annotated[list[str] | None, Parameter(name="--import", negative="", consume_multiple=False)] = None,
) -> int:
    """Recommend a rank for every weight matrix of a trained model, say why, and draw its spectra with the ranks.

    With held-out examples: the smallest ranks whose truncation is as good on them. Without: the ranks that keep 90 % of
    the energy.

    Parameters
    ----------
    model
        The .keras file of a trained model, plain or Bayesian.
    data
        An .npz file with arrays x and y: held-out examples and their answers.
    energy
        Take the ranks that keep this share of the energy, whatever the examples say.
    figure
        The file for the figure: .png, .svg or .pdf.
    likelihood
        What the outputs mean, such as categorical_logits, where the file does not say.
    packages
        A package that defines layers of the model, such as keras_hub; may be said more than once.
    """
    require_extra()
    if figure.suffix not in _FORMATS:
        sys.exit(f"singularbayes: --figure needs a file that ends in .png, .svg or .pdf; got {str(figure)!r}.")
    if not figure.parent.is_dir():
        sys.exit(f"singularbayes: {str(figure)!r} needs a folder that exists; {str(figure.parent)!r} is none.")
    from singularbayes import ranks, spectrum
    from singularbayes.report import spectra

    try:
        trained = load_model(model, packages or ())
        if data is None:
            share = 0.9 if energy is None else energy
            found: object = ranks.by_energy(trained, share)
        else:
            energies = ranks.ENERGIES if energy is None else (energy,)
            x, y = read_arrays("rank", "--data", data, ("x", "y"))
            tried = ranks.by_loss(trained, x, y, energies, likelihood=likelihood)
            found, share = tried, tried.energy if energy is None else energy
    except (ValueError, TypeError) as error:
        sys.exit(f"singularbayes: {' '.join(str(error).split())}")
    print(found)
    print(f"\nThe figure: {spectra.write(spectrum(trained), figure, share)}")
    return 0
