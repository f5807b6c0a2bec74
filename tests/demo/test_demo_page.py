"""The demo's page: it needs nothing outside itself, has both stories, and is written whole or not at all."""

import re
from pathlib import Path

import pytest
from made_up_stories import made_up_story

from singularbayes.demo import page


@pytest.fixture(scope="module")
def html():
    stories = [made_up_story("regression"), made_up_story("digits")]
    return page.render(stories, "singularbayes demo --seed 0 --out 'a & b'", quick=False)


def test_the_page_needs_nothing_outside_itself(html):
    assert re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?(?!#|data:)[^"')\s>]+""", html) == []
    assert "<script" not in html and "@import" not in html and "<link" not in html
    assert html.startswith("<!DOCTYPE html>") and 'name="viewport"' in html and "prefers-color-scheme: dark" in html


def test_every_story_has_a_sentence_a_figure_with_words_and_a_table(html):
    sections = re.findall(r'<section id="(regression|digits)">(.*?)</section>', html, re.DOTALL)
    assert [name for name, _ in sections] == ["regression", "digits"]
    for name, section in sections:
        assert f"What {name} shows." in section and "Points &amp; a network." in section
        assert re.search(r'role="img" aria-label="Two bands [^"]+"><svg ', section) and section.count("<svg ") == 1
        assert "<td><strong>7,202</strong></td><td><strong>0.100</strong></td>" in section
        assert "<details>" in section and "<dt>epochs</dt><dd>800</dd>" in section


def test_ids_are_used_once_and_figures_refer_to_their_own(html):
    ids = re.findall(r'\sid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', html)) <= set(ids)


def test_the_page_ends_with_its_command_and_versions_and_tells_of_quick(html):
    end = html[html.index('id="made"') :]
    assert "singularbayes demo --seed 0 --out &#39;a &amp; b&#39;" in end
    assert all(f"{name} {version}" in end for name, version in page.versions().items())
    assert "--quick" not in html and "--quick" in page.render([made_up_story()], "x", quick=True)


def test_the_same_story_gives_the_same_page():
    assert page.render([made_up_story()], "x", False) == page.render([made_up_story()], "x", False)


def test_a_write_that_fails_leaves_the_old_page_and_nothing_else(tmp_path, monkeypatch):
    path = page.write([made_up_story()], tmp_path, "old", quick=False)
    old = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        page.write([made_up_story()], tmp_path, "new", quick=False)
    assert path.read_bytes() == old and list(tmp_path.iterdir()) == [path]
