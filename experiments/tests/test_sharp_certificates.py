"""The MNIST certificates that were written down beforehand: what chooses, what certifies, and what is paid."""

from dataclasses import replace

import keras
import numpy as np
import pytest
from scipy import ndimage
from singularbayes_experiments.problems import sharp_certificates as sharp
from singularbayes_experiments.problems.image_copies import CopiesFolder, Moves
from singularbayes_experiments.problems.sharp_certificates import (
    METHODS,
    QUICK,
    RULE,
    CertificateSplit,
    Configuration,
    SharpSettings,
)
from singularbayes_experiments.records import record
from singularbayes_experiments.runs import sharp_certificates as runs

from singularbayes.models import count_trained
from singularbayes.training import KLSchedule, learn_prior

pytestmark = pytest.mark.on_torch


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=(700, 784)).astype("float32"), rng.integers(0, 10, 700)
    return (x[:600], y[:600]), (x[600:], y[600:])


def test_the_mlp_is_the_papers_with_drawn_biases():
    assert count_trained(sharp.network(*METHODS["low_rank_25"], SharpSettings())) == 245_810 + 2410


@pytest.mark.parametrize("method", ["low_rank_25", pytest.param("cnn_low_rank", marks=pytest.mark.exhaustive)])
def test_the_rule_reads_no_certifying_image_and_the_record_has_every_bound(method, images, monkeypatch):
    fitted, asked = [], []
    fit, risks = sharp.fit_priors, sharp.drawn_risks

    def fit_priors(name, wanted, x, *others):
        fitted.append(x)
        return fit(name, wanted, x, *others)

    def mistakes(model, x, y, draws, seed):
        asked.append(x)
        return risks(model, x, y, draws, seed=seed)

    monkeypatch.setattr(sharp, "fit_priors", fit_priors)
    monkeypatch.setattr(sharp, "drawn_risks", mistakes)
    monkeypatch.setattr(sharp, "RULE", {name: values[-1:] for name, values in RULE.items()})
    m = sharp.run(method, 0, QUICK, images).metrics
    (x, _), (test, _) = images
    x = x[np.random.default_rng(sharp.SPLIT).permutation(600)]
    assert [len(one) for one in fitted] == [350, 420]
    np.testing.assert_array_equal(fitted[1], x[:420])
    np.testing.assert_array_equal(asked[0], x[350:420])
    np.testing.assert_array_equal(asked[1], test)
    assert m["N"] == 180 and m["tried"] == 64 and m["is_certificate"] == 1 and m["C"] > 0
    assert m["δ data"] + m["δ Monte Carlo"] == pytest.approx(0.05)
    assert {"averaged certificate", "hold-out", "averaged hold-out", "mistakes that chose"} <= set(m)


def test_a_configuration_is_what_keras_fits_with_its_settings_and_copies(images):
    (x, y), _ = images
    x, y = x[:60], y[:60]
    settings = replace(QUICK, epochs=1, batch_size=40)
    wanted = [Configuration(replace(settings, beta=beta, shift=shift), 3) for beta, shift in [(1e-3, 1), (10.0, 2)]]
    for member, (one, model) in enumerate(zip(wanted, sharp.fit_priors("low_rank_25", wanted, x, y), strict=True)):
        keras.utils.set_random_seed(one.seed)
        plain = sharp.network(*METHODS["low_rank_25"], one.settings)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        sharp._compile(plain, loss, settings.learning_rate, 120, 1, settings)
        order = np.random.default_rng([member, 0]).permutation(120)
        x_all, y_all = one.moves.apply(x)[order], np.tile(y, 2)[order]
        schedule = KLSchedule(num_data=120, beta=one.settings.beta)
        learn_prior(plain, x_all, y_all, batch_size=40, shuffle=False, verbose=0, callbacks=[schedule])
        for own, theirs in zip(model.trainable_weights, plain.trainable_weights, strict=True):
            np.testing.assert_allclose(own, theirs, atol=1e-5)


def test_what_is_fixed_is_paid(images):
    with pytest.raises(ValueError, match=r"pays for share among .*; got 0.9"):
        sharp.run("low_rank_25", 0, replace(QUICK, share=0.9), images)


