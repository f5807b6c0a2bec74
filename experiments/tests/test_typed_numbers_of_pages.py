"""Decimals and percentages that are typed into README.md and docs: each is known below, and why it may stand there.

Blocks between marks, code and pages that are made as a whole are left out: scripts write them, and tests compare them
with records. A new one is found here: write the sentence from the records (between marks), or test it, and name
it below.
"""

import re
from pathlib import Path

import pytest
from pages import DEFINITION, ELSEWHERE, ROOT, SETTING

DECIMAL = re.compile(r"(?<![\w.])[−-]?(?:\d[\d,]*)?\.\d+(?![\d.]*\.\d)(?!\d)")
PERCENTAGE = re.compile(r"(?<![\w.,])\d+(?=\s%)")
GENERATED = re.compile(r"^<!-- (?!end -->).*? -->$.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^ *(```+).*?^ *\1$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
TARGET = re.compile(r"(?<=\])\([^)\s]*\)")
MADE_AS_A_WHOLE = ("docs/results/", "docs/performance.md")  # by reports and by benchmarks/page.py
VERSION, LEVEL, OTHERS, THEOREM = (
    "a version",
    "a level",
    "other people's",
    "a theorem's, or of a counterexample that is run",
)
RUN = "printed by an example that is run"
PROSE, MODES, DETECTION = (
    f"{ELSEWHERE} {name}.py" for name in ("test_prose", "test_modes_prose", "test_detection_prose")
)
DOCS, TABLES, FINETUNE = (f"{ELSEWHERE} {name}.py" for name in ("test_docs", "test_tables", "test_finetune"))
KNOWN: dict[str, dict[str, str]] = {  # page → numbers → why they may stand there
    "README.md": {
        "95%": LEVEL,
        "87% 13% 11%": DOCS,
        "15%": PROSE,
        "0.03": SETTING,
        "2.0": VERSION,
        "0.0087 0.0100": f"{ELSEWHERE} test_sharp_certificates.py",
        "0.11": PROSE,
        "11.96 3.31 0.28 0.05 1.45 1.50 1.04 0.79": DOCS,
    },
    "docs/bounds.md": {"0.75 0.8 1.75": THEOREM, "0.125": f"{ELSEWHERE} test_bounds_loss.py"},
    "docs/certificates.md": {"95%": LEVEL, "0.05 0.1": SETTING, "6.9 0.51 0.459": DEFINITION, "0.0279 0.0155": OTHERS},
    "docs/certify.md": {
        "1% 70%": SETTING,
        "13%": DEFINITION,
        "0.03 0.05": SETTING,
        "0.2265 0.2283 0.2291 0.2537 0.2550 0.2555": PROSE,
    },
    "docs/choose.md": {"95%": LEVEL, "15%": PROSE, "0.03 0.1": SETTING, "0.3 0.11": PROSE, ".982": DETECTION},
    "docs/compare.md": {"95%": LEVEL, "0.003 0.1 0.2 0.35": SETTING, "0.018": f"{ELSEWHERE} test_compare_page.py"},
    "docs/convert.md": {
        "90%": LEVEL,
        "3.15": VERSION,
        "0.1": SETTING,
        "0.3 0.03": DOCS,
        "0.0025 0.020 0.027 0.035 0.037 0.038 0.048 0.07 0.149 0.154 0.172 0.201 0.204 0.217 0.542 0.558 0.65 0.881 "
        "0.896 0.925 0.944 0.948 0.952 0.955 0.958 2.1 3.6 95.6": f"{ELSEWHERE} test_convert_page.py",
    },
    "docs/data.md": {"1.0 2.0 3.0 4.0": VERSION},
    "docs/decisions.md": {"90% 95%": LEVEL},
    "docs/deploy.md": {"0.01": SETTING},
    "docs/design.md": {"0.03 0.1 0.3": SETTING},
    "docs/elbo.md": {"0.03": SETTING},
    "docs/estimators.md": {"0.01": SETTING},
    "docs/estimators_results.md": {
        "90%": LEVEL,
        "32%": PROSE,
        ".001 .01 .015 .3 0.007": SETTING,
        "3.0 4.2": TABLES,
        "10.18 2.70 4.38 −4.83 −6.52 −5.32 −7.11 −6.97 −5.91 4.16 1.50 −6.19 0.48": PROSE,
        "−0.90 −7.58 −7.24 −7.93 2.49 2.60 2.64 2.45 4.5": PROSE,
    },
    "docs/evaluate.md": {
        "95%": LEVEL,
        "0.95": DEFINITION,
        "0.731 0.002 0.607 0.007 0.0705 0.0029 0.297 0.038 0.850 0.023 0.717 0.004 0.640 0.0849 0.0047 0.200 0.015 "
        "−0.014 −0.024 −0.005 0.033 −0.001 0.067 0.0144 −0.0158 0.0446 −0.096 −0.208": RUN,
    },
    "docs/figures.md": {"3.3": SETTING},
    "docs/finetuning.md": {
        "3.15": VERSION,
        "0.0006 0.001 0.002 0.1 0.2 .1 .2": SETTING,
        ".013 .001": FINETUNE,
    },
    "docs/finetuning_results.md": {
        "95%": LEVEL,
        "6%": SETTING,
        "0.0002 0.0006 0.002 .003 .006 .01 .03 .1 .3 .6": SETTING,
        "22.7": OTHERS,
        ".001 .356 .369 .267 .271 .287 .320 .296 .348 .693 1.85": FINETUNE,
    },
    "docs/index.md": {"95%": LEVEL, "87% 13% 11%": DOCS},
    "docs/install.md": {"3.11 3.15": VERSION},
    "docs/intensive_care.md": {
        "28% 8%": f"{ELSEWHERE} test_icu.py",
        "1.4": VERSION,
        "0.693": DEFINITION,
        "0.616 0.686 0.818 0.561 0.405 0.329": f"{ELSEWHERE} test_mortality_report.py",
    },
    "docs/language_model_results.md": {
        "95%": LEVEL,
        "0.00015": "measured once, as the page says",
        ".02 .025 .026 .03 .05 19.5": f"{ELSEWHERE} test_finetune_language.py",
    },
    "docs/metrics.md": {"99% 1% 80% 25% 75% 95% 5%": DEFINITION},
    "docs/migrate/deep_ensembles.md": {"−0.0050 −0.0095 −0.0005 −0.0165 −0.0340 0.0011 0.983 0.982": DETECTION},
    "docs/migrate/index.md": {"0.03": SETTING},
    "docs/mixture_results.md": {
        "95%": LEVEL,
        "0.03 0.1": SETTING,
        "0.386 0.392": f"{ELSEWHERE} test_modes_prose.py",
    },
    "docs/mixtures.md": {"95%": LEVEL, ".01 .03 .1": MODES},
    "docs/protocol.md": {
        "95%": LEVEL,
        "14%": PROSE,
        ".001 .002 .003 .01 .03 .1 .3": SETTING,
        "1.6 .5": PROSE,
        ".75 .69 .49 .11 .033 .022 .31": f"{ELSEWHERE} test_defaults.py",
    },
    "docs/quickstart.md": {"1.96": DEFINITION},
    "docs/ranks.md": {
        "90% 1% 5%": SETTING,
        "32%": DEFINITION,
        "0.9 0.1": DEFINITION,
        "0.0545 0.0015 0.0554 0.0494 0.0501 0.4690 0.0108 0.4607 0.4087 0.4021": DOCS,
        "0.974 0.003 0.989 0.991 0.721 0.759 0.779 0.727 0.726 0.0485 0.0488 0.396 0.402 0.0561 1.1 1.5": PROSE,
        "0.0576": "of records in the history, which the page names",
    },
    "docs/regression.md": {"95%": LEVEL, "0.71": DEFINITION, "0.91 0.99": DOCS},
    "docs/report.md": {"95%": LEVEL},
    "docs/training.md": {"0.03": SETTING},
    "docs/troubleshooting.md": {"5%": SETTING, "0.03": SETTING},
    "docs/when_not.md": {"30%": DETECTION, "0.902 0.814 0.675 0.663 0.904 0.805 0.965 0.962": DETECTION},
}


def typed(text: str) -> set[str]:
    """Returns the decimals, and the whole numbers before a "%", in what is written by hand."""
    for pattern in (GENERATED, FENCED, INLINE, TARGET):
        text = pattern.sub(" ", text)
    return {*DECIMAL.findall(text), *(f"{number}%" for number in PERCENTAGE.findall(text))}


def pages() -> dict[str, set[str]]:
    """Returns the decimals of every page that has some, by its path."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = {path.relative_to(ROOT).as_posix(): typed(path.read_text(encoding="utf-8")) for path in paths}
    return {name: numbers for name, numbers in found.items() if numbers and not name.startswith(MADE_AS_A_WHOLE)}


def known(page: str) -> set[str]:
    return set(" ".join(KNOWN.get(page, {})).split())


def test_every_decimal_and_percentage_that_is_typed_into_a_page_is_known():
    found = pages()
    new = {page: sorted(numbers - known(page)) for page, numbers in found.items() if numbers - known(page)}
    assert not new, (
        f"Not known: {new}. A result is written from its records (between marks, by a script) or compared with them in "
        "a test; then name it in KNOWN, with the reason. Settings and definitions are named there too."
    )
    gone = {
        page: sorted(known(page) - found.get(page, set())) for page in KNOWN if known(page) - found.get(page, set())
    }
    assert not gone, f"No longer on the page, so take it out of KNOWN: {gone}"


def test_a_test_that_is_named_speaks_of_the_page():
    files = {
        path.name: path for folder in ("tests", "experiments/tests") for path in (ROOT / folder).rglob("test_*.py")
    }
    named = {
        (page, why.removeprefix(ELSEWHERE).strip())
        for page, own in KNOWN.items()
        for why in own.values()
        if why.startswith(ELSEWHERE)
    }
    assert len(named) > 20
    texts = {name: files[name].read_text(encoding="utf-8") for _, name in named}
    assert [(page, name) for page, name in sorted(named) if Path(page).stem not in texts[name]] == []


@pytest.mark.parametrize(
    ("text", "decimals"),
    [
        ("an NLL of 0.123, −.45 and +1,234.5", {"0.123", "−.45", "1,234.5"}),
        ("Keras 3.15.1, `x = 0.1`, ``0.2``, [page](a_0.3.md) and 4 %.", {"4%"}),
        ("<!-- tables -->\n| 0.1 |\n<!-- end -->\nand .2\n<!-- more -->\n.3\n<!-- end -->", {".2"}),
        ("```python\nx = 0.1\n```\n.4\n```\n0.2\n```", {".4"}),
        ("from 0.91–0.99. At .5, N(0, .3²)", {"0.91", "0.99", ".5", ".3"}),
    ],
)
def test_numbers_are_those_outside_marks_and_code(text, decimals):
    assert typed(text) == decimals
