"""Tasks of KerasHub: adapters on a frozen backbone, texts as inputs, generation, and what is refused."""

import keras
import numpy as np
import pytest
from convertible import assert_close
from keras import ops
from posterior_table import TORCH_FIRST

import singularbayes as sb
from singularbayes import Adapter, Mixture

keras_hub = pytest.importorskip("keras_hub")
presets = pytest.importorskip("presets")
pytestmark = pytest.mark.on_torch
TEXTS, LABELS = presets.sentences(24)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(presets.make_bert(tmp_path_factory.mktemp("presets") / "bert"))


@pytest.fixture(scope="module")
def task(folder):
    return presets.bert_classifier(folder)


def _values(weights):
    return [np.array(ops.convert_to_numpy(ops.cast(w, "float32"))) for w in weights]


def _fit(model, **options):
    """Trains on lists, as users have them; Keras itself takes no list of labels."""
    model.compile(keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    options |= {"batch_size": 8, "epochs": 2, "verbose": 0, "callbacks": [sb.KLSchedule()]}
    return model.fit(list(TEXTS), LABELS.tolist(), **options)


@pytest.fixture(scope="module")
def fitted(task):
    """A converted task after two epochs on texts, and all its weights before."""
    model = sb.bayesianize(task, Adapter(2))
    before = {w.path: v for w, v in zip(model.weights, _values(model.weights), strict=True)}
    history = _fit(model, validation_data=(TEXTS[:8], LABELS[:8].tolist()))
    assert "val_nll" in history.history
    return model, before


def test_a_plan_has_adapters_on_matrices_of_the_backbone_and_names_what_is_frozen(task):
    rows = {row.path.rpartition("/")[2]: row for row in sb.plan(task, Adapter(2)).rows}
    assert [name for name, row in rows.items() if row.posterior] == [
        "self_attention_layer",
        "feedforward_intermediate_dense",
        "feedforward_output_dense",
        "pooled_dense",
    ]
    for name in ("token_embedding", "position_embedding", "embeddings_layer_norm", "self_attention_layer_norm"):
        assert rows[name].reason == "frozen, as all of the backbone"
    assert rows["logits"].reason == "trained as it is, beside the backbone"
    assert rows["pooled_dense"].reason == "W₀ and biases frozen"
    assert not any("tokenizer" in name or "packer" in name for name in rows)
    kept = {row.path: row for row in sb.plan(task, Adapter(2), rules={"logits": 2, "pooled_dense": None}).rows}
    assert kept["logits"].posterior == "LowRank(2)"
    (pooled,) = (row for path, row in kept.items() if path.endswith("/pooled_dense"))
    assert pooled.reason == "kept by the rule 'pooled_dense'"


@TORCH_FIRST
def test_a_conversion_trains_adapters_and_head_and_nothing_else(task, fitted):
    model, before = fitted
    assert type(model).__name__ == "BertTextClassifier" and isinstance(model, keras_hub.models.BertTextClassifier)
    trained = {w.path for w in model.trainable_weights}
    assert {path.rpartition("/")[2] for path in trained} == {"ab", "kernel", "bias"}
    assert sum("logits" in path for path in trained) == 2
    moved = {w.path for w, v in zip(model.weights, _values(model.weights), strict=True) if (before[w.path] != v).any()}
    assert trained <= moved and not any("w0" in path or "norm" in path or "embedding" in path for path in moved)
    assert not any(path.endswith("bias_posterior/w") for path in moved)
    frozen = sb.bayesianize(task, Adapter(2))
    task.backbone.trainable = False  # as users of KerasHub do; it is frozen anyway, and the adapters are new
    try:
        other = sb.bayesianize(task, Adapter(2))
    finally:
        task.backbone.trainable = True
    assert [w.path for w in other.trainable_weights] == [w.path for w in frozen.trainable_weights]
    tokens = task.preprocessor(TEXTS[:3])
    assert_close(other(tokens), task(tokens), atol=1e-6)


def test_texts_are_inputs_wherever_arrays_are(fitted):
    model, _ = fitted
    tokens = {name: ops.convert_to_numpy(array) for name, array in model.preprocessor(TEXTS).items()}
    options = {"draws": 3, "seed": 1, "keep_draws": True}
    np.testing.assert_array_equal(sb.predict(model, TEXTS, **options).draws, sb.predict(model, tokens, **options).draws)
    np.testing.assert_array_equal(model.predict(np.array(TEXTS), verbose=0), model.predict(tokens, verbose=0))
    losses = [model.evaluate(x, LABELS, verbose=0, return_dict=True)["loss"] for x in (TEXTS, tokens)]
    assert losses[0] == losses[1]
    assert sb.evaluate(model, (TEXTS, LABELS), draws=3).metrics["nll"] > 0
    own, model.preprocessor = model.preprocessor, lambda texts: {n: a[: len(texts)] for n, a in tokens.items()}
    try:  # any function will do
        np.testing.assert_array_equal(
            sb.predict(model, TEXTS, **options).draws, sb.predict(model, tokens, **options).draws
        )
    finally:
        model.preprocessor = own


def test_files_and_the_mean_as_a_plain_task(task, fitted, tmp_path):
    model, _ = fitted
    tokens = model.preprocessor(TEXTS[:4])
    model.save(tmp_path / "m.keras")
    again = sb.load(tmp_path / "m.keras")
    options = {"draws": 2, "keep_draws": True}
    expected = sb.predict(model, TEXTS[:4], **options).draws
    np.testing.assert_allclose(sb.predict(again, TEXTS[:4], **options).draws, expected, atol=1e-6)
    assert [tuple(w.shape) for w in again.trainable_weights] == [tuple(w.shape) for w in model.trainable_weights]
    plain = sb.collapse(model)
    assert type(plain) is keras_hub.models.BertTextClassifier and plain.preprocessor is model.preprocessor
    assert_close(plain(tokens), model(tokens), atol=1e-5)
    sb.save_adapters(model, tmp_path / "a.npz")
    loaded = sb.load_adapters(task, tmp_path / "a.npz")
    np.testing.assert_allclose(
        sb.predict(loaded, TEXTS[:4], likelihood="categorical_logits", **options).draws, expected, atol=1e-6
    )


def test_a_mixture_shares_the_base_and_has_a_head_for_each_component(task, tmp_path):
    model = sb.bayesianize(task, Mixture(Adapter(2), 3))
    assert sum("w0" in w.path for w in model.weights) == 7  # one for each matrix, whatever the components
    assert all(w.shape[0] == 3 for w in model.trainable_weights)
    _fit(model)
    found = sb.predict(model, TEXTS[:5], draws=6, keep_draws=True).draws
    assert np.abs(found[0] - found[1]).max() > 0
    heads = [w for w in model.trainable_weights if "logits" in w.path]
    for weight in heads:
        values = ops.convert_to_numpy(weight)
        assert np.abs(values[0] - values[1]).max() > 0
    sb.save_adapters(model, tmp_path / "a.npz")
    loaded = sb.load_adapters(task, tmp_path / "a.npz")
    options = {"draws": 6, "keep_draws": True, "likelihood": "categorical_logits"}
    np.testing.assert_allclose(sb.predict(loaded, TEXTS[:5], **options).draws, found, atol=1e-6)
    tokens = task.preprocessor(TEXTS[:5])
    for number, plain in enumerate(sb.collapse(model, component="all")):
        assert type(plain) is keras_hub.models.BertTextClassifier
        assert_close(plain(tokens), sb.take_components(model, number)(tokens), atol=1e-5)


def test_a_base_stays_in_its_own_type_and_adapters_train_in_float32(task, folder, tmp_path):
    base, tokens = presets.bert_classifier(folder, dtype="bfloat16"), task.preprocessor(TEXTS[:6])
    model = sb.bayesianize(base, Adapter(2))
    kept = [w for w in model.weights if w.name == "w0"]
    assert {keras.backend.standardize_dtype(w.dtype) for w in kept} == {"bfloat16"} and len(kept) == 7
    adapters = [w for w in model.trainable_weights if w.name == "ab"]
    assert {keras.backend.standardize_dtype(w.dtype) for w in adapters} == {"float32"} and len(adapters) == 7
    plain = presets.bert_classifier(folder)
    plain.layers[-1].set_weights(_values(model.layers[-1].weights))
    assert_close(ops.cast(model(tokens), "float32"), plain(tokens), atol=0.05)
    before, start = _values(kept), _values(adapters)
    _fit(model)
    for old, new in zip(before, _values(kept), strict=True):
        np.testing.assert_array_equal(old, new)
    assert all((old != new).any() for old, new in zip(start, _values(adapters), strict=True))
    sb.save_adapters(model, tmp_path / "a.npz")
    options = {"draws": 2, "keep_draws": True, "likelihood": "categorical_logits"}
    found = [sb.predict(m, TEXTS[:4], **options).draws for m in (model, sb.load_adapters(base, tmp_path / "a.npz"))]
    np.testing.assert_allclose(*found, atol=1e-6)


@TORCH_FIRST
def test_rematerialization_is_refused_by_a_layer_and_dropped_by_a_conversion(folder):
    with keras.RematScope(mode="full"):
        layer, base = sb.layers.Dense(3, posterior=sb.LowRank(2)), presets.bert_classifier(folder)
    with pytest.raises(ValueError, match="draws weights and cannot be made inside"):
        layer(np.ones((2, 3)))
    model = sb.bayesianize(base, Adapter(2))
    assert not any(part._remat_mode for part in model._flatten_layers())


@pytest.fixture(scope="module")
def language_model():
    keras.utils.set_random_seed(0)
    backbone = keras_hub.models.GPT2Backbone(
        20, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=12, dropout=0.0, max_sequence_length=9
    )
    model = sb.bayesianize(keras_hub.models.GPT2CausalLM(backbone), Adapter(2, eta=3.0))
    model.compile(sampler="greedy")
    return model


@TORCH_FIRST
def test_a_language_model_generates_at_the_mean_and_with_one_draw_for_a_whole_text(language_model):
    model = language_model
    prompt = {"token_ids": np.array([[3, 5, 7] + [0] * 6] * 2), "padding_mask": np.array([[1] * 3 + [0] * 6] * 2)}

    def continued(logits):
        """Returns the most likely continuation by a function of whole sequences: no cache, no loop inside."""
        ids = prompt["token_ids"].copy()
        for at in range(3, 9):
            mask = np.tile(np.arange(9) < at, (2, 1)).astype("int32")
            ids[:, at] = logits({"token_ids": ids, "padding_mask": mask})[:, at - 1].argmax(-1)
        return ids

    def generated():
        return ops.convert_to_numpy(model.generate(dict(prompt), stop_token_ids=None)["token_ids"])

    options = {"draws": 2, "seed": 4, "keep_draws": True, "likelihood": "categorical_logits"}
    mean = generated()
    np.testing.assert_array_equal(mean, continued(lambda x: ops.convert_to_numpy(model(x))))
    found = []
    for draw in (0, 1):
        with sb.fixed_draw(model, draw, seed=4):
            found.append(generated())
        expected = continued(lambda x, s=draw: sb.predict(model, x, **options).draws[s])
        np.testing.assert_array_equal(found[-1], expected)
    assert (found[0] != found[1]).any()
    np.testing.assert_array_equal(generated(), mean)


# -- what is refused -------------------------------------------------------------------------------------------------


def test_text_that_cannot_be_read_is_refused(task, fitted):
    model, _ = fitted
    with pytest.raises(TypeError, match=r"got 'fine'\. Read the file first; if it is a text .* write \[text\]"):
        sb.predict(model, "fine")
    ids = {name: np.ones((2, 11), int) for name in ("token_ids", "padding_mask", "segment_ids")}
    for act in (lambda: sb.predict(model, ids), lambda: model.fit(ids, LABELS[:2]), lambda: model.predict(ids)):
        with pytest.raises(ValueError, match=r"needs sequences of at most 10 tokens.*got 11"):
            act()
    model.preprocessor.sequence_length = 64
    try:
        with pytest.raises(ValueError, match=r"got 64\. Set model\.preprocessor\.sequence_length = 10"):
            sb.predict(model, TEXTS)
    finally:
        model.preprocessor.sequence_length = 8
    kept, model.preprocessor = model.preprocessor, None
    try:
        with pytest.raises(TypeError, match="which has no preprocessor; got text"):
            sb.predict(model, TEXTS)
    finally:
        model.preprocessor = kept


def test_a_tokenizer_or_base_that_does_not_match_is_refused_and_nothing_is_written(task, fitted, folder, tmp_path):
    model, _ = fitted
    sb.save_adapters(model, tmp_path / "a.npz")
    more = [*presets.VOCABULARY, "extra"]
    other = presets.bert_classifier(folder)
    other.preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
        keras_hub.models.BertTokenizer(vocabulary=more), sequence_length=8
    )
    with pytest.raises(ValueError, match=r"24 tokens for 23 embeddings.*from one preset folder"):
        sb.bayesianize(other, Adapter(2))
    swapped = [*presets.VOCABULARY[:-2], *presets.VOCABULARY[:-3:-1]]
    other.preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
        keras_hub.models.BertTokenizer(vocabulary=swapped), sequence_length=8
    )
    with pytest.raises(ValueError, match="the tokenizer has another vocabulary"):
        sb.load_adapters(other, tmp_path / "a.npz")
    another = presets.bert_classifier(str(presets.make_bert(tmp_path / "other", seed=1)))
    with pytest.raises(ValueError, match=r"the frozen weights of .* differ"):
        sb.load_adapters(another, tmp_path / "a.npz")
    deeper = presets.bert_classifier(str(presets.make_bert(tmp_path / "deeper", layers=2)))
    with pytest.raises(
        ValueError, match=r"no layer is 'bert_backbone(_\d+)?/pooled_dense' \(Dense in the file\): another"
    ):
        sb.load_adapters(deeper, tmp_path / "a.npz")
    with pytest.raises(ValueError, match=r"\[Adapter\(3\).*, and \[Adapter\(2\)"):
        sb.load_adapters(sb.bayesianize(task, Adapter(3)), tmp_path / "a.npz")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npz", "deeper", "other"]


def test_a_folder_of_hugging_face_is_a_base(tmp_path):
    pytest.importorskip("safetensors")
    folder = tmp_path / "bert"
    arrays = presets.make_hugging_face(folder)
    model = sb.bayesianize(presets.bert_classifier(str(folder)), Adapter(2))
    kept = next(w for w in model.weights if w.path.endswith("feedforward_intermediate_dense/posterior/w0"))
    np.testing.assert_array_equal(ops.convert_to_numpy(kept), arrays["encoder.layer.0.intermediate.dense.weight"].T)
    assert sb.predict(model, TEXTS[:4], draws=2, likelihood="categorical_logits").mean.shape == (4, 2)


def test_a_folder_or_a_quantised_base_is_refused(folder):
    with pytest.raises(ValueError, match=r"needs a Keras model; got .*from_preset\(folder"):
        sb.bayesianize(folder, Adapter(2))
    base = presets.bert_classifier(folder)
    base.backbone.get_layer("transformer_layer_0")._feedforward_output_dense.quantize("int4")
    with pytest.raises(ValueError, match=r"feedforward_output_dense' \(it is quantised \(int4\)"):
        sb.bayesianize(base, Adapter(2))
