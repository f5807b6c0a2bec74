"""Every pathology is found in a model made to have it, and none in a model that is well."""

from dataclasses import replace

import keras
import numpy as np
import pytest
from posterior_table import TORCH_FIRST
from predictions import class_predictive, value_predictive

import singularbayes as sb
from singularbayes import FullRank, Gaussian, LowRank, MeanScale, layers
from singularbayes.evaluation import symptoms

pytestmark = pytest.mark.on_torch

RNG = np.random.default_rng(8)
X = RNG.normal(size=(600, 4)).astype("float32")
LABELS = (X[:, 0] + 0.5 * X[:, 1] + 0.5 * RNG.normal(size=600) > 0).astype(int)
TARGETS = (X[:, :1] + 0.3 * RNG.normal(size=(600, 1))).astype("float32")
LOGITS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _model(outputs=2, loss=LOGITS, num_data=600, beta=1.0, **options):
    options = {"prior": "normal", "eta": 0.3, **options}
    hidden = layers.Dense(8, "tanh", posterior=LowRank.paper(3, **options))
    model = keras.Sequential(
        [keras.Input((4,)), hidden, layers.Dense(outputs, posterior=FullRank(**options))], name="net"
    )
    model.compile(keras.optimizers.Adam(0.02), loss)
    if num_data:
        sb.set_kl(model, num_data, beta)
    return model


def _fitted(model, y, epochs=40):
    together = 1 if keras.backend.backend() == "torch" else 5
    model.compile(keras.optimizers.Adam(0.02), model.loss, steps_per_execution=together)
    sb.set_kl(model, 300, beta=1.0)
    model.fit(X[:300], y[:300], batch_size=60, epochs=epochs, verbose=0)
    return model


def _set(posterior, loc=None, rho=None):
    """Sets all means or all raw scales of a posterior."""
    for factor in posterior.factors:
        values = np.array(factor.values)
        for row, value in ((0, loc), (1, rho)):
            if value is not None:
                values[row] = value
        factor.values.assign(values)


def _case(model=None, p=None, y=None):
    """Returns what the checks are given, for those that need no trained model."""
    return symptoms.Case(model, [q for q in sb.find_posteriors(model) if q.random] if model else [], p, y)


def _names(diagnosis):
    return [finding.name for finding in diagnosis.findings]


@pytest.mark.parametrize(("outputs", "loss", "y"), [(2, LOGITS, LABELS), (2, MeanScale(), TARGETS)])
def test_a_model_that_is_well_has_nothing(outputs, loss, y):
    found = sb.diagnose(_fitted(_model(outputs, loss), y), X[300:], y[300:])
    assert found.findings == (), found
    assert "nothing found" in repr(found) and "overconfident" in repr(found)


@TORCH_FIRST
def test_collapsed_scales_are_found_and_findings_are_ordered_by_severity():
    model = _model(1, "mse", num_data=None)
    for posterior in sb.find_posteriors(model):
        _set(posterior, rho=-9.0)
    found = sb.diagnose(model, X, draws=10)
    assert _names(found) == ["kl_weight", "collapsed", "no_noise"]
    assert [finding.severity for finding in found.findings] == ["error", "warning", "notice"]
    lines = repr(found).splitlines()
    assert lines[0].startswith("Diagnosis of 'net': 3 findings. Checked: weights not finite, KL weight")
    assert lines[1] == "Not checked: unstable training, no better than a constant, overconfident."
    assert lines[2].startswith("  error: The KL weight is not set for 2 of 2 posteriors")
    assert lines[3].startswith("    Try: callbacks=[sb.KLSchedule()]")
    assert "the median is at 0.012 % of the prior's, and the epistemic standard deviation is near zero" in lines[4]
    assert "raise beta" in lines[5] and "eta" in lines[5]
    assert "standard deviation of 0.71" in lines[6]