def test_copies_are_turned_then_shifted_and_files_have_the_same(images, tmp_path, monkeypatch):
    x = images[0][0][:3]
    moves = Moves(seed=5, copies=2, shift=2, angle=10.0)
    rng = np.random.default_rng([5, 2])
    expected = [x]
    for _ in range(2):
        one = []
        for image in x.reshape(-1, 28, 28):
            turned = ndimage.rotate(image, rng.uniform(-10.0, 10.0), reshape=False, order=1)
            one.append(ndimage.shift(turned, rng.uniform(-2, 2, 2), order=1))
        expected.append(np.reshape(one, x.shape))
    np.testing.assert_array_equal(moves.apply(x), np.concatenate(expected))
    still = Moves(seed=0, copies=1, shift=0, angle=0.0).apply(x)
    np.testing.assert_allclose(still[3:], x, atol=1e-5)
    folder = CopiesFolder(tmp_path)
    folder.make([(moves, x)], processes=1)
    np.testing.assert_array_equal(np.load(folder.path(moves, 3)), moves.apply(x))


def test_a_second_call_does_what_the_first_left_and_takes_the_configuration_with_fewest_mistakes(
    images, tmp_path, monkeypatch
):
    fitted, certified = [], []
    worst = dict.fromkeys(sharp.combinations(QUICK), 0.5) | {sharp.combinations(QUICK)[5]: 0.1}
    monkeypatch.setattr(runs.plan, "fit_priors", lambda _, wanted, *__: fitted.extend(wanted) or list(wanted))
    monkeypatch.setattr(runs.plan, "count_mistakes", lambda one, *_: worst[one.settings])

    def certify(method, chosen, mistakes, *_):
        certified.append((method, chosen, mistakes))
        return record.Record("sharp_certificates", method, chosen.seed, {}, {"certificate": 0.2}, 1, 0.0)

    monkeypatch.setattr(runs.plan, "certified", certify)
    monkeypatch.setattr(CopiesFolder, "path", lambda *_: tmp_path)  # they are there
    folder = runs.Folder(tmp_path, QUICK)
    todo = runs.tasks(["low_rank_25", "cnn_low_rank"], [0, 1], QUICK)
    assert [len(task.configurations) for task in todo] == [0] * 4 + [8, 8] + [1] * 16
    first = runs.work(folder, todo, images)
    next(first), next(first)
    first.close()
    assert len(fitted) == 16 and not certified
    lines = list(runs.work(runs.Folder(tmp_path, QUICK), todo, images))
    assert len(fitted) == len(set(fitted)) * 2 == 32 and len(lines) == 20
    best = sharp.combinations(QUICK)[5]
    assert certified[:2] == [("low_rank_25", Configuration(best, seed), 0.1) for seed in (0, 1)]
    assert list(runs.work(folder, todo, images)) == [] and len(record.read(tmp_path)) == 4


def test_certificates_of_a_program_that_failed_are_left_to_the_next_call(images, tmp_path, monkeypatch):
    def fit(method, wanted, *_):
        if method == "low_rank_25":
            raise ValueError("no data")
        return list(wanted)

    monkeypatch.setattr(runs.plan, "fit_priors", fit)
    monkeypatch.setattr(runs.plan, "count_mistakes", lambda *_: 0.5)
    found = record.Record("sharp_certificates", "cnn_low_rank", 0, {}, {"certificate": 0.2}, 1, 0.0)
    monkeypatch.setattr(runs.plan, "certified", lambda *_: found)
    monkeypatch.setattr(CopiesFolder, "path", lambda *_: tmp_path)  # they are there
    folder, todo = runs.Folder(tmp_path, QUICK), runs.tasks(["low_rank_25", "cnn_low_rank"], [0], QUICK)
    lines = list(runs.work(folder, todo, images))
    assert sum("failed" in line for line in lines) == 2 and len(lines) == 2 + 8 + 1
    assert folder.finished() == {("cnn_low_rank", 0)}


def test_the_split_has_every_image_once(images):
    split = CertificateSplit.of(QUICK, images)
    parts = np.concatenate([split.fitted[0], split.choosing[0], split.certifying[0]])
    np.testing.assert_array_equal(np.sort(parts, axis=0), np.sort(images[0][0], axis=0))
