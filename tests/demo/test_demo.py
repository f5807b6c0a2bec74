"""The demo's data and networks, its sentences for wins and losses, and its stories at a small size."""

import io

import keras
import numpy as np
import pytest
from posterior_table import ON_TORCH, TORCH_FIRST
from rich.console import Console

import singularbayes as sb
from singularbayes import demo
from singularbayes.demo import conversion, digits, noisy_digits, regression
from singularbayes.demo.training import Trainer, Training
from singularbayes.evaluation import Evaluation
from singularbayes.models import count_stored

TINY = {"epochs": 1, "units": 8, "members": 2, "draws": 10}
TINY_REGRESSION = regression.Settings(**TINY, points=64, test_points=64, rank=2, components=2)
TINY_DIGITS = digits.Settings(**TINY, images=128)
TINY_CONVERSION = conversion.Settings(**TINY, images=128, rank=2, further_epochs=1)
SPACE = "\N{NO-BREAK SPACE}"


def test_the_regression_function_is_the_papers(vectors):
    case = vectors["toy_regression_function"]
    y = regression.target(np.array(case["inputs"]["x"]), np.array(case["inputs"]["eps"]))
    np.testing.assert_allclose(y, case["expected"]["y"], rtol=1e-12)


def test_points_away_are_outside_the_training_range_on_both_sides():
    x, y = regression.sample_away(500, 0.0, np.random.default_rng(0))
    left, right = x < -0.1, x > 0.6
    assert (left | right).all() and x.min() > -0.5 and x.max() < 1.1
    assert left.mean() == pytest.approx(0.4 / 0.9, abs=0.06)  # uniform
    np.testing.assert_allclose(y, regression.target(x, np.zeros_like(x)), rtol=1e-6)


def test_the_anchored_network_has_the_parameters_of_its_shapes():
    settings = regression.Settings()
    # A mean and a scale of every entry of the factors; two vectors and the biases have rank 1.
    one = 2 * (16 * (64 + 64) + 4 * (64 + 1) + (1 + 1))
    assert count_stored(regression.anchored_mixture(settings)) == settings.components * one


def test_digits_are_split_without_overlap_and_the_held_out_ones_are_nowhere_else():
    data = noisy_digits.load((8, 9), seed=0)
    parts = [data.train, data.validation, data.test]
    assert [len(y) for _, y in parts] == [865, 289, 289] and len(data.ood[1]) == 354
    assert data.classes == tuple(range(8)) and set(data.ood[1]) == {8, 9}
    assert sum(len(y) for _, y in parts) + len(data.ood[1]) == 1797
    assert all(set(y) == set(range(8)) for _, y in parts)


def test_noise_is_added_to_every_part_and_labels_stay():
    clean = noisy_digits.load((8, 9), seed=0)
    data = noisy_digits.add_noise(clean, 0.35, seed=0)
    for part in ("train", "validation", "test", "ood"):
        (x, y), (before, labels) = getattr(data, part), getattr(clean, part)
        assert x.dtype == np.float32 and (y == labels).all()
        assert abs((x - before).std() - 0.35) < 4 * 0.35 / np.sqrt(2 * x.size)


def test_images_that_do_not_train_are_test_images():
    (whole,) = digits.noisy_data(digits.Settings(images=865), [3])
    (few,) = digits.noisy_data(digits.Settings(images=400), [3])
    assert len(whole.test[0]) == 289 + 289  # the validation images too, for nothing is chosen
    assert len(few.train[0]) == 400 and len(few.test[0]) == len(few.test[1]) == 578 + 465
    for part in (0, 1):
        np.testing.assert_array_equal(few.train[part], whole.train[part][:400])
        np.testing.assert_array_equal(few.test[part][:578], whole.test[part])
        np.testing.assert_array_equal(few.test[part][578:], whole.train[part][400:])


def test_held_out_digits_in_the_middle_leave_labels_without_gaps():
    data = noisy_digits.load((2, 5), seed=0)
    assert data.classes == (0, 1, 3, 4, 6, 7, 8, 9)
    assert set(data.train[1]) == set(range(8)) and set(data.ood[1]) == {2, 5}


def test_a_cosine_ends_at_zero_after_the_last_step():
    model = keras.Sequential([keras.Input((1,)), sb.layers.Dense(1, posterior=sb.Deterministic())])
    Training(epochs=2, batch_size=256, learning_rate=0.01).compiled(model, "mse", num_data=300)
    model.optimizer.iterations.assign(2 * 2)  # two epochs of two batches of 256
    assert float(model.optimizer.learning_rate) == pytest.approx(0, abs=1e-8)


def table(columns, rows, task="classification"):
    """A comparison of two seeds whose means are the given numbers."""
    names = [column if isinstance(column, str) else column.name for column in columns]
    runs = []
    for method, values in rows.items():
        for seed, shift in ((0, -0.01), (1, 0.01)):
            found = {name: value + shift for name, value in zip(names, values, strict=True)}
            size = round(found.pop("num_stored") - shift)
            runs.append(Evaluation(method, task, seed, found, num_stored=size))
    return sb.compare(runs, columns)


