"""Any Keras model becomes Bayesian: the same function at its mean, its own buffers, and everything else as it was."""

import keras
import numpy as np
import pytest
from keras import ops

import singularbayes as sb
from singularbayes import Adapter, FullRank, LowRank, find_posteriors, layers, mean_weights

pytestmark = pytest.mark.backend
L = keras.layers
RNG = np.random.default_rng(5)
BACKEND = keras.backend.backend()
# Surgery is the same on every backend, and JAX compiles each operation of a new shape.
not_on_jax = pytest.mark.skipif(BACKEND == "jax", reason="compiling takes long; torch and TensorFlow run it")


def numpy(values):
    return [ops.convert_to_numpy(ops.cast(v, "float32")) for v in keras.tree.flatten(values)]


def assert_close(a, b, atol=2e-5):
    for x, y in zip(numpy(a), numpy(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=atol)


def at_mean(model, x):
    with mean_weights(model):
        return model(x)


def stirred(model, seed=0):
    """Returns the model with weights that differ in every entry, all positive where a variance is."""
    rng = np.random.default_rng(seed)
    model.set_weights([(w + rng.uniform(0.05, 0.3, w.shape)).astype(w.dtype) for w in model.get_weights()])
    return model


@keras.saving.register_keras_serializable("tests")
class Block(L.Layer):
    """A layer that makes its own layers: by attribute, in a list, a dictionary and a tuple; one of them twice."""

    def __init__(self, width, **kwargs):
        super().__init__(**kwargs)
        self.width = width
        self.first = L.Dense(width, "tanh")
        self.stack = [L.Dense(width), L.LayerNormalization()]
        self.named = {"gate": L.Dense(width, "sigmoid"), "again": self.first}
        self.pair = (L.Dense(width), L.Dropout(0.1))

    def build(self, shape):
        self.late = L.Dense(self.width, name="late")
        wide = (*shape[:-1], self.width)
        for layer in (self.first, self.named["gate"]):
            layer.build(shape)
        for layer in (*self.stack, self.pair[0], self.late):
            layer.build(wide)

    def call(self, x):
        h = self.named["gate"](x) * self.named["again"](x) + self.first(x)
        for layer in self.stack:
            h = layer(h)
        return self.late(self.pair[1](self.pair[0](h)))

    def get_config(self):
        return {**super().get_config(), "width": self.width}


@keras.saving.register_keras_serializable("tests")
class Subclassed(keras.Model):
    """A model with a `call` of its own, a nested Sequential, and a method that a conversion must not lose."""

    def __init__(self, width=4, **kwargs):
        super().__init__(**kwargs)
        self.width = width
        self.net = keras.Sequential([L.Dense(width, "relu"), Block(width)])
        self.head = L.Dense(2)

    def call(self, x):
        return self.head(self.net(x))

    def twice(self):
        return 2 * self.width

    def get_config(self):
        return {**super().get_config(), "width": self.width}


@keras.saving.register_keras_serializable("tests")
class Backbone(keras.Model):
    """A functional model behind a constructor of its own, as KerasHub's are; it also names its layers."""

    def __init__(self, width=4, **kwargs):
        embedding = L.ReversibleEmbedding(11, width, name="embedding")
        blocks = [Block(width, name=f"block_{i}") for i in range(1 if BACKEND == "jax" else 2)]
        ids = keras.Input((5,), dtype="int32", name="ids")
        x = embedding(ids)
        for block in blocks:
            x = block(x)
        super().__init__(ids, embedding(x, reverse=True), **kwargs)
        self.embedding, self.blocks, self.width = embedding, blocks, width

    def get_config(self):
        return {"name": self.name, "trainable": self.trainable, "width": self.width}


def _sequential():
    return keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            L.Conv2D(5, 3, activation="relu"),
            L.BatchNormalization(),
            L.MaxPooling2D(),
            L.Flatten(),
            L.Dense(4),
        ]
    )


