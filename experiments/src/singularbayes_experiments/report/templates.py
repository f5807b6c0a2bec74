"""Templates in, text out."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined


@cache
def environment() -> Environment:
    """Returns what fills in the templates beside this file; values are escaped, and a missing one is an error."""
    return Environment(
        loader=PackageLoader("singularbayes_experiments", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
