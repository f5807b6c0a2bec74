"""Adapters: committed grids and choices against the records, rows of every task, and what trains."""

import json
from collections import defaultdict

import keras
import numpy as np
import pytest
from singularbayes_experiments import config, data, records, study
from singularbayes_experiments.methods import Member, Trainer, Weights, find_method
from singularbayes_experiments.problems import adapters

from singularbayes.models import count_trained
from singularbayes.posteriors import find_posteriors

EXPERIMENT = config.read("adapters")
TASKS = EXPERIMENT.tasks_of("protocol")
NAMES = {"learning_rate": "learning_rate", "dropout": "dropout", "beta": "beta"}
RANDOM = {"width": "prior_scale", "eta": "eta", "rho_lr": "rho_lr"}
BERT = {"vocabulary_size": 40, "num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 12}


@pytest.fixture(scope="module")
def recorded():
    """Returns (task, method, stage) → [settings, seed, validation NLL]."""
    rows = records.connect().execute(
        "SELECT task, method, stage, settings, seed, value FROM scores WHERE experiment = 'adapters' "
        "AND preset = 'protocol' AND metric = 'validation/nll' AND counts ORDER BY origin"
    )
    found = defaultdict(list)
    for task, method, stage, *rest in rows.fetchall():
        found[task, method, stage].append((json.loads(rest[0]), *rest[1:]))
    return found


def as_recorded(own, random):
    names = NAMES | (RANDOM if random else {})
    return {name: getattr(own, new) for name, new in names.items()}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", ["lora", "lora_ensemble", "mc_dropout", "bayes", "mixture"])
def test_the_committed_choice_is_that_of_the_recorded_runs_of_the_committed_grid(task, method, recorded):
    random = method in ("bayes", "mixture")
    grid = [as_recorded(own, random) for own in EXPERIMENT.grid("protocol", method, task)]
    runs = {}
    for settings, seed, nll in recorded[task, method, "tuning"]:
        runs[grid.index({name: settings[name] for name in grid[0]}), seed] = {"nll": nll}
    assert len(runs) == 2 * len(grid)
    place, own = EXPERIMENT.chosen("protocol", method, task)
    assert study.choose(EXPERIMENT, "protocol", method, runs, task) == place
    for settings, _, _ in recorded[task, method, "result"]:
        assert {name: settings[name] for name in grid[0]} == as_recorded(own, random)
    for same in ("lora_temperature", "laplace") if method == "lora" else ():  # these take the networks of LoRA
        assert as_recorded(EXPERIMENT.chosen("protocol", same, task)[1], False) == as_recorded(own, False)


# -- made-up data ------------------------------------------------------------------------------------------------------


@pytest.fixture
def made_up(monkeypatch):
    """Puts a small encoder and queries of which one word tells the intent in the place of the real ones."""
    rng = np.random.default_rng(0)

    def queries(count):
        labels = np.arange(count) % 3
        return [f"{label} {' '.join(map(str, rng.integers(3, 30, 4)))}" for label in labels], labels

    found = data.Intents(queries(63), queries(21), queries(15), queries(9)[0], ("a", "b", "c"))
    monkeypatch.setattr(data, "clinc150", lambda: found)
    monkeypatch.setattr(data, "banking77", lambda: found)

    def encode(texts, length):
        rows = [[2, *(int(word) + 5 for word in each.split()), 3] for each in texts]
        return np.array([(row + [0] * length)[:length] for row in rows], "int32")

    monkeypatch.setattr(adapters, "encode", encode)
    BertBackbone = pytest.importorskip("keras_hub", reason="needs KerasHub").models.BertBackbone

    keras.utils.set_random_seed(0)
    backbone = BertBackbone(**BERT, max_sequence_length=16)
    monkeypatch.setattr(adapters, "pretrained", lambda: (backbone.get_config(), backbone.get_weights()))
    adapters.read_texts.cache_clear()
    yield found
    adapters.read_texts.cache_clear()


def quick(method, **changes):
    few = {
        "classes": 3,
        "length": 8,
        "rank": 2,
        "batch_size": 8,
        "dtype": "float32",
        "epochs": 4,
        "learning_rate": 0.05,
        **changes,
    }
    (task,) = EXPERIMENT.runs_of("quick", methods=[method], seeds=[5], changes=few)
    return config.replace(task, task="clinc150-4")


@pytest.mark.parametrize("method", EXPERIMENT.methods("quick"))
def test_every_method_scores_under_the_recorded_names(method, made_up):
    (outcome,) = study.run(EXPERIMENT.problem, quick(method))
    found = outcome.metrics
    assert found.keys() >= {"nll", "accuracy", "ece", "validation/nll", "tempered/nll", "ood/auroc_entropy"}
    assert ("ood/auroc_mi" in found) == (method not in ("lora", "lora_temperature"))
    assert np.isfinite(list(found.values())).all()
    assert (found["nll"] == found["tempered/nll"]) == (method == "lora_temperature")


def test_rows_are_per_intent_and_of_their_seed_and_tuning_sees_no_test_row(made_up):
    settings = quick("lora").settings[0]
    one, other = (EXPERIMENT.problem.data("banking77-4", seed, settings, "tuning") for seed in (0, 1))
    assert one.test is None and not one.ood and np.bincount(one.train.y).tolist() == [4, 4, 4]
    assert {row.tobytes() for row in one.train.x} != {row.tobytes() for row in other.train.x}
    shuffled = np.random.default_rng([7, 2]).permutation(np.arange(50))  # as the records drew rows
    np.testing.assert_array_equal(adapters.drawn_rows(np.arange(50) % 5, 12, False, 7), np.sort(shuffled[:12]))
    first = np.sort(np.concatenate([shuffled[shuffled % 5 == k][:3] for k in range(5)]))
    np.testing.assert_array_equal(adapters.drawn_rows(np.arange(50) % 5, 3, True, 7), first)
    whole = EXPERIMENT.problem.data("banking77", 0, settings, "result")
    assert len(whole.train.y) == 54 and np.bincount(whole.validation.y).tolist() == [3, 3, 3]  # every seventh of 21
    np.testing.assert_array_equal(whole.validation.y, made_up.train[1][[18, 19, 20, 39, 40, 41, 60, 61, 62]])
    assert len(whole.ood["ood"]) == 9 and len(whole.test.y) == 15


@pytest.mark.parametrize(("kind", "components"), [("deterministic", 1), ("low_rank", 1), ("low_rank", 3)])
def test_adapters_and_head_train_and_nothing_else(kind, components, made_up):
    own = quick("bayes").settings[0]
    model = EXPERIMENT.problem.network(Weights(kind, own, components), own)
    shapes = [q.shape for q in find_posteriors(model) if q.adapts]
    assert sorted(shapes) == sorted(2 * [*[(8, 8)] * 4, (8, 12), (12, 8)])
    adapter = sum(2 * 2 * (m + n) for m, n in shapes)  # means and scales of rank 2
    assert count_trained(model) == components * (adapter + 8 * 3 + 3)
    assert EXPERIMENT.problem.products(model, own) == 8 * sum(m * n + 2 * (m + n) for m, n in shapes)


def test_laplace_draws_have_the_covariance_of_the_kronecker_product(made_up):
    task = quick("laplace", epochs=3)
    own = task.settings[0]
    found = EXPERIMENT.problem.data("clinc150-4", 5, own, "result")
    (laplace,) = find_method("laplace").train(Trainer(EXPERIMENT.problem), [Member(5, own, found)])
    phi = laplace.features(found.train.x)
    np.testing.assert_allclose(phi[:, -1], 1)
    logits = phi @ laplace.weights
    np.testing.assert_allclose(logits, laplace.model.predict(found.train.x, verbose=0), rtol=1e-3, atol=1e-4)
    p = np.exp(logits - np.log(np.exp(logits).sum(1, keepdims=True)))
    hessian = np.mean([np.diag(row) - np.outer(row, row) for row in p], axis=0)
    for precision in (1.0, 50.0):
        wanted = np.linalg.inv(np.kron(phi.T @ phi, hessian) + precision * np.eye(27))
        draws = laplace.drawn(precision, 20_000, 0).reshape(20_000, -1) - laplace.weights.ravel()
        np.testing.assert_allclose(draws.T @ draws / 20_000, wanted, atol=0.05 * wanted.max())
