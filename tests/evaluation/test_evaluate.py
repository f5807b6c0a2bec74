"""An evaluation holds every metric of its predictions, whoever made them, and the reason where one is missing."""

import json
import math

import keras
import numpy as np
import pytest
import scoringrules
from posterior_table import TORCH_FIRST
from predictions import class_predictive, value_predictive
from scipy import stats
from sklearn.linear_model import LinearRegression

import singularbayes as sb
from singularbayes import Adapter, Gaussian, LowRank, layers, metrics
from singularbayes.evaluation import Evaluation
from singularbayes.metrics.catalogue import MEASURES, find_measure
from singularbayes.prediction.recalibration import Temperature

pytestmark = pytest.mark.on_torch

RNG = np.random.default_rng(3)
DRAWS = RNG.dirichlet([1, 1, 1], (20, 40))
OOD = RNG.dirichlet([0.5, 0.5, 0.5], (20, 30))
LABELS = RNG.integers(0, 3, 40)
VALUES = RNG.normal(size=(20, 40, 1)) * RNG.uniform(0.5, 2, (40, 1))
OOD_VALUES = 3 * RNG.normal(size=(20, 30, 1))
TARGETS = RNG.normal(size=(40, 1))


def _class_scores(p, ood):
    wrong = p.predicted_labels != LABELS
    std = [draws.std(axis=0)[range(draws.shape[1]), draws.mean(axis=0).argmax(axis=1)] for draws in (DRAWS, OOD)]
    by = {"entropy": (p.entropy, ood.entropy), "std": std}
    by["mi"] = metrics.mutual_information(DRAWS), metrics.mutual_information(OOD)
    expected = {
        "accuracy": metrics.accuracy(p.mean, LABELS),
        "auroc": metrics.auroc(p.mean, LABELS),
        "nll": metrics.negative_log_likelihood(p.mean, LABELS),
        "brier": metrics.brier(p.mean, LABELS),
        "ece": metrics.expected_calibration_error(p.mean, LABELS),
        "mi_ratio": metrics.mi_ratio(*by["mi"]),
        **{f"ece_{name}": value for name, value in metrics.calibration_errors(p.mean, LABELS).items()},
    }
    for name, (inside, outside) in by.items():
        curve = metrics.selective_curve(inside, wrong)
        expected |= {
            f"mean_{name}": inside.mean(),
            f"aupr_err_{name}": metrics.aupr_err(inside, wrong),
            f"aupr_succ_{name}": metrics.aupr_succ(inside, wrong),
            f"aurc_{name}": curve.area,
            f"risk_at_80_{name}": curve.at(0.8),
            **{f"{score}_{name}": value for score, value in metrics.ood_scores(inside, outside).items()},
        }
    return expected


def test_a_classification_has_every_metric_under_its_name():
    p, ood = class_predictive(DRAWS), class_predictive(OOD)
    found = sb.evaluate(p, LABELS, ood=ood)
    assert found.task == "classification" and found.undefined == {} and (found.draws, found.examples) == (20, 40)
    assert found.metrics == pytest.approx(_class_scores(p, ood))


def _value_scores(p, kind):
    std = np.sqrt(p.variance(kind))
    lower, upper = p.interval(0.95, variance=kind)
    curve = metrics.selective_curve(std[:, 0], np.abs(p.mean - TARGETS)[:, 0])
    needed = np.abs(2 * stats.norm.cdf(TARGETS, p.mean, std) - 1)
    expected = {
        "nll": metrics.gaussian_nll(p.mean, std, TARGETS),
        "crps": scoringrules.crps_normal(TARGETS, p.mean, std).mean(),
        "picp_95": metrics.interval_coverage(lower, upper, TARGETS),
        "mpiw_95": metrics.interval_width(lower, upper),
        "interval_score_95": metrics.interval_score(lower, upper, TARGETS, 0.95),
        **{f"calibration_{name}": value for name, value in metrics.calibration_of_levels(needed).items()},
        "aurc": curve.area,
        "risk_at_80": curve.at(0.8),
    }
    return {f"{name}_{kind}": value for name, value in expected.items()}


