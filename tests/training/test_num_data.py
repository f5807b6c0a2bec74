"""`KLSchedule()` reads the number of training examples from the data of the `fit`, or refuses to guess."""

import keras
import numpy as np
import pytest
from posterior_table import JAX_FIRST, jax_first

import singularbayes as sb
from singularbayes import FullRank, Normal, layers

pytestmark = [
    pytest.mark.backend,
    pytest.mark.filterwarnings("ignore:.*shuffle=True", "ignore:Your input ran out of data"),
]
X = np.random.default_rng(0).normal(size=(32, 3)).astype("float32")
Y = (X[:, :1] > 0).astype("float32")


class Batches(keras.utils.PyDataset):
    def __init__(self, size=10, batches=4):
        super().__init__()
        self.size, self.batches = size, batches

    @property
    def num_batches(self):
        return self.batches

    def __getitem__(self, index):
        part = slice(self.size * index, self.size * (index + 1))
        return X[part], Y[part]


def _generator():
    while True:
        yield X[:10], Y[:10]


def _tf_data(size, repeat=False, **options):
    data = pytest.importorskip("tensorflow").data.Dataset.from_tensor_slices((X, Y)).batch(size, **options)
    return data.repeat() if repeat else data


def _loader(size, rows=32):
    torch = pytest.importorskip("torch")
    parts = (torch.as_tensor(part[:rows]) for part in (X, Y))
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*parts), size)


# Data, options of fit, and the number in the first epoch and in those after it.
KNOWN = {
    "arrays": (lambda: (X, Y), {"batch_size": 10}, 32, 32),
    "a part for validation": (lambda: (X, Y), {"batch_size": 10, "validation_split": 0.25}, 24, 24),
    "a part of the arrays in an epoch": (lambda: (X, Y), {"batch_size": 10, "steps_per_epoch": 2}, 32, 32),
    "PyDataset": (lambda: (Batches(),), {}, 40, 32),
    "PyDataset, part of it in an epoch": (lambda: (Batches(),), {"steps_per_epoch": 2}, 40, 40),
    "tf.data": (lambda: (_tf_data(10),), {}, 40, 32),
    "tf.data, whole batches": (lambda: (_tf_data(10, drop_remainder=True),), {}, 30, 30),
    "DataLoader": (lambda: (_loader(10),), {}, 40, 32),
}
UNKNOWN = {
    "generator": (_generator, {"steps_per_epoch": 2}),
    "endless PyDataset": (lambda: Batches(batches=None), {"steps_per_epoch": 2}),
    "tf.data that repeats": (lambda: _tf_data(10, repeat=True), {"steps_per_epoch": 2}),
    "tf.data without a length": (lambda: _tf_data(10).filter(lambda x, y: True), {}),
}


def _built(rate=0.0):
    model = keras.Sequential([keras.Input((3,)), layers.Dense(1, posterior=FullRank(prior=Normal()))])
    model.compile(keras.optimizers.SGD(rate), "mse", jit_compile=keras.backend.backend() == "jax")
    return model


@pytest.fixture(scope="module")
def model():
    return _built()


@pytest.mark.parametrize("kind", jax_first(KNOWN, ["arrays", "PyDataset", "tf.data", "DataLoader"]))
def test_the_number_of_examples_is_read_from_the_data(model, kind):
    make, options, first, later = KNOWN[kind]
    schedule = sb.KLSchedule(beta=0.5)
    logged = model.fit(*make(), epochs=3, verbose=0, callbacks=[schedule], **options).history
    np.testing.assert_allclose(np.divide(0.5, logged["kl_weight"]), [first, later, later], rtol=1e-6)
    assert schedule.num_data == later
    # What was logged is what the loss was weighed by.
    added = np.subtract(logged["loss"], logged["nll"])
    np.testing.assert_allclose(added, np.multiply(logged["kl"], logged["kl_weight"]), rtol=1e-3)


@pytest.mark.parametrize("kind", jax_first(UNKNOWN, ["generator"]))
def test_where_it_cannot_be_known_the_error_shows_how_to_give_it(model, kind):
    make, options = UNKNOWN[kind]
    with pytest.raises(ValueError, match=r"KLSchedule needs num_data, .*data that repeat; got .*KLSchedule\(num_data="):
        model.fit(make(), epochs=1, verbose=0, callbacks=[sb.KLSchedule(beta=1.0)], **options)
    assert np.isfinite(model.predict(X, verbose=0)).all()


