"""The page in a real browser, wide and narrow: no error on the console, every figure drawn, heads that sort."""

import html
import json
import re
import shutil
import subprocess

import pytest
from made_up import all_records, image_records, kl_record
from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report import chapters, page
from singularbayes_experiments.report.sections import SECTIONS
from singularbayes_experiments.report.tables import COSTS

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((found for name in NAMES if (found := shutil.which(name))), "")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium is installed")

OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr")
# Runs inside the page when it is loaded, and leaves what it finds on the document around.
PROBE = """
<script>
addEventListener("load", () => {
  const table = document.querySelector("th[aria-sort]").closest("table"), heads = [...table.tHead.rows[0].cells];
  const sorted = heads.find((cell) => cell.ariaSort), place = sorted.cellIndex;
  const values = () => [...table.tBodies[0].rows].map((row) => Number.parseFloat(row.cells[place].dataset.value));
  const names = () => [...table.tBodies[0].rows].map((row) => row.cells[0].textContent);
  const found = { names: [names()], values: [values()], first: sorted.dataset.first };
  sorted.querySelector("button").click();
  found.values.push(values());
  heads[0].querySelector("button").click();
  found.names.push(names());
  const sized = (element) => { const box = element.getBoundingClientRect(); return box.width > 20 && box.height > 20; };
  const figures = [...document.querySelectorAll(".panel")].map((panel) => panel.querySelector("svg"));
  found.figures = figures.length;
  found.drawn = figures.filter((svg) => svg && sized(svg) && svg.getBBox().width > 20).length;
  found.broken = [...document.images].filter((image) => !image.naturalWidth).length;
  found.width = innerWidth;
  found.scroll = document.documentElement.scrollWidth;
  found.cut = [...document.querySelectorAll(".wide")].filter((box) => box.scrollWidth > box.clientWidth).length;
  found.text = Math.max(...[...document.querySelectorAll("p")].map((text) => text.clientWidth));
  top.document.body.dataset.found = JSON.stringify(found);
});
</script>
"""


@pytest.fixture(scope="module")
def report():
    """A page with every section but one, of made-up records."""
    few = image_records(seeds=(0, 1), methods=("low_rank", "low_rank_50", "deterministic"))
    records = [*all_records(), *few, *(kl_record(beta) for beta in (0.1, 1.0, 10.0))]
    return page.render(chapters.make_chapters([*records, *reviews()]), page.results("singularbayes-experiments report"))


def reviews():
    """Runs of SST-2, whose tables have ten columns and the paper's numbers with their ±."""
    names = [measure.name for table in SECTIONS["sst2"].tables for measure in table.measures]
    metrics = {name: 0.5 for name in names if name not in COSTS}
    return [
        Record("sst2", method, seed, {"epochs": 20}, metrics, 49_612_810, 60.0, stored=49_612_810, preset="paper")
        for method in ("low_rank", "deep_ensemble")
        for seed in (0, 1)
    ]


def load(text, width, folder):
    """Returns what the probe found, and what came on the console."""
    # A window is never as narrow as a phone, a frame is.
    inside = html.escape(text.replace("</body>", f"{PROBE}</body>"), quote=True)
    frame = f'<!DOCTYPE html><body style="margin:0"><iframe srcdoc="{inside}" width="{width}" height="900"></iframe>'
    (folder / "frame.html").write_text(frame, encoding="utf-8")
    command = [CHROMIUM, *OPTIONS, f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=5000", "--dump-dom"]
    ended = subprocess.run([*command, (folder / "frame.html").as_uri()], capture_output=True, text=True, timeout=600)
    found = re.search(r'data-found="([^"]*)"', ended.stdout)
    said = [line for line in ended.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(html.unescape(found[1])) if found else None, said


@pytest.mark.parametrize("width", [375, 1280])
def test_every_figure_is_drawn_and_nothing_is_wider_than_the_window(report, width, tmp_path):
    found, said = load(report, width, tmp_path)
    assert said == []
    assert found["figures"] == report.count('<div class="panel"') > 15
    assert found["drawn"] == found["figures"] and found["broken"] == 0
    assert found["width"] == width and found["scroll"] <= width
    assert (found["cut"] > 0) == (width < 1000)  # a phone scrolls wide tables; a window holds them
    assert found["text"] <= 52 * 16  # and its lines of text stay short
    # The table comes sorted, best first; a click turns it round, one on the names sorts by their first order.
    first, turned = found["values"]
    assert first == sorted(first, reverse=found["first"] == "descending") and turned == first[::-1]
    assert found["names"][0] == found["names"][1]


def test_an_error_would_be_seen(report, tmp_path):
    _, said = load(report.replace("<script>", "<script>undefined.fault;", 1), 800, tmp_path)
    assert any("TypeError" in line for line in said)
