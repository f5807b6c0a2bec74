"""Data as people have them × the functions that take them: the numbers of the plain array, or a clear error."""

from functools import cache

import keras
import numpy as np
import pandas as pd
import polars as pl
import pytest
from posterior_table import TORCH_FIRST, on_torch
from robustness_cases import DRAWS, X, Y, is_clear
from scipy import sparse

import singularbayes as sb
from singularbayes.training.fit_many import read_examples

pytestmark = pytest.mark.on_torch

COLUMNS = list("abcd")


def _torch(array, **options):
    return pytest.importorskip("torch").tensor(array, **options)


def _tf(array):
    return pytest.importorskip("tensorflow").constant(array)


class Pairs(keras.utils.PyDataset):
    def __init__(self, *arrays):
        super().__init__()
        self.arrays = arrays

    @property
    def num_batches(self):
        return 4

    def __getitem__(self, index):
        return tuple(array[6 * index : 6 * index + 6] for array in self.arrays)


class Endless(Pairs):
    num_batches = None


class SingleExamples:
    """A map-style data set of torch: examples, not batches."""

    def __len__(self):
        return 24

    def __getitem__(self, index):
        return X[index], Y[index]


def _parts(*arrays, size=7):
    return [tuple(array[i : i + size] for array in arrays) for i in range(0, 24, size)]


def _memmap():
    import tempfile

    path = tempfile.mkstemp(suffix=".npy")[1]
    np.save(path, X)
    return np.load(path, mmap_mode="r")


def _tf_data(*arrays):
    tf = pytest.importorskip("tensorflow")
    return tf.data.Dataset.from_tensor_slices(arrays if len(arrays) > 1 else arrays[0])


def _loader(*arrays, **options):
    torch = pytest.importorskip("torch")
    return torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(*map(torch.as_tensor, arrays)), **{"batch_size": 5, **options}
    )


TABLES = {
    "float32": lambda: X,
    "float16": lambda: X.astype("float16"),
    "int64": lambda: X.astype("int64"),
    "rows of lists": lambda: X.tolist(),
    "a strided view": lambda: np.repeat(X, 2, axis=0)[::2],
    "a file in memory": _memmap,
    "masked, nothing masked": lambda: np.ma.masked_array(X, mask=False),
    "pandas": lambda: pd.DataFrame(X, columns=COLUMNS),
    "pandas, ints and floats": lambda: pd.DataFrame(X).astype({0: "int64", 1: "int8", 2: "float64"}),
    "pandas, nullable without missing": lambda: pd.DataFrame(X).astype("Int64"),
    "pandas, sparse columns": lambda: pd.DataFrame(X).astype(pd.SparseDtype("float32", 0.0)),
    "polars": lambda: pl.DataFrame(X, schema=COLUMNS),
    "csr": lambda: sparse.csr_matrix(X),
    "coo": lambda: sparse.coo_array(X),
    "tensor of Keras": lambda: keras.ops.convert_to_tensor(X),
    "tensor of torch with a gradient": lambda: _torch(X, requires_grad=True),
    "bfloat16 of torch": lambda: _torch(X).bfloat16(),
    "tensor of TensorFlow": lambda: _tf(X),
    "by name": lambda: {"x": X},
    "in a list": lambda: [X],
}
# Batches (x, y), and batches of x alone.
STREAMS = {
    "PyDataset": lambda: Pairs(X, Y),
    "generator": lambda: (part for part in _parts(X, Y)),
    "generator of tables": lambda: ((pd.DataFrame(x), pd.Series(y)) for x, y in _parts(X, Y)),
    "generator by name": lambda: (({"x": x}, y) for x, y in _parts(X, Y)),
    "an empty batch": lambda: iter([*_parts(X, Y), (X[:0], Y[:0])]),
    "tf.data": lambda: _tf_data(X, Y).batch(7),
    "DataLoader": lambda: _loader(X, Y),
}
ALONE = {
    "generator of x": lambda: (x for (x,) in _parts(X)),
    "PyDataset of x": lambda: Pairs(X),
    "DataLoader of x": lambda: _loader(X),
}
REFUSED = {
    "a path": lambda: "data.csv",
    "None": lambda: None,
    "no examples": lambda: X[:0],
    "one example without its axis": lambda: X[0],
    "an axis too many": lambda: X[..., None],
    "NaN": lambda: np.where(X.max() == X, np.nan, X),
    "text": lambda: X.astype(str),
    "dates": lambda: X.astype("datetime64[s]"),
    "ragged rows": lambda: [[1.0, 2, 3, 4], [1.0, 2]],
    "rows as a list of arrays": lambda: list(X),
    "x and y": lambda: (X, Y),
    "masked": lambda: np.ma.masked_greater(X, 1),
    "pandas with text": lambda: pd.DataFrame(X).assign(name="a"),
    "pandas with dates": lambda: pd.DataFrame(X).assign(day=pd.Timestamp("2020-01-01")),
    "pandas with NA": lambda: pd.DataFrame(X).astype("Int64").replace(2, pd.NA),
    "polars with null": lambda: pl.DataFrame(X, schema=COLUMNS).with_columns(pl.lit(None, pl.Float32).alias("b")),
    "polars, lazy": lambda: pl.DataFrame(X, schema=COLUMNS).lazy(),
    "another name": lambda: {"inputs": X},
    "a generator function": lambda: lambda: iter(_parts(X)),
    "a generator that was read": lambda: iter(()),
    "batches with NaN": lambda: iter([(np.full((2, 4), np.nan), Y[:2])]),
    "a map-style data set": SingleExamples,
    "endless PyDataset": lambda: Endless(X, Y),
    "endless tf.data": lambda: _tf_data(X, Y).batch(7).repeat(),
    "tf.data of single examples": lambda: _tf_data(X, Y),
}


