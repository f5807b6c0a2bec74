"""The language model's experiment: GGUF's matrices in KerasHub, scores of packed choices, page and records."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
from singularbayes_experiments.methods.adapter_program import stacked
from singularbayes_experiments.problems import finetune_language as plan
from singularbayes_experiments.problems import finetune_language_model as language
from singularbayes_experiments.problems import finetune_questions as questions
from singularbayes_experiments.problems.finetune import Adaptation, Trained
from singularbayes_experiments.report import finetune_language as report

ROOT = Path(__file__).parents[2]
RECORDS = report.read_lines(ROOT / "experiments" / "results" / "finetune_language")
on_jax = pytest.mark.skipif(keras.backend.backend() != "jax", reason="the program is one of JAX")
SIZES = {
    "vocabulary_size": 50,
    "num_layers": 2,
    "num_query_heads": 4,
    "num_key_value_heads": 2,
    "hidden_dim": 16,
    "intermediate_dim": 24,
    "rope_max_wavelength": 100.0,
    "layer_norm_epsilon": 1e-5,
}
HEAD = 4
PROMPT, CHOICES = [3, 8, 8, 21, 5], [[7, 9], [30], [7, 9, 2, 44]]


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray]:
    """Matrices (outputs, inputs) under GGUF's names."""
    rng = np.random.default_rng(0)
    shapes = {
        "attn_q": (16, 16),
        "attn_k": (8, 16),
        "attn_v": (8, 16),
        "attn_output": (16, 16),
        "ffn_gate": (24, 16),
        "ffn_up": (24, 16),
        "ffn_down": (16, 24),
    }
    found = {"token_embd.weight": rng.normal(size=(50, 16)), "output_norm.weight": rng.uniform(0.5, 2, 16)}
    for block in range(2):
        found |= {f"blk.{block}.{name}.weight": rng.normal(size=shape) / 3 for name, shape in shapes.items()}
        found |= {f"blk.{block}.{name}.weight": rng.uniform(0.5, 2, 16) for name in ("attn_norm", "ffn_norm")}
    return found


@pytest.fixture(scope="module")
def backbone(arrays):
    pytest.importorskip("keras_hub", reason="KerasHub is not installed")
    return language.language_model(SIZES, arrays, dtype="float32")


def llama_cpp(arrays: dict[str, np.ndarray], ids: list[int]) -> np.ndarray:
    """Returns the last hidden states by the formulas of llama.cpp, which rotates neighbouring pairs."""

    def norm(x, name):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + SIZES["layer_norm_epsilon"]) * arrays[name]

    def rotated(x):
        angles = np.arange(len(ids))[:, None] * SIZES["rope_max_wavelength"] ** (-np.arange(0, HEAD, 2) / HEAD)
        z = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)[:, None]
        return np.stack([z.real, z.imag], -1).reshape(x.shape)

    x = arrays["token_embd.weight"][ids]
    for block in range(SIZES["num_layers"]):

        def times(x, name, block=block):
            return x @ arrays[f"blk.{block}.{name}.weight"].T

        h = norm(x, f"blk.{block}.attn_norm.weight")
        q = rotated(times(h, "attn_q").reshape(len(ids), -1, HEAD))
        k = rotated(times(h, "attn_k").reshape(len(ids), -1, HEAD)).repeat(2, axis=1)
        v = times(h, "attn_v").reshape(len(ids), -1, HEAD).repeat(2, axis=1)
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(HEAD)
        scores = np.where(np.tril(np.ones(scores.shape[1:])) > 0, np.exp(scores), 0)
        attended = np.einsum("hqk,khd->qhd", scores / scores.sum(-1, keepdims=True), v)
        x = x + times(attended.reshape(len(ids), -1), "attn_output")
        h = norm(x, f"blk.{block}.ffn_norm.weight")
        gate = times(h, "ffn_gate")
        x = x + times(gate / (1 + np.exp(-gate)) * times(h, "ffn_up"), "ffn_down")
    return norm(x, "output_norm.weight")


