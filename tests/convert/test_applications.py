"""Models that nobody here wrote, of keras.applications and KerasHub, there and back."""

import keras
import numpy as np
import pytest
from keras import ops

import singularbayes as sb
from singularbayes import FullRank, find_posteriors

BACKEND = keras.backend.backend()
on_torch = pytest.mark.skipif(BACKEND != "torch", reason="surgery is the same everywhere; torch is quickest")
pytestmark = [
    pytest.mark.backend,
    # KerasHub's own: it makes layers that drop a mask.
    pytest.mark.filterwarnings("ignore:.*was passed an input with a mask attached to it:UserWarning"),
]
RNG = np.random.default_rng(11)


def _numpy(values):
    return [ops.convert_to_numpy(ops.cast(v, "float32")) for v in keras.tree.flatten(values)]


def _assert_close(a, b, tolerance=1e-5):
    """Asserts that arrays differ by at most the tolerance, as a share of the largest value of each."""
    for x, y in zip(keras.tree.flatten(a), keras.tree.flatten(b), strict=True):
        (x,), (y,) = _numpy(x), _numpy(y)  # one by one: the largest models have a gigabyte of weights
        np.testing.assert_allclose(x, y, rtol=0, atol=tolerance * np.abs(y).max())


@on_torch
def test_an_application_goes_there_and_back():
    # Logits: the probabilities of random weights are all alike, or 0 and 1.
    arguments = {"weights": None, "classes": 10, "input_shape": (32, 32, 3), "classifier_activation": None}
    model = keras.applications.MobileNetV2(**arguments)
    x = RNG.uniform(0, 255, size=(2, 32, 32, 3)).astype("float32")
    truth = _numpy(model(x))
    bayes = sb.bayesianize(model, FullRank(), unsupported="keep")
    assert find_posteriors(bayes)
    plain = sb.collapse(bayes)
    assert [layer.name for layer in plain.layers] == [layer.name for layer in model.layers]
    for answer in (bayes(x), plain(x)):
        _assert_close(answer, truth)
    _assert_close(plain.weights, model.weights)  # predictions alone say little


@on_torch
def test_a_rank_shrinks_an_application_and_its_plan_names_it():
    model = keras.applications.MobileNet(weights=None, classes=10, input_shape=(32, 32, 3))
    planned = sb.plan(model, 4)
    assert {row.kind for row in planned.unsupported} == {"DepthwiseConv2D"}
    assert planned.before == model.count_params() > 2 * planned.after
    with pytest.raises(ValueError, match=r"DepthwiseConv2D 'conv_dw_1' \(no Bayesian counterpart\).*and 10 more"):
        sb.bayesianize(model, 4)


TEXT = {"vocabulary_size": 30, "num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 12}
TEXT["max_sequence_length"] = 8
GROUPED = {"vocabulary_size": 30, "num_layers": 2, "num_query_heads": 2, "num_key_value_heads": 1, "hidden_dim": 8}
IMAGE = {"image_shape": (16, 16, 3), "patch_size": 8, "num_layers": 2, "num_heads": 2, "hidden_dim": 8}

# An encoder, a decoder with grouped heads and tied embeddings, both in one, and images.
# name: (arguments, names of the inputs, layers without a counterpart)
BACKBONES = {
    "BertBackbone": (TEXT, "token_ids segment_ids padding_mask", {"PositionEmbedding"}),
    "LlamaBackbone": (
        {**GROUPED, "intermediate_dim": 16, "tie_word_embeddings": True},
        "token_ids padding_mask",
        set(),
    ),
    "BartBackbone": (
        TEXT,
        "encoder_token_ids encoder_padding_mask decoder_token_ids decoder_padding_mask",
        {"PositionEmbedding"},
    ),
    "ViTBackbone": ({**IMAGE, "mlp_dim": 12}, "", set()),
}


def _hub():
    return pytest.importorskip("keras_hub", reason="KerasHub is not installed").models


def _batch(inputs: str):
    if not inputs:
        return RNG.normal(size=(2, 16, 16, 3)).astype("float32")
    batch = {name: RNG.integers(1, 30, (2, 8)).astype("int32") for name in inputs.split() if name.endswith("token_ids")}
    mask = np.ones((2, 8), "int32")
    mask[1, 5:] = 0
    batch |= {name: mask for name in inputs.split() if name.endswith("mask")}
    return batch | {name: np.zeros((2, 8), "int32") for name in inputs.split() if name.endswith("segment_ids")}


def _stirred(model):
    rng = np.random.default_rng(0)
    model.set_weights([(w + rng.uniform(0, 0.2, w.shape)).astype(w.dtype) for w in model.get_weights()])
    return model


@on_torch
@pytest.mark.parametrize("name", BACKBONES)
def test_backbones_go_there_and_back_and_into_a_file(name, tmp_path):
    arguments, inputs, kept = BACKBONES[name]
    model, x = _stirred(getattr(_hub(), name)(**arguments)), _batch(inputs)
    truth = _numpy(model(x))
    assert {row.kind for row in sb.plan(model, 1).unsupported} == kept
    bayes = sb.bayesianize(model, 10**6, unsupported="keep")
    assert isinstance(bayes, type(model))
    _assert_close(bayes(x), truth)
    bayes.save(tmp_path / "bayes.keras")
    loaded = keras.saving.load_model(tmp_path / "bayes.keras")
    assert len(find_posteriors(loaded)) == len(find_posteriors(bayes))
    _assert_close(loaded(x), bayes(x), 1e-6)
    plain = sb.collapse(bayes)
    assert type(plain) is type(model)
    _assert_close(plain(x), truth)


@on_torch
def test_a_tied_table_beside_adapters_is_tied_in_the_file_too(tmp_path):
    hub = _hub()
    model = hub.LlamaCausalLM(backbone=_stirred(hub.LlamaBackbone(**BACKBONES["LlamaBackbone"][0])))
    x = _batch("token_ids padding_mask")
    bayes = sb.bayesianize(model, sb.Adapter(2))
    bayes.save(tmp_path / "bayes.keras")
    loaded = keras.saving.load_model(tmp_path / "bayes.keras")
    _assert_close(loaded(x), model(x))
    assert len(loaded.weights) == len(bayes.weights)
