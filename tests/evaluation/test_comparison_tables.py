"""The same table in several formats: each shows every number, marks the best, and escapes names."""

import io
import re
import sys

import numpy as np
import pytest
from rich.console import Console
from test_compare import SCORES, run, runs

import singularbayes as sb
from singularbayes.evaluation import comparison_table

NAME = r"50% <b>A_1 & #|\co"


def table(**options):
    every = [
        run(method, seed, cost=cost, accuracy=0.9 + a + seed / 100, r2=r)
        for method, cost, a, r in ((NAME, 20802, 0.01, 0.25), ("low", 7202, 0.05, 0.5), ("c", 9, 0.0, -1.5))
        for seed in (0, 1)
    ]
    return sb.compare(every, ["num_trained", "accuracy", "r2"], reference="low", **options)


def printed(shown, width=200):
    console = Console(width=width, force_terminal=True, color_system="truecolor", file=io.StringIO())
    comparison_table.show(shown, console)
    return console.file.getvalue()


def test_all_formats_have_all_numbers():
    for text in (printed(table()), comparison_table.markdown(table()), comparison_table.html(table()), str(table())):
        plain = re.sub(r"\x1b\[[\d;]*m|<[^>]+>|\*\*", "", text)
        for number in ("20,802", "0.915 ± 0.005", "0.955 ± 0.005", "0.905 ± 0.005", "−1.50 ± 0.00"):
            assert number in plain
        assert "accuracy ↑" in plain and "trainable parameters ↓" in plain
    for text in (comparison_table.markdown(table()), comparison_table.html(table())):
        assert "−0.050 [−0.050, −0.050]" in text and "+13,600" in text


def test_a_comparison_shows_as_its_table():
    assert repr(table()) == str(table()) and len(repr(table()).splitlines()) == 2 + 3 + 1
    assert "Comparison(" not in repr(table())


def test_the_best_is_bold_in_every_format():
    assert "**0.955** ± 0.005" in comparison_table.markdown(table())
    assert "<strong>0.955</strong> ± 0.005" in comparison_table.html(table())
    assert "\x1b[1m0.955\x1b[0m" in printed(table()) and "0.955 ± 0.005*" in str(table())
    for text in (comparison_table.markdown(table()), comparison_table.html(table())):
        assert len(re.findall(r"\*\*|<strong>", text)) in (3, 6)  # one per column; ** opens and closes


def test_markdown_has_as_many_cells_in_every_row_and_no_open_bar():
    lines = [line for line in comparison_table.markdown(table()).splitlines() if line.startswith("|")]
    assert len(lines) == 2 + 3 + 2 + 2
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {5}
    assert r"50% <b>A_1 & #\|\co" in lines[2]


def test_html_escapes_names_and_heads_its_cells():
    text = comparison_table.html(table())
    assert "50% &lt;b&gt;A_1 &amp; #|\\co" in text and "<b>" not in text
    assert text.count('<th scope="row">') == 3 + 2 and text.count('<th scope="col">') == 4
    assert "<caption>" in text


def test_terminal_markup_in_a_name_is_text():
    every = [run(name, 0, accuracy=0.5) for name in ("[bold]a", "[/b]")]
    assert "[bold]a" in printed(sb.compare(every, ["accuracy"]))


@pytest.mark.parametrize("width", [50, 80, 120, 400])
def test_a_narrow_terminal_cuts_no_number_and_no_head(width):
    names = ("num_stored", "accuracy", "auroc", "nll", "brier", "ece", "aupr_err_entropy", "auroc_ood_entropy")
    rng = np.random.default_rng(1)
    every = [
        run(method, seed, **dict(zip(names, rng.uniform(0.1, 1, len(names)).tolist(), strict=True)))
        for method in ("low-rank Gaussian", "full-rank", "deep ensemble", "SWAG", "a deterministic network")
        for seed in range(3)
    ]
    shown = sb.compare(every, names)
    text = re.sub(r"\x1b\[[\d;]*m", "", printed(shown, width))
    assert "…" not in text and max(map(len, text.splitlines())) <= width
    for column in shown.columns:
        assert text.count(f"{column.measure.label} {column.measure.arrow}") >= 2  # of the methods, of the differences
        for cell in column.cells:
            assert " ".join(column.text(cell)).strip() in text
        for difference in column.differences[1:]:
            mean, interval = comparison_table.difference_text(column, difference).split(" ", 1)
            assert mean in text and interval in text
    assert (width == 400) == (text.count("low-rank Gaussian") == 1 + 4 + 1)  # methods, differences, caption


def test_the_caption_says_what_is_shown():
    two = comparison_table.caption(table())
    assert two.startswith(
        "Classification: mean ± standard error over 2 seeds. Bold: better than all others, where paired 95 % intervals "
        "exclude 0."
    )
    assert two.endswith("differences from low, paired over seeds, with their 95 % intervals.")
    alone = sb.compare(runs({"low": SCORES["low"]}), ["accuracy"])
    assert comparison_table.caption(alone) == "Classification: mean ± standard error over 5 seeds."
    assert comparison_table.markdown(alone).count("|---|") == 1 and "tbody>" in comparison_table.html(alone)


def test_seeds_that_make_no_pair_are_told():
    # The mean of a is below that of b, and yet a − b over the seeds that both have is positive.
    every = [run("b", s, nll=v) for s, v in ((0, 1.0), (1, 2.0), (2, 9.0))]
    every += [run("a", s, nll=v) for s, v in ((0, 1.25), (1, 2.5), (7, 3.0))]
    every += [run("c", 0, nll=3.0), run("d", 9, nll=4.0)]
    partly = sb.compare(every, ["nll"])
    (column,) = partly.columns
    texts = [comparison_table.difference_text(column, difference) for difference in column.differences[1:]]
    assert texts == ["+0.38 [−1.21, +1.96] (2 pairs)", "+2.00 (1 pair)", "–"]
    for text in (comparison_table.markdown(partly), comparison_table.html(partly), printed(partly)):
        assert "(2 pairs)" in text and "(1 pair)" in text
    caption = comparison_table.caption(partly)
    assert "intervals; one pair has no interval. Where not all seeds make pairs, their number is given" in caption
    single = comparison_table.caption(sb.compare([run("a", 0, nll=1.0), run("b", 0, nll=2.0)], ["nll"]))
    assert single.endswith("paired over seeds; one pair has no interval.")


def test_html_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"pip install 'singularbayes\[plots\]'"):
        comparison_table.html(table())
