"""Examples of docstrings as code on the pages of the API: Markdown would read their ">>>" as quotes within quotes."""

import re

import griffe

_EXAMPLE = re.compile(r"^(?:>>> .*\n?)(?:.+\n?)*", flags=re.MULTILINE)


def fenced(docstring: str) -> str:
    """Returns a docstring whose doctests, each up to a blank line, are blocks of code.

    >>> fenced("One and one.\\n\\n>>> 1 + 1\\n2\\n\\nThat is all.")
    'One and one.\\n\\n```pycon\\n>>> 1 + 1\\n2\\n```\\n\\nThat is all.'
    """
    return _EXAMPLE.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", docstring).rstrip()


class DoctestFences(griffe.Extension):
    """Puts every doctest that begins a line of a docstring into a block of code."""

    def on_instance(self, *, obj: griffe.Object, **_) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
