"""The language model's experiment: GGUF's matrices in KerasHub, scores of packed choices, page and records."""

from pathlib import Path

import keras
import numpy as np
import pytest
from singularbayes_experiments.methods.adapter_program import stacked
from singularbayes_experiments.problems import finetune_language as plan
from singularbayes_experiments.problems import finetune_language_model as language
from singularbayes_experiments.problems import finetune_questions as questions
from singularbayes_experiments.problems.finetune import Adaptation, Trained

ROOT = Path(__file__).parents[2]
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