@pytest.mark.parametrize("prior", ["normal", "laplace", "scale_mixture"])
def test_scales_have_collapsed_when_they_are_narrow_and_draws_agree(prior):
    narrow, wide = _model(prior=prior), _model(prior=prior, eta=3.0)
    for posterior in sb.find_posteriors(narrow):
        _set(posterior, rho=-9.0)
    agreed = class_predictive(np.array([[[0.9, 0.1]], [[0.901, 0.099]]]))
    apart = class_predictive(np.array([[[0.9, 0.1]], [[0.3, 0.7]]]))
    (finding,) = symptoms.collapsed(_case(narrow, agreed))
    width = {"normal": 1.0, "laplace": 2**0.5, "scale_mixture": (0.5 * (1 + np.exp(-12))) ** 0.5}[prior]
    assert f"at {100 * np.log1p(np.exp(-9)) / width:.2g} % of the prior's" in finding.sentence
    assert "mutual information is near zero" in finding.sentence
    assert finding.severity == "warning" and 'posterior="mixture"' in finding.suggestion
    (of_mixture,) = symptoms.collapsed(replace(_case(narrow, agreed), components=4))
    assert of_mixture.severity == "notice" and 'posterior="mixture"' not in of_mixture.suggestion
    assert not [*symptoms.collapsed(_case(narrow, apart)), *symptoms.collapsed(_case(wide, agreed))]


def test_a_kl_that_no_fit_can_pay_for_is_found():
    model = _model(num_data=10)
    for posterior in sb.find_posteriors(model):
        _set(posterior, loc=3.0)
    p = class_predictive(np.full((2, 600, 2), 0.5))
    shares = np.bincount(LABELS) / 600
    for y, most in ((None, np.log(2)), (LABELS, -(shares * np.log(shares)).sum())):
        (finding,) = symptoms.kl_dominates(_case(model, p, y))
        assert f"adds {sb.kl(model, 'exact') / 10:.3g} nats" in finding.sentence
        assert f"saves {most:.3g} over" in finding.sentence and "lower beta" in finding.suggestion
        assert finding.severity == ("notice" if y is None else "warning")  # these predictions are blind
    sb.set_kl(model, 10**6, beta=1.0)
    assert not list(symptoms.kl_dominates(_case(model, p, LABELS)))


def test_of_values_a_fit_can_save_the_log_of_spread_over_noise():
    model, p = _model(1, Gaussian(0.3), num_data=10), value_predictive(np.zeros((2, 600, 1)), 0.3)
    (finding,) = symptoms.kl_dominates(_case(model, p, TARGETS))
    assert f"saves {np.log(TARGETS.std() / 0.3):.3g} over" in finding.sentence
    assert not list(symptoms.kl_dominates(_case(model, p)))  # without targets nobody knows
    assert not list(symptoms.kl_dominates(_case(model, value_predictive(np.zeros((2, 600, 1))), TARGETS)))


@pytest.mark.parametrize("loss", [MeanScale(), keras.losses.Huber()])
def test_of_learned_noise_nobody_knows_what_a_fit_can_save(loss):
    # A new model's noise is wider than the targets spread: taken for known, it would leave nothing to gain.
    model = _model(2, loss, num_data=10)
    p = sb.predict(model, X, 5, likelihood="mean_scale")
    (finding,) = symptoms.kl_dominates(_case(model, p, 0.1 * TARGETS))
    assert "saves 0 over" in finding.sentence
    assert "kl_dominates" not in sb.diagnose(model, X, 0.1 * TARGETS, draws=5, likelihood="mean_scale")
    known = _model(1, Gaussian(2.0), num_data=10)
    assert "kl_dominates" in sb.diagnose(known, X, TARGETS, draws=5)


def test_what_is_no_model_is_refused():
    ensemble = sb.DeepEnsemble.from_models([_model(), _model()])
    with pytest.raises(TypeError, match="diagnose needs a Keras model; got DeepEnsemble"):
        sb.diagnose(ensemble, X)


