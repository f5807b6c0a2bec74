"""`KLSchedule()` counts the training examples of the `fit`, or refuses to guess."""

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


def _tf_data(size, repeat=False, **options):
    data = pytest.importorskip("tensorflow").data.Dataset.from_tensor_slices((X, Y)).batch(size, **options)
    return data.repeat() if repeat else data


def _loader(size, rows=32):
    torch = pytest.importorskip("torch")
    parts = (torch.as_tensor(part[:rows]) for part in (X, Y))
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*parts), size)


# Data, options of fit, and the number in the first epoch, after its first batch, and in those after it.
KNOWN = {
    "arrays": (lambda: (X, Y), {"batch_size": 10}, 40, 32),
    "a part for validation": (lambda: (X, Y), {"batch_size": 10, "validation_split": 0.25}, 30, 24),
    "validation data": (lambda: (X, Y), {"batch_size": 16, "validation_data": (X[:7], Y[:7])}, 32, 32),
    "weights": (lambda: (X, Y), {"batch_size": 10, "sample_weight": np.linspace(0, 3, 32)}, 40, 32),
    "PyDataset": (lambda: (Batches(),), {"shuffle": False}, 40, 32),
    "tf.data": (lambda: (_tf_data(10),), {}, 40, 32),
    "tf.data, whole batches": (lambda: (_tf_data(10, drop_remainder=True),), {}, 30, 30),
    "DataLoader": (lambda: (_loader(10),), {}, 40, 32),
}
UNKNOWN = {
    "generator": lambda: (part for part in [(X[:10], Y[:10])] * 4),
    "endless PyDataset": lambda: Batches(batches=None),
    "tf.data that repeats": lambda: _tf_data(10, repeat=True),
    "tf.data without a length": lambda: _tf_data(10).filter(lambda x, y: True),
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
    added = np.subtract(logged["loss"], logged["nll"]) / np.multiply(logged["kl"], logged["kl_weight"])
    np.testing.assert_allclose(added[1:], 1, rtol=1e-3)
    assert 0 < added[0] < 1  # of the first epoch, those examples that were not counted


@pytest.mark.parametrize("kind", jax_first(UNKNOWN, ["generator"]))
def test_where_it_cannot_be_known_the_error_shows_how_to_give_it(model, kind):
    with pytest.raises(
        ValueError, match=r"KLSchedule needs num_data, .*for data without a length.*KLSchedule\(num_data="
    ):
        model.fit(UNKNOWN[kind](), epochs=1, verbose=0, callbacks=[sb.KLSchedule(beta=1.0)])
    assert np.isfinite(model.predict(X, verbose=0)).all()


@JAX_FIRST
def test_a_training_of_one_step_whose_examples_nobody_knew_is_a_warning(model):
    with pytest.warns(UserWarning, match=r"had no KL: it ended with its first steps.*KLSchedule\(num_data=32\)"):
        logged = model.fit(X, Y, 32, verbose=0, callbacks=[sb.KLSchedule(beta=1.0)]).history
    assert logged["kl_weight"] == [0.0] and logged["nll"] == logged["loss"]
    logged = model.fit(X, Y, 32, 2, verbose=0, callbacks=[sb.KLSchedule(beta=1.0)]).history
    assert logged["kl_weight"] == pytest.approx([0, 1 / 32])


@JAX_FIRST
def test_one_schedule_reads_the_data_of_every_fit(model):
    schedule = sb.KLSchedule(beta=1.0)
    for rows in (32, 20):
        logged = model.fit(X[:rows], Y[:rows], 10, 2, verbose=0, callbacks=[schedule]).history
        assert schedule.num_data == rows and logged["kl_weight"][1] == pytest.approx(1 / rows)


@JAX_FIRST
def test_weights_before_fit_need_the_number():
    with pytest.raises(ValueError, match="needs num_data to know its weights before `fit` has counted"):
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
def test_an_objective_counts_as_a_schedule_does(model):
    objective = sb.PACBayesObjective()
    logged = model.fit(0 * X, 0 * Y, 12, 1, 0, callbacks=[objective], validation_split=0.25).history
    assert objective.num_data == 24 and logged["kl_weight"] == pytest.approx([1 / 24])
    bound = sb.bounds.pac_bayes(logged["nll"][0], logged["kl"][0], 24, 0.05, "quadratic")
    assert logged["bound"] == pytest.approx([bound.value])