@pytest.fixture(scope="session")
def ensemble():
    models = [keras.Sequential([keras.Input((4,), name="x"), keras.layers.Dense(3)]) for _ in range(2)]
    for model in models:
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return sb.DeepEnsemble.from_models(models)


@pytest.fixture(scope="session")
def expected(classifier, ensemble):
    """What a function gives for the plain array."""
    return cache(lambda name: FUNCTIONS[name](classifier, ensemble, X, Y))


def _evaluate(model, ensemble, x, y):
    found = sb.evaluate(model, x if y is None else (x, y), draws=DRAWS).metrics
    return np.array([found[name] for name in ("accuracy", "nll", "brier", "mean_mi", "aurc_entropy")])


def _diagnose(model, ensemble, x, y):
    return np.array([sum(map(ord, sb.diagnose(model, x, y, draws=DRAWS).findings[0].sentence))])


def _certify(model, ensemble, x, y):
    return np.array([sb.certify(model, x, y, draws=20).value])


def _trained_on(model, ensemble, x, y):
    found = read_examples("fit_many", x, y, None)
    return np.concatenate([np.ravel(keras.tree.flatten(found.x)[0]), np.ravel(found.y)])


FUNCTIONS = {
    "predict": lambda model, _, x, y: sb.predict(model, x, DRAWS).mean,
    "predict_batches": lambda model, _, x, y: np.concatenate([p.std for p in sb.predict_batches(model, x, DRAWS)]),
    "quantiles": lambda model, _, x, y: sb.predict(model, x, DRAWS, quantiles=0.5).quantile(0.5),
    "ensemble": lambda _, ensemble, x, y: ensemble.predict(x).mean,
    "evaluate": _evaluate,
    "diagnose": _diagnose,
    "certify": _certify,
    "fit_many": _trained_on,
}
WITHOUT_TARGETS = ("predict", "predict_batches", "quantiles", "ensemble")


