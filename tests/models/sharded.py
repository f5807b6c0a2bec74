"""Trains one network and predicts with it under distributions of devices; called as a program by test_layout.py.

sharded.py FILE            one device and three distributions over four: the numbers of each, in FILE
sharded.py FILE PORT ID    process ID of two, each with two devices, that train the network together: its numbers
"""

import sys

import jax
import keras
import numpy as np
from jax.experimental import multihost_utils

import singularbayes as sb
from singularbayes import Adapter, FullRank, LowRank, Mixture, RankOne, layers

NUM_DATA, BATCH, RATE = 16, 8, 1 / 16
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def mixed():
    """A network with every kind of layer and posterior."""
    ids, normal = keras.Input((6,), dtype="int32"), {"prior": "normal"}
    h = layers.Embedding(10, 8, posterior=LowRank.paper(2))(ids)
    h = layers.MultiHeadAttention(2, 4, posterior=LowRank.paper(2, **normal))(h, h)
    h = layers.LSTM(4, posterior=LowRank.paper(2, **normal), return_sequences=True)(h)
    h = keras.layers.Flatten()(layers.Conv1D(4, 3, posterior=FullRank(**normal))(h))
    for posterior in (RankOne(**normal), Adapter(2, **normal)):
        h = layers.Dense(6, "tanh", posterior=posterior)(h)
    return keras.Model(ids, keras.layers.Dense(4)(h))


def shared():
    """A network with one draw for all examples of a step."""
    posterior = LowRank.paper(2, prior="normal")
    body = [layers.Dense(units, posterior=posterior) for units in (8, 4)]
    return keras.Sequential([keras.Input((6,)), *body])


def mixture(examples="split"):
    """A network of two components, each of which trains on half of the examples of a step."""
    posterior = Mixture(LowRank.paper(2, prior="normal"), components=2, examples=examples)
    return keras.Sequential([keras.Input((6,)), *(layers.Dense(units, posterior=posterior) for units in (8, 4))])


def repeated():
    """The same, but each trains on all examples."""
    return mixture("repeat")


def data():
    rng = np.random.default_rng(0)
    return rng.integers(0, 10, (NUM_DATA, 6)).astype("int32"), rng.integers(0, 4, NUM_DATA)


def built(build):
    keras.utils.set_random_seed(0)
    model = build()
    model.compile(keras.optimizers.SGD(RATE), LOSS)
    sb.set_kl(model, NUM_DATA, beta=1.0)
    return model


def whole(array):
    """An array of which parts may lie on another process, as NumPy."""
    if array.is_fully_addressable or array.is_fully_replicated:
        return np.asarray(array)
    return np.asarray(multihost_utils.process_allgather(array, tiled=True))


def weights(model):
    return np.concatenate([whole(v.value).astype("float64").ravel() for v in model.trainable_variables])


def trained(build, share=slice(None)):
    """A network after two steps, the weights before and after, and the gradient, which is a step of descent."""
    model, (x, y) = built(build), data()
    steps, losses = [weights(model)], []
    for batch in (slice(BATCH), slice(BATCH, None)):
        losses.append(model.train_on_batch(x[batch][share], y[batch][share]))
        steps.append(weights(model))
    gradient = (steps[0] - steps[1]) / RATE
    return model, {"before": steps[0], "gradient": gradient, "after": steps[2], "loss": np.array(losses)}


def alike(build):
    """The outputs of one pass in training, for eight examples that are the same one."""
    model = built(build)
    x = np.repeat(data()[0][:1], BATCH, axis=0)
    distribution = keras.distribution.distribution()
    if distribution is not None:
        x = jax.device_put(x, distribution.get_data_layout(x.shape).backend_layout)
    state = [[v.value for v in group] for group in (model.trainable_variables, model.non_trainable_variables)]
    outputs, _ = jax.jit(lambda *a: model.stateless_call(*a, training=True))(*state, x)
    return whole(outputs), len(outputs.sharding.device_set)


