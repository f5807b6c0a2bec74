"""SST-2 on made-up reviews: what is trained on, what validates, and that all methods go through."""

from dataclasses import replace

import keras
import made_up_reviews
import numpy as np
import pytest
from made_up import Answers, scored_by_hand
from singularbayes_experiments import data
from singularbayes_experiments.methods import methods
from singularbayes_experiments.methods.posterior_scores import singular_values
from singularbayes_experiments.methods.training import adam
from singularbayes_experiments.methods.weights import Weights
from singularbayes_experiments.problems import adaptive_rank_sst2, reviews, sst2, text
from singularbayes_experiments.problems.position_embedding import Positions, sines

from singularbayes.convert import collapse

pytest.importorskip("tokenizers")

pytestmark = pytest.mark.on_torch
TINY = replace(
    sst2.QUICK,
    vocabulary=len(made_up_reviews.WORDS),
    length=8,
    width=8,
    heads=2,
    feed_forward=8,
    rank=3,
    embedding_rank=3,
    num_train=64,
    num_validation=20,
    batch_size=16,
    epochs=3,
    patience=2,
    draws=6,
    svd_epochs=1,
    swag_epochs=2,
    swag_rank=2,
)


@pytest.fixture(autouse=True)
def made_up(monkeypatch):
    for name in ("sst2", "ag_news", "bert_vocab"):
        monkeypatch.setattr(data, name, getattr(made_up_reviews, name))
    caches = (text.bert, reviews.encoded, reviews._split)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def _rows(ids):
    return {tuple(row[row > 3].tolist()) for row in ids}


def test_training_rows_come_in_whole_batches_and_hold_nothing_of_the_validation_sentences():
    x, y = sst2.EXPERIMENT.problem.trained(replace(TINY, num_train=None))
    held, labels = sst2.EXPERIMENT.problem.held_out(TINY)
    assert len(x) % TINY.batch_size == 0 and len(x) == len(y) and len(held) == len(labels) == 20
    for sentence in _rows(held):
        for row in _rows(x):
            shorter, longer = sorted((sentence, row), key=len)
            assert all(longer[i : i + len(shorter)] != shorter for i in range(len(longer) - len(shorter) + 1))


def test_rows_and_labels_belong_together():
    good, bad = (
        {text.bert().ids([word])[0][0] for word in words} for words in (made_up_reviews.GOOD, made_up_reviews.BAD)
    )
    for x, y in (sst2.EXPERIMENT.problem.trained(TINY), sst2.EXPERIMENT.problem.held_out(TINY), reviews.encoded(8)[3]):
        for row, label in zip(x, y, strict=True):
            assert not set(row.tolist()) & (bad if label else good)


def test_nothing_held_out_trains_on_all_rows_and_is_scored_on_the_test_sentences_alone():
    settings = replace(TINY, num_train=None, num_validation=0, patience=None, epochs=1)
    x, _ = sst2.EXPERIMENT.problem.trained(settings)
    rows = reviews.encoded(TINY.length)[1]
    assert len(x) == len(rows) - len(rows) % TINY.batch_size and _rows(x) & _rows(
        sst2.EXPERIMENT.problem.held_out(TINY)[0]
    )
    (record,) = sst2.EXPERIMENT.problem.run_many("deterministic", [4], settings, preset="refit")
    assert {"nll", "auroc_ood_entropy"} <= record.metrics.keys() and record.arrays["ag_news_mean"].shape == (30, 2)
    assert not any(name.startswith(("validation", "recalibrated")) for name in (*record.metrics, *record.arrays))


@pytest.mark.parametrize(
    "needed", [sst2.EXPERIMENT.problem.training, lambda settings: sst2.EXPERIMENT.problem.validated(None, settings)]
)
def test_early_stopping_and_trials_need_sentences_to_hold_out(needed):
    with pytest.raises(
        ValueError, match="num_validation > 0 for tuning runs and for early stopping; got num_validation=0"
    ):
        needed(replace(TINY, num_validation=0))


def test_a_refit_is_the_choice_on_all_rows_and_nothing_else():
    assert sst2.REFIT.keys() == sst2.TUNED.keys()
    for method, settings in sst2.REFIT.items():
        assert replace(settings, num_validation=reviews.ReviewSettings().num_validation) == sst2.TUNED[method]
        assert settings.num_validation == 0 and settings.patience is None