def _functional():
    """Two inputs, two outputs, a shared layer and a nested model."""
    a, b = keras.Input((6,), name="a"), keras.Input((6,), name="b")
    shared = L.Dense(6, "tanh", name="shared")
    nested = keras.Sequential([keras.Input((6,)), L.Dense(3, name="inner"), L.ReLU()], name="nested")
    h = L.Concatenate()([nested(shared(a)), nested(shared(shared(b)))])
    return keras.Model([a, b], [L.Dense(2, name="y")(h), h])


def _sequences():
    ids = keras.Input((5,), dtype="int32")
    x = L.Embedding(9, 4, mask_zero=True)(ids)
    x = L.TimeDistributed(L.Dense(4))(x)
    x = x + L.MultiHeadAttention(2, 3)(x, x, use_causal_mask=True)
    x = L.Bidirectional(L.LSTM(3, return_sequences=True))(x)
    x = L.Conv1D(4, 2, padding="same")(x)
    x = L.EinsumDense("abc,cde->abde", (None, 2, 3), bias_axes="e")(x)
    return keras.Model(ids, L.GRU(3)(L.Reshape((5, 6))(x)))


def _subclassed():
    model = Subclassed()
    model(np.ones((2, 3), "float32"))
    return model


IDS = RNG.integers(0, 9, (3, 5)).astype("int32")
IDS[1, 3:] = 0
MODELS = {
    "sequential": (_sequential, RNG.normal(size=(2, 8, 8, 3)).astype("float32"), 2),
    "functional": (_functional, [RNG.normal(size=(4, 6)).astype("float32") for _ in "ab"], 3),
    "sequences": (_sequences, IDS, 14),
    "subclassed": (_subclassed, RNG.normal(size=(4, 3)).astype("float32"), 7),
    "backbone": (Backbone, IDS, 6 if BACKEND == "jax" else 11),
}


@pytest.fixture(params=["backbone"] if BACKEND == "jax" else [*MODELS])
def case(request):
    """A stirred model, a batch for it, and the number of matrices in it."""
    make, x, matrices = MODELS[request.param]
    return stirred(make()), x, matrices


def test_at_full_rank_from_svd_the_mean_predicts_what_the_model_did(case):
    model, x, matrices = case
    truth = numpy(model(x))
    before = model.get_weights()
    bayes = sb.bayesianize(model, LowRank(10**6), init="svd", cap=True)
    assert type(bayes).__name__ == type(model).__name__ and isinstance(bayes, type(model))
    assert len(find_posteriors(bayes)) == matrices
    assert_close(at_mean(bayes, x), truth)
    assert_close(model(x), truth, atol=0)
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    first, second = numpy(bayes(x)), numpy(bayes(x))
    assert any(np.abs(a - b).max() > 1e-3 for a, b in zip(first, second, strict=True))


def test_files_keep_the_conversion(case, tmp_path):
    model, x, _ = case
    bayes = sb.bayesianize(model, FullRank(), init="svd")
    truth = numpy(at_mean(bayes, x))
    bayes.save(tmp_path / "bayes.keras")
    loaded = keras.saving.load_model(tmp_path / "bayes.keras")
    assert isinstance(loaded, type(model))
    assert_close(at_mean(loaded, x), truth, atol=1e-6)
    assert len(find_posteriors(loaded)) == len(find_posteriors(bayes))
    bayes.save_weights(tmp_path / "bayes.weights.h5")
    again = sb.bayesianize(stirred(model, 1), FullRank())
    again.load_weights(tmp_path / "bayes.weights.h5")
    assert_close(at_mean(again, x), truth, atol=1e-6)


