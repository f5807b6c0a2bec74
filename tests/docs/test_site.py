"""The documentation as a site: it builds without warnings and without the network, and works as files in a browser."""

import html
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]
NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((found for name in NAMES if (found := shutil.which(name))), "")
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr")
OFFLINE = ("--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run")
# Runs in a page once it is loaded: searches, switches to dark mode, and leaves what it finds in an attribute.
PROBE = """
<script>
addEventListener("load", async () => {
  const wait = () => new Promise((go) => setTimeout(go, 50));
  const until = async (test) => { for (let i = 0; i < 100 && !test(); i++) await wait(); };
  const found = { width: innerWidth, scroll: document.documentElement.scrollWidth };
  found.broken = [...document.images].filter((image) => !image.naturalWidth).length;
  const query = document.querySelector("[data-md-component=search-query]");
  query.value = "mixture"; query.focus();
  const again = setInterval(() => query.dispatchEvent(new KeyboardEvent("keyup", { key: "e" })), 100);
  const hits = () => document.querySelectorAll(".md-search-result__item");
  await until(() => hits().length);
  clearInterval(again);
  found.hits = hits().length;
  document.querySelector("label.md-header__button[for=__palette_1]").click();
  await until(() => document.body.dataset.mdColorScheme === "slate");
  found.scheme = document.body.dataset.mdColorScheme;
  found.tabs = document.querySelectorAll(".md-tabs__link").length;
  document.body.dataset.found = JSON.stringify(found);
});
</script>
"""


