"""The experiment `finetune`: its plan, its batches, and the program against plain `fit`."""

import argparse
import contextlib
import dataclasses
import json
import os
import zlib
from pathlib import Path

import jax
import keras
import numpy as np
import pytest
from singularbayes_experiments.methods import protocol
from singularbayes_experiments.methods.adapter_program import AdapterProgram
from singularbayes_experiments.problems import finetune as plan
from singularbayes_experiments.problems import finetune_model
from singularbayes_experiments.problems.finetune import Adaptation, Setting, Trained
from singularbayes_experiments.problems.finetune_texts import Texts, batches
from singularbayes_experiments.runs import finetune_laplace, finetune_machine, finetune_stages
from singularbayes_experiments.runs.finetune_records import FinetuneRecords, begin

import singularbayes as sb

ROOT = Path(__file__).parents[2]
CLASSES, LENGTH, ROWS = 3, 6, 24
WIDTH, INNER = (finetune_model.SIZES[name] for name in ("hidden_dim", "intermediate_dim"))
SCALARS = finetune_model.SIZES["num_layers"] * plan.RANK * (4 * 2 * WIDTH + 2 * (WIDTH + INNER))  # of both factors
EXACT = {"rtol": 2e-4, "atol": 2e-6}
EPSILON = 1e-5  # of Adam: with a tiny one, gradients that are rounding make whole steps


@pytest.mark.parametrize("data", plan.RATES)
def test_every_method_has_sixteen_configurations_and_other_seeds_for_results(data):
    own = {kind: {one.name: one for one in every} for kind, every in plan.configurations(data).items()}
    protocol.require_equal_tuning(own)
    assert {len(every) for every in own.values()} == {16}
    protocol.require_result_seeds(plan.TUNING_SEEDS, plan.RESULT_SEEDS)


def test_chunks_have_each_network_once_and_results_fit_one_chunk():
    tried = plan.configurations("sst2")
    chunks = plan.tuning(tried, finetune_machine.CHUNK)
    assert [len(chunk) for chunk in chunks] == [71, 71, 71, 71, 68]
    assert len({one for chunk in chunks for one in chunk}) == 352
    for chunk in chunks:  # a run is never cut
        assert all(Trained(one.adaptation, one.seed, 0) in chunk for one in chunk)
        assert all(Trained(one.adaptation, one.seed, plan.NETWORKS[one.adaptation.kind] - 1) in chunk for one in chunk)
    different = {method: tried[kind][i] for i, (method, (kind, _)) in enumerate(plan.METHODS.items())}
    different["lora_temperature"] = different["lora"]
    assert len(plan.results(different)) == 65 <= finetune_machine.CHUNK
    assert 2 * len(plan.DEFAULTS) == 66
    assert 2 * len(set(plan.SCALES)) == 2 * len(plan.SCALES) == 62


def test_a_full_setting_tries_three():
    first, second = plan.configurations("sst2")["bayes"][:2]
    rates = [first.learning_rate, second.learning_rate]
    assert [one.learning_rate / rates[0] for one in plan.around([first, first])] == [1, 0.5, 2]
    assert plan.around([first, second]) == (first, second, dataclasses.replace(second, learning_rate=rates[1] / 2))


def _settings(records, name):
    return next(one["settings"] for one in records if one["configuration"] == name)


def test_the_page_counts_what_is_trained():
    width, lora = WIDTH, SCALARS
    head = 150 * width + 150
    page = (ROOT / "docs" / "finetuning_results.md").read_text(encoding="utf-8")
    assert f"{2 * lora:,} trainable parameters" in page and f"{lora:,};" in page
    assert f"{(2 * lora + head) / (lora + head):.2f} times" in page


def made_up_texts() -> Texts:
    rng = np.random.default_rng(0)
    tokens = rng.integers(1, 40, (ROWS, LENGTH)).astype("uint16")
    tokens[np.arange(LENGTH) >= rng.integers(2, LENGTH + 1, ROWS)[:, None]] = 0
    return Texts(
        tokens, np.arange(ROWS, dtype="int32") % CLASSES, {"train": np.arange(18), "validation": np.arange(18, 24)}
    )


def test_training_rows_are_per_intent_and_of_their_seed():
    texts, few = made_up_texts(), Setting("few", "clinc150", 2, True, 1)
    rows = [texts.training_rows(few, seed) for seed in (0, 0, 1)]
    assert [np.bincount(texts.labels[each]).tolist() for each in rows] == [[2, 2, 2]] * 3
    np.testing.assert_array_equal(rows[0], rows[1])
    assert rows[0].tolist() != rows[2].tolist()
    assert {row for seed in range(50) for row in texts.training_rows(few, seed)} <= set(range(18))