def test_round_trip_gives_the_plain_model_back(case):
    model, x, _ = case
    truth = numpy(model(x))
    plain = sb.collapse(sb.bayesianize(model, FullRank(), init="svd"))
    assert type(plain) is type(model)
    assert not find_posteriors(plain)
    assert_close(plain(x), truth)
    for old, new in zip(model.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_a_step_of_training_moves_the_copy_and_not_the_model(case):
    model, x, _ = case
    before = model.get_weights()
    bayes = sb.bayesianize(model, LowRank(1), init="svd")
    sb.set_kl(bayes, num_data=100)
    bayes.compile("adam", "mse")
    start = bayes.get_weights()
    bayes.train_on_batch(x, keras.tree.map_structure(np.zeros_like, keras.tree.map_structure(_array, model(x))))
    assert any((a != b).any() for a, b in zip(start, bayes.get_weights(), strict=True))
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    model(x)  # its buffers were not given away


def _array(tensor):
    return ops.convert_to_numpy(tensor)


@not_on_jax
def test_a_shared_layer_stays_one_layer_with_one_draw():
    model = _functional()
    bayes = sb.bayesianize(model, 2)
    assert len([layer for layer in bayes.layers if layer.name == "shared"]) == 1
    x = keras.Input((4,))
    same = L.Dense(4, use_bias=False)
    twice = sb.bayesianize(keras.Model(x, [same(x), same(x)]), FullRank())
    a, b = numpy(twice(np.ones((2, 4), "float32")))
    np.testing.assert_array_equal(a, b)


def test_tied_embeddings_are_one_posterior_with_one_draw():
    ids = keras.Input((1,), dtype="int32")
    table = L.ReversibleEmbedding(4, 3)
    vectors = table(ids)
    model = keras.Model(ids, [vectors, table(vectors, reverse=True)])
    bayes = sb.bayesianize(model, FullRank(eta=1.0))
    assert len(find_posteriors(bayes)) == 1
    vectors, scores = numpy(bayes(np.arange(4)[:, None]))
    # The scores of a draw are the products of its own vectors.
    np.testing.assert_allclose(scores[:, 0], vectors[:, 0] @ vectors[:, 0].T, rtol=1e-4, atol=1e-5)


@not_on_jax
def test_names_flags_policies_and_regularizers_survive():
    model = keras.Sequential(
        [
            keras.Input((6,)),
            L.Dense(5, name="first", bias_regularizer="l2", activity_regularizer="l1", kernel_regularizer="l2"),
            L.BatchNormalization(name="norm"),
            Block(4, name="block"),
            L.Dense(3, name="last", dtype="mixed_bfloat16"),
        ],
        name="whole",
    )
    model.layers[0].trainable = False
    model.layers[1].trainable = False
    model.get_layer("block").late.trainable = False
    model.get_layer("block").stack[1].trainable = False  # which no config says
    bayes = sb.bayesianize(model, 2)
    assert bayes.name == "whole"
    assert [layer.name for layer in bayes.layers] == [layer.name for layer in model.layers]
    assert [layer.trainable for layer in bayes.layers] == [False, False, True, True]
    assert not bayes.get_layer("block").late.trainable and not bayes.get_layer("block").stack[1].trainable
    assert bayes.get_layer("last").dtype_policy.name == "mixed_bfloat16"
    first = bayes.get_layer("first")
    assert first.bias_regularizer.l2 == first.activity_regularizer.l1 == np.float32(0.01)
    assert "kernel_regularizer dropped: the prior takes its place" in str(sb.plan(model, 2))
    plain = sb.collapse(bayes, merge=True)
    assert [layer.name for layer in plain.layers] == [layer.name for layer in model.layers]
    assert not plain.get_layer("block").late.trainable


@not_on_jax
def test_a_subclassed_model_keeps_its_methods():
    bayes = sb.bayesianize(_subclassed(), 2)
    assert bayes.twice() == 8
    assert isinstance(bayes.head, layers.Dense)
    assert bayes.net.layers[1].named["again"] is bayes.net.layers[1].first


def test_an_adapter_leaves_the_mean_prediction_as_it_was(case):
    model, x, _ = case
    truth = numpy(model(x))
    assert_close(at_mean(sb.bayesianize(model, Adapter(2)), x), truth)


@not_on_jax
def test_per_head_and_bias_posteriors():
    x = keras.Input((5, 4))
    model = stirred(keras.Model(x, L.MultiHeadAttention(2, 3)(x, x)))
    batch = RNG.normal(size=(2, 5, 4)).astype("float32")
    bayes = sb.bayesianize(model, FullRank(), init="svd", per_head=True, bias_posterior=FullRank())
    assert len(find_posteriors(bayes)) == 2 * (3 * 2 + 1)
    assert_close(at_mean(bayes, batch), model(batch))


@not_on_jax
def test_scales_start_as_those_of_a_new_layer():
    model = stirred(keras.Sequential([keras.Input((6,)), L.Dense(5)]))
    (svd,), (fresh,) = (find_posteriors(sb.bayesianize(model, 2, init=init)) for init in ("svd", "random"))
    np.testing.assert_allclose(*(ops.convert_to_numpy(p.ab.scale) for p in (svd, fresh)), rtol=1e-6)


@not_on_jax
def test_a_compiled_model_is_compiled_again():
    model = _sequential()
    model.compile(keras.optimizers.Adam(0.03), "mse")
    bayes = sb.bayesianize(model, 2)
    assert bayes.compiled and float(_array(bayes.optimizer.learning_rate)) == np.float32(0.03)
    assert bayes.optimizer is not model.optimizer
    model.compile("adam", lambda y, p: ops.mean((y - p) ** 2))
    with pytest.warns(UserWarning, match="is not compiled: its loss or metrics cannot be read back"):
        assert not sb.bayesianize(model, 2).compiled


# -- which posterior -------------------------------------------------------------------------------------------------


def ranks(model):
    return sorted(getattr(posterior, "rank", 0) for posterior in find_posteriors(model))


@not_on_jax
def test_rules_choose_by_name_pattern_class_and_holder():
    model = keras.Sequential([keras.Input((6,)), L.Dense(6, name="in"), Block(6, name="block"), L.Dense(6, name="out")])
    assert ranks(sb.bayesianize(model, 2)) == [2] * 7
    bayes = sb.bayesianize(model, 2, rules={"out": 3})
    assert bayes.get_layer("out").posterior.rank == 3 and ranks(bayes) == [2] * 6 + [3]
    bayes = sb.bayesianize(model, 2, rules={"block/la*": 4})
    assert bayes.get_layer("block").late.posterior.rank == 4 and ranks(bayes) == [2] * 6 + [4]
    assert ranks(sb.bayesianize(model, 2, rules={Block: None})) == [2, 2]
    assert ranks(sb.bayesianize(model, rules={"block": FullRank(), "*": None})) == [0] * 5
    # The first rule that fits is taken.
    assert ranks(sb.bayesianize(model, 2, rules={"out": 1, L.Dense: 3})) == [1] + [3] * 6


@not_on_jax
def test_a_function_chooses_by_the_layer():
    model = keras.Sequential([keras.Input((6,)), L.Dense(6), L.Dense(2), L.Dense(5)])
    choose = lambda layer: {6: 3, 2: None, 5: "full_rank"}[layer.units]  # noqa: E731
    bayes = sb.bayesianize(model, choose)
    assert ranks(bayes) == [0, 3] and isinstance(bayes.layers[1], L.Dense)


@not_on_jax
def test_ranks_are_capped_only_when_asked():
    model = keras.Sequential([keras.Input((7, 1)), L.LSTM(6), L.Dense(2, name="head")])
    with pytest.raises(ValueError, match=r"rank=4 for a weight of shape \(1, 24\) in lstm.*/kernel.*cap=True"):
        sb.bayesianize(model, 4)
    lstm, head = sb.bayesianize(model, 4, cap=True).layers
    assert (lstm.posterior.rank, lstm.recurrent_posterior.rank, head.posterior.rank) == (1, 4, 2)


# -- what cannot be converted ----------------------------------------------------------------------------------------


class _Custom(L.Layer):
    def build(self, shape):
        self.w = self.add_weight(shape=(shape[-1], 3))

    def call(self, x):
        return ops.matmul(x, self.w)


class _Squared(L.Dense):
    def call(self, inputs):
        return super().call(inputs) ** 2


@not_on_jax
@pytest.mark.parametrize(
    ("make", "where"),
    [
        (lambda: L.DepthwiseConv2D(3, name="odd"), "DepthwiseConv2D 'odd'"),
        (lambda: L.SeparableConv2D(2, 3, name="odd"), "SeparableConv2D 'odd'"),
        (lambda: L.Conv2DTranspose(2, 3, name="odd"), "Conv2DTranspose 'odd'"),
        (lambda: _Custom(name="odd"), "_Custom 'odd'"),
        (lambda: _Squared(3, name="odd"), "_Squared 'odd'"),
        (lambda: L.SpectralNormalization(L.Dense(3), name="odd"), "SpectralNormalization 'odd'"),
    ],
)
def test_what_has_no_twin_is_an_error_or_kept(make, where):
    x = RNG.normal(size=(2, 6, 6, 3)).astype("float32")
    model = keras.Sequential([keras.Input((6, 6, 3)), make(), L.Flatten(), L.Dense(2)])
    with pytest.raises(ValueError, match=rf'needs layers that have a Bayesian twin; got .*{where}.*unsupported="keep"'):
        sb.bayesianize(model, 1)
    assert [row.path for row in sb.plan(model, 1).unsupported] and "odd" in str(sb.plan(model, 1))
    bayes = sb.bayesianize(model, FullRank(), unsupported="keep", init="svd")
    assert_close(at_mean(bayes, x), model(x))
    assert len(find_posteriors(sb.bayesianize(model, 1, rules={"*odd": None}))) == 1


def test_an_unbuilt_model_is_an_error_that_says_how_to_build():
    for model in (keras.Sequential([L.Dense(3)]), Subclassed()):
        with pytest.raises(ValueError, match=r"needs a built model; got .*model\(x\[:1\]\)"):
            sb.bayesianize(model, 2)
        with pytest.raises(ValueError, match=r"collapse needs a built Keras model"):
            sb.collapse(model)


def test_a_rule_that_matches_nothing_is_an_error_that_lists_the_layers():
    with pytest.raises(ValueError, match=r"got 'heads', which match none. The layers are: shared, nested/inner, y"):
        sb.plan(_functional(), 2, rules={"y": 1, "heads": 3})
    with pytest.raises(ValueError, match=r"A rule needs a name, a pattern or a class of layers; got 3"):
        sb.plan(_functional(), 2, rules={3: 1})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"posterior": None}, r"needs a posterior for at least one layer"),
        ({"posterior": 0}, r"rank to be a whole number >= 1; got rank=0"),
        ({"posterior": "odd"}, r"posterior needs a Posterior .*got 'odd'"),
        ({"posterior": 2, "init": "zeros"}, r"needs init to be one of \('random', 'svd'\); got init='zeros'"),
        ({"posterior": 2, "unsupported": "drop"}, r"unsupported to be one of .*got unsupported='drop'"),
    ],
)
def test_bad_arguments_are_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        sb.bayesianize(_functional(), **arguments)


