"""Trains and asks one network under distributions of devices; called as a program by test_layout.py.

sharded.py FILE            one device and three distributions over four: the numbers of each, in FILE
sharded.py FILE PORT ID    process ID of two, each with two devices, that train the network together: its numbers
"""

import sys

import jax
import keras
import numpy as np

import singularbayes as sb
from singularbayes import Adapter, FullRank, KTied, LowRank, RankOne, layers
from singularbayes.inference.engine import _spread, draw_keys, engine

NUM_DATA, BATCH, RATE = 16, 8, 0.1
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def mixed():
    """A network with every kind of layer and posterior."""
    ids = keras.Input((6,), dtype="int32")
    h = layers.Embedding(10, 8, posterior=LowRank(2))(ids)
    h = layers.MultiHeadAttention(2, 4, posterior=LowRank(2))(h, h)
    h = layers.LSTM(4, posterior=LowRank(2), return_sequences=True)(h)
    h = keras.layers.Flatten()(layers.Conv1D(4, 3, posterior=FullRank())(h))
    for posterior in (KTied(2), RankOne(), Adapter(2)):
        h = layers.Dense(6, "tanh", posterior=posterior)(h)
    return keras.Model(ids, keras.layers.Dense(4)(h))


def local():
    """A network whose every example has noise of its own."""
    body = [layers.Dense(units, posterior=LowRank(2), estimator="local") for units in (8, 4)]
    return keras.Sequential([keras.Input((6,)), *body])


def data():
    rng = np.random.default_rng(0)
    return rng.integers(0, 10, (NUM_DATA, 6)).astype("int32"), rng.integers(0, 4, NUM_DATA)


def built(build):
    keras.utils.set_random_seed(0)
    model = build()
    model.compile(keras.optimizers.SGD(RATE), LOSS)
    return model


def whole(array):
    """An array of which parts may lie on another process, as NumPy."""
    if array.is_fully_addressable or array.is_fully_replicated:
        return np.asarray(array)
    return np.asarray(jax.experimental.multihost_utils.process_allgather(array, tiled=True))


def weights(model):
    return np.concatenate([whole(v.value).astype("float64").ravel() for v in model.trainable_variables])


def trained(build, share=slice(None)):
    """The losses of two epochs, and the weights before, after one step, and at the end.

    One step of gradient descent is the gradient.
    """
    model, (x, y) = built(build), data()
    x, y = (np.concatenate([v[:BATCH][share], v[BATCH:][share]]) for v in (x, y))
    before, size = weights(model), len(x) // 2
    sb.set_kl(model, NUM_DATA)
    first = model.fit(x[:size], y[:size], batch_size=size, verbose=0).history["loss"]
    gradient = (before - weights(model)) / RATE
    schedule = sb.KLSchedule(NUM_DATA)
    then = model.fit(x, y, batch_size=size, epochs=2, shuffle=False, verbose=0, callbacks=[schedule]).history
    numbers = {"before": before, "gradient": gradient, "after": weights(model), "loss": [*first, *then["loss"]]}
    return model, {**numbers, "kl": then["kl"]}


def alike(build):
    """The outputs of one pass in training, for eight examples that are the same one."""
    model = built(build)
    sb.set_kl(model, NUM_DATA)
    x = np.repeat(data()[0][:1], BATCH, axis=0)
    distribution = keras.distribution.distribution()
    if distribution is not None:
        x = jax.device_put(x, distribution.get_data_layout(x.shape).backend_layout)
    state = [[v.value for v in group] for group in (model.trainable_variables, model.non_trainable_variables)]
    outputs, _ = jax.jit(lambda *a: model.stateless_call(*a, training=True))(*state, x)
    return whole(outputs), len(outputs.sharding.device_set)


def counted_once():
    """What `evaluate` adds to the likelihood, and the KL over the number of data."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((6,)), layers.Dense(4, posterior=LowRank(2, prior="normal"))])
    model.compile("sgd", LOSS)
    sb.set_kl(model, NUM_DATA)
    sb.inference.elbo.log_nll(model)
    found = model.evaluate(*data(), batch_size=BATCH, verbose=0, return_dict=True)
    return [found["loss"] - found["nll"], sb.kl(model, "exact") / NUM_DATA]


def results():
    found = {}
    for name, build in {"mixed": mixed, "local": local}.items():
        model, numbers = trained(build)
        found |= {f"{name}/{key}": value for key, value in numbers.items()}
        found[f"{name}/alike"], found[f"{name}/devices"] = alike(build)
    x, _ = data()
    answers = [sb.predict(model, part, 8, seed=1).mean for part in (x, x[:7], x[:1])]
    run = engine(model)
    outputs = [run._run(run._values(), *_spread(run.draw(draw_keys(0, 8)), part), 8)[0] for part in (x, x[:1])]
    parts = [output.sharding.shard_shape(output.shape)[:2] for output in outputs]
    return {**found, "predicted": np.concatenate(answers), "parts": parts, "kl_once": counted_once()}


def distributions():
    from keras.distribution import DataParallel, DeviceMesh

    grid, line = DeviceMesh((2, 2), ("batch", "model")), DeviceMesh((4,), ("batch",))
    made = {"one": None, "data": DataParallel(), "model": sb.ModelParallel(grid, smallest=1)}
    return {**made, "both": sb.ModelParallel(line, "batch", smallest=1)}


def on_four_devices(path):
    found = {}
    for name, distribution in distributions().items():
        keras.distribution.set_distribution(distribution)
        found |= {f"{name}/{key}": value for key, value in results().items()}
        if name == "model":
            model = built(mixed)
            found["table"] = distribution.describe(model)
            found["specs"] = [f"{v.path} {v.value.sharding.spec}" for v in model.trainable_variables]
    np.savez(path, **found)


def as_one_of_two(path, port, process):
    keras.distribution.initialize(f"localhost:{port}", 2, int(process))
    mesh = keras.distribution.DeviceMesh((2, 2), ("batch", "model"))
    keras.distribution.set_distribution(sb.ModelParallel(mesh, smallest=1, auto_shard_dataset=False))
    half = slice(int(process) * BATCH // 2, (int(process) + 1) * BATCH // 2)
    model, numbers = trained(local, half)
    numbers["alike"], numbers["devices"] = alike(local)
    numbers["predicted"] = sb.predict(model, data()[0], 8, seed=1).mean
    np.savez(path, **numbers)


if __name__ == "__main__":
    (on_four_devices if len(sys.argv) == 2 else as_one_of_two)(*sys.argv[1:])
