"""Predictions do not depend on the kind of the data, nor on how it is cut: batches, blocks, tables, streams."""

import tracemalloc
from importlib.util import find_spec

import keras
import ml_dtypes
import numpy as np
import pandas as pd
import polars as pl
import pytest
from posterior_table import BACKEND, JAX_FIRST, ON_TORCH, TORCH_FIRST
from scipy import sparse

import singularbayes as sb
from singularbayes import FullRank, layers
from singularbayes.models import data
from singularbayes.models.data import blocks, collected, is_stream
from singularbayes.prediction import sampler

pytestmark = [pytest.mark.backend, pytest.mark.rows_on_torch]
RNG = np.random.default_rng(0)
X = np.where(RNG.random((23, 4)) < 0.4, 0, RNG.normal(size=(23, 4))).astype("float32")
Y = RNG.integers(0, 3, 23)
WEIGHTS = RNG.random(23).astype("float32")


class Batches(keras.utils.PyDataset):
    def __init__(self, *arrays, size=5):
        super().__init__()
        self.arrays, self.size = arrays, size

    @property
    def num_batches(self):
        return -(-len(self.arrays[0]) // self.size)

    def __getitem__(self, index):
        return tuple(array[index * self.size : (index + 1) * self.size] for array in self.arrays)


@pytest.mark.parametrize("per_position", [False, True], ids=["weight_of_an_example", "weight_of_a_position"])
def test_weights_of_the_data_are_0_where_the_model_masks_its_output(per_position):
    lengths = 1 + np.arange(9) % 4
    ids = np.where(np.arange(5) < lengths[:, None], RNG.integers(1, 7, (9, 5)), 0)
    inputs = keras.Input((5,), dtype="int32")
    embedded = keras.layers.Embedding(7, 4, mask_zero=True)(inputs)
    model = keras.Model(inputs, layers.Dense(3, posterior=FullRank())(embedded))
    weights = RNG.uniform(0.5, 2, (9, 5) if per_position else 9)
    p = sb.predict(model, Batches(ids, np.zeros((9, 5), int), weights), 3, likelihood="categorical_logits")
    own = weights if per_position else np.repeat(weights[:, None], 5, axis=1)
    np.testing.assert_array_equal(p.weights, np.where(ids > 0, own, 0))


class Shuffled:
    """Comes in another order every time, as a DataLoader with shuffle=True does."""

    def __iter__(self):
        order = RNG.permutation(23)
        return iter([(X[order[i : i + 5]], order[i : i + 5]) for i in range(0, 23, 5)])


def tf_dataset(*arrays, size=5):
    tf = pytest.importorskip("tensorflow")
    return tf.data.Dataset.from_tensor_slices(arrays if len(arrays) > 1 else arrays[0]).batch(size)


def data_loader(*arrays, size=5):
    torch = pytest.importorskip("torch")
    tensors = [torch.as_tensor(array) for array in arrays]
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*tensors), batch_size=size)


def generator(*arrays, sizes=(1, 7, 2, 13)):
    ends = np.cumsum(sizes)
    for first, last in zip(ends - sizes, ends, strict=True):
        yield tuple(array[first:last] for array in arrays) if len(arrays) > 1 else arrays[0][first:last]


IN_MEMORY = {
    "list": X.tolist(),
    "float64": X.astype("float64"),
    "pandas": pd.DataFrame(X),
    "pandas nullable": pd.DataFrame(X).astype("Float32"),
    "polars": pl.DataFrame(X, schema=list("abcd")),
    "csr": sparse.csr_array(X),
    "coo": sparse.coo_matrix(X),
    "keras tensor": None,
}
STREAMS = {
    "PyDataset": lambda *arrays: Batches(*arrays),
    "tf.data": tf_dataset,
    "DataLoader": data_loader,
    "generator": generator,
    "iterator": lambda *arrays: iter([arrays]),
}


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3, posterior=FullRank(eta=0.5))])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def ask(model, x=X, **options):
    return sb.predict(model, x, 7, **{"keep_draws": True, "batch_size": 8, **options})


