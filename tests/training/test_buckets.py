"""Batches of like length: every example once, cut where padding begins, and the same training as without a cut."""

import itertools

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops
from table import TORCH_FIRST

import singularbayes as sb
from singularbayes import FullRank, LowRank, layers
from singularbayes.training.length_buckets import Buckets
from singularbayes.training.member_examples import read_examples, without_padding

RNG = np.random.default_rng(5)
LENGTHS = np.array([3] * 9 + [7] * 6 + [12] * 4 + [20] * 3)
IDS = np.where(np.arange(20) < LENGTHS[:, None], RNG.integers(1, 9, (22, 20)), 0).astype("int32")
Y = (IDS[:, 1] > 4).astype("int32")
SIZE = 4  # the last batch has 2
on_jax = pytest.mark.skipif(keras.backend.backend() != "jax", reason="members are one program on JAX alone")


def _network(length=None):
    ids = keras.Input((length,), dtype="int32")
    x = layers.Embedding(9, 8, mask_zero=True, posterior=LowRank.paper(3))(ids)
    x = keras.layers.GlobalAveragePooling1D()(x)  # which leaves out what is masked
    model = keras.Model(ids, layers.Dense(2, posterior=FullRank())(x))
    model.compile(keras.optimizers.Adam(0.02), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def _weights(model):
    return [ops.convert_to_numpy(weight) for weight in model.trainable_weights]


def _fit(seeds, **options):
    schedule = {"callbacks": lambda: [sb.KLSchedule(len(IDS), beta=1.0)], "padding": 0}
    return sb.fit_many(_network, IDS, Y, seeds, epochs=2, batch_size=SIZE, **schedule, **options)


class _Whole(keras.utils.PyDataset):
    """The batches of a seed with all their padding, epoch after epoch."""

    def __init__(self, seed):
        super().__init__()
        self.seed = seed
        self.turn(0)

    @property
    def num_batches(self):
        return -(-len(IDS) // SIZE)

    def __getitem__(self, index):
        ids = self.order[index * SIZE : (index + 1) * SIZE]
        return IDS[ids], Y[ids]

    def turn(self, epoch):
        self.order = Buckets.of_lengths(LENGTHS).order(self.seed, epoch, SIZE)


def _by_hand(seed):
    """The weights after plain training on the same batches, uncut."""
    keras.utils.set_random_seed(seed)
    model, data = _network(), _Whole(seed)
    turn = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: data.turn(epoch))
    model.fit(data, epochs=2, callbacks=[turn, sb.KLSchedule(len(IDS), beta=1.0)], shuffle=False, verbose=0)
    return _weights(model)


@TORCH_FIRST
def test_cut_batches_train_as_those_with_their_padding():
    (alone,) = _fit([4], together=1)
    for cut, whole in zip(_weights(alone.model), _by_hand(4), strict=True):
        np.testing.assert_allclose(cut, whole, rtol=1e-4, atol=2e-5)


@on_jax
def test_members_of_a_program_are_those_trained_alone_and_take_one_branch_a_batch(monkeypatch):
    from singularbayes.training.vectorized_fit import Program

    found, fits = [], Program.fits
    monkeypatch.setattr(Program, "fits", lambda self, members: found.append(self) or fits(self, members))
    program = _fit([4, 8])
    for ours, theirs in zip(_weights(program[1].model), _by_hand(8), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=2e-5)
    # A number for each member would have made it a choice among the results of all branches.
    text = found[0]._compiled[2].as_text()
    assert text.count(" conditional(") == 1 and len(found[0].job.train.columns) == 2


def test_validation_data_lose_the_columns_that_are_padding_in_all_of_them():
    held_out = without_padding(read_examples("fit_many(validation_data)", IDS[:15], Y[:15], None, SIZE), 0)
    assert held_out.x.shape == (15, 7) and held_out.columns == (None,)


LISTS = st.lists(st.integers(1, 70), min_size=1, max_size=60).map(np.array)


@given(LISTS, st.integers(1, 9), st.integers(0, 3), st.integers(0, 3))
@settings(max_examples=50, deadline=None)
def test_every_example_comes_once_and_fits_the_columns_of_its_batch(lengths, size, seed, epoch):
    buckets = Buckets.of_lengths(lengths)
    order, kinds = buckets.order(seed, epoch, size), buckets.of_batches(epoch, size)
    assert sorted(order) == list(range(len(lengths))) and len(kinds) == -(-len(lengths) // size)
    for i, kind in enumerate(kinds):
        batch = order[i * size : (i + 1) * size]
        assert buckets.bucket[batch].max() == kind or len(batch) < size
        assert lengths[batch].max() <= buckets.columns[kind]


@given(LISTS)
@settings(max_examples=50, deadline=None)
def test_no_other_lengths_have_fewer_tokens_and_one_more_would_not_save_a_quarter(lengths):
    def tokens(columns):
        return np.array(columns)[np.searchsorted(columns, lengths)].sum()

    ends = [end for end in range(8, 80, 8) if end < lengths.max()]
    chosen = Buckets.of_lengths(lengths).columns
    most = min(2, len(ends))
    every = [[(*few, lengths.max()) for few in itertools.combinations(ends, n)] for n in range(most + 1)]
    least = [min(map(tokens, some)) for some in every]
    count = len(chosen) - 1
    assert chosen in every[count] and tokens(chosen) == least[count]
    assert all(least[n + 1] <= 0.75 * least[n] for n in range(count))
    assert count == most or least[count + 1] > 0.75 * least[count]


def test_seeds_share_the_lengths_of_batches_and_not_the_examples():
    buckets = Buckets.of_lengths(LENGTHS)
    one, other = (buckets.order(seed, 0, SIZE) for seed in (1, 2))
    assert (one != other).any() and (buckets.of_batches(0, SIZE) != buckets.of_batches(1, SIZE)).any()
    for i, kind in enumerate(buckets.of_batches(0, SIZE)):
        for order in (one, other):
            assert buckets.bucket[order[i * SIZE : (i + 1) * SIZE]].max() == kind


def test_padding_needs_token_ids_and_a_model_of_any_length():
    with pytest.raises(ValueError, match="padding needs one input of integers"):
        sb.fit_many(_network, IDS.astype("float32"), Y, [0], epochs=1, padding=0)
    with pytest.raises(ValueError, match="padding needs a model that takes any length"):
        sb.fit_many(lambda: _network(20), IDS, Y, [0], epochs=1, padding=0)
