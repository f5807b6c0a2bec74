"""The page: true sentences whatever the numbers, everything in one file, the same page for the same records."""

import re

import pytest
from made_up import RATIOS, all_records, digits_record, toy_record

from singularbayes.experiments import record, toy
from singularbayes.report import figures, page, sentences, tables


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        (1.8, "the low-rank band widens to 1.80 times its width inside"),
        (0.6, "the low-rank band narrows to 0.60 times its width inside"),
        (1.02, "the low-rank band is as wide as inside (1.02 times)"),
    ],
)
def test_the_toy_sentence_says_what_the_band_does(ratio, expected):
    assert expected in sentences.toy([toy_record("low_rank", ratio), toy_record("full_rank")])


def test_the_toy_sentence_counts_parameters_both_ways():
    records = [toy_record("low_rank", parameters=25), toy_record("full_rank", parameters=100)]
    assert "25 parameters against 100, 75 % fewer" in sentences.toy(records)
    records = [toy_record("low_rank", parameters=150), toy_record("full_rank", parameters=100)]
    assert "150 parameters against 100, 50 % more" in sentences.toy(records)
    assert "against" not in sentences.toy(records[:1])


def test_the_digit_sentence_names_the_best_whoever_it_is():
    records = [digits_record(method) for method in ("low_rank", "full_rank", "deterministic")]
    said = sentences.digits(records)
    assert "held-out 8 or 9" in said and "93.0 % of cases for the low-rank network (by mutual information)" in said
    assert "91.0 % of cases for the deterministic network (by entropy)" in said
    assert said.endswith("the full-rank network does best.")
    records[2] = digits_record("deterministic", 0.99)
    assert sentences.digits(records).endswith("the deterministic network does best.")


def test_the_digit_sentence_admits_that_nothing_was_found():
    records = [digits_record(method, 0.4) for method in ("low_rank", "deterministic")]
    assert sentences.digits(records).endswith("no better than a coin for any of them.")


def test_the_page_needs_nothing_outside_itself():
    html = page.render(all_records(), "singularbayes demo --seed 0")
    outside = re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?(?!#|data:)[^"')\s>]+""", html)
    assert outside == []
    assert "<script" not in html and "@import" not in html and "<link" not in html
    assert html.count("<svg ") >= 5 and html.lstrip().startswith("<!DOCTYPE html>")


def test_every_picture_has_words():
    html = page.render(all_records(), "singularbayes demo --seed 0")
    assert all('alt="A handwritten' in tag for tag in re.findall(r"<img[^>]*>", html))
    assert len(re.findall(r'<div class="panel" role="img" aria-label="[^"]{20,}"', html)) == 5


def test_ids_inside_the_pictures_are_used_once():
    html = page.render(all_records(), "singularbayes demo --seed 0")
    ids = re.findall(r'\sid="([^"]+)"', html)
    assert len(ids) == len(set(ids))


def test_the_page_shows_the_sentences_the_tables_and_how_it_was_made():
    records = all_records()
    html = page.render(records, "singularbayes demo --seed 0 --out 'a & b'")
    assert sentences.toy(records[:2]) in html and sentences.digits(records[2:]) in html
    assert "7,202" in html and "20,802" in html and records[0].versions["keras"] in html
    assert "a &amp; b" in html
    assert "has all the settings that the paper gives" in html


def test_the_page_says_what_differs_from_the_paper():
    records = [toy_record(method, settings=toy.QUICK) for method in RATIOS] + all_records()[2:]
    html = page.render(records, "singularbayes demo --quick")
    assert '<th scope="row">epochs</th><td>200</td><td>800</td>' in html


def test_the_same_records_give_the_same_page(tmp_path):
    record.write(all_records(), tmp_path)
    first = page.write(tmp_path, "singularbayes demo").read_bytes()
    assert page.write(tmp_path, "singularbayes demo").read_bytes() == first


def test_a_page_without_an_experiment_is_refused():
    with pytest.raises(ValueError, match=r"needs records of 'digits'; got \['toy'\]"):
        page.render(all_records()[:2], "singularbayes demo")


def test_the_table_has_no_mutual_information_for_one_function():
    table = tables.digits([digits_record("deterministic")])
    assert table.rows[0][table.columns.index("AUROC (MI)")] == "–"
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert len(tables.toy([toy_record()]).rows[0]) == len(tables.toy([toy_record()]).columns)


def test_thumbnails_are_the_most_and_the_least_uncertain_images():
    made = digits_record()
    most, least = figures.thumbnails(made, number=3)
    ordered = sorted(made.arrays["mi_foreign"])
    assert [t.uncertainty for t in most] == ordered[:-4:-1] and [t.uncertainty for t in least] == ordered[:3]