@pytest.fixture(scope="module")
def whole(model):
    return ask(model)


def assert_same(p, q):
    np.testing.assert_allclose(p.draws, q.draws, rtol=1e-5, atol=1e-6)
    for name in ("mean", "std", "mutual_information"):
        np.testing.assert_allclose(getattr(p, name), getattr(q, name), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("small_blocks", [False, True])
@pytest.mark.parametrize("kind", IN_MEMORY)
@TORCH_FIRST
def test_every_kind_of_table_gives_the_numbers_of_the_array(model, whole, kind, small_blocks, monkeypatch):
    if small_blocks:
        monkeypatch.setattr(sampler, "BUDGET", 0)  # blocks of one batch
    x = keras.ops.convert_to_tensor(X) if kind == "keras tensor" else IN_MEMORY[kind]
    assert_same(ask(model, x), whole)


def test_bfloat16_is_a_kind_of_number(model):
    halves = X.astype(ml_dtypes.bfloat16)  # what NumPy makes of such arrays of JAX and TensorFlow
    assert_same(ask(model, halves), ask(model, halves.astype("float32")))


@pytest.mark.parametrize("small_blocks", [False, True])
# The first row runs on every backend: tf.data where TensorFlow is installed for sure.
@pytest.mark.parametrize("kind", sorted(STREAMS, key=lambda kind: kind != "tf.data" and BACKEND == "tensorflow"))
def test_every_kind_of_stream_gives_the_numbers_of_the_array_and_its_targets_in_order(
    model, whole, kind, small_blocks, monkeypatch
):
    if small_blocks:
        monkeypatch.setattr(sampler, "BUDGET", 0)
    p = ask(model, STREAMS[kind](X, Y, WEIGHTS))
    assert_same(p, whole)
    np.testing.assert_array_equal(p.targets, Y)
    np.testing.assert_array_equal(p.weights, WEIGHTS)


def test_a_shuffled_stream_is_read_once_so_targets_stay_with_their_predictions(model, whole, monkeypatch):
    monkeypatch.setattr(sampler, "BUDGET", 0)
    p = ask(model, Shuffled())
    assert sorted(p.targets) == list(range(23))
    np.testing.assert_allclose(p.draws, whole.draws[:, p.targets], rtol=1e-5, atol=1e-6)


def test_batches_of_predictions_are_those_of_predict_in_order(model, whole, monkeypatch):
    monkeypatch.setattr(sampler, "BUDGET", 0)
    parts = list(sb.predict_batches(model, X, 7, batch_size=8, keep_draws=True))
    assert [len(part) for part in parts] == [8, 8, 7]
    np.testing.assert_allclose(np.concatenate([p.draws for p in parts], axis=1), whole.draws, rtol=1e-5, atol=1e-6)


def test_members_predict_every_block_of_a_stream(monkeypatch):
    models = [keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)]) for _ in range(2)]
    ensemble = sb.DeepEnsemble.from_models(models)
    options = {"likelihood": "categorical_logits", "batch_size": 4, "keep_draws": True}
    whole = ensemble.predict(X, **options)
    monkeypatch.setattr(sampler, "BUDGET", 0)
    assert_same(ensemble.predict(generator(X, Y), **options), whole)


