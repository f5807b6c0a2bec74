"""Ranks by shape, spectrum and held-out loss."""

import math

import keras
import numpy as np
import pytest
from posterior_table import TORCH_FIRST

import singularbayes as sb
from singularbayes import LowRank, layers, ranks
from singularbayes.ranks.recommendation import default_rank

pytestmark = pytest.mark.on_torch


def _set(layer, values, rng):
    """Gives a dense layer a kernel with these singular values."""
    rows, columns = layer.kernel.shape
    u, v = (np.linalg.qr(rng.normal(size=(n, n)))[0] for n in (rows, columns))
    layer.kernel.assign((u[:, : len(values)] * values) @ v[: len(values)])


@pytest.fixture
def trained():
    """A classifier whose matrices have the singular values 3, 1, ½, 0.1 and 2, 0.2."""
    rng = np.random.default_rng(0)
    head = keras.layers.Dense(3, name="head")
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(5, "relu", name="hidden"), head])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    _set(model.layers[0], [3.0, 1.0, 0.5, 0.1], rng)
    _set(head, [2.0, 0.2], rng)
    return model


def _examples(num=50, seed=1):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(num, 6)).astype("float32"), rng.integers(0, 3, num)


# -- by shape and spectrum ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "rank"), [((1, 9), 1), ((20, 20), 16), ((17, 400), 16), ((1024, 2048), 32)])
def test_the_rule_of_thumb(shape, rank):
    assert default_rank(*shape) == default_rank(*shape[::-1]) == rank


@TORCH_FIRST
def test_by_spectrum_takes_the_smallest_rank_that_keeps_the_share_and_says_what_one_less_keeps(trained):
    found = ranks.by_spectrum(trained, 0.9)
    total = 9 + 1 + 0.25 + 0.01
    assert found.ranks == {"hidden": 2, "head": 1}
    assert found.rows[0].reason == f"keeps {10 / total:.1%}; rank 1 keeps {9 / total:.1%}"
    assert found.rows[0].saves == pytest.approx(2 * (6 + 5) / (6 * 5))
    assert "an error of at most 31.6% of ‖W‖" in str(found)  # in the hidden one 15.9%
    bayes = sb.bayesianize(trained, rules=found.ranks)
    assert [q.rank for q in sb.find_posteriors(bayes)] == [2, 1]


def test_ranks_that_save_nothing_are_named(trained):
    assert "as the matrix, or more, in hidden/kernel, head/kernel" in str(ranks.by_shape(trained))


# -- by held-out loss ------------------------------------------------------------------------------------------------


@TORCH_FIRST
def test_by_loss_takes_the_smallest_truncation_within_a_standard_error(trained):
    x, y = _examples(300)
    found = ranks.by_loss(trained, x, y)
    within = [explained for explained, loss in found.losses.items() if loss <= found.full + found.error]
    assert (
        found.explained == min(within) and found.recommendation.ranks == ranks.by_spectrum(trained, min(within)).ranks
    )
    p = sb.predict(trained, x, draws=1)
    each = -np.log(p.mean[np.arange(300), y])
    assert found.full == pytest.approx(each.mean(), rel=1e-5)
    assert found.error == pytest.approx(each.std(ddof=1) / math.sqrt(300), rel=1e-5)
    assert "The smallest ranks of those tried whose NLL is at most" in str(found)
    own = trained.predict(x, verbose=0).argmax(axis=1)  # which nothing answers as well as the network itself
    none = ranks.by_loss(trained, x, own, shares=(0.5,))
    assert none.explained == 1.0 and "None of those tried has a NLL of at most" in str(none)


def test_by_loss_of_numbers_and_of_a_bayesian_model_is_about_its_mean():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((6,)), layers.Dense(4, posterior=LowRank(3))])
    model.compile("adam", sb.Gaussian(0.1))
    x, _ = _examples()
    y = keras.ops.convert_to_numpy(model(x))
    found = ranks.by_loss(model, x, y, shares=(0.2, 1.0))
    assert found.loss == "squared error" and found.full == pytest.approx(0, abs=1e-10)
    assert found.explained == 1.0 and list(found.recommendation.ranks.values()) == [3]
    with pytest.raises(ValueError, match="by_loss needs arrays of one shape"):
        ranks.by_loss(model, x, y.T)  # as many numbers, of other examples


# -- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: default_rank(0, 3), "default_rank needs rows to be an integer >= 1; got rows=0"),
        (lambda m: ranks.by_spectrum(m, 1.5), "rank_for needs 0 < explained <= 1; got explained=1.5"),
        (
            lambda m: ranks.by_loss(m, *_examples(), shares=(0.0,)),
            r"by_loss needs shares above 0.*got shares=\[0.0\]",
        ),
        (lambda m: ranks.by_loss(m, *_examples(), shares=()), r"got shares=\[\]"),
        (lambda m: ranks.by_loss(m, *_examples(1)), "by_loss needs 2 examples or more, for a standard error; got 1"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message, trained):
    with pytest.raises(ValueError, match=message):
        call(trained)