def test_weights_have_the_same_names_in_every_network():
    names = [set(singular_values(reviews.network("low_rank", TINY))) for _ in range(2)]
    assert names[0] == names[1] and "singular_values/block_1/inner/kernel" in names[0]


@pytest.mark.parametrize("num_train", [15, 100_000])
def test_a_number_of_rows_that_cannot_be_is_refused(num_train):
    with pytest.raises(ValueError, match="sst2 needs batch_size <= num_train <="):
        sst2.EXPERIMENT.problem.trained(replace(TINY, num_train=num_train))


def test_a_run_scores_the_test_sentences_and_the_news():
    (record,) = sst2.EXPERIMENT.problem.run_many("low_rank", [4], replace(TINY, patience=None))
    wanted = {"accuracy", "nll", "brier", "auroc_ood_mi", "mi_ratio", "ece_equal_width_10", "validation_nll"}
    assert wanted <= record.metrics.keys() and record.parameters > 0
    assert record.arrays["test_mean"].shape == (40, 2) and record.arrays["ag_news_mean"].shape == (30, 2)
    assert record.arrays["validation_labels"].tolist() == sst2.EXPERIMENT.problem.held_out(TINY)[1].tolist()
    p = record.arrays["test_mean"][np.arange(40), record.arrays["test_labels"]]
    assert record.metrics["nll"] == pytest.approx(-np.log(p).mean(), rel=1e-5)
    news, known = (record.arrays[f"{name}_mi"].astype("float64") for name in ("ag_news", "test"))
    assert record.metrics["mi_ratio"] == pytest.approx(news.mean() / known.mean(), rel=1e-4)
    above = (news[:, None] > known).mean() + 0.5 * (news[:, None] == known).mean()
    assert record.metrics["auroc_ood_mi"] == pytest.approx(above, abs=1e-3)


def test_every_set_is_scored_by_its_own_labels():
    ask = Answers(2)
    found, _ = sst2.EXPERIMENT.problem.tested(ask, TINY)
    y_dev, y = reviews.encoded(TINY.length)[3][1], sst2.EXPERIMENT.problem.held_out(TINY)[1]
    expected = scored_by_hand(ask.given, y_dev, y, ask.given["ag_news"])
    assert "recalibrated_temperature" in expected and found == pytest.approx(expected)


def test_a_trial_reads_neither_the_dev_set_nor_the_news(monkeypatch):
    ids, rows, labels, _, _ = reviews.encoded(TINY.length)
    monkeypatch.setattr(reviews, "encoded", lambda length: (ids, rows, labels, None, None))
    record = sst2.EXPERIMENT.problem.run("deterministic", 0, replace(TINY, epochs=1, patience=None), preset="trial")
    assert all(name.startswith("validation_") for name in record.metrics) and not record.arrays


def test_a_network_started_at_a_point_network_says_the_same():
    settings = replace(TINY, rank=8, embedding_rank=8)  # whole ranks: nothing is cut off
    point, low = (reviews.network(kind, settings) for kind in ("point", "low_rank"))
    methods.start_at(low, point)
    ids = sst2.EXPERIMENT.problem.held_out(settings)[0]
    mean, said = (keras.ops.convert_to_numpy(collapse(model)(ids)) for model in (low, point))
    np.testing.assert_allclose(mean, said, rtol=1e-3, atol=1e-4)
    assert np.ptp(said) > 0.01


def test_what_a_kind_starts_from_is_the_papers():
    settings = reviews.ReviewSettings(vocabulary=50, width=32, blocks=1, feed_forward=32)
    full, low = (reviews.network(kind, settings) for kind in ("full_rank", "low_rank"))
    loc = np.concatenate([keras.ops.convert_to_numpy(q.w.loc).ravel() for q in _matrices(full)])
    assert np.abs(loc).max() <= 0.2 and loc.std() == pytest.approx(0.2 / np.sqrt(3), rel=0.05)
    undamped = reviews.network("low_rank", replace(settings, damping=1.0))
    spread, whole = (np.std(keras.ops.convert_to_numpy(_matrices(model)[0].ab.loc)) for model in (low, undamped))
    assert spread / whole == pytest.approx(0.85, rel=0.1)
    for model in (full, low):
        rho = np.concatenate(
            [np.log(np.expm1(keras.ops.convert_to_numpy(f.scale))).ravel() for q in _matrices(model) for f in q.factors]
        )
        assert rho.min() >= -5.001 and rho.max() <= -3.999