@TORCH_FIRST
def test_dead_columns_are_counted():
    model = _model()
    posterior = sb.find_posteriors(model)[0]
    assert not list(symptoms.dead_columns(_case(model)))
    values = np.array(posterior.ab.values)
    values[0, :, 1], values[1, :, 1] = 1e-3, -9.0
    posterior.ab.values.assign(values)
    (finding,) = symptoms.dead_columns(_case(model))
    assert f"1 of 3 columns of {posterior.path}" in finding.sentence and finding.suggestion.startswith("rank 2 there")


@TORCH_FIRST
def test_weights_that_are_nan_are_the_only_thing_that_is_said():
    model = _model()
    _set(sb.find_posteriors(model)[1], loc=np.nan)
    found = sb.diagnose(model, X, LABELS)
    assert _names(found) == ["weights_not_finite"] and found.findings[0].severity == "error"
    assert found.findings[0].sentence.startswith("1 of ") and "/posterior/w" in found.findings[0].sentence
    assert "collapsed" in found.not_checked and "Not checked: unstable training, no posterior, collapsed" in repr(found)


def test_a_kl_weight_of_0_is_a_warning_and_of_a_frozen_model_no_matter():
    (finding,) = symptoms.kl_weight(_case(_model(beta=0.0)))
    assert finding.severity == "warning" and "is 0" in finding.sentence
    frozen = _model(num_data=None)
    frozen.trainable = False
    assert not list(symptoms.kl_weight(_case(frozen))) and not list(symptoms.kl_weight(_case(_model())))


def test_confidence_beyond_accuracy_by_more_than_chance_is_found():
    sure = class_predictive(np.tile([0.9, 0.1], (1, 200, 1)))
    right = np.zeros(200, int)
    (finding,) = symptoms.overconfident(_case(p=sure, y=np.where(np.arange(200) < 50, 1, 0)))
    assert "mean confidence is 0.900, accuracy 0.750" in finding.sentence and "recalibrate" in finding.suggestion
    # Three standard errors of 200 predictions at 90 % are 6.4 %.
    assert not list(symptoms.overconfident(_case(p=sure, y=np.where(np.arange(200) < 30, 1, 0))))
    assert not list(symptoms.overconfident(_case(p=sure, y=right)))


def test_intervals_that_miss_too_often_are_found():
    rng = np.random.default_rng(0)
    p, y = value_predictive(np.zeros((2, 400, 1)), 1.0), rng.normal(size=(400, 1))
    assert not list(symptoms.overconfident(_case(p=p, y=y)))
    (finding,) = symptoms.overconfident(_case(p=p, y=2 * y))
    assert f"contain {100 * (np.abs(2 * y) <= 1.959964).mean():.1f} % of the targets" in finding.sentence
    assert not list(symptoms.overconfident(_case(p=value_predictive(np.zeros((2, 400, 1))), y=2 * y)))


def test_predictions_that_know_nothing_are_found():
    blind, seeing = class_predictive(np.full((1, 600, 2), 0.5)), class_predictive(0.8 * np.eye(2)[LABELS][None] + 0.1)
    (finding,) = symptoms.no_better_than_a_constant(_case(p=blind, y=LABELS))
    assert "NLL 0.693 against 0.69" in finding.sentence
    assert not list(symptoms.no_better_than_a_constant(_case(p=seeing, y=LABELS)))
    (finding,) = symptoms.no_better_than_a_constant(_case(p=value_predictive(np.zeros((1, 600, 1))), y=TARGETS))
    assert "mean squared error" in finding.sentence
    assert not list(symptoms.no_better_than_a_constant(_case(p=value_predictive(0.5 * TARGETS[None]), y=TARGETS)))


def test_a_plain_model_is_noticed_and_answers_of_another_shape_are_refused():
    plain = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    found = sb.diagnose(plain, X, likelihood="categorical_logits")
    assert _names(found) == ["no_posterior"] and found.findings[0].severity == "notice"
    with pytest.raises(ValueError, match="diagnose needs one label per example"):
        sb.diagnose(plain, X, LABELS[:3], likelihood="categorical_logits")
    with pytest.raises(ValueError, match="diagnose needs arrays of one shape"):
        sb.diagnose(plain, X, TARGETS, likelihood="gaussian")


