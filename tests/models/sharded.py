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


def mixture():
    """A network of two components, each of which trains on all examples of a step."""
    posterior = Mixture(LowRank.paper(2, prior="normal"), components=2)
    return keras.Sequential([keras.Input((6,)), *(layers.Dense(units, posterior=posterior) for units in (8, 4))])


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
    """The weights and losses of two members of `fit_many`."""
    x, y = (part[:examples] for part in data())

    def build():
        model = shared()
        model.compile(keras.optimizers.SGD(RATE), LOSS)
        return model

    def callbacks():
        return [sb.KLSchedule(num_data=examples, beta=1.0)]

    held_out = {"validation_data": (x[:batch_size], y[:batch_size])}
    runs = sb.fit_many(build, x, y, [3, 4], 2, batch_size, callbacks=callbacks, **held_out)
    losses = [run.history[name] for run in runs for name in ("loss", "val_loss")]
    return np.concatenate([*map(np.ravel, losses), *(weights(run.model) for run in runs)])


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
    found["predicted"] = np.concatenate([sb.predict(models[shared], part, 8, seed=1).mean for part in (x, x[:1])])
    found["mixture/predicted"] = sb.predict(models[mixture], x, 8, seed=1).mean
    if name != "data":
        found["kl_once"] = counted_once(models[shared])
    if name != "model":
        found["many"] = many(12, 4)
    found["shared/alike"], found["devices"] = alike(shared)
    return found


# Weights are split under "model", so it has all the layers.
NETWORKS = {
    "one": [shared, mixture, mixed],
    "data": [shared, mixture],
    "model": [shared, mixture, mixed],
}


def split_factors(mesh, **options):
    """Splits the factors, (2, rows + columns, rank), over the devices: by rank, which two divide."""
    layout_map = keras.distribution.LayoutMap(mesh)
    layout_map[".*/ab"] = (None, None, "model")
    return keras.distribution.ModelParallel(layout_map=layout_map, batch_dim_name="batch", **options)


def distributions():
    grid = keras.distribution.DeviceMesh((2, 2), ("batch", "model"))
    return {"one": None, "data": keras.distribution.DataParallel(), "model": split_factors(grid)}


def on_four_devices(path):
    found = {}
    for name, distribution in distributions().items():
        keras.distribution.set_distribution(distribution)
        found |= {f"{name}/{key}": value for key, value in results(name).items()}
        if name == "model":
            model = built(mixed)
            found["specs"] = [f"{v.path} {v.value.sharding.spec}" for v in model.trainable_variables]
    np.savez(path, **found)


def as_one_of_two(path, port, process):
    keras.distribution.initialize(f"localhost:{port}", 2, int(process))
    mesh = keras.distribution.DeviceMesh((2, 2), ("batch", "model"))
    keras.distribution.set_distribution(split_factors(mesh, auto_shard_dataset=False))
    half = slice(int(process) * BATCH // 2, (int(process) + 1) * BATCH // 2)
    model, numbers = trained(shared, half)
    numbers["predicted"] = sb.predict(model, data()[0], 8, seed=1).mean
    numbers["devices"] = alike(shared)[1]
    np.savez(path, **numbers)


if __name__ == "__main__":
    (on_four_devices if len(sys.argv) == 2 else as_one_of_two)(*sys.argv[1:])