def _matrices(model):
    from singularbayes.posteriors import find_posteriors

    return [q for q in find_posteriors(model) if len(q.factors[0].shape) > 1]


def test_early_stopping_begins_when_the_kl_has_its_full_weight():
    (rule,) = sst2.EXPERIMENT.problem.training(TINY).callbacks(TINY)
    assert (rule.monitor, rule.patience, rule.start) == ("val_loss", 2, TINY.zero_epochs + TINY.warmup)
    assert sst2.EXPERIMENT.problem.training(TINY).validation is not None
    unwatched = replace(TINY, patience=None)
    assert sst2.EXPERIMENT.problem.training(unwatched).validation is None and not reviews._early_stop(unwatched)


def test_point_networks_alone_decay():
    point, random = (reviews.network(kind, TINY) for kind in ("deterministic", "low_rank"))
    assert isinstance(adam(point, 64, TINY), keras.optimizers.AdamW) and adam(point, 64, TINY).weight_decay == 0.01
    assert not isinstance(adam(random, 64, TINY), keras.optimizers.AdamW)


def test_the_cosine_ends_at_its_floor():
    rate = adam(reviews.network("low_rank", TINY), 64, TINY)._learning_rate
    last = TINY.epochs * 64 / TINY.batch_size
    assert float(rate(0)) == pytest.approx(2e-3) and float(rate(last)) == pytest.approx(2e-5)


@pytest.mark.parametrize("kind", ["sinusoidal", "learned", "none"])
def test_positions_are_added_to_scaled_vectors(kind):
    x = np.random.default_rng(0).normal(size=(2, 5, 6)).astype("float32")
    layer = Positions(kind, 9, scale=3.0)
    found = keras.ops.convert_to_numpy(layer(x))
    table = {"sinusoidal": sines(9, 6), "none": np.zeros((9, 6))}.get(kind)
    table = keras.ops.convert_to_numpy(layer.table) if table is None else table
    np.testing.assert_allclose(found, 3 * x + table[:5], rtol=1e-5, atol=1e-6)
    assert len(layer.trainable_weights) == (kind == "learned")


def test_positions_pass_the_mask_on_and_other_kinds_are_refused():
    ids = keras.Input((None,), dtype="int32")
    x = Positions("sinusoidal", 4)(keras.layers.Embedding(5, 8, mask_zero=True)(ids))
    assert x._keras_mask is not None and x.shape == (None, None, 8)
    with pytest.raises(ValueError, match=r"kind to be one of \['none', 'sinusoidal', 'learned'\]; got kind='rotary'"):
        Positions("rotary", 4)


def test_sines_are_those_of_vaswani():
    table = sines(10, 6)
    for p in (0, 3, 9):
        for i in range(3):
            angle = p / 10_000 ** (2 * i / 6)
            np.testing.assert_allclose(table[p, 2 * i : 2 * i + 2], [np.sin(angle), np.cos(angle)], atol=1e-6)


def test_every_method_with_trials_has_as_many_and_the_rest_have_those_of_low_rank():
    for method in sst2.EXPERIMENT.configurations.changes:
        found = list(sst2.EXPERIMENT.configurations.settings(method).values())
        assert len(found) == len(set(found)) == 5
    assert (
        sst2.EXPERIMENT.configurations.changes.keys() | sst2.EXPERIMENT.configurations.shared.keys()
        == sst2.EXPERIMENT.methods.keys()
    )
    for preset in (sst2.PAPER, sst2.TUNED):
        assert preset.keys() == sst2.EXPERIMENT.methods.keys() and preset["low_rank_ensemble"].draws == 100
    assert adaptive_rank_sst2.TUNED["low_rank_8"] == replace(sst2.TUNED["low_rank"], epochs=8, draws=50)
    assert sst2.EXPERIMENT.problem.with_rank(TINY, 5).embedding_rank == 5


def test_a_network_by_name_is_that_of_its_weights():
    from singularbayes.models import count_trained

    assert count_trained(reviews.network("low_rank", TINY)) == count_trained(
        sst2.EXPERIMENT.problem.network(Weights("low_rank", TINY), TINY)
    )
