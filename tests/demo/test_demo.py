"""The demo's data and networks, and its stories at a small size: the same seed gives the same numbers."""

import io

import keras
import numpy as np
import pytest
from rich.console import Console

import singularbayes as sb
from singularbayes import demo
from singularbayes.demo import digits, regression
from singularbayes.demo.training import Trainer, compiled

TINY_REGRESSION = regression.Settings(
    num_train=64, num_test=128, units=8, rank=2, epochs=2, warmup=1, draws=10, batch_size=64
)
TINY_DIGITS = digits.Settings(units=12, rank=2, epochs=2, warmup=1, draws=10, batch_size=256)


def num_weights(model):
    return sum(weight.size for weight in map(np.asarray, model.trainable_weights))


def test_the_regression_function_is_the_papers(vectors):
    case = vectors["toy_regression_function"]
    y = regression.target(np.array(case["inputs"]["x"]), np.array(case["inputs"]["eps"]))
    np.testing.assert_allclose(y, case["expected"]["y"], rtol=1e-12)


@pytest.mark.parametrize(("method", "name"), [("full-rank", "toy_full"), ("low-rank", "toy_lowrank")])
def test_regression_networks_have_the_papers_parameter_counts(method, name, vectors):
    model = regression.network(method, regression.Settings())
    assert num_weights(model) == vectors["parameter_counts"]["expected"][name]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("deterministic", 64 * 128 + 128 * 128 + 128 * 8 + 128 + 128 + 8),
        ("full-rank", 2 * (64 * 128 + 128 * 128 + 128 * 8) + 128 + 128 + 8),
        ("low-rank", 2 * (16 * (64 + 128) + 16 * (128 + 128) + 8 * (128 + 8)) + 128 + 128 + 8),
    ],
)
def test_digit_networks_have_the_parameters_of_their_shapes(method, expected):
    model = digits.network(lambda columns: digits.METHODS[method](min(16, columns)), 128, 8)
    assert num_weights(model) == expected


def test_digits_are_split_without_overlap_and_the_held_out_ones_are_nowhere_else():
    data = digits.load((8, 9), seed=0)
    parts = [data.train, data.validation, data.test]
    assert [len(y) for _, y in parts] == [865, 289, 289] and len(data.ood[1]) == 354
    assert data.classes == tuple(range(8)) and set(data.ood[1]) == {8, 9}
    assert sum(len(y) for _, y in parts) + len(data.ood[1]) == 1797
    assert all(set(y) == set(range(8)) for _, y in parts)


def test_held_out_digits_in_the_middle_leave_labels_without_gaps():
    data = digits.load((2, 5), seed=0)
    assert data.classes == (0, 1, 3, 4, 6, 7, 8, 9)
    assert set(data.train[1]) == set(range(8)) and set(data.ood[1]) == {2, 5}


def test_a_cosine_ends_at_zero_after_the_last_step():
    model = keras.Sequential([keras.Input((1,)), sb.layers.Dense(1, posterior=sb.Deterministic())])
    compiled(model, "mse", num_data=300, settings=TINY_DIGITS)
    model.optimizer.iterations.assign(2 * 2)  # two epochs of two batches of 256
    assert float(model.optimizer.learning_rate) == pytest.approx(0, abs=1e-8)


@pytest.fixture(scope="module")
def printed_stories():
    """Both stories twice, and what was printed."""
    printed = io.StringIO()
    pairs = []
    for _ in range(2):
        trainer = Trainer(Console(file=printed), seed=3, total=5)
        pairs.append((regression.run(trainer, TINY_REGRESSION), digits.run(trainer, TINY_DIGITS)))
    return pairs, printed.getvalue()


def test_the_same_seed_gives_the_same_stories(printed_stories):
    (first, second), _ = printed_stories
    for one, other in zip(first, second, strict=True):
        assert one.sentence == other.sentence and one.alt == other.alt and one.rows == other.rows


def test_a_story_has_a_row_for_each_method_and_its_sentence_the_numbers_of_the_table(printed_stories):
    (bands, classes), _ = printed_stories[0]
    assert bands.table.methods == regression.METHODS and classes.table.methods == tuple(digits.METHODS)
    assert bands.heads[0] == "parameters ↓" and bands.heads[-1] == "IQR ratio ↑"
    assert all(f"{bands.table.values()[m][-1]:.2f} times ({m})" in bands.sentence for m in regression.METHODS)
    low, full = 2 * (16 + 2 * 2 * 8 + 8 + 8 + 1), 2 * (16 + 8 * 8 + 8 + 8 + 1)
    assert f"{low} parameters, {100 * low / full:.0f}\N{NO-BREAK SPACE}% of the {full}" in bands.sentence
    (*_, mi, entropy) = classes.table.values()["deterministic"]
    assert np.isnan(mi) and f"{entropy:.3f} (deterministic)" in classes.sentence
    assert dict(classes.rows)["deterministic"][4] == ("–", False)


def test_each_network_is_one_line(printed_stories):
    lines = printed_stories[1].splitlines()
    assert len(lines) == 10 and lines[0].startswith("1/5 regression, low-rank ") and "2 epochs, loss " in lines[0]
    assert lines[4].startswith("5/5 digits, deterministic ") and lines[4].endswith(" s")


def test_quick_settings_differ_in_the_length_of_training_alone():
    for story in demo.STORIES:
        full, quick = vars(story.Settings()), vars(story.QUICK)
        assert {name for name in full if full[name] != quick[name]} <= {"epochs", "warmup", "learning_rate"}
        assert quick["epochs"] < full["epochs"]
