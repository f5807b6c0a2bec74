"""Numbers that are typed into the sentences of the report: each is a setting, the paper's, or tested against records.

All other numbers of the pages are made from records. A new one is found here: write the sentence from the records, or
test it and name it below.
"""

import ast
import json
import re
from pathlib import Path

import numpy as np
from pages import DEFINITION, ELSEWHERE, PAPER, RESULTS, SETTING
from singularbayes_experiments import report
from singularbayes_experiments.report.sections import beijing, sst2

REPORT = Path(report.__file__).parent
DECIMAL = re.compile(r"(?<![\w.])[−-]?\d[\d,]*\.\d+")
# The paper's and other people's numbers, which `test_published.py` checks, and the words of its formats.
LEFT_OUT = ("published", "literature.py")
HERE = "tested below"
KNOWN = {
    "finetune_settings.py": {"0.2 0.1 0.6 0.3": SETTING},
    "modes_figure.py": {"0.003": SETTING},
    "names.py": {"0.1 0.6 0.5 1.5": DEFINITION},
    "remarks.py": {"2.01 0.790": PAPER},
    "sections/adaptive_rank.py": {"0.0576": "of records in the history, which docs/ranks.md names"},
    "sections/beijing.py": {
        "0.5 0.95 0.05": DEFINITION,
        "0.762 0.445": HERE,
        "0.31 0.79 0.973": PAPER,
    },
    "sections/mortality_columns.py": {"0.32 0.55": SETTING},
    "sections/icu.py": {
        "0.5": SETTING,
        "0.686 0.693 41.5 0.639 0.404 0.329 0.405 0.561 70.8 47.6 0.818 0.616 0.590 0.445 0.322 0.376 0.563 0.684 70.9 "
        "53.6 0.826 0.796 0.585 0.545": f"{ELSEWHERE} test_mortality_report.py",
    },
    "sections/mnist.py": {"0.1": SETTING},
    "sections/sst2.py": {"0.03 0.003 0.001 0.064 −0.2 0.2": SETTING, "0.013 0.103": HERE},
    "sections/toy.py": {"0.3 −0.1 0.6 −0.25 0.85 0.5 1.5 0.1 0.02": DEFINITION},
    "sections/uci.py": {"18.4 16.2 26.4 0.9 3.3 7.8 4.7": f"{ELSEWHERE} test_value_report.py"},
}


def typed(path: Path) -> set[str]:
    """Returns the decimals in the sentences of a module, docstrings apart."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and isinstance(node.body[0], ast.Expr)
    }
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return {
        found for text in texts if id(text) not in docs and " " in text.value for found in DECIMAL.findall(text.value)
    }


def test_every_decimal_that_is_typed_into_a_sentence_is_known():
    found = {}
    for path in sorted(REPORT.rglob("*.py")):
        name = path.relative_to(REPORT).as_posix()
        if not name.startswith(LEFT_OUT) and (numbers := typed(path)):
            found[name] = numbers
    assert found == {name: set(" ".join(known).split()) for name, known in KNOWN.items()}


def test_chance_levels_are_those_of_the_numbers_of_examples():
    with np.load(next(RESULTS.glob("beijing-low_rank-42-*.npz"))) as arrays:
        windows, city = len(arrays["test_std"]), len(arrays["guangzhou_std"])
    notes = {columns.title: columns.note for columns in (beijing._OOD, beijing._BARE)}
    all_windows, every_fourth = (notes[title] for title in ("Out-of-distribution cities", beijing._BARE.title))
    assert f"an AUPR of {city / (city + windows):.3f}, which is Guangzhou's share" in all_windows
    fourth = -(-city // 4)
    assert f"{fourth / (fourth + windows):.3f}" in every_fourth
    reviews, news = (int(number.replace(",", "")) for number in ("872", "7,600"))
    assert f"AUPR-In is {reviews / (reviews + news):.3f}" in sst2.OVERVIEW.note


def test_the_standard_error_of_an_accuracy_is_that_of_the_sentences():
    lines = (RESULTS / "sst2.jsonl").read_text(encoding="utf-8").splitlines()
    shares = [json.loads(line)["metrics"]["accuracy"] for line in lines]
    p = np.median(shares)
    assert f"one standard error of an accuracy is {np.sqrt(p * (1 - p) / 872):.3f}" in sst2.OVERVIEW.note