def test_every_component_of_a_mixture_is_reported():
    mixture = sb.Mixture(FullRank(prior="normal", kl_weight=1e-3), components=3)
    model = keras.Sequential([keras.Input((4,)), layers.Dense(2, use_bias=False, posterior=mixture)], name="net")
    model.compile("sgd", LOGITS)
    (posterior,) = sb.find_posteriors(model)
    good = np.zeros((4, 2))
    good[:2, 1] = 3.0, 1.5
    (factor,) = posterior.factors
    factor.set(np.stack([good, -good, good]), np.full((3, 4, 2), 0.3))
    found = sb.diagnose(model, X, LABELS, draws=30)
    (finding,) = [finding for finding in found.findings if finding.name == "uneven_components"]
    assert "of component 1 alone" in finding.sentence
    p = sb.predict(model, X, draws=30, keep_draws=True)
    for k, line in enumerate(found.components):
        kl = sb.kl(sb.take_components(model, [k]), "exact")
        own = p.draws[k::3].mean(axis=0)[np.arange(len(X)), LABELS]
        assert line == f"component {k}: KL {kl:.4g} nats, NLL {-np.log(own).mean():.3g}" and line in repr(found)
    less = sb.diagnose(sb.take_components(model, [0, 2]), X, LABELS, draws=20)
    assert "uneven_components" not in less and len(less.components) == 2
    assert "NLL" not in sb.diagnose(model, X, draws=6).components[0]
    assert sb.diagnose(model, X, draws=6, keep_draws=True).components == sb.diagnose(model, X, draws=6).components
    with pytest.raises(ValueError, match="needs the targets inside the batches of a generator"):
        sb.diagnose(model, (batch for batch in [(X, LABELS)]), LABELS)


def test_a_dead_column_is_found_in_the_component_that_has_it():
    model = keras.Sequential(
        [keras.Input((4,)), layers.Dense(3, posterior=sb.Mixture(LowRank.paper(2, kl_weight=1e-3), 2))]
    )
    (posterior,) = sb.find_posteriors(model)
    (factor,) = posterior.factors
    loc, scale, _ = factor.float64_values()
    loc[1, :, 0], scale[1, :, 0] = 0.0, 1e-6
    factor.set(loc, scale)
    found = list(symptoms.dead_columns(_case(model)))
    assert len(found) == 1 and "1 of 2 columns of component 1 of" in found[0].sentence


def _with_history(**logged):
    model = _model()
    model.history = keras.callbacks.History()
    model.history.history = {name: list(values) for name, values in logged.items()}
    return _case(model)


def test_a_training_loss_that_rises_again_is_found_with_its_epochs():
    nll = [0.6, 0.3, 0.1, 0.09, 0.08, 0.08, 0.1, 0.18, 0.26]
    (finding,) = symptoms.unstable_training(_with_history(loss=nll))
    assert "rose again by 0.18: the NLL was 0.08 at epoch 4, and 0.26 at epoch 8 (" in finding.sentence
    assert "CosineDecay" in finding.suggestion and finding.severity == "warning"
    assert not list(symptoms.unstable_training(_with_history(loss=sorted(nll, reverse=True))))
    spike = np.linspace(0.6, 0.01, 40)
    spike[30] += 0.15  # one epoch of forty, by chance
    assert not list(symptoms.unstable_training(_with_history(loss=spike)))
    assert list(symptoms.unstable_training(_with_history(loss=spike + 0.3 * (np.arange(40) > 30))))
    # Nobody minds an early rise, or one of a hundredth of the fall.
    assert not list(symptoms.unstable_training(_with_history(loss=[0.6, 0.2, 0.4, 0.1, 0.08, 0.05, 0.055, 0.03])))