def test_quantiles_are_exact_without_keeping_the_draws(model, whole, monkeypatch):
    monkeypatch.setattr(sampler, "BUDGET", 0)
    p = ask(model, keep_draws=False, quantiles=(0.025, 0.5, 0.975))
    assert p.draws is None
    np.testing.assert_allclose(p.quantile([0.5, 0.025]), whole.quantile([0.5, 0.025]), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(p.interval(0.95), whole.interval(0.95), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match=r"needs the quantiles \(0\.05, 0\.95\), and there are those of \[0\.025"):
        p.interval(0.9)
    with pytest.raises(ValueError, match=r"quantiles from 0 to 1; got quantiles=95"):
        ask(model, quantiles=95)


NEEDED = {"PyDataset": "keras", "tf.data": "tensorflow", "DataLoader": "torch", "generator": "keras"}


@ON_TORCH
def test_evaluate_and_what_follows_take_the_targets_of_a_stream(model):
    plain = sb.evaluate(model, (X, Y), draws=7)
    installed = [kind for kind, package in NEEDED.items() if find_spec(package)]
    for kind in installed:
        assert sb.evaluate(model, STREAMS[kind](X, Y), draws=7).metrics == pytest.approx(
            plain.metrics, 1e-5, nan_ok=True
        )
    p, alone = ask(model, generator(X, Y)), ask(model)
    assert sb.conformal_sets(p, level=0.5).threshold == pytest.approx(sb.conformal_sets(alone, Y, 0.5).threshold)
    assert sb.selective(p).area == pytest.approx(sb.selective(alone, pd.Series(Y)).area)
    with pytest.raises(ValueError, match="selective needs the targets y, and the data of these predictions held none"):
        sb.selective(alone)
    with pytest.raises(ValueError, match=r"targets inside the batches of a generator.* got test=\(dataset, y\)"):
        sb.evaluate(model, (generator(X), Y))


def test_one_input_of_one_feature_may_lack_its_axis():
    model = keras.Sequential([keras.Input((1,)), layers.Dense(1, posterior=FullRank())])
    model.compile("adam", sb.Gaussian(0.5))
    column = ask(model, X[:, :1])
    for x in (X[:, 0], pd.Series(X[:, 0]), pl.Series(X[:, 0]), X[:, 0].tolist()):
        np.testing.assert_array_equal(ask(model, x).draws, column.draws)
    y = X[:, 1]
    assert (column.mean - y).shape == column.interval()[0].shape == (23,) and column.draws.shape == (7, 23)
    assert sb.evaluate(column, y).metrics == sb.evaluate(column, y[:, None]).metrics


class TestRefused:
    CASES = (
        (pd.DataFrame({"a": [1.0, 2], "b": ["x", "y"]}), TypeError, r"columns of numbers; got the column 'b' of dtype"),
        (pd.DataFrame({"a": [1.0, 2], "b": [1, "y"]}), TypeError, r"the column 'b' of dtype object"),
        (pd.DataFrame({"a": pd.Categorical([1, 2])}), TypeError, r"the column 'a' of dtype category"),
        (
            pd.DataFrame({"a": pd.array([1, None], "Int64")}),
            ValueError,
            r"got 1 missing in the column 'a' of dtype Int64",
        ),
        (pl.DataFrame({"a": [1, None]}), ValueError, r"got 1 missing in the column 'a' of dtype Int64.*fill_null"),
        (pl.DataFrame({"a": ["x", "y"]}), TypeError, r"the column 'a' of dtype String"),
        (pl.LazyFrame({"a": [1, 2]}), TypeError, r"polars LazyFrame\. Call its collect\(\)"),
        (np.array([[1, None]], object), TypeError, r"an array of dtype object that holds a NoneType"),
        ([[1, 2], [3]], ValueError, "rows of one length; got a list with rows of different lengths"),
        ({"x", "y"}, TypeError, "arrays, tables, or batches of them; got a set"),
        (None, TypeError, "got None"),
        (iter([]), ValueError, "at least one example; got a list_iterator without any"),
        (iter([(X, Y, WEIGHTS, Y)]), ValueError, r"batches x, \(x, y\) or \(x, y, sample_weight\); got 4 parts"),
        (iter([(X, Y[:3])]), ValueError, r"first axis is the examples; got one of shapes \(23, 4\), \(3,\)"),
        (iter([X, X[:, :3]]), ValueError, r"shape \(None, 4\) for model .* got \(23, 3\)"),
        (iter([(X, X)] * 2 + [np.full((2, 4), np.nan)]), ValueError, r"NaN at index \(46, 0\)"),
        ((X, Y), ValueError, r"got \(23, 4\), \(23,\)\. A list or tuple of arrays is several inputs: give x alone"),
        (X[0], ValueError, r"got \(4,\)\. The first axis is the examples: one alone is x\[None\]"),
    )

    @pytest.mark.parametrize(("x", "error", "message"), CASES, ids=[message for *_, message in CASES])
    @TORCH_FIRST
    def test_the_error_names_need_got_and_fix(self, model, x, error, message):
        with pytest.raises(error, match=message):
            ask(model, x)

    @JAX_FIRST
    def test_streams_without_end(self, model):
        with pytest.raises(ValueError, match="needs data that end; got a "):
            ask(model, tf_dataset(X).repeat())

    @JAX_FIRST
    def test_inputs_are_missed_by_name(self):
        a, b = keras.Input((4,), name="a"), keras.Input((1,), name="b")
        for inputs in ([a, b], {"a": a, "b": b}):
            model = keras.Model(inputs, layers.Dense(2, posterior=FullRank())(keras.layers.Concatenate()([a, b])))
            whole = sb.predict(model, {"a": X, "b": X[:, 0]}, 2, likelihood="gaussian")
            again = sb.predict(model, batches_of({"a": X, "b": X[:, :1]}), 2, likelihood="gaussian")
            np.testing.assert_allclose(again.mean, whole.mean, rtol=1e-5)
            with pytest.raises(ValueError, match=r"needs inputs named \['a', 'b'\] .* got \['a'\]: missing \['b'\]"):
                sb.predict(model, {"a": X}, 2, likelihood="gaussian")
            with pytest.raises(ValueError, match=r"got \['a', 'b', 'id'\]: extra \['id'\]"):
                sb.predict(model, {"a": X, "b": X[:, :1], "id": Y}, 2, likelihood="gaussian")
            table = pd.DataFrame({"v": ["x"] * 23})
            with pytest.raises(TypeError, match=r"predict, input 'b', needs columns of numbers; got the column 'v'"):
                sb.predict(model, {"a": X, "b": table}, 2, likelihood="gaussian")


def batches_of(inputs):
    for first in range(0, 23, 6):
        yield {name: array[first : first + 6] for name, array in inputs.items()}, Y[first : first + 6]


def test_batches_of_other_lengths_are_blocks_of_their_own():
    model = keras.Sequential([keras.Input((None, 4)), keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(2)])
    steps = [RNG.normal(size=(5, length, 4)).astype("float32") for length in (3, 3, 8)]
    p = sb.predict(model, iter(steps), 3, likelihood="categorical_logits")
    for i, part in enumerate(steps):
        alone = sb.predict(model, part, 3, likelihood="categorical_logits")
        np.testing.assert_allclose(p.mean[5 * i : 5 * i + 5], alone.mean, rtol=1e-5)


def test_memory_does_not_grow_with_the_rows_of_a_stream():
    if keras.backend.backend() != "jax":
        pytest.skip("the same blocks; slow under tracemalloc")
    model = keras.Sequential([keras.Input((1,)), layers.Dense(1, posterior=FullRank())])
    size, draws = 1 << 19, 2

    def peak(rows):
        batches = (np.full((size, 1), i, "float32") for i in range(rows // size))
        tracemalloc.start()
        try:
            found = sb.predict_batches(model, batches, draws, likelihood="gaussian", batch_size=size)
            return sum(len(p) for p in found), tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    (few_rows, few), (many_rows, many) = peak(4 * size), peak(20 * size)
    assert few_rows == 4 * size and many_rows == 20 * size >= 10e6
    assert many < few + 4e6 < 200e6  # the results of all rows alone would be 160 MB more


@JAX_FIRST
def test_tables_are_read_as_far_as_they_are_needed():
    x = sparse.random_array((50_000, 200), density=0.001, format="csr", rng=np.random.default_rng(0))
    tracemalloc.start()
    for block in blocks(x, rows=lambda some: 1000):
        assert block.x.shape == (1000, 200)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6  # dense it would be 80 MB
    assert is_stream(iter([])) and not is_stream(x) and not is_stream(pd.DataFrame(X)) and not is_stream([X, X])
    inputs, targets, weights = collected(generator(X, Y, WEIGHTS))
    for found, given in ((inputs, X), (targets, Y), (weights, WEIGHTS)):
        np.testing.assert_array_equal(found, given)
    assert data.as_arrays([np.float32(1), np.float32(2)]).shape == (2,)
