"""Hooks of the site: its version, pages from above docs/, and links to files that are no pages go to the repository."""

import re
import tomllib
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
ABOVE = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}


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
    """Turns relative links that leave docs/ into links to the repository."""
    depth = page.file.src_uri.count("/")

    def moved(link: re.Match) -> str:
        above = ABOVE.get(link[1])
        return f"]({'../' * depth}{above})" if above else f"]({config.repo_url}/blob/main/{link[1]})"

    return re.sub(rf"\]\((?:\.\./){{{depth + 1}}}([^)]+)\)", moved, markdown)
