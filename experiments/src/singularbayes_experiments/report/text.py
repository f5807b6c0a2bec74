"""Numbers, differences and folded parts as all pages show them."""

from collections.abc import Mapping, Sequence

from singularbayes_experiments.methods.protocol import Paired


def number(value: float, decimals: int = 3) -> str:
    """Returns a number with a true minus.

    >>> number(-1.25, 2)
    '−1.25'
    """
    return f"{value:.{decimals}f}".replace("-", "−")


def signed(value: float, decimals: int = 3) -> str:
    """Returns a number with its sign, that of a small one too, so that an interval and the word beside it agree.

    >>> signed(-0.0123), signed(0.5, 1), signed(-0.0001)
    ('−0.012', '+0.5', '−0.000')
    """
    return f"{value:+.{decimals}f}".replace("-", "−")


def interval(found: Paired, decimals: int = 3) -> str:
    """Returns the ends of an interval.

    >>> interval(Paired(-0.02, -0.03, -0.01))
    '[−0.030, −0.010]'
    """
    return f"[{signed(found.low, decimals)}, {signed(found.high, decimals)}]"


def difference(found: Paired, decimals: int = 3) -> str:
    """Returns a paired difference with its 95 % interval.

    >>> difference(Paired(-0.02, -0.03, -0.01))
    '−0.020 [−0.030, −0.010]'
    """
    return f"{signed(found.mean, decimals)} {interval(found, decimals)}"


def folded(title: str, lines: Sequence[str]) -> list[str]:
    """Returns lines of Markdown that a reader unfolds; the last of them is empty."""
    return ['<details markdown="1">', f"<summary>{title}</summary>", "", *lines, "</details>", ""]


def filled(page: str, blocks: Mapping[str, str]) -> str:
    r"""Returns a page with new text between its marks, by the name of the mark.

    >>> filled("<!-- sum -->\nold\n<!-- end -->", {"sum": "new"})
    '<!-- sum -->\nnew\n<!-- end -->'
    """
    for name, block in blocks.items():
        before, rest = page.split(f"<!-- {name} -->\n")
        _, after = rest.split("\n<!-- end -->", 1)
        page = f"{before}<!-- {name} -->\n{block}\n<!-- end -->{after}"
    return page
