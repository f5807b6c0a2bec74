"""The MNIST certificates that were written down beforehand: what chooses, what certifies, and what is paid."""

from dataclasses import replace

import numpy as np
import pytest
from singularbayes_experiments.problems import sharp_certificates as sharp
from singularbayes_experiments.problems.sharp_certificates import METHODS, QUICK, RULE, SharpSettings

from singularbayes.models import count_trained


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
    prior, risks = sharp._fitted_prior, sharp.drawn_risks

    def fit(name, x, y, settings, seed):
        fitted.append(x)
        return prior(name, x, y, settings, seed)

    def mistakes(model, x, y, draws, seed):
        asked.append(x)
        return risks(model, x, y, draws, seed=seed)

    monkeypatch.setattr(sharp, "_fitted_prior", fit)
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


def test_what_is_fixed_is_paid_and_copies_are_of_the_priors_images(images):
    with pytest.raises(ValueError, match=r"pays for share among .*; got 0.9"):
        sharp.run("low_rank_25", 0, replace(QUICK, share=0.9), images)
    (x, y), _ = images
    found, labels = sharp.with_copies(x[:5], y[:5], replace(QUICK, copies=2), seed=0)
    np.testing.assert_array_equal(found[:5], x[:5])
    np.testing.assert_array_equal(labels, np.tile(y[:5], 3))
    assert not np.isclose(found[5:10], x[:5]).all(axis=1).any() and not np.allclose(found[5:10], found[10:])
    still, _ = sharp.with_copies(x[:2], y[:2], replace(QUICK, shift=0, angle=0.0), seed=0)
    np.testing.assert_allclose(still[2:], x[:2], atol=1e-5)