@on_jax
def test_matrices_of_gguf_give_the_states_that_llama_cpp_defines(arrays, backbone):
    ids = [*PROMPT, *CHOICES[2]]
    tokens = np.array([ids])
    states = backbone({"token_ids": tokens, "padding_mask": np.ones_like(tokens)})
    np.testing.assert_allclose(np.asarray(states)[0], llama_cpp(arrays, ids), rtol=1e-4, atol=1e-5)


@on_jax
def test_packed_choices_have_the_probabilities_that_they_have_alone(arrays, backbone):
    from singularbayes_experiments.methods.choice_program import ChoiceProgram
    from singularbayes_experiments.runs.finetune_language import start_of

    expected = []
    for choice in CHOICES:
        states = llama_cpp(arrays, [*PROMPT, *choice])[len(PROMPT) - 1 : -1]
        logits = states @ arrays["token_embd.weight"].T
        expected.append(np.mean(logits[range(len(choice)), choice] - np.log(np.exp(logits).sum(-1))))
    expected = np.exp(expected) / np.sum(np.exp(expected))

    program = ChoiceProgram(language.with_adapters(backbone, 2))
    row = questions.pack(PROMPT, CHOICES)
    data = {name: np.stack([values, values]) for name, values in row.items()}
    data |= {"labels": np.zeros(2, "int32"), "power": np.float32(1)}
    untrained = [Trained(Adaptation("lora", 1e-3), 0), Trained(Adaptation("lora", 1e-3, dropout=0.5), 1)]
    state = program.start_many(stacked([start_of(one, 1) for one in untrained]))
    size = (plan.LENGTHS[0], plan.SLOTS[plan.LENGTHS[0]])
    p, entropy = program.predict(state, np.array([1, 0]), 2, program.frozen, data, size=size)
    assert p.shape == (2, 2, plan.CHOICES)
    np.testing.assert_allclose(p[..., :3], np.broadcast_to(expected, (2, 2, 3)), rtol=1e-4)
    np.testing.assert_allclose(p[..., 3], 0, atol=1e-12)  # a choice that the question does not have
    np.testing.assert_allclose(entropy, -np.sum(expected * np.log(expected)), rtol=1e-4)


def test_the_page_shows_what_the_records_have():
    page = (ROOT / "docs" / "language_model_results.md").read_text(encoding="utf-8")
    assert report.filled(page, RECORDS) == page