# Stands around a frame of 375 pixels: waits for the probe, goes through other pages, scrolls the first table of the
# results under its first column, and follows a link of the menu.
WIDE_PAGES = ["results/index.html", "metrics.html", "convert.html", "api/prediction.html"]
WALK = """
addEventListener("load", async () => {
  const inside = document.getElementById("inside");
  const loaded = () => new Promise((go) => inside.addEventListener("load", go, { once: true }));
  const wait = () => new Promise((go) => setTimeout(go, 50));
  for (let i = 0; i < 300 && !inside.contentDocument.body.dataset.found; i++) await wait();
  const found = JSON.parse(inside.contentDocument.body.dataset.found);
  found.beyond = {};
  for (const page of PAGES) {
    inside.src = page;
    await loaded();
    const { scrollWidth, clientWidth } = inside.contentDocument.documentElement;
    found.beyond[page] = scrollWidth - clientWidth;
    if (page === "results/index.html") {
      const box = () => inside.contentDocument.querySelector(".md-typeset__scrollwrap");
      for (let i = 0; i < 100 && !box(); i++) await wait();
      const [first, second] = box().querySelectorAll("tbody td");
      const left = (cell) => cell.getBoundingClientRect().left;
      const before = left(second);
      box().scrollLeft = 200;
      found.table = { moved: before - left(second), first: left(first), width: first.offsetWidth };
    }
  }
  inside.contentDocument.querySelector("nav.md-nav--primary a[href$='regression.html']").click();
  await loaded();
  found.arrived = inside.contentDocument.querySelector("h1").textContent;
  document.body.dataset.found = JSON.stringify(found);
});
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200)
    assert made.returncode == 0, made.stderr  # a link or an anchor that leads nowhere, a page that is not in the menu
    return folder


def test_pages_load_nothing_from_the_network_and_figures_have_alt_texts(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|img|iframe)[^>]*\ssrc="([^"]+)"', text)
        loaded += re.findall(r'<link[^>]*rel="(?:stylesheet|preload)"[^>]*href="([^"]+)"', text)
        assert [one for one in loaded if one.startswith(("http", "//"))] == [], page.name
        assert 'data-md-component="source"' not in text, page.name  # it would ask GitHub for the repository's stars
        alts = re.findall(r'<img alt="([^"]*)"', text)
        assert len(alts) == text.count("<img") and all(len(alt) > 15 for alt in alts), page.name
        assert re.search(r"singularbayes \d+\.\d+\.\d+", text), page.name  # the version that it describes


def test_every_link_of_a_page_leads_to_a_file_and_an_anchor_of_the_site(site):
    texts = {page: page.read_text(encoding="utf-8") for page in site.rglob("*.html") if page.name != "404.html"}
    anchors = {page: set(re.findall(r'\s(?:id|name)="([^"]+)"', text)) for page, text in texts.items()}
    lost = set()
    for page, text in texts.items():
        for link in set(re.findall(r'\s(?:href|src)="(?!\w+:|//)([^"]*)"', text)):
            path, _, anchor = html.unescape(link).partition("#")
            target = (page.parent / unquote(path.split("?")[0])).resolve() if path else page
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file() or (anchor and unquote(anchor) not in anchors.get(target, {unquote(anchor)})):
                lost.add(f"{page.relative_to(site)}: {link}")
    assert sorted(lost) == []


def test_links_to_files_that_are_not_on_the_site_go_to_the_repository(site):
    assert 'href="notebooks/forecast.html"' in (site / "sequences.html").read_text(encoding="utf-8")
    own = (site / "notebooks" / "forecast.html").read_text(encoding="utf-8")
    assert '/blob/main/examples/forecast.ipynb"' in own


def test_signatures_show_values_and_a_number_and_its_error_stay_on_one_line(site):
    signatures = "".join(page.read_text(encoding="utf-8") for page in (site / "api").glob("*.html"))
    shown = set(re.findall(r'>(\w+)</span><span class="o">=</span><span class="n">(_?\w+)', signatures))
    assert ("prior", "Normal") in shown and not [name for _, name in shown if name.startswith("_")]
    text = (site / "compare.html").read_text(encoding="utf-8")
    assert re.search("</strong>\\xa0±\\xa00\\.", text) and re.search("NLL\\xa0↓", text)
    assert not re.search(r"<td[^>]*>[^<]*\d ± \d", text)


def test_every_public_name_is_on_a_page_of_the_api(site):
    text = "".join(page.read_text(encoding="utf-8") for page in (site / "api").glob("*.html"))
    stub = (ROOT / "src" / "singularbayes" / "__init__.pyi").read_text(encoding="utf-8")
    names = re.findall(r"^from \.(\w+) import (\w+) as", stub, flags=re.MULTILINE)
    assert len(names) > 60
    ids = set(re.findall(r'id="singularbayes\.(\w+)\.(?:\w+\.)?(\w+)"', text))  # some share the name of their module
    assert [name for package, name in names if (package, name) not in ids] == []
    assert text.count("<blockquote>") == 0  # examples are code, not quotes
    assert len(re.findall(r'<span class="gp">&gt;&gt;&gt;', text)) > 300


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium is installed")
@pytest.mark.parametrize("width", [1280, 375])
def test_search_dark_mode_and_layout_work_in_a_browser_from_files(site, tmp_path, width):
    page = site / f"probe-{width}.html"
    page.write_text((site / "quickstart.html").read_text(encoding="utf-8").replace("</body>", f"{PROBE}</body>"))
    command = [CHROMIUM, *OPTIONS, *OFFLINE, f"--user-data-dir={tmp_path}", f"--window-size={max(width, 500)},900"]
    if width < 500:  # a window has no less than 500 pixels, a frame has
        frame = site / "frame.html"
        inside = f'<iframe src="{page.name}" style="width:{width}px;height:800px;border:0" id="inside"></iframe>'
        walk = WALK.replace("PAGES", json.dumps(WIDE_PAGES))
        frame.write_text(f"<body>{inside}<script>{walk}</script></body>")
        page, command = frame, [*command, "--allow-file-access-from-files"]
    shown = subprocess.run(
        [*command, "--virtual-time-budget=20000", "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=600,
    )
    found = re.search(r'data-found="([^"]+)"', shown.stdout)
    assert found, shown.stderr[-2000:]
    result = json.loads(html.unescape(found[1]))
    assert result["width"] <= width and result["scroll"] <= result["width"] and result["broken"] == 0
    assert result["hits"] > 3 and result["scheme"] == "slate" and result["tabs"] == 8
    if width < 500:
        assert [page for page in WIDE_PAGES if result["beyond"][page] > 0] == []  # none scrolls sideways
        assert result["table"]["moved"] == 200 and abs(result["table"]["first"]) < 1 and result["table"]["width"] < 150
        assert result["arrived"].startswith("Regression and noise")
    assert "CONSOLE" not in shown.stderr