def test_a_rise_is_that_of_the_loss_with_the_final_kl_weight():
    # Noise opens: the NLL rises from 0.01 to 0.12, and the KL falls by more.
    nll, kl = [0.6, 0.1, 0.01, 0.04, 0.07, 0.1, 0.12], np.array([900.0, 800, 700, 500, 300, 200, 150])
    opening = {"nll": nll, "kl": kl, "kl_weight": np.full(7, 1e-3), "loss": nll + 1e-3 * kl}
    assert not list(symptoms.unstable_training(_with_history(**opening)))
    (finding,) = symptoms.unstable_training(_with_history(**{**opening, "kl": np.full(7, 150.0)}))
    assert "0.01 at epoch 2, and 0.12 at epoch 6 (" in finding.sentence
    # While the weight is annealed the loss rises as it should.
    weight = np.array([0.0, 2e-4, 4e-4, 6e-4, 8e-4, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3])
    nll, kl = np.array([0.6, 0.3, 0.1, 0.1, 0.1, 0.1, 0.09, 0.08, 0.07, 0.06]), np.full(10, 500.0)
    annealed = {"nll": nll, "kl": kl, "kl_weight": weight, "loss": nll + weight * kl}
    assert not list(symptoms.unstable_training(_with_history(**annealed)))


def test_without_all_three_parts_of_the_log_a_rise_is_that_of_the_logged_loss():
    loss = [0.6, 0.3, 0.1, 0.09, 0.08, 0.08, 0.1, 0.18, 0.26]
    (finding,) = symptoms.unstable_training(_with_history(loss=loss, nll=loss))
    assert "rose again by 0.18: the NLL was 0.08 at epoch 4, and 0.26 at epoch 8 (" in finding.sentence


@TORCH_FIRST
def test_training_is_diagnosed_in_the_process_that_trained():
    model = _model()
    assert "unstable_training" in sb.diagnose(model, X, draws=2).not_checked
    model.fit(X[:60], LABELS[:60], epochs=1, verbose=0)
    model.history.history = {"loss": [1.0, 0.4, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1, 0.5, 0.9]}
    found = sb.diagnose(model, X, draws=2)
    assert "unstable_training" in found and "unstable_training" in found.checked


def test_components_that_differ_widely_are_found_though_each_is_of_use():
    right = 0.98 * np.eye(2)[LABELS] + 0.01
    turned = np.where((np.arange(600) < 200)[:, None], right[:, ::-1], right)  # wrong on a third of the examples
    draws = np.stack([right, right, turned])
    case = replace(_case(p=class_predictive(draws), y=LABELS), components=3)
    (finding,) = symptoms.uneven_components(case)
    best, worst = (-np.log(one[np.arange(600), LABELS]).mean() for one in (right, turned))
    assert f"component 2 alone is {worst:.3g}, that of component 0 {best:.3g}" in finding.sentence
    assert "CosineDecay" in finding.suggestion
    alike = np.stack([right, right, 0.9 * right + 0.05])  # apart beyond chance, by less than a tenth of ln 2
    assert not list(symptoms.uneven_components(replace(case, p=class_predictive(alike))))
    wrong = np.array([[True, True, False, False, False, False], [False, False, True, False, False, False]])
    few = np.where(wrong[..., None], right[:6, ::-1], right[:6])  # two wrong of six, and another one
    by_chance = replace(case, p=class_predictive(few), y=LABELS[:6], components=2)
    assert not list(symptoms.uneven_components(by_chance))


def test_components_whose_squared_errors_differ_widely_are_found():
    draws = np.stack([TARGETS, 0.2 * TARGETS, TARGETS])
    case = replace(_case(p=value_predictive(draws), y=TARGETS), components=3)
    (finding,) = symptoms.uneven_components(case)
    assert "mean squared error of component 1 alone" in finding.sentence
    alike = value_predictive(np.stack([TARGETS, 0.8 * TARGETS, TARGETS]))
    assert not list(symptoms.uneven_components(replace(case, p=alike)))
