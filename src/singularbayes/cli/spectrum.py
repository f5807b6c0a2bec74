"""The command `spectrum`. Keras is imported when it is called."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from singularbayes.checks import require_package
from singularbayes.cli.files import Packages, load_model, require_figure, show


def spectrum(
    model: Path,
    /,
    *,
    explained: Annotated[float, Parameter(validator=Number(gt=0, lte=1))] = 0.9,
    figure: Path | None = None,
    packages: Packages = None,
) -> int:
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
    if figure is not None:
        require_package("matplotlib", "plots", "--figure")
        require_figure(figure)
    from singularbayes import convert

    found = convert.spectrum(load_model(model, packages))
    show(found.table(explained))
    if figure is not None:
        from singularbayes import plots

        show(f"\nThe figure: {plots.write(plots.spectra(found, explained), figure, dpi=130)}")
    return 0
