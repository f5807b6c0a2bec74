"""Data as people have them × the functions that take them: the numbers of the plain array, or a clear error."""

from functools import cache

import keras
import numpy as np
import pandas as pd
import polars as pl
import pytest
from posterior_table import TORCH_FIRST, on_torch
from robustness_cases import DRAWS, TARGETS, X, Y, is_clear
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


def _read_only():
    array = X.copy()
    array.flags.writeable = False
    return array


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
    "float64": lambda: X.astype("float64"),
    "float16": lambda: X.astype("float16"),
    "int64": lambda: X.astype("int64"),
    "int8": lambda: X.astype("int8"),
    "rows of lists": lambda: X.tolist(),
    "rows of tuples": lambda: tuple(map(tuple, X.tolist())),
    "Fortran order": lambda: np.asfortranarray(X),
    "a strided view": lambda: np.repeat(X, 2, axis=0)[::2],
    "read only": _read_only,
    "a file in memory": _memmap,
    "masked, nothing masked": lambda: np.ma.masked_array(X, mask=False),
    "pandas": lambda: pd.DataFrame(X, columns=COLUMNS),
    "pandas, other index": lambda: pd.DataFrame(X, index=np.arange(24)[::-1]),
    "pandas, ints and floats": lambda: pd.DataFrame(X).astype({0: "int64", 1: "int8", 2: "float64"}),
    "pandas, nullable without missing": lambda: pd.DataFrame(X).astype("Int64"),
    "pandas, sparse columns": lambda: pd.DataFrame(X).astype(pd.SparseDtype("float32", 0.0)),
    "pandas, two columns of one name": lambda: pd.DataFrame(X, columns=list("abba")),
    "polars": lambda: pl.DataFrame(X, schema=COLUMNS),
    "polars, ints and floats": lambda: pl.DataFrame(X, schema=COLUMNS).with_columns(pl.col("a").cast(pl.Int16)),
    "csr": lambda: sparse.csr_matrix(X),
    "csc": lambda: sparse.csc_array(X),
    "coo": lambda: sparse.coo_array(X),
    "lil": lambda: sparse.lil_matrix(X),
    "tensor of Keras": lambda: keras.ops.convert_to_tensor(X),
    "tensor of torch": lambda: _torch(X),
    "tensor of torch with a gradient": lambda: _torch(X, requires_grad=True),
    "bfloat16 of torch": lambda: _torch(X).bfloat16(),
    "tensor of TensorFlow": lambda: _tf(X),
    "by name": lambda: {"x": X},
    "by name, a table": lambda: {"x": pd.DataFrame(X)},
    "in a list": lambda: [X],
    "in a tuple": lambda: (X,),
}
# Batches (x, y), and batches of x alone.
STREAMS = {
    "PyDataset": lambda: Pairs(X, Y),
    "generator": lambda: (part for part in _parts(X, Y)),
    "generator of lists": lambda: ([*part] for part in _parts(X, Y)),
    "generator of tables": lambda: ((pd.DataFrame(x), pd.Series(y)) for x, y in _parts(X, Y)),
    "generator of sparse": lambda: ((sparse.csr_array(x), y) for x, y in _parts(X, Y)),
    "generator by name": lambda: (({"x": x}, y) for x, y in _parts(X, Y)),
    "one example at a time": lambda: iter(_parts(X, Y, size=1)),
    "an empty batch": lambda: iter([*_parts(X, Y), (X[:0], Y[:0])]),
    "zip": lambda: zip(np.split(X, 4), np.split(Y, 4), strict=True),
    "tf.data": lambda: _tf_data(X, Y).batch(7),
    "tf.data by name": lambda: _tf_data({"x": X}, Y).batch(7),
    "DataLoader": lambda: _loader(X, Y),
    "DataLoader, drop_last that divides": lambda: _loader(X, Y, batch_size=6, drop_last=True),
}
ALONE = {
    "generator of x": lambda: (x for (x,) in _parts(X)),
    "generator of (x,)": lambda: iter(_parts(X)),
    "PyDataset of x": lambda: Pairs(X),
    "tf.data of x": lambda: _tf_data(X).batch(7),
    "DataLoader of x": lambda: _loader(X),
}
REFUSED = {
    "a path": lambda: "data.csv",
    "None": lambda: None,
    "a number": lambda: 3.0,
    "no examples": lambda: X[:0],
    "one example without its axis": lambda: X[0],
    "a column too few": lambda: X[:, :3],
    "an axis too many": lambda: X[..., None],
    "transposed": lambda: X.T,
    "NaN": lambda: np.where(X.max() == X, np.nan, X),
    "text": lambda: X.astype(str),
    "bytes": lambda: X.astype("S4"),
    "dates": lambda: X.astype("datetime64[s]"),
    "complex": lambda: X.astype(complex),
    "objects": lambda: X.astype(object),
    "ragged rows": lambda: [[1.0, 2, 3, 4], [1.0, 2]],
    "None among numbers": lambda: [[1.0, None, 3, 4]] * 24,
    "rows as a list of arrays": lambda: list(X),
    "x and y": lambda: (X, Y),
    "masked": lambda: np.ma.masked_greater(X, 1),
    "a set": lambda: {1.0, 2.0},
    "pandas with text": lambda: pd.DataFrame(X).assign(name="a"),
    "pandas with objects": lambda: pd.DataFrame(X).astype({2: object}),
    "pandas with categories": lambda: pd.DataFrame(X).astype({1: "category"}),
    "pandas with dates": lambda: pd.DataFrame(X).assign(day=pd.Timestamp("2020-01-01")),
    "pandas with NaN": lambda: pd.DataFrame(X).replace(2.0, np.nan),
    "pandas with NA": lambda: pd.DataFrame(X).astype("Int64").replace(2, pd.NA),
    "polars with null": lambda: pl.DataFrame(X, schema=COLUMNS).with_columns(pl.lit(None, pl.Float32).alias("b")),
    "polars with text": lambda: pl.DataFrame(X, schema=COLUMNS).with_columns(pl.lit("a").alias("b")),
    "polars, lazy": lambda: pl.DataFrame(X, schema=COLUMNS).lazy(),
    "another name": lambda: {"inputs": X},
    "a name too many": lambda: {"x": X, "id": np.arange(24)},
    "a generator function": lambda: lambda: iter(_parts(X)),
    "a generator that was read": lambda: iter(()),
    "batches of four parts": lambda: iter(_parts(X, Y, Y, Y)),
    "batches that do not match": lambda: iter([(X, Y[:5])]),
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
    return np.array([sb.certify(model, x, y, draws=20, duplicates="independent").value])


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
    "uint8": lambda: Y.astype("uint8"),
    "float": lambda: Y.astype("float32"),
    "a list": lambda: Y.tolist(),
    "a tuple": lambda: tuple(Y.tolist()),
    "a list of NumPy integers": lambda: list(Y),
    "a column": lambda: Y[:, None],
    "pandas": lambda: pd.Series(Y),
    "pandas, other index": lambda: pd.Series(Y, index=np.arange(24)[::-1]),
    "pandas, nullable": lambda: pd.Series(Y, dtype="Int64"),
    "pandas, a table of one column": lambda: pd.DataFrame({"y": Y}),
    "polars": lambda: pl.Series(Y),
    "tensor of Keras": lambda: keras.ops.convert_to_tensor(Y),
    "tensor of torch": lambda: _torch(Y),
    "tensor of TensorFlow": lambda: _tf(Y),
}
WRONG_LABELS = {
    "text": lambda: np.array(["cat", "dog", "owl"])[Y],
    "text of pandas": lambda: pd.Series(np.array(["cat", "dog", "owl"])[Y]),
    "one-hot": lambda: np.eye(3)[Y],
    "from 1": lambda: Y + 1,
    "-1 for unknown": lambda: np.where(Y == 2, -1, Y),
    "halves": lambda: Y + 0.5,
    "NaN": lambda: np.where(Y == 1, np.nan, Y),
    "too few": lambda: Y[:9],
    "too many": lambda: np.tile(Y, 2),
    "transposed": lambda: Y[None],
    "masked": lambda: np.ma.masked_equal(Y, 1),
    "missing in pandas": lambda: pd.Series(Y, dtype="Int64").replace(1, pd.NA),
    "None": lambda: None,
    "a generator": lambda: (y for y in Y),
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


VALUES = {
    "(n,)": lambda: TARGETS,
    "(n, 1)": lambda: TARGETS[:, None],
    "a list": lambda: TARGETS.tolist(),
    "pandas": lambda: pd.Series(TARGETS, index=np.arange(24)[::-1]),
    "polars": lambda: pl.Series(TARGETS),
    "tensor of torch": lambda: _torch(TARGETS),
}
WRONG_VALUES = {
    "(1, n)": lambda: TARGETS[None],
    "too few": lambda: TARGETS[:9],
    "two columns": lambda: np.stack([TARGETS, TARGETS], axis=1),
    "NaN": lambda: np.where(TARGETS > 0, np.nan, TARGETS),
    "text": lambda: TARGETS.astype(str).astype(object),
}
OF_VALUES = {
    "evaluate": lambda p, y: sb.evaluate(p, y).metrics["nll_total"],
    "selective": lambda p, y: sb.selective(p, y).area,
    "recalibrate": lambda p, y: sb.recalibrate(p, y).value,
    "conformal_intervals": lambda p, y: float(sb.conformal_intervals(p, y, 0.8).quantile),
}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("function", OF_VALUES)
def test_values_work(plain_values, function, kind):
    found, expected = (OF_VALUES[function](plain_values, y) for y in (VALUES[kind](), TARGETS))
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", WRONG_VALUES)
@pytest.mark.parametrize("function", OF_VALUES)
def test_wrong_values_are_a_clear_error(plain_values, function, kind):
    with pytest.raises((ValueError, TypeError)) as raised:
        pytest.fail(f"wrong silently: {OF_VALUES[function](plain_values, WRONG_VALUES[kind]())}")
    assert is_clear(raised.value), raised.value
