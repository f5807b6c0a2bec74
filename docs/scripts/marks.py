"""Text between the marks `<!-- name -->` and `<!-- end -->` of a page, which a script writes."""

import re
from pathlib import Path


def filled(page: str, name: str, text: str, where: str) -> str:
    """Returns a page with `text` between its marks; raises unless it has them once. `where` names the page."""
    marks = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)", flags=re.DOTALL)
    page, found = marks.subn(lambda mark: f"{mark[1]}{text.rstrip()}\n{mark[2]}", page)
    if found != 1:
        raise ValueError(f"{where} needs <!-- {name} --> and <!-- end --> once; got {found}.")
    return page


def fill(page: Path, name: str, text: str) -> None:
    """Writes `text` between the marks of a file."""
    page.write_text(filled(page.read_text(encoding="utf-8"), name, text, page.name), encoding="utf-8")
