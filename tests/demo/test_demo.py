"""The demo: its data and networks, its stories at a small size, and a page that needs nothing outside itself."""

import re

import keras
import numpy as np
import pytest
from demo import STORIES, Trainer, conversion, digits, page, regression
from demo.__main__ import main
from posterior_table import TORCH_FIRST

import singularbayes as sb
from singularbayes.models import count_stored

TINY = {"epochs": 1, "units": 8, "members": 2, "draws": 10}
SETTINGS = {
    regression: regression.Settings(**TINY, points=64, test_points=64, rank=2, components=2),
    digits: digits.Settings(**TINY, images=128),
    conversion: conversion.Settings(**TINY, images=128, rank=2, further_epochs=1),
}
# Where programs are compiled, the first: the others are made of the same parts.
TRAINED = STORIES if keras.backend.backend() == "torch" else STORIES[:1]


def test_the_regression_function_is_the_papers(vectors):
    case = vectors["toy_regression_function"]
    y = regression.target(np.array(case["inputs"]["x"]), np.array(case["inputs"]["eps"]))
    np.testing.assert_allclose(y, case["expected"]["y"], rtol=1e-12)


def test_points_away_are_outside_the_training_range_on_both_sides():
    x, y = regression.sample(500, 0.0, np.random.default_rng(0), away=True)
    left, right = x < -0.1, x > 0.6
    assert (left | right).all() and x.min() > -0.5 and x.max() < 1.1
    assert left.mean() == pytest.approx(0.4 / 0.9, abs=0.06)  # uniform
    np.testing.assert_allclose(y, regression.target(x, np.zeros_like(x)), rtol=1e-6)


def test_the_anchored_network_has_the_parameters_of_its_shapes():
    settings = regression.Settings()
    # A mean and a scale of every entry of the factors; two vectors and the biases have rank 1.
    one = 2 * (16 * (64 + 64) + 4 * (64 + 1) + (1 + 1))
    assert count_stored(regression.anchored_mixture(settings)) == settings.components * one


def test_digits_are_split_without_overlap_and_the_unseen_ones_are_nowhere_else():
    clean, noisy = (digits.noisy_data(digits.Settings(pixel_noise=std), seed=0) for std in (0.0, 0.35))
    (x, y), (x_test, y_test) = clean.train, clean.test
    assert (len(y), len(y_test), len(clean.unseen)) == (865, 578, 354)
    assert set(y) == set(y_test) == set(range(8))
    images = np.concatenate([x, x_test, clean.unseen])
    assert len(np.unique(images, axis=0)) == len(images) == 1797
    added = np.concatenate([noisy.train[0], noisy.test[0], noisy.unseen]) - images
    assert abs(added.std() - 0.35) < 4 * 0.35 / np.sqrt(2 * added.size)
    assert (noisy.train[1] == y).all() and noisy.train[0].dtype == np.float32


def test_quick_settings_differ_in_the_length_of_training_alone():
    for story in STORIES:
        full, quick = vars(story.Settings()), vars(story.QUICK)
        assert {name for name in full if full[name] != quick[name]} <= {"epochs", "further_epochs"}
        assert quick["epochs"] < full["epochs"]


@pytest.fixture(scope="module")
def stories():
    return [story.run(Trainer((3, 4)), SETTINGS[story]) for story in TRAINED]


@TORCH_FIRST
def test_a_story_has_a_row_for_each_method_with_all_seeds_and_its_numbers_in_its_sentence(stories):
    for module, story in zip(TRAINED, stories, strict=True):
        assert story.table.methods == module.METHODS
        assert {cell.seeds for column in story.table.columns for cell in column.cells} == {2}
    away = page.rows_of(stories[0].table)["anchored mixture"]["picp_95_away"]
    assert f"{page.percent(away)} with the anchored mixture." in stories[0].sentence
    sizes = {method: row["num_stored"] for method, row in page.rows_of(stories[0].table).items()}
    assert sizes["deep ensemble"] == 2 * sizes["deterministic"]  # which is one of its members


@TORCH_FIRST
def test_the_page_needs_nothing_outside_itself_and_has_every_story(stories):
    html = page.render(stories, seed=4, quick=True)
    assert re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?(?!#|data:)[^"')\s>]+""", html) == []
    assert "<script" not in html and "@import" not in html and "<link" not in html
    assert re.findall(r'<section id="(\w+)">', html) == [story.name for story in stories]
    assert html.count("<svg ") == len(stories) and "Made with --quick" in html and "--seed 4 --quick" in html
    ids = re.findall(r'\sid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', html)) <= set(ids)
    assert "Made with" not in page.render(stories[:1], seed=4, quick=False)


def test_the_command_runs_every_story_with_three_seeds_and_leaves_the_page(tmp_path, monkeypatch, capsys):
    given = []

    def run(trainer, settings):
        given.append((trainer.seeds, settings))
        scores = [sb.evaluation.Evaluation(m, "regression", 0, {"rmse": rmse}) for m, rmse in (("a", 0.1), ("b", 0.2))]
        drawn = sb.plots.reliability({"a": sb.metrics.reliability_curve(np.eye(2), np.array([0, 1]), bins=1)})
        name = f"story{len(given)}"
        return page.Story(name, name, f"What {name} shows.", "", drawn, sb.compare(scores, ["rmse"]), (), settings)

    for story in STORIES:
        monkeypatch.setattr(story, "run", run)
    main(["--out", str(tmp_path / "new"), "--seed", "4"])
    assert given == [((4, 5, 6), story.Settings()) for story in STORIES]
    assert "What story3 shows." in capsys.readouterr().out
    assert "What story3 shows." in (tmp_path / "new" / "report.html").read_text(encoding="utf-8")