@JAX_FIRST
def test_a_keras_that_shows_no_data_needs_the_number(model, monkeypatch):
    name = "_maybe_symbolic_build" if keras.backend.backend() == "tensorflow" else "_symbolic_build"
    owner = next(cls for cls in keras.Model.__mro__ if cls is not keras.Model and name in vars(cls))
    own = vars(owner)[name]
    sb.KLSchedule(beta=1.0)  # from here on models remember their data
    monkeypatch.delattr(keras.Model, name)
    monkeypatch.delattr(owner, name)
    schedules = sb.KLSchedule(beta=1.0), sb.KLSchedule(len(X), beta=1.0)
    monkeypatch.setattr(owner, name, own, raising=False)  # Keras itself needs it
    with pytest.raises(ValueError, match=r"got data that this `fit` does not show\. Pass it: KLSchedule\(num_data="):
        model.fit(X, Y, verbose=0, callbacks=[schedules[0]])
    assert model.fit(X, Y, verbose=0, callbacks=[schedules[1]]).history["kl_weight"] == pytest.approx([1 / 32])


@JAX_FIRST
def test_one_schedule_reads_the_data_of_every_fit(model):
    schedule = sb.KLSchedule(beta=1.0)
    for rows in (32, 20):
        model.fit(X[:rows], Y[:rows], verbose=0, callbacks=[schedule])
        assert schedule.num_data == rows


@JAX_FIRST
def test_weights_before_fit_need_the_number():
    with pytest.raises(ValueError, match="needs num_data to know its weights before `fit`"):
        sb.KLSchedule(beta=1.0).weight(0)


@JAX_FIRST
def test_a_loss_with_a_term_for_every_position_needs_the_number_of_terms():
    model = keras.Sequential([keras.Input((4, 3)), layers.Dense(2, posterior=FullRank())])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = np.repeat(X[:, None], 4, axis=1), np.zeros((32, 4))
    with pytest.raises(ValueError, match=r"needs num_data where the loss has more than one term .*num_data=y.size"):
        model.fit(x, y, verbose=0, callbacks=[sb.KLSchedule(beta=1.0)])
    assert np.isfinite(model.predict(x, verbose=0)).all()
    model.fit(x, y, verbose=0, callbacks=[sb.KLSchedule(y.size, beta=1.0)])


@pytest.mark.parametrize("rows", [None, [[0, 1, 1, 2, 3], [4, 5, 6, 6, 7]]], ids=["all", "rows"])
@JAX_FIRST
def test_members_of_fit_many_have_the_number_of_their_own_examples(rows):
    def weights(together):
        runs = sb.fit_many(
            _built, X, Y, [0, 1], 2, 6, callbacks=lambda: [sb.KLSchedule(beta=1.0)], rows=rows, together=together
        )
        return [run.history["kl_weight"] for run in runs]

    expected = 1 / (32 if rows is None else 5)
    for together in (None, 1):
        np.testing.assert_allclose(weights(together), [[expected] * 2] * 2, rtol=1e-6)


@JAX_FIRST
def test_an_objective_that_certifies_reads_arrays_alone(model):
    objective = sb.PACBayesObjective()
    logged = model.fit(0 * X, 0 * Y, 10, 1, 0, callbacks=[objective], validation_split=0.25).history
    assert objective.num_data == 24 and logged["kl_weight"] == pytest.approx([1 / 24])
    bound = sb.bounds.pac_bayes(logged["nll"][0], logged["kl"][0], 24, 0.05, "quadratic")
    assert logged["bound"] == pytest.approx([bound.value])
    with pytest.raises(ValueError, match=r"needs the exact num_data, .*got batches, of which about 40 .*Pass PACBayes"):
        model.fit(Batches(), verbose=0, callbacks=[sb.PACBayesObjective()])


EMPTY = {
    "arrays": lambda: (X[:0], Y[:0]),
    "PyDataset": lambda: (Batches(batches=0),),
    "tf.data": lambda: (_tf_data(10).take(0),),
    "DataLoader": lambda: (_loader(10, 0),),
}


@pytest.mark.parametrize("kind", jax_first(EMPTY, ["arrays", "PyDataset", "tf.data", "DataLoader"]))
def test_data_without_an_example_are_an_error_that_says_so(kind):
    if keras.backend.backend() == "tensorflow" and kind in ("PyDataset", "DataLoader"):
        pytest.skip("Keras raises an error of its own before it begins")
    for schedule in (sb.KLSchedule(beta=1.0), sb.KLSchedule(32, beta=1.0), sb.PACBayesObjective(32)):
        model = _built()
        with pytest.raises(ValueError, match=r"fit and evaluate of 'sequential.*' need at least one example; got data"):
            model.fit(*EMPTY[kind](), verbose=0, callbacks=[schedule])
        assert np.isfinite(model.predict(X, verbose=0)).all()
