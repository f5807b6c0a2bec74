"""Embedding: Keras's layer of the same name, with a token of one vector throughout a draw."""

import keras
import numpy as np
import pytest
from keras import ops
from layer_table import LAYERS, counterpart_of
from posterior_table import (
    ON_TORCH,
    POSTERIORS,
    RANDOM,
    draw_of,
    gradient,
    one_row_each,
    stirred_layer,
)

from singularbayes import LowRank, draw_weights
from singularbayes.posteriors import scope

pytestmark = [pytest.mark.backend, pytest.mark.rows_on_torch]
CASE = LAYERS["embedding"]
IDS = np.array([[0, 4, 2], [4, 4, 1]], "int32")


def _numpy(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


@pytest.mark.parametrize("ids", [IDS[:, 0], IDS[None], IDS.astype("uint8"), IDS.astype("int64"), IDS.astype("float32")])
@ON_TORCH
def test_ids_come_in_any_shape_and_type_that_keras_takes(ids):
    layer = stirred_layer(CASE.make(LowRank(2)), IDS)
    draw = draw_of(layer)
    with scope.fix_draws(draw):
        counterpart = counterpart_of(CASE, layer, IDS, draw)
        np.testing.assert_allclose(_numpy(layer(ids)), _numpy(counterpart(ids)), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", ["low_rank", "low_rank_laplace", "full_rank", "full_rank_laplace"])
def test_the_gradient_of_the_means_is_that_of_the_keras_table(name):
    layer = stirred_layer(CASE.make(POSTERIORS[name]()), IDS)
    draw = draw_of(layer)
    counterpart = counterpart_of(CASE, layer, IDS, draw)
    posterior, factor = layer.posterior, layer.posterior.factors[0]
    of_table = gradient(lambda: ops.sum(ops.square(counterpart(IDS) - 1)), counterpart.trainable_weights[0])

    def loss():
        with scope.fix_draws(draw_of(layer)):
            return ops.sum(ops.square(layer(IDS) - 1))

    of_factor = gradient(loss, factor.values)[0, : len(of_table)]
    # W = A Bᵀ: dL/dA = dL/dW B; the variable holds A / rates.loc.
    chain = _numpy(posterior.weight(draw[id(posterior)]).b) if name.startswith("low_rank") else np.eye(4)
    np.testing.assert_allclose(of_factor, factor.rates.loc * of_table @ chain, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", one_row_each(POSTERIORS))
@pytest.mark.parametrize("wrap", [list, lambda w: w[0]], ids=["list", "array"])
@ON_TORCH
def test_given_weights_are_the_mean(name, wrap):
    table = np.outer([1, 2, 3, 4, 5], [1, -1, 2, 0.5]).astype("float32")
    layer = CASE.make(POSTERIORS[name](), weights=wrap([table]))
    np.testing.assert_allclose(_numpy(layer(np.arange(5))), table, atol=1e-5)


@pytest.mark.parametrize("name", one_row_each(RANDOM))
def test_a_token_has_one_vector_throughout_a_forward_pass_and_another_in_the_next(name):
    layer = stirred_layer(CASE.make(POSTERIORS[name]()), IDS)
    with draw_weights(layer):
        first, second = _numpy(layer(IDS)), _numpy(layer(IDS))
    np.testing.assert_allclose(first[0, 1], first[1, 0], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(first[1, 0], first[1, 1], rtol=1e-6, atol=1e-6)
    assert not np.allclose(first, second)


class TestOutOfRange:
    @pytest.mark.parametrize("wrong", [-1, 5, 2**31 - 1])
    def test_an_eager_call_names_the_id_and_the_range(self, wrong):
        layer = CASE.make(LowRank(2), name="words")
        layer(IDS)
        with pytest.raises(ValueError, match=rf"'words' needs ids from 0 to 4; got the id {wrong}\."):
            layer(np.array([[0, wrong]]))

    @pytest.mark.parametrize("name", ["low_rank", "full_rank", "rank_one", "deterministic"])
    def test_inside_a_compiled_function_the_row_is_nan_and_no_neighbour(self, name):
        if keras.backend.backend() == "torch":
            pytest.skip("Keras on torch runs eagerly, where the id is an error")
        layer = stirred_layer(CASE.make(POSTERIORS[name]()), IDS)
        model = keras.Sequential([keras.Input((3,), dtype="int32"), layer])
        out = model.predict(np.array([[-1, 5, 2], [-5, 0, 7]], "int32"), verbose=0)
        wrong = np.array([[True, True, False], [True, False, True]])
        np.testing.assert_array_equal(np.isnan(out), np.repeat(wrong[..., None], 4, axis=-1))

    def test_an_id_that_does_not_fit_32_bits_is_not_wrapped_to_a_neighbour(self):
        if keras.backend.backend() == "jax":
            pytest.skip("JAX cuts arrays to 32 bits before a layer sees them; predict says so")
        with pytest.raises(ValueError, match=f"got the id {2**32 + 1}"):
            CASE.make(LowRank(2))(np.array([2**32 + 1]))