def _check(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@TORCH_FIRST
@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("function", on_torch(FUNCTIONS, ["predict"]))
def test_tables_work(classifier, ensemble, expected, function, kind):
    _check(FUNCTIONS[function](classifier, ensemble, TABLES[kind](), Y), expected(function))


@TORCH_FIRST
@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("function", on_torch(FUNCTIONS, ["predict"]))
def test_streams_work(classifier, ensemble, expected, function, kind):
    _check(FUNCTIONS[function](classifier, ensemble, STREAMS[kind](), None), expected(function))


@pytest.mark.parametrize("kind", ALONE)
@pytest.mark.parametrize("function", WITHOUT_TARGETS)
def test_streams_of_inputs_work(classifier, ensemble, expected, function, kind):
    _check(FUNCTIONS[function](classifier, ensemble, ALONE[kind](), None), expected(function))


@pytest.mark.parametrize("kind", ["generator of x", "PyDataset of x"])
@pytest.mark.parametrize("function", ["evaluate", "certify", "fit_many"])
def test_streams_without_targets_are_a_clear_error_where_targets_are_needed(classifier, ensemble, function, kind):
    with pytest.raises((ValueError, TypeError)) as raised:
        FUNCTIONS[function](classifier, ensemble, ALONE[kind](), None)
    assert is_clear(raised.value), raised.value


@TORCH_FIRST
@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("function", on_torch(["predict", "predict_batches", "ensemble", "evaluate"], ["predict"]))
def test_what_is_no_data_is_a_clear_error(classifier, ensemble, function, kind):
    x = REFUSED[kind]()
    stream = "batches" in kind or "endless" in kind or "tf.data" in kind or "was read" in kind
    with pytest.raises((ValueError, TypeError)) as raised:
        result = FUNCTIONS[function](classifier, ensemble, x, None if stream else Y)
        pytest.fail(f"wrong silently: {result}")
    assert is_clear(raised.value), raised.value


LABELS = {
    "int64": lambda: Y,
    "float": lambda: Y.astype("float32"),
    "a list": lambda: Y.tolist(),
    "a column": lambda: Y[:, None],
    "pandas": lambda: pd.Series(Y),
    "pandas, a table of one column": lambda: pd.DataFrame({"y": Y}),
    "polars": lambda: pl.Series(Y),
    "tensor of Keras": lambda: keras.ops.convert_to_tensor(Y),
    "tensor of torch": lambda: _torch(Y),
}
WRONG_LABELS = {
    "text": lambda: np.array(["cat", "dog", "owl"])[Y],
    "one-hot": lambda: np.eye(3)[Y],
    "from 1": lambda: Y + 1,
    "-1 for unknown": lambda: np.where(Y == 2, -1, Y),
    "NaN": lambda: np.where(Y == 1, np.nan, Y),
    "too few": lambda: Y[:9],
    "masked": lambda: np.ma.masked_equal(Y, 1),
    "missing in pandas": lambda: pd.Series(Y, dtype="Int64").replace(1, pd.NA),
    "a dict": lambda: {"y": Y},
}
OF_LABELS = {
    "evaluate": lambda p, y: sb.evaluate(p, y).metrics["nll"],
    "selective": lambda p, y: sb.selective(p, y).area,
    "recalibrate": lambda p, y: sb.recalibrate(p, y).value,
    "conformal_sets": lambda p, y: sb.conformal_sets(p, y, 0.8).threshold,
}


@pytest.fixture(scope="session")
def skilled():
    """Predictions that are better than chance, which a temperature needs."""
    draws = np.random.default_rng(1).dirichlet(np.ones(3), (DRAWS, 24)) + 0.6 * np.eye(3)[np.where(X[:, 0] > 1, 0, Y)]
    return sb.ClassPredictive.of_draws(draws / draws.sum(axis=-1, keepdims=True))


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("function", OF_LABELS)
def test_labels_work(skilled, function, kind):
    assert OF_LABELS[function](skilled, LABELS[kind]()) == pytest.approx(OF_LABELS[function](skilled, Y), rel=1e-12)


@pytest.mark.parametrize("kind", WRONG_LABELS)
@pytest.mark.parametrize("function", OF_LABELS)
def test_wrong_labels_are_a_clear_error(skilled, function, kind):
    with pytest.raises((ValueError, TypeError)) as raised:
        pytest.fail(f"wrong silently: {OF_LABELS[function](skilled, WRONG_LABELS[kind]())}")
    assert is_clear(raised.value), raised.value
