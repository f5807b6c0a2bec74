"""Every method trains on every problem, scores under the recorded names, and is the same after a round trip."""

import keras
import numpy as np
import pytest
import tiny
from singularbayes_experiments import config, study
from singularbayes_experiments.methods import METHODS, Member, Settings, Trainer, Weights, find_method, svd
from singularbayes_experiments.methods.base import optimizer
from singularbayes_experiments.report import tables

import singularbayes as sb
from singularbayes.posteriors import find_posteriors

# Of networks that compile for long, and of dense ones like that of MNIST: the methods in `make test`.
USUAL = {
    **dict.fromkeys(("fashion_mnist", "icu", "uci"), ("low_rank",)),
    "sst2": ("deterministic", "mixture_svd"),
    "beijing": ("low_rank", "mixture_repeat_anchored"),
}
PAIRS = [
    pytest.param(name, method, marks=[pytest.mark.exhaustive] * (method not in USUAL.get(name, METHODS)))
    for name in tiny.CHANGES
    for method in config.read(name).methods("quick")
]
# What the choice of a configuration and the columns of cost read.
TUNED = {"nll", "proxy_ood", "without_inputs", "parameters", "seconds", "products"}
# What several draws add.
SPREAD = {"toy": "iqr_ratio", "sst2": "mi_ratio", "beijing": "guangzhou/auroc_ood_epistemic"}
SPREAD |= {"icu": "held_out_care/auroc_ood_mi", "uci": "risk_at_80_epistemic"}
WITHOUT_SPREAD = ("deterministic",)


@pytest.mark.parametrize(("name", "method"), PAIRS)
def test_every_method_scores_on_every_problem(name, method, monkeypatch):
    tiny.install(monkeypatch)
    experiment, task = tiny.task(name, method)
    first, second = study.run(experiment.problem, task)
    assert first.metrics.keys() >= TUNED - {"proxy_ood"}
    for _, column, _ in tables.COLUMNS[name]:  # of the page
        detectors = (f"{column}/{detector}" for detector in tables.DETECTED)
        assert first.metrics.keys() & {column, *detectors} or (column == "iqr_ratio" and method in WITHOUT_SPREAD)
    assert (SPREAD.get(name, "notmnist/auroc_ood_mi") in first.metrics) == (method not in WITHOUT_SPREAD)
    assert np.isfinite(list(first.metrics.values())).all()
    assert first.metrics["nll"] != second.metrics["nll"]  # another seed
    assert (first.arrays or method in ("swag", "laplace")) and all(
        np.asarray(array).ndim <= 2 for array in first.arrays.values()
    )


ELSEWHERE = ("mc_dropout", "laplace", "lora_ensemble")  # tests of adapters and of CIFAR-10 have these
ONE_NAME = {own.train: name for name, own in sorted(METHODS.items()) if name not in ELSEWHERE}.values()  # of each


@pytest.mark.parametrize("method", sorted(ONE_NAME))
def test_what_is_trained_predicts_alike_after_saving_and_loading(method, tmp_path):
    experiment, task = tiny.task("toy", "low_rank", start="orthogonal")
    data = experiment.problem.data("toy", 3, task.settings[0], "result")
    trained = find_method(method).train(Trainer(experiment.problem), [Member(3, task.settings[0], data)])[0]
    folder = tmp_path / ("model.keras" if isinstance(trained, keras.Model) else "several")
    trained.save(folder)
    loaded = sb.load(folder) if isinstance(trained, keras.Model) else type(trained).load(folder)
    before, after = (study.predictor(each, 6, 5)(data.test.x) for each in (trained, loaded))
    np.testing.assert_allclose(after.mean, before.mean, rtol=1e-5, atol=1e-6)
    assert study.sizes(loaded) == study.sizes(trained)


@pytest.mark.parametrize("name", ["toy", "mnist", "sst2", "beijing", "icu"])
def test_tuning_sees_no_test_row(name, monkeypatch):
    tiny.install(monkeypatch)
    experiment, task = tiny.task(name, "low_rank")
    tuned, reported = (experiment.problem.data(task.task, 3, task.settings[0], stage) for stage in ("tuning", "result"))
    assert tuned.test is None and list(tuned.ood) == ["perturbed"]
    np.testing.assert_array_equal(tuned.train.x, reported.train.x)
    np.testing.assert_array_equal(tuned.validation.x, reported.validation.x)
    rows = {part: {row.tobytes() for row in getattr(reported, part).x} for part in ("train", "validation", "test")}
    assert not rows["train"] & rows["validation"] and not (rows["train"] | rows["validation"]) & rows["test"]
    outcome = study.train_and_score(experiment.problem, config.replace(task, stage="tuning"))[0]
    assert outcome.metrics.keys() >= TUNED and not outcome.arrays