def test_what_the_page_says_in_words_is_so():
    results = [one for one in RECORDS if one["stage"] == "result"]
    assert {one["setting"] for one in results} == {"arc_easy", "openbookqa"}
    methods = report.methods_of(RECORDS, "arc_easy")
    accuracy = {name: np.mean(report.scores(RECORDS, "arc_easy", name, "test", "accuracy")) for name in methods}
    assert min(accuracy[name] for name in ("lora_ensemble", "blob", "bayes", "mixture")) > accuracy["lora"]
    tempered = {name: np.mean(report.scores(RECORDS, "arc_easy", name, "tempered", "nll")) for name in methods}
    assert tempered.pop("mc_dropout") > 1 and all(0.88 < value < 0.9 for value in tempered.values())  # as when_not says
    book = {
        what: {name: np.mean(report.scores(RECORDS, "openbookqa", name, *what)) for name in methods}
        for what in (("test", "accuracy"), ("test", "nll"), ("tempered", "nll"))
    }
    behind = {what: [each[name] - each["lora"] for name in ("bayes", "mixture")] for what, each in book.items()}
    page = " ".join((ROOT / "docs" / "language_model_results.md").read_text(encoding="utf-8").split())
    for setting in ("arc_easy", "openbookqa"):
        means = {name: np.mean(report.scores(RECORDS, setting, name, "test", "nll")) for name in methods}
        assert min(means, key=means.get) == "lora_temperature"  # as README.md and when_not.md say
    accuracies, nll, with_temperature = behind.values()
    less = " and ".join(f"{-value:.3f}".removeprefix("0") for value in accuracies)
    assert f"the Bayesian adapter and the mixture have {less} less accuracy than LoRA." in page
    one, two = (f"{value:.2f}".removeprefix("0") for value in nll)
    [both] = {f"{value:.2f}".removeprefix("0") for value in with_temperature}
    said = f"Their mean NLL is higher by {one} and {two} (the mixture's interval reaches 0), and with a temperature by"
    assert f"{said} {both}." in page
    assert not report.difference(RECORDS, "openbookqa", "mixture", "lora").endswith("worse")
    gain = book["test", "accuracy"]["lora_ensemble"] - book["test", "accuracy"]["lora"]
    assert f"the ensemble of LoRAs gains {gain:.2f} in accuracy".replace("0.", ".") in page
    runs = [
        json.loads((ROOT / "experiments" / "results" / "finetune_language" / name).read_text(encoding="utf-8"))
        for name in ("run.json", "run-second.json")
    ]
    minutes = [run["command"].split("--minutes ")[1] for run in runs]
    assert "Two runs were given {} and {} minutes".format(*minutes) in page
    seconds = [sum(run["seconds"].values()) for run in runs]
    assert "conversion and compiling took {} s in the first and {} s in the second".format(*seconds) in page
    for one in results:
        assert one["kind"] != "bayes" or one["settings"]["beta"] == min(own["beta"] for own in plan.LEVELS["bayes"])
    untrained = {one["score"]: one["validation"]["nll"] for one in RECORDS if report.is_untrained(one, "arc_easy")}
    assert untrained["mean"] < untrained["sum"]


def test_results_of_more_methods_change_what_the_page_says():
    old = [one for one in RECORDS if one.get("kind") not in ("blob", "mc_dropout")]
    lora = [one for one in old if (one["stage"], one["method"]) == ("result", "lora")]
    own = {"learning_rate": min(plan.RATES)}
    new = [
        {**one, "method": kind, "kind": kind, "settings": own, "temperature": 9.0, "tempered": {"nll": 0.5 + i}}
        for i, kind in enumerate(("blob", "mc_dropout"))
        for one in lora
    ]
    assert "not begun" in report.calls_line(old) and "third run" in report.calls_line([*old, *new])
    assert report.state_line([*old, *new]) == "ARC-Easy: all seven methods. OpenBookQA: all seven methods."
    assert "to 9.00" in report.temperature_lines([*old, *new]) and "9.00" not in report.temperature_lines(old)
    assert ".500 (BLoB's form) to 1.500 (LoRA, MC dropout)" in report.temperature_lines([*old, *new])
    assert "All choices" in report.edges_line(old)
    assert report.edges_line([*old, *new]).startswith(
        "- Of two learning rates, the lesser was chosen for BLoB's form on ARC-Easy, LoRA, MC dropout on ARC-Easy, "
    )


@on_jax
def test_results_have_the_configurations_that_the_records_of_tuning_choose(tmp_path):
    from singularbayes_experiments.runs.finetune_language import FinetuneRecords, choices

    records = FinetuneRecords(tmp_path, [ROOT / "experiments" / "results" / "finetune_language"])
    for setting in plan.SETTINGS:
        results, tuned = (
            [one for one in RECORDS if (one["stage"], one["setting"]) == (stage, setting.name)]
            for stage in ("result", "tuning")
        )
        kinds = [kind for kind in plan.LEVELS if kind in {one["kind"] for one in results}]
        assert {"lora", "bayes"} <= set(kinds)
        chosen = choices(records, setting, kinds)
        assert {one["kind"]: one["settings"] for one in results} == {kind: vars(one) for kind, one in chosen.items()}
        tried = {(one["kind"], one["configuration"], one["seed"]) for one in tuned}
        assert tried == {(one.adaptation.kind, one.adaptation.name, one.seed) for one in plan.tuning(kinds)}
        assert {one["seed"] for one in results} == set(plan.RESULT_SEEDS)