def test_what_is_no_model_is_an_error():
    with pytest.raises(ValueError, match=r"Conversion needs a Keras model; got 3"):
        sb.bayesianize(3, 2)


class _Closed(keras.Model):
    def __init__(self, layer):
        super().__init__()
        self.inner = layer

    def call(self, x):
        return self.inner(x)

    def get_config(self):
        raise NotImplementedError("no config")


def test_a_model_without_a_config_is_an_error_that_says_what_to_write():
    model = _Closed(L.Dense(3))
    model(np.ones((1, 2), "float32"))
    with pytest.raises(ValueError, match=r"built from its config; got _Closed .*get_config\(\).*Keras says: no config"):
        sb.bayesianize(model, 1)


def test_layers_added_after_the_constructor_are_an_error():
    model = Backbone()
    model.extra = L.Dense(2)
    model.extra.build((None, 3))
    with pytest.raises(ValueError, match=r"needs a model that its config describes; got Backbone"):
        sb.bayesianize(model, 1)


@not_on_jax
def test_functions_of_the_user_are_taken_along():
    scale = 3.0

    def tripled(x):
        return scale * x

    model = keras.Sequential([keras.Input((4,)), L.Lambda(lambda x: scale * ops.tanh(x)), L.Dense(4, tripled)])
    model.add(L.Activation(tripled))
    x = RNG.normal(size=(2, 4)).astype("float32")
    assert_close(at_mean(sb.bayesianize(model, FullRank(), init="svd"), x), model(x))
    assert tripled.__name__ == "tripled" and model.layers[0].function.__name__ == "<lambda>"