def test_batches_have_similar_lengths_and_every_row_once():
    texts = made_up_texts()
    epoch = batches(texts, np.arange(20), 5, (0, 0))
    assert sorted(epoch.ravel()) == list(range(20))
    assert (np.ptp(texts.lengths[epoch], axis=1) <= np.ptp(texts.lengths)).all()
    means = texts.lengths[epoch].mean(axis=1)
    assert (np.diff(means) > 0).all()
    assert not np.array_equal(epoch, batches(texts, np.arange(20), 5, (0, 1)))


@pytest.fixture(scope="module")
def trained():
    """A program of four kinds of members, the states before and after three steps, and the rows of these."""
    pytest.importorskip("keras_hub")
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 12}
    keras.utils.set_random_seed(0)
    backbone = finetune_model.encoder(None, 40, LENGTH, **sizes)
    model = finetune_model.with_adapters(finetune_model.classifier(backbone, CLASSES), 2)
    program, texts = AdapterProgram(model), made_up_texts()
    program.optimizer.epsilon = EPSILON
    kinds = [
        Adaptation("bayes", 1e-2, beta=0.5, head=True),
        Adaptation("lora", 1e-2),
        Adaptation("blob", 0.3, beta=0.5, width=0.2),
        Adaptation("mc_dropout", 1e-2, dropout=0.3),
    ]
    start = program.start([finetune_machine.start_of(Trained(one, seed), 18) for seed, one in enumerate(kinds)])
    before = jax.tree.map(np.asarray, start)
    rows = np.random.default_rng(1).integers(0, 18, (3, 4, 6)).astype("int32")
    data = jax.device_put((texts.tokens, texts.labels, np.zeros(CLASSES, "float32")))
    for step in range(3):
        start, _ = program.train(start, rows[step], np.float32(1.0), program.frozen, data, length=LENGTH)
    return program, texts, before, jax.tree.map(np.asarray, start), rows, data


@pytest.mark.parametrize("member", [0, 1])
def test_a_member_is_the_model_that_fit_trains(trained, member):
    program, texts, before, after, rows, _ = trained
    model = program.model
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-2, epsilon=EPSILON), loss)
    sb.set_kl(model, num_data=18, beta=0.5 if member == 0 else 0.0)
    for variable, values in zip(model.trainable_variables, before["weights"], strict=True):
        variable.assign(values[member])
    posteriors = [*program.adapters, program.head]
    for posterior, values in zip(posteriors, before["references"], strict=True):
        posterior.factors[0].reference.assign(values[member])
    posteriors[0].seed_generator.state.assign(before["seed"][member])
    ids = rows[:, member].ravel()
    tokens = texts.tokens[ids].astype("int32")
    x = {"token_ids": tokens, "segment_ids": 0 * tokens, "padding_mask": (tokens != 0).astype("int32")}
    model.fit(x, texts.labels[ids], batch_size=6, shuffle=False, verbose=0)
    for variable, values in zip(model.trainable_variables, after["weights"], strict=True):
        got, want = np.asarray(variable), values[member]
        if member == 1 and got.shape != (CLASSES,):
            got, want = got[0], want[0]  # scales of a network without noise stay in the program, and are no scales
        np.testing.assert_allclose(got, want, **EXACT)


def test_only_random_weights_have_scales_that_train(trained):
    program, _, before, after, _, _ = trained
    for posterior, i in zip([*program.adapters, program.head], program._values, strict=True):
        bayes, lora, blob, dropout = (before["weights"][i] != after["weights"][i])[:, 1].any(axis=-1)
        rows = program.head is not posterior and posterior.rows
        assert bayes.all()
        assert not lora.any() and not dropout.any()
        assert blob[:rows].all() and not blob[rows:].any()


def test_the_head_of_a_network_without_noise_predicts_from_its_features(trained):
    program, _, _, after, _, data = trained
    rows = np.arange(8)
    lora = {name: jax.tree.map(lambda a: a[1], values) for name, values in after.items() if name != "optimizer"}
    seen = np.asarray(program.features(lora, rows, program.frozen, data, length=LENGTH))
    kernel, bias = program.head_of(after, 1)
    p = np.asarray(program.predict(after, rows, np.int32(1), program.frozen, data, length=LENGTH)[0])[1]
    np.testing.assert_allclose(np.asarray(jax.nn.softmax(seen @ kernel + bias)), p, rtol=1e-4)


def test_draws_differ_only_where_something_is_random(trained):
    program, _, _, after, _, data = trained
    one, four = (
        np.asarray(program.predict(after, np.arange(8), np.int32(draws), program.frozen, data, length=LENGTH)[0])
        for draws in (1, 4)
    )
    np.testing.assert_allclose(one[1], four[1], rtol=1e-5)
    assert all(np.abs(one[member] - four[member]).max() > 1e-6 for member in (0, 2, 3))


