"""The demo's page: it needs nothing outside itself, tells every story, and is written whole or not at all."""

import json
import re
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path

import pytest
from made_up_stories import made_up_story

from singularbayes import compare
from singularbayes.demo import page
from singularbayes.evaluation import Evaluation

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((found for name in NAMES if (found := shutil.which(name))), "")


@pytest.fixture(scope="module")
def html():
    stories = [made_up_story("regression"), made_up_story("digits")]
    return page.render(stories, "singularbayes demo --seed 0 --out 'a & b'", quick=False)


def test_the_page_needs_nothing_outside_itself(html):
    assert re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?(?!#|data:)[^"')\s>]+""", html) == []
    assert "<script" not in html and "@import" not in html and "<link" not in html
    assert html.startswith("<!DOCTYPE html>") and 'name="viewport"' in html and "prefers-color-scheme: dark" in html


def test_a_story_opens_with_its_sentence_and_figure_and_what_it_loses_and_folds_the_rest(html):
    sections = re.findall(r'<section id="(regression|digits)">(.*?)</section>', html, re.DOTALL)
    assert [name for name, _ in sections] == ["regression", "digits"]
    for name, section in sections:
        shown, folded = section.split("<details>")
        assert f"What {name} shows." in shown
        assert re.search(r'role="img" aria-label="Two bands [^"]+"><div class="wide-figure"><svg ', shown)
        assert shown.count("<svg ") == 2 and '<div class="narrow"><svg ' in shown  # for wide and for narrow windows
        assert "Where mixture loses: parameters 7,202 (deterministic 802)." in shown
        assert "Points &amp; a network." in folded and "All settings are defaults." in folded
        assert "<td>7,202</td><td>0.100</td>" in folded
        assert "<dt>epochs</dt><dd>800</dd>" in folded


def test_figures_have_the_colours_of_the_page_and_no_background(html):
    figures = "".join(re.findall(r"<svg .*?</svg>", html, re.DOTALL))
    assert {"var(--ink)", "var(--blue)", "var(--vermilion)"} <= set(re.findall(r"var\(--\w+\)", figures))
    assert set(re.findall(r"#[0-9a-f]{6}", figures)) <= {"#000000", "#ffffff"}
    assert "fill: #ffffff" not in figures
    for name in set(re.findall(r"var\(--(\w+)\)", figures)):
        assert html.count(f"--{name}: #") == 2, name  # in light and in dark


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


@pytest.mark.parametrize(
    ("theirs", "sentence"),
    [
        ({"nll": 0.3, "accuracy": 0.8}, "No other method beats a in any column."),
        ({"nll": 0.2, "accuracy": 0.9}, "No other method beats a in any column."),  # a tie is no loss
        ({"nll": 0.1, "accuracy": 0.8}, "Where a loses: NLL 0.200 (b 0.100)."),
        ({"nll": 0.1, "accuracy": 0.95}, "Where a loses: accuracy 0.900 (b 0.950), NLL 0.200 (b 0.100)."),
    ],
)
def test_what_a_method_loses_is_named_with_both_numbers(theirs, sentence):
    runs = [Evaluation(m, "classification", 0, v) for m, v in (("a", {"nll": 0.2, "accuracy": 0.9}), ("b", theirs))]
    assert page.losses(compare(runs, ["accuracy", "nll"]), "a") == sentence


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [(0.12, 0.06, "fall from 0.12 to 0.06"), (0.06, 0.12, "rise from 0.06 to 0.12"), (0.12, 0.121, "stay at 0.12")],
)
def test_a_change_is_called_what_the_shown_numbers_do(before, after, sentence):
    assert page.changed(before, after, ".2f") == sentence


# Leaves on the document what a window of this width shows.
PROBE = """
<script>
addEventListener("load", () => {
  const box = (svg) => svg.getBoundingClientRect();
  const shown = [...document.querySelectorAll(".figure svg")].filter((svg) => box(svg).width > 100);
  const found = {width: innerWidth, scroll: document.documentElement.scrollWidth, shown: shown.length};
  found.paper = getComputedStyle(document.body).backgroundColor;
  found.cut = shown.filter((svg) => box(svg).right > innerWidth).length;
  top.document.body.dataset.found = JSON.stringify(found);
});
</script>
"""


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium is installed")
@pytest.mark.parametrize(("width", "scheme", "paper"), [(375, 0, "rgb(22, 24, 27)"), (1280, 1, "rgb(255, 255, 255)")])
def test_a_browser_shows_one_figure_per_story_inside_the_window_in_dark_and_light(html, width, scheme, paper, tmp_path):
    inside = escape(html.replace("</body>", f"{PROBE}</body>"), quote=True)  # a window is never as narrow as a frame
    frame = f'<!DOCTYPE html><body style="margin:0"><iframe srcdoc="{inside}" width="{width}" height="900"></iframe>'
    (tmp_path / "frame.html").write_text(frame, encoding="utf-8")
    options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr")
    command = [CHROMIUM, *options, f"--blink-settings=preferredColorScheme={scheme}", "--virtual-time-budget=5000"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", (tmp_path / "frame.html").as_uri()]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600)
    found = json.loads(unescape(re.search(r'data-found="([^"]*)"', ended.stdout)[1]))
    assert "CONSOLE" not in ended.stderr
    assert found.pop("scroll") <= width
    assert found == {"width": width, "shown": 2, "paper": paper, "cut": 0}