def many(examples, batch_size):
    """The weights and losses of two members of `fit_many`; it validates on a batch that four devices do not divide."""
    x, y = (part[:examples] for part in data())

    def build():
        model = shared()
        model.compile(keras.optimizers.SGD(RATE), LOSS)
        return model

    def callbacks():
        return [sb.KLSchedule(num_data=examples, beta=1.0)]

    held_out = {"validation_data": (x[: batch_size + 1], y[: batch_size + 1])}
    runs = sb.fit_many(build, x, y, [3, 4], 2, batch_size, callbacks=callbacks, **held_out)
    losses = [run.history[name] for run in runs for name in ("loss", "val_loss")]
    return np.concatenate([*map(np.ravel, losses), *(weights(run.model) for run in runs)])


def refused():
    """What plain `fit` says of a last batch that four devices do not divide."""
    x, y = data()
    model, found = built(shared), []
    before = weights(model)
    held_out = {"validation_data": (x[:10], y[:10])}
    for rows, size, more in ((14, 8, {}), (16, 8, held_out)):
        try:
            model.fit(x[:rows], y[:rows], size, verbose=0, callbacks=[sb.KLSchedule(beta=1.0)], **more)
        except ValueError as error:
            found.append(str(error))
        if not more:
            np.testing.assert_array_equal(weights(model), before)
    model.fit(x[:12], y[:12], 8, verbose=0, callbacks=[sb.KLSchedule(beta=1.0)], validation_data=(x[:8], y[:8]))
    return found


def counted_once(model):
    """What the KL adds to the loss of a pass that trains, and the KL over the number of data."""
    model(data()[0], training=True)
    return [float(keras.ops.convert_to_numpy(sum(model.losses))), sb.kl(model, "exact") / NUM_DATA]


def results(name):
    """All invariants for one device; under each distribution those that it may break in a way of its own."""
    (x, _), found = data(), {}
    models = {}
    for build in NETWORKS[name]:
        models[build], numbers = trained(build)
        found |= {f"{build.__name__}/{key}": value for key, value in numbers.items()}
    if name == "both":
        return found
    found["predicted"] = np.concatenate([sb.predict(models[shared], part, 8, seed=1).mean for part in (x, x[:1])])
    for build in (mixture, repeated):
        if build in models:
            found[f"{build.__name__}/predicted"] = sb.predict(models[build], x, 8, seed=1).mean
    if name != "data":
        found["kl_once"] = counted_once(models[shared])
    if name != "model":
        found["many"] = many(14, 4)
    for build in (shared,):
        if build in models:
            found[f"{build.__name__}/alike"], found["devices"] = alike(build)
    if name == "data":
        found["refused"] = refused()
    return found


# Weights are split under "model", so it has all the layers.
NETWORKS = {
    "one": [shared, mixture, repeated, mixed],
    "data": [shared, repeated],
    "model": [shared, mixture, mixed],
    "both": [shared],
}


def distributions():
    from keras.distribution import DataParallel, DeviceMesh

    grid, line = DeviceMesh((2, 2), ("batch", "model")), DeviceMesh((4,), ("batch",))
    made = {"one": None, "data": DataParallel(), "model": sb.ModelParallel(grid, smallest=1)}
    return {**made, "both": sb.ModelParallel(line, "batch", smallest=1)}


def on_four_devices(path):
    found = {}
    for name, distribution in distributions().items():
        keras.distribution.set_distribution(distribution)
        found |= {f"{name}/{key}": value for key, value in results(name).items()}
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
    model, numbers = trained(shared, half)
    numbers["predicted"] = sb.predict(model, data()[0], 8, seed=1).mean
    numbers["devices"] = alike(shared)[1]
    np.savez(path, **numbers)


if __name__ == "__main__":
    (on_four_devices if len(sys.argv) == 2 else as_one_of_two)(*sys.argv[1:])