def test_the_prior_precision_of_laplace_is_chosen_on_validation_rows_alone(monkeypatch, tmp_path):
    chosen, labels = finetune_laplace.PRECISIONS[4], np.arange(12) % CLASSES

    class Head:  # certain of validation labels by how near the precision is, and of test labels the less so
        prior_precision = 0.0

    def predicted(found, features):
        distance = abs(np.log10(found.prior_precision / chosen))
        right = 0.9 / (1 + distance) if features[0, 0] == 0 else 1 - 0.9 / (1 + distance)
        p = np.full((len(labels), CLASSES), (1 - right) / (CLASSES - 1))
        p[np.arange(len(labels)), labels] = right
        return sb.ClassPredictive(p, np.zeros((1, 1)), 2, expected_entropy=np.zeros(len(labels)))

    monkeypatch.setattr(finetune_laplace, "laplace", lambda arrays, seed: Head())
    monkeypatch.setattr(finetune_laplace, "predicted", predicted)
    path = tmp_path / "clinc150-10-3.npz"
    parts = {"validation": np.zeros((12, 1)), "test": np.ones((12, 1)), "ood": np.ones((12, 1))}
    np.savez(path, **parts, validation_labels=labels, test_labels=labels)
    line = finetune_laplace.score(path)
    assert (line["setting"], line["seed"], line["method"]) == ("clinc150-10", 3, "laplace")
    assert line["configuration"] == f"prior precision {chosen:.3g}" and len(line["precisions"]) == 13
    assert line["validation"]["nll"] == pytest.approx(-np.log(0.9)) == line["precisions"][chosen]
    assert line["test"]["nll"] == pytest.approx(-np.log(0.1)) and line["ood"]["auroc_entropy"] == 0.5


class MadeUpMachine:
    """A machine whose networks predict anything, but always the same; it is killed when so many have been trained."""

    tiny, chunk = True, finetune_machine.CHUNK

    def __init__(self, trainings: int):
        self.left = trainings

    def texts(self, name: str) -> Texts:
        parts = {
            "train": np.arange(12),
            "validation": np.arange(12, 18),
            "test": np.arange(18, 24),
            "ood": np.arange(0),
        }
        return dataclasses.replace(made_up_texts(), parts=parts)

    def seconds(self, setting: Setting) -> float:
        return 0.0

    def train(self, setting: Setting, members: list, deadline: float) -> list:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return members

    def predict(self, setting: Setting, state: list, wanted: list, rows: np.ndarray) -> dict:
        found = {}
        for place, draws in wanted:
            rng = np.random.default_rng([zlib.crc32(repr(state[place]).encode()), draws])
            p = rng.dirichlet(np.ones(CLASSES), len(rows))
            found[place, draws] = sb.ClassPredictive(p, np.zeros((1, 1)), draws, expected_entropy=p.sum(axis=1))
        return found


def test_a_killed_run_resumes_to_the_records_of_one_that_was_not(tmp_path):
    def call(folder, trainings):
        machine = MadeUpMachine(trainings)
        with contextlib.suppress(KeyboardInterrupt):
            finetune_stages.one_setting(machine, plan.SETTINGS[2], FinetuneRecords(folder, []), float("inf"))
        return machine

    for name, calls in {"whole": (9,), "killed": (0, 2, 3, 9)}.items():
        (tmp_path / name).mkdir()
        done = [call(tmp_path / name, trainings) for trainings in calls]
        assert done[-1].left == 9 - 6 + sum(calls[:-1])  # none is trained twice
    whole, killed = (FinetuneRecords(tmp_path / name, []).lines for name in ("whole", "killed"))
    assert len(whole) == 6 * 16 * 2 + 7 * 5
    for line in [*whole, *killed]:
        del line["chunk_seconds"]
    assert killed == whole


def test_a_kill_while_a_record_is_written_leaves_the_earlier_ones(tmp_path, monkeypatch):
    records = FinetuneRecords(tmp_path, [])
    records.add([{"stage": "tuning", "setting": "sst2"}])

    def kill(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", kill)
    with pytest.raises(KeyboardInterrupt):
        records.add([{"stage": "result", "setting": "sst2"}])
    monkeypatch.undo()
    again = FinetuneRecords(tmp_path, [])
    assert again.lines == [{"stage": "tuning", "setting": "sst2"}]
    again.add([{"stage": "result", "setting": "sst2"}])
    assert [line["stage"] for line in FinetuneRecords(tmp_path, []).lines] == ["tuning", "result"]


def test_every_call_in_a_folder_keeps_its_command(tmp_path):
    given = argparse.Namespace(out=tmp_path, earlier=[])
    for module in "abc":
        begin(given, module)
    commands = {path.name: json.loads(path.read_text())["command"] for path in tmp_path.glob("run*.json")}
    assert {name: command.split()[2] for name, command in commands.items()} == {
        "run.json": "a",
        "run-2.json": "b",
        "run-3.json": "c",
    }