@pytest.mark.parametrize("noise", [0.4, RNG.uniform(0.2, 2, (40, 1))])
def test_a_regression_has_each_score_of_a_spread_for_each_variance(noise):
    p, ood = value_predictive(VALUES, noise), value_predictive(OOD_VALUES, 0.4)
    found = sb.evaluate(p, TARGETS[:, 0], ood=ood)
    expected = {
        "mae": metrics.mean_absolute_error(p.mean, TARGETS),
        "rmse": metrics.root_mean_square_error(p.mean, TARGETS),
        "r2": metrics.r_squared(p.mean, TARGETS),
        "crps_sample_epistemic": metrics.crps_sample(VALUES, TARGETS),
        **{f"variance_{kind}": p.variance(kind).mean() for kind in ("epistemic", "aleatoric", "total")},
        **metrics.iqr_scores(*(metrics.epistemic_iqr(d)[:, 0] for d in (VALUES, OOD_VALUES))),
    }
    for kind in ("epistemic", "total"):
        inside, outside = (np.sqrt(part.variance(kind))[:, 0] for part in (p, ood))
        detection = metrics.ood_scores(inside, outside).items()
        expected |= _value_scores(p, kind) | {f"{name}_{kind}": value for name, value in detection}
    noisy = found.metrics.pop("crps_sample_total")
    assert found.metrics == pytest.approx(expected)
    # The noise is drawn: many draws of it give the Gaussian score's neighbourhood.
    assert noisy == pytest.approx(found.metrics["crps_total"], rel=0.1)
    assert found.metrics["variance_total"] == pytest.approx(
        found.metrics["variance_epistemic"] + found.metrics["variance_aleatoric"]
    )


def test_every_metric_has_a_measure_with_a_label_of_its_own():
    classes = sb.evaluate(class_predictive(DRAWS), LABELS, ood={"far": class_predictive(OOD)})
    values = sb.evaluate(value_predictive(VALUES, 0.1), TARGETS, ood=value_predictive(OOD_VALUES, 0.1))
    measures = [find_measure(name) for name in {**classes.metrics, **values.metrics}]
    assert len({measure.label for measure in measures}) == len(measures)
    costs = {"num_trained", "num_stored", "seconds", "train_seconds"}
    assert {measure.name.rpartition("/")[2] for measure in measures} | costs == set(MEASURES)
    with pytest.raises(ValueError, match=r"no measure 'auc'\. .*Known measures: \['accuracy'"):
        find_measure("auc")


def test_what_has_no_value_is_nan_with_the_reason_and_the_names_stay_the_same():
    point = class_predictive(DRAWS[:1])
    tempered = Temperature(2.0)(class_predictive(DRAWS))
    full = sb.evaluate(class_predictive(DRAWS), LABELS, ood=class_predictive(OOD))
    for p, ood, reason in (
        (point, class_predictive(OOD[:1]), "deterministic"),
        (tempered, Temperature(2.0)(class_predictive(OOD)), "the average alone"),
    ):
        found = sb.evaluate(p, LABELS, ood=ood)
        assert found.metrics.keys() == full.metrics.keys()
        missing = {name for name, value in found.metrics.items() if math.isnan(value)}
        assert missing == set(found.undefined) == {n for n in full.metrics if n.endswith(("_mi", "_std", "mi_ratio"))}
        assert all(reason in text for text in found.undefined.values())
    perfect = sb.evaluate(class_predictive(np.eye(3)[LABELS][None]), LABELS)
    assert "all right" in perfect.undefined["aupr_err_entropy"] and perfect.metrics["accuracy"] == 1
    assert "no test example" in sb.evaluate(class_predictive(DRAWS), LABELS % 2).undefined["auroc"]
    silent = sb.evaluate(
        value_predictive(VALUES, None, keep=False), TARGETS, ood=value_predictive(OOD_VALUES, keep=False)
    )
    assert "the noise" in silent.undefined["nll_total"] and "keep_draws=True" in silent.undefined["iqr_ratio"]
    assert math.isfinite(silent.metrics["nll_epistemic"])
    flat = sb.evaluate(value_predictive(VALUES[:1], 0.3), np.ones(40))
    assert "all one" in flat.undefined["r2"]
    spread = sb.evaluate(value_predictive(VALUES, 0.3), TARGETS)
    epistemic = {name for name in spread.metrics if name.endswith("_epistemic")}
    assert len(epistemic) == 11  # the variance, eight scores of it, and two of answering only when certain
    assert {name for name, reason in flat.undefined.items() if "deterministic" in reason} == epistemic


