"""The estimators inside scikit-learn's tools, other libraries, other processes and threads."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pandas
import pytest
from posterior_table import TORCH_FIRST
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from small_tables import MLP, build, table
from test_light_imports import run

from singularbayes.estimators import BayesianMLPRegressor, BayesianRegressor

X, Y = table(120)
NEW, TARGETS = table(100, seed=1)
PLAIN = MLP | {"calibrate": None}


@pytest.fixture(scope="module")
def fitted():
    return BayesianMLPRegressor(**MLP, noise="constant").fit(X, Y)


@pytest.mark.backend
def test_a_fit_gives_no_warning():
    """In a process of its own, because pytest's settings here ignore those of NumPy that Keras itself causes."""
    code = """
import warnings; warnings.simplefilter("default")
import numpy as np
from singularbayes.estimators import BayesianMLPClassifier, BayesianMLPRegressor
warnings.simplefilter("error")
x = np.random.default_rng(0).normal(size=(60, 3))
options = {"hidden_layer_sizes": (4,), "rank": 2, "max_iter": 2, "draws": 10, "random_state": 0}
regressor = BayesianMLPRegressor(components=5, **options).fit(x, x[:, 0] + x[:, 1] ** 2)
regressor.partial_fit(x, x[:, 0]).predict_interval(x)
one = BayesianMLPClassifier(components=1, early_stopping=True, calibrate="split", **options)
print(one.fit(x, x[:, 2] > 0.3).predict(x).shape)
"""
    assert run(code) == "(60,)"


def test_tables_with_categories_and_missing_values():
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    frame["kind"] = np.where(X[:, 0] > 0, "up", "down")
    frame.loc[:5, "b"] = np.nan
    columns = ColumnTransformer([("kind", OneHotEncoder(), ["kind"])], remainder=SimpleImputer(), sparse_threshold=0)
    assert make_pipeline(columns, BayesianMLPRegressor(**PLAIN)).fit(frame, Y).score(frame, Y) > 0.5


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_are_known_by_name(library):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame(dict(zip("abc", X.T, strict=True)))
    model = BayesianMLPRegressor(**PLAIN | {"max_iter": 1}).fit(frame, Y)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    np.testing.assert_array_equal(model.predict(frame[["a", "b", "c"]]), model.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a", "c"]])


def test_mapie_wraps_a_fitted_regressor(fitted):
    mapie = pytest.importorskip("mapie.regression")
    conformal = mapie.SplitConformalRegressor(fitted, confidence_level=0.8, prefit=True).conformalize(*table(300, 7))
    low, high = conformal.predict_interval(NEW)[1][:, :, 0].T
    assert 0.68 < np.mean((low <= TARGETS) & (high >= TARGETS)) < 0.92  # three standard errors of 100 rows


def test_a_pickled_estimator_predicts_and_resumes_the_same(fitted):
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.predict(NEW), fitted.predict(NEW))
    np.testing.assert_array_equal(copy.predict_interval(NEW), fitted.predict_interval(NEW))
    other = pickle.loads(pickle.dumps(fitted))
    for model in (copy, other):
        model.partial_fit(NEW, TARGETS)
    np.testing.assert_array_equal(copy.predict(NEW), other.predict(NEW))
    assert np.abs(copy.predict(NEW) - fitted.predict(NEW)).max() > 0
    built = BayesianRegressor(
        build, **{k: v for k, v in PLAIN.items() if k not in ("hidden_layer_sizes", "rank", "components")}
    )
    built.fit(X, Y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(built)).predict(NEW), built.predict(NEW))


@TORCH_FIRST
def test_another_process_imports_without_warnings_and_reads_what_joblib_wrote(tmp_path):
    model = BayesianMLPRegressor(**PLAIN | {"max_iter": 2}).fit(X, Y)
    joblib.dump(model, tmp_path / "model.joblib")
    np.save(tmp_path / "new.npy", NEW)
    code = f"""
import joblib, numpy, warnings
with warnings.catch_warnings(action="error"):
    import singularbayes.estimators
model = joblib.load({str(tmp_path / "model.joblib")!r})
numpy.save({str(tmp_path / "mean.npy")!r}, model.predict(numpy.load({str(tmp_path / "new.npy")!r})))
"""
    run(code)
    np.testing.assert_allclose(np.load(tmp_path / "mean.npy"), model.predict(NEW), rtol=1e-5, atol=1e-6)


def test_threads_predict_what_one_thread_does(fitted):
    parts = [NEW[i : i + 7] for i in range(0, 100, 7)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(fitted.predict, parts))
    for part, values in zip(parts, found, strict=True):
        np.testing.assert_array_equal(values, fitted.predict(part))


def test_output_is_silent_unless_asked_for(capfd):
    options = PLAIN | {"max_iter": 2}
    model = BayesianMLPRegressor(**options).fit(X, Y)
    assert capfd.readouterr() == ("", "")
    clone(model).set_params(verbose=True).fit(X, Y)
    assert capfd.readouterr().out.startswith("Iteration 1, loss = ")
    assert "BayesianMLPRegressor" in model._repr_html_()