@pytest.mark.parametrize(
    ("covered", "end"),
    [
        (0.93, f"; the anchored mixture's opens there and contains 93{SPACE}%."),
        (0.22, f"; the anchored mixture's contains 22{SPACE}%, which is no better than the deep ensemble."),
        (0.10, f"; the anchored mixture's contains 10{SPACE}%, which is no better than the deep ensemble."),
    ],
)
def test_the_sentence_of_the_regression_says_whether_the_interval_opens(covered, end):
    away = dict(zip(regression.METHODS, (covered, 0.3, 0.25, 0.22), strict=True))
    rows = {method: (100, 0.1, 0.1, 0.9, 0.1, share) for method, share in away.items()}
    start = (
        f"Away from the data a 95{SPACE}% interval contains 22{SPACE}% of new points with a deterministic network and "
        f"25{SPACE}% with a deep ensemble"
    )
    assert regression.summary(table(regression.COLUMNS, rows, "regression")) == start + end


@pytest.mark.parametrize(
    ("kept", "change"),
    [(0.03, f"fall from 6.8{SPACE}% to 3.0"), (0.08, f"rise from 6.8{SPACE}% to 8.0"), (0.068, "stay at 6.8")],
)
def test_the_sentence_of_the_digits_has_the_numbers_of_the_table(kept, change):
    rows = {
        "mixture": (10, 0.068, kept, 0.2, 0.03, 0.36, 0.86),
        "deep ensemble": (50, 0.065, 0.028, 0.2, 0.03, 0.52, 0.844),
        "deterministic": (10, 0.075, 0.03, 0.2, 0.03, 0.61, 0.837),
    }
    assert digits.summary(table(digits.COLUMNS, rows)) == (
        f"A deterministic network is more than 90{SPACE}% sure of 61{SPACE}% of the digits that it never saw, a deep "
        f"ensemble of 52{SPACE}%, the mixture of 36{SPACE}%. Refuse the least certain 10{SPACE}%, and the mixture's "
        f"errors {change}{SPACE}% (deep ensemble 6.5 to 2.8, deterministic 7.5 to 3.0)."
    )


@pytest.mark.parametrize(
    ("ece", "accuracy", "end"),
    [
        (
            0.03,
            0.88,
            f"calibration errors fall from 0.060 to 0.030 and classification errors fall from 14.0{SPACE}% to ",
        ),
        (
            0.08,
            0.88,
            f"calibration errors rise from 0.060 to 0.080 and classification errors fall from 14.0{SPACE}% to ",
        ),
    ],
)
def test_the_sentence_of_the_conversion_says_what_became_better_and_worse(ece, accuracy, end):
    rows = {
        "converted": (370, accuracy, 0.3, ece, 0.8),
        "trained": (1000, 0.86, 0.5, 0.06, 0.8),
        "trained further": (1000, 0.86, 0.6, 0.07, 0.8),
    }
    assert conversion.summary(table(conversion.COLUMNS, rows), "sb.bayesianize(trained, 16)", 40) == (
        f"sb.bayesianize(trained, 16) has 37{SPACE}% of the parameters; after 40 more epochs {end}12.0{SPACE}%."
    )


SETTINGS = {demo.STORIES[i]: given for i, given in enumerate((TINY_REGRESSION, TINY_DIGITS, TINY_CONVERSION))}
# Where programs are compiled, the first: the others are made of the same parts.
STORIES = demo.STORIES if keras.backend.backend() == "torch" else demo.STORIES[:1]


@pytest.fixture(scope="module")
def printed_stories():
    """Every story at a small size, and what was printed."""
    printed = io.StringIO()
    trainer = Trainer(Console(file=printed, width=120), seeds=(3, 4), total=sum(s.PROGRAMS for s in demo.STORIES))
    return [story.run(trainer, SETTINGS[story]) for story in STORIES], printed.getvalue()


@TORCH_FIRST
def test_a_story_has_a_row_for_each_method_with_all_seeds(printed_stories):
    for module, story in zip(STORIES, printed_stories[0], strict=True):
        assert story.table.methods == module.METHODS and story.ours == module.OURS == module.METHODS[0]
        assert set(story.table.seeds.values()) == {(3, 4)}
        assert story.sentence in story.alt


@TORCH_FIRST
def test_the_deterministic_network_is_a_member_of_the_ensemble(printed_stories):
    for story in printed_stories[0][:2]:
        sizes = dict(zip(story.table.methods, story.table.columns[0].cells, strict=True))
        assert sizes["deep ensemble"].mean == 2 * sizes["deterministic"].mean


def test_a_converted_model_starts_at_the_trained_one():
    trainer = Trainer(Console(file=io.StringIO()), seeds=(3,), total=1)
    (data,) = digits.noisy_data(TINY_CONVERSION, trainer.seeds)
    model = digits.network(keras.layers.Dense, TINY_CONVERSION, len(data.classes))
    converted = sb.bayesianize(model, 8)  # the full rank of 64 × 8 and 8 × 8
    np.testing.assert_allclose(
        converted.predict(data.test[0], verbose=0), model.predict(data.test[0], verbose=0), atol=1e-4
    )


@ON_TORCH
def test_each_training_is_one_line(printed_stories):
    lines = printed_stories[1].splitlines()
    assert len(lines) == 8 and lines[0].startswith("1/8 regression, anchored mixture ")
    assert "2 networks, 1 epochs, " in lines[0] and "4 networks" in lines[2]  # two ensembles of two
    assert lines[7].startswith("8/8 conversion, Keras models further ") and lines[7].endswith(" s")


def test_quick_settings_differ_in_the_length_of_training_alone():
    for story in demo.STORIES:
        full, quick = vars(story.Settings()), vars(story.QUICK)
        assert {name for name in full if full[name] != quick[name]} <= {"epochs", "further_epochs"}
        assert quick["epochs"] < full["epochs"]
