"""Docstrings and signatures as the pages of the API show them.

Examples become blocks of code: Markdown would read their ">>>" as quotes within quotes. A default that is a private
constant of its module is shown as its value.
"""

import re

import griffe

_EXAMPLE = re.compile(r"^(?:>>> .*\n?)(?:.+\n?)*", flags=re.MULTILINE)


def fenced(docstring: str) -> str:
    """Returns a docstring whose doctests, each up to a blank line, are blocks of code.

    >>> fenced("One and one.\\n\\n>>> 1 + 1\\n2\\n\\nThat is all.")
    'One and one.\\n\\n```pycon\\n>>> 1 + 1\\n2\\n```\\n\\nThat is all.'
    """
    return _EXAMPLE.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", docstring).rstrip()


def show_value(function: griffe.Function) -> None:
    """Replaces defaults that are private constants, such as `prior=_PRIOR`, by the values of these constants."""
    for parameter in function.parameters:
        name = str(parameter.default)
        if name.startswith("_") and name in function.module.members:
            parameter.default = function.module.members[name].value


class DoctestFences(griffe.Extension):
    """Puts every doctest that begins a line of a docstring into a block of code, and shows values of defaults."""

    def on_instance(self, *, obj: griffe.Object, **_) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)

    def on_package(self, *, pkg: griffe.Module, **_) -> None:
        for module in _modules(pkg):
            for one in module.members.values():
                if one.is_alias:
                    continue
                functions = [one] if one.is_function else list(one.members.values()) if one.is_class else []
                for function in functions:
                    if not function.is_alias and function.is_function:
                        show_value(function)


def _modules(module: griffe.Module):
    """Yields a module and all modules inside it."""
    yield module
    for inner in module.modules.values():
        if not inner.is_alias:
            yield from _modules(inner)