def test_a_layer_that_no_call_reached_is_named():
    with pytest.raises(ValueError, match=r"Dense 'block/unused' \(it was never built"):
        sb.bayesianize(keras.Sequential([keras.Input((4,)), _Spare(name="block")]), 1)


class _Spare(L.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.used, self.unused = L.Dense(4), L.Dense(4, name="unused")

    def build(self, shape):
        self.used.build(shape)

    def call(self, x):
        return self.used(x)


# -- the plan --------------------------------------------------------------------------------------------------------


def test_the_plan_counts_what_the_conversion_makes(case):
    model, _, _ = case
    planned = sb.plan(model, LowRank(1), bias_posterior=FullRank())
    bayes = sb.bayesianize(model, LowRank(1), bias_posterior=FullRank())
    size = lambda weights: sum(int(np.prod(w.shape)) for w in weights)  # noqa: E731
    assert planned.before == size(model.weights)
    assert planned.after == size(w for w in bayes.weights if not w.path.endswith("kl_scale"))
    assert {row.reason for row in planned.rows if not row.posterior} <= {"no weight matrix"}


@not_on_jax
def test_the_plan_has_the_residual_and_energy_of_every_svd_start():
    model = stirred(_sequences())
    planned = sb.plan(model, 2, init="svd")
    bayes = sb.bayesianize(model, 2, init="svd")
    row = next(row for row in planned.converted if row.kind == "GRU")
    gru, ours = (next(layer for layer in m.layers if layer.name == row.path) for m in (model, bayes))
    kernel, start = _array(gru.cell.kernel), _array(ours.posterior.mean().dense())
    matrix = next(matrix for matrix in row.matrices if matrix.name == "kernel")
    assert matrix.rank == 2 and matrix.shape == (6, 9)
    np.testing.assert_allclose(matrix.residual, np.linalg.norm(kernel - start), rtol=1e-4)
    singular = np.linalg.svd(kernel, compute_uv=False)
    np.testing.assert_allclose(matrix.energy, (singular[:2] ** 2).sum() / (singular**2).sum(), rtol=1e-5)
    np.testing.assert_allclose(row.residual, np.hypot(*(m.residual for m in row.matrices)), rtol=1e-6)
    assert f"{row.energy:.1%}" in str(planned)
    assert sb.plan(model, FullRank(), init="svd").converted[0].residual == 0.0


def test_the_plan_prints_as_a_table_and_as_html():
    text, page = str(sb.plan(_sequential(), 2)), sb.plan(_sequential(), 2)._repr_html_()
    assert "27×5" in text and "LowRank(2)" in text and "no weight matrix" in text and "2 converted" in text
    assert page.startswith("<table>") and page.count("<tr>") == 1 + 5 + 1


FROZEN = {
    "dense": lambda: (L.Dense(4), (6,)),
    "einsum": lambda: (L.EinsumDense("ab,bc->ac", 4, bias_axes="c"), (6,)),
    "lstm": lambda: (L.LSTM(4), (5, 6)),
    "conv": lambda: (L.Conv1D(4, 2), (5, 6)),
    "embedding": lambda: (L.Embedding(9, 4), (5,)),
}


@pytest.mark.parametrize("kind", FROZEN)
@not_on_jax
def test_a_frozen_layer_stays_frozen_at_its_weights(kind, tmp_path):
    layer, shape = FROZEN[kind]()
    model = keras.Sequential([keras.Input(shape), layer, L.Flatten(), L.Dense(2)])
    layer.trainable = False
    bayes = sb.bayesianize(model, 2)
    assert len(bayes.trainable_variables) == 2  # the posterior and the bias of the last layer
    assert "frozen: starts at its weights" in str(sb.plan(model, 2))
    exact = sb.bayesianize(model, sb.FullRank())
    means = [ops.convert_to_numpy(posterior.mean().dense()).ravel() for posterior in find_posteriors(exact)]
    assert any(np.array_equal(mean, ops.convert_to_numpy(layer.weights[0]).ravel()) for mean in means)
    bayes.save(tmp_path / "frozen.keras")
    assert len(sb.load(tmp_path / "frozen.keras").trainable_variables) == 2
    assert len(sb.collapse(bayes, merge=True).trainable_variables) == 2


@not_on_jax
def test_a_name_with_brackets_is_matched_by_itself():
    model = keras.Sequential([keras.Input((6,)), L.Dense(4, name="block[0]"), L.Dense(2)])
    bayes = sb.bayesianize(model, 2, rules={"block[0]": 1})
    assert [posterior.rank for posterior in sb.find_posteriors(bayes)] == [1, 2]


class Unregistered(keras.Model):
    """A user's model that Keras cannot find by name."""

    def __init__(self, scale=2.0, **kwargs):
        super().__init__(**kwargs)
        self.scale, self.dense = 2.0, L.Dense(4)

    def call(self, x):
        return self.dense(x) * self.scale


@not_on_jax
def test_a_converted_model_of_an_unregistered_class_collapses():
    model = Unregistered()
    x = np.ones((2, 3), "float32")
    wanted = ops.convert_to_numpy(model(x))
    bayes = sb.bayesianize(model, sb.Adapter(2))
    np.testing.assert_allclose(ops.convert_to_numpy(sb.collapse(bayes)(x)), wanted, rtol=1e-5, atol=1e-6)


@not_on_jax
def test_a_setting_that_the_config_forgets_is_named():
    model = Unregistered()
    model(np.ones((2, 3), "float32"))
    model.scale = 5.0
    with pytest.raises(ValueError, match=r"with scale=5.0, which is 2.0 when it is built from its config"):
        sb.bayesianize(model, 2)


def test_a_rule_that_another_hides_is_named():
    model = keras.Sequential([keras.Input((6,)), L.Dense(4, name="g"), L.Dense(2)])
    with pytest.raises(ValueError, match=r"got 'g' after Dense, which fits the same layers .* Put 'g' before it"):
        sb.plan(model, 2, rules={L.Dense: 2, "g": 1})


def test_where_nothing_is_left_to_convert_it_says_so():
    bayes = keras.Sequential([keras.Input((6,)), layers.Dense(4, posterior=LowRank(2)), L.Dropout(0.1)])
    with pytest.raises(ValueError, match=r"a weight matrix that is not Bayesian yet; got .* which has none"):
        sb.bayesianize(bayes, 2)


def test_weights_that_are_no_numbers_are_named():
    model = keras.Sequential([keras.Input((6,)), L.Dense(4, name="broken")])
    model.layers[0].kernel.assign(np.full((6, 4), np.nan))
    for convert in (sb.plan, sb.bayesianize):
        with pytest.raises(ValueError, match=r"NaN or infinity in .*broken/kernel"):
            convert(model, 2, init="svd")