@pytest.mark.parametrize(
    ("method", "parameters"),
    # Per matrix 2 r (m + n), or 2 m n; per plain bias n: 784-6-5-10 with ranks 3, 3 and 2.
    [
        ("low_rank", 2 * (3 * 790 + 3 * 11 + 2 * 15) + 21),
        ("low_rank_2", 2 * (2 * 790 + 2 * 11 + 2 * 15) + 21),
        ("full_rank", 2 * (784 * 6 + 30 + 50) + 21),
        ("deterministic", 784 * 6 + 30 + 50 + 21),
        ("deep_ensemble", 2 * (784 * 6 + 30 + 50 + 21)),
        ("mixture_repeat", 2 * (2 * (3 * 790 + 3 * 11 + 2 * 15) + 21)),
        ("rank_one", 784 * 6 + 30 + 50 + 21 + 2 * (790 + 11 + 15)),
    ],
)
def test_networks_have_the_parameters_of_their_formula(method, parameters, monkeypatch):
    tiny.install(monkeypatch)
    experiment, task = tiny.task("mnist", "low_rank")
    settings = config.with_named_rank(method, task.settings[0])
    data = experiment.problem.data("mnist", 3, settings, "result")
    trained = find_method(method).train(Trainer(experiment.problem), [Member(3, settings, data)])[0]
    assert study.sizes(trained)["parameters"] == parameters


def test_runs_in_one_program_are_those_of_each_alone():
    """Rate, β and warm-up are of the runs; a seed stands in two of them."""
    experiment, task = tiny.task("toy", "low_rank", cosine="epoch", rho_start=None, batch_size=7)
    base, seeds = task.settings[0], (3, 3, 8)
    settings = [
        config.replace(base, learning_rate=rate, beta=beta, warmup=warmup)
        for rate, beta, warmup in ((1e-2, 0.1, 0), (3e-2, 0.1, 2), (1e-2, 1.0, 1))
    ]
    data = experiment.problem.data("toy", 3, base, "result")
    every = [Member(seed, own, data) for seed, own in zip(seeds, settings, strict=True)]
    models = Trainer(experiment.problem).fit("low_rank", every)
    for member, model in zip(every, models, strict=True):
        (alone,) = Trainer(experiment.problem).fit("low_rank", [member])
        for found, expected in zip(model.trainable_variables, alone.trainable_variables, strict=True):
            np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-4, atol=1e-5)
    assert not np.allclose(np.asarray(models[0].trainable_variables[0]), np.asarray(models[1].trainable_variables[0]))


def test_decay_is_of_the_kernels_of_deterministic_networks():
    model = keras.Sequential([keras.Input((2,)), sb.layers.Dense(3, posterior="deterministic")])
    decayed = optimizer(model, Settings(learning_rate=0.1, weight_decay=0.5), steps=1)
    kernel, bias = sorted(model.trainable_variables, key=lambda v: -len(v.shape))
    before = np.array(kernel)
    bias.assign(np.ones(3))
    decayed.apply(
        [np.zeros(v.shape, "float32") for v in model.trainable_variables], trainable_variables=model.trainable_variables
    )
    np.testing.assert_allclose(np.asarray(kernel), before * (1 - 0.1 * 0.5), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(bias), np.ones(3))
    random = keras.Sequential([keras.Input((2,)), sb.layers.Dense(3, posterior=sb.LowRank(1))])
    assert not isinstance(optimizer(random, Settings(weight_decay=0.5), steps=1), keras.optimizers.AdamW)


@pytest.mark.parametrize("components", [1, 3])
def test_means_start_at_the_truncated_svd_of_trained_networks(components):
    experiment, task = tiny.task("toy", "low_rank", prior="anchored", units=5)
    own, problem = task.settings[0], experiment.problem
    points = []
    for seed in range(components):
        keras.utils.set_random_seed(seed)
        points.append(problem.network(Weights("point", own), own))
        for variable in points[-1].trainable_variables:
            variable.assign(np.random.default_rng(seed).normal(size=variable.shape))
    model = problem.network(Weights("low_rank", own, components), own)
    svd.start_at(model, points)
    model = model if components == 1 else sb.take_components(model, [components - 1])
    hidden, wanted = (next(q for q in find_posteriors(each) if q.shape == (5, 5)) for each in (model, points[-1]))
    u, s, vt = np.linalg.svd(np.asarray(wanted.mean().dense()))
    np.testing.assert_allclose(hidden.mean().dense(), (u[:, :2] * s[:2]) @ vt[:2], rtol=1e-4, atol=1e-5)