def test_draws_that_all_agree_have_no_scores_of_their_spread_and_one_that_does_not_has_some():
    agreed = np.zeros((20, 40, 1))
    found = sb.evaluate(value_predictive(agreed, 0.3), TARGETS)
    names = {"nll", "crps", "crps_sample", "picp_95", "mpiw_95", "interval_score_95"}
    names |= {"calibration_error", "calibration_area"}
    assert {name for name, text in found.undefined.items() if "no prediction has a spread" in text} == {
        f"{name}_epistemic" for name in names
    }
    assert found.metrics["variance_epistemic"] == 0 and found.metrics["mpiw_95_total"] > 0
    agreed[:, 0] = VALUES[:, 0]
    partly = sb.evaluate(value_predictive(agreed, 0.3), TARGETS)
    assert set(partly.undefined) == {f"{n}_epistemic" for n in ("nll", "calibration_error", "calibration_area")}


def _network(posterior, loss):
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3, posterior=posterior)], name="net")
    model.compile("adam", loss)
    return model


class Mine:
    """A method that is no Keras model."""

    num_trained, num_stored = 7, 21

    def __init__(self, model):
        self.model = model

    def predict(self, x, draws, seed):
        return sb.predict(self.model, x, draws, seed)


LOGITS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@TORCH_FIRST
def test_a_model_an_object_and_their_predictions_have_the_same_metrics():
    model = _network(LowRank(2, eta=1.0), LOGITS)
    x, ood = RNG.normal(size=(40, 4)), {"near": RNG.normal(size=(9, 4)), "far": 9 * RNG.normal(size=(9, 4))}
    found = sb.evaluate(model, (x, LABELS), ood=ood, draws=10, seed=4)
    again = sb.evaluate(Mine(model), (x, LABELS), ood=ood, draws=10, seed=4)
    p = {name: sb.predict(model, inputs, 10, 4) for name, inputs in {"test": x, **ood}.items()}
    made = sb.evaluate(p.pop("test"), LABELS, ood=p, seed=4, name="made")
    assert found.metrics == again.metrics == made.metrics
    assert (found.method, again.method, made.method) == ("net", "Mine", "made")
    assert found.metrics["far/auroc_ood_mi"] > found.metrics["near/auroc_ood_mi"]
    assert (found.num_trained, found.num_stored) == (2 * 2 * (4 + 3) + 3,) * 2  # the KL's weight predicts nothing
    assert (again.num_trained, again.num_stored, made.num_trained) == (7, 21, None)
    assert found.seconds > 0 and made.seconds is None


def test_frozen_weights_are_stored_but_not_trained():
    found = sb.evaluate(_network(Adapter(1), LOGITS), (np.ones((2, 4)), [0, 1]), draws=2)
    assert (found.num_trained, found.num_stored) == (2 * (4 + 3) + 3, 12 + 2 * (4 + 3) + 3)


def test_a_given_task_replaces_a_loss_that_does_not_specify_it():
    model = _network(LowRank(2), keras.losses.LogCosh())
    test = RNG.normal(size=(5, 4)), RNG.normal(size=(5, 3))
    assert sb.evaluate(model, test, task="regression", draws=3).task == "regression"
    assert sb.evaluate(_network(LowRank(2), Gaussian(0.5)), test, draws=3).metrics["variance_aleatoric"] == 0.25
    with pytest.raises(ValueError, match="does not specify it"):
        sb.evaluate(model, test, draws=3)
    with pytest.raises(ValueError, match="predictions of task='classification'; got those of regression"):
        sb.evaluate(_network(LowRank(2), "mse"), test, task="classification", draws=3)


