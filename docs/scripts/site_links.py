"""Hooks of the site: its version, pages from above docs/, links to the repository, and where lines do not break."""

import posixpath
import re
import tomllib
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
ABOVE = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
_LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)(?=[)#])")
_MARKUP = re.compile(r"(<pre.*?</pre>|<code.*?</code>|<[^>]*>)", flags=re.DOTALL)
_TOGETHER = re.compile(r"(?<=\d) (?=%)|(?<=[\w)]) (?=[±↑↓→])|^ (?=[±%])|(?<=±) (?=\d)")  # ^: behind bold


def on_config(config):
    """Shows at the foot of every page which version it describes."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    config.copyright = f"singularbayes {version}"
    return config


def on_files(files, config):
    """Adds the changelog and the guide for contributors as pages."""
    for name, page in ABOVE.items():
        text = re.sub(r"\]\(docs/", "](", (ROOT / name).read_text(encoding="utf-8"))
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    """Points links to files that are not on the site, such as scripts and records, to the repository."""
    folder = posixpath.dirname(page.file.src_uri)

    def moved(link: re.Match) -> str:
        path = posixpath.normpath(posixpath.join("docs", folder, link[1]))
        inside = files.get_file_from_path(posixpath.relpath(path, "docs"))
        if inside is not None and inside.inclusion.is_included():
            return link[0]
        notebook = re.fullmatch(r"examples/(\w+)\.ipynb", path)
        if path in ABOVE or (notebook and folder != "notebooks"):  # a notebook's page links to the notebook itself
            shown = ABOVE.get(path) or f"notebooks/{notebook[1]}.md"
            return f"]({posixpath.relpath(shown, folder or '.')}"
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"]({config.repo_url}/{kind}/main/{path}" if (ROOT / path).exists() else link[0]

    return _LINK.sub(moved, markdown)


def on_page_content(html, page, config, files):
    """Keeps a number and its %, ± or arrow on one line, but for code."""
    parts = _MARKUP.split(html)
    parts[::2] = [keep_together(text) for text in parts[::2]]
    return "".join(parts)


def keep_together(text: str) -> str:
    """Returns text whose lines do not break before a percent sign or an arrow, nor around ±.

    >>> keep_together("95 % of 0.1 ± 0.2")
    '95\\xa0% of 0.1\\xa0±\\xa00.2'
    """
    return _TOGETHER.sub("\N{NO-BREAK SPACE}", text)