def test_an_evaluation_is_plain_data_and_finds_costs_by_name():
    found = sb.evaluate(class_predictive(DRAWS[:1]), LABELS, train_seconds=1.5)
    again = Evaluation(**json.loads(json.dumps(vars(found))))
    assert again.metrics == pytest.approx(found.metrics, nan_ok=True) and again.undefined == found.undefined
    assert again.value("train_seconds") == 1.5 and math.isnan(again.value("num_trained"))
    with pytest.raises(ValueError, match=r"there are .*'accuracy'"):
        found.value("recall")


def test_foreign_predictions_of_one_number_each_may_be_more_or_fewer():
    flat = sb.ValuePredictive.of_draws(VALUES[..., 0]), sb.ValuePredictive.of_draws(OOD_VALUES[..., 0])
    column = sb.ValuePredictive.of_draws(VALUES), sb.ValuePredictive.of_draws(OOD_VALUES)
    found, expected = (sb.evaluate(p, TARGETS, ood=ood).metrics for p, ood in (flat, column))
    assert found["auroc_ood_epistemic"] == expected["auroc_ood_epistemic"] != 0.5


def test_wrong_input_is_refused():
    model, x = _network(LowRank(2), LOGITS), np.ones((40, 4))
    with pytest.raises(ValueError, match=r"one of \['classification', 'regression'\] or None; got task='ranking'"):
        sb.evaluate(model, (x, LABELS), task="ranking")
    with pytest.raises(ValueError, match=r"needs inputs of shape \(None, 4\)"):
        sb.evaluate(model, (x, LABELS), ood={"far": np.ones((9, 5))})
    with pytest.raises(ValueError, match=r"names without / for the examples of ood; got \['a/b'\]"):
        sb.evaluate(model, (x, LABELS), ood={"a/b": x})
    with pytest.raises(ValueError, match=r"needs test=\(x, y\), or batches \(x, y\); got ndarray. Put both in"):
        sb.evaluate(model, x)
    with pytest.raises(TypeError, match=r"an object with predict\(x, draws, seed\), or a Predictive; got int"):
        sb.evaluate(3, (x, LABELS))
    with pytest.raises(
        TypeError, match=r"predict\(x, draws, seed\) that returns a Predictive; got LinearRegression.pred"
    ):
        sb.evaluate(LinearRegression().fit(x, LABELS), (x, LABELS))
    with pytest.raises(ValueError, match=r"y alone for a Predictive; got test=\(x, y\)"):
        sb.evaluate(class_predictive(DRAWS), (x, LABELS))
    with pytest.raises(ValueError, match="y alone for a Predictive"):
        sb.evaluate(class_predictive(DRAWS[:, :2]), (x[:2], LABELS[:2]))
    two = class_predictive(DRAWS[:, :2])
    assert sb.evaluate(two, (0, 1)).metrics["nll"] == sb.evaluate(two, np.array([0, 1])).metrics["nll"]
    with pytest.raises(TypeError, match="a Predictive in ood where it evaluates one, and only there"):
        sb.evaluate(class_predictive(DRAWS), LABELS, ood=x)
    with pytest.raises(ValueError, match=r"no options of predict for a Predictive; got \['batch_size'\]"):
        sb.evaluate(class_predictive(DRAWS), LABELS, batch_size=3)
    with pytest.raises(ValueError, match=r"evaluate needs one label per example; got shapes \(40, 3\) and \(3,\)"):
        sb.evaluate(class_predictive(DRAWS), LABELS[:3])
    with pytest.raises(ValueError, match="those of regression"):
        sb.evaluate(class_predictive(DRAWS), LABELS, ood=value_predictive(OOD_VALUES[..., [0, 0, 0]]))


def test_out_of_distribution_texts_go_through_the_preprocessor_as_the_test_texts_do():
    model = keras.Sequential([keras.Input((2,)), sb.layers.Dense(2, posterior=1)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.preprocessor = lambda texts: np.array([[len(text), 1.0] for text in texts], "float32")
    found = sb.evaluate(model, (["a", "bb", "ccc"], [0, 1, 0]), ood=["dddd", "e"], draws=2)
    assert 0 <= found.value("auroc_ood_entropy") <= 1
