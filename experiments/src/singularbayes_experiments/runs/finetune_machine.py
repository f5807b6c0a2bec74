"""The program of the experiment `finetune` on one machine: compiled for every length, trained and predicted from."""

import itertools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np

from singularbayes.prediction import ClassPredictive
from singularbayes_experiments.methods.adapter_program import AdapterProgram, Start, State, stacked
from singularbayes_experiments.problems import finetune as plan
from singularbayes_experiments.problems import finetune_model
from singularbayes_experiments.problems.finetune import Adaptation, Setting, Trained
from singularbayes_experiments.problems.finetune_texts import Texts, batches, read_texts, read_weights

CHUNK = 71  # networks that train side by side: five chunks have the tuning of a small setting, one has its results
BLOCK, ROWS = 6, 256  # networks and rows that predict side by side
PREDICTED_LENGTHS = (16, 32, 64)
LOGITS = 150  # of every data set: those it has no class for are masked


def start_of(one: Trained, num_data: int) -> Start:
    """Returns the arrays' settings of a network."""
    how = one.adaptation
    random_a, random_b = how.kind in ("blob", "bayes"), how.kind == "bayes"
    return Start(
        seed=one.start,
        learning_rate=how.learning_rate,
        scale_a=how.eta if random_a else plan.OFF,
        scale_b=how.eta if random_b else plan.OFF,
        head_scale=0.02 if how.head else plan.OFF,
        width_a=how.width if random_a else plan.FLAT,
        width_b=how.width if random_b else plan.FLAT,
        head_width=0.2 if how.head else plan.FLAT,
        anchored=how.kind == "bayes",
        kl_weight=how.beta / num_data,
        rho_lr=(how.rho_lr * random_a, how.rho_lr * random_b, how.rho_lr * how.head),
        dropout=(how.dropout, how.dropout if how.kind == "mc_dropout" else 0.0),
    )


class AdapterMachine:
    """The program on this machine: compiled once for every length, with the time that its steps take."""

    def __init__(self, folder: Path, dtype: str, tiny: bool = False, pretrained: bool = True, chunk: int = CHUNK):
        self.folder, self.tiny, self.chunk = folder, tiny, chunk
        self.most_steps = 4 if tiny else sys.maxsize
        self.lengths = plan.LENGTHS[:1] if tiny else plan.LENGTHS
        self.predicted_lengths = self.lengths if tiny else PREDICTED_LENGTHS
        self._texts: dict[str, Texts] = {}
        every = [self.texts(name) for name in ("sst2", "clinc150", "banking77")]
        self.capacity = max(len(texts.labels) for texts in every)
        vocabulary = int(max(texts.tokens.max() for texts in every)) + 1
        sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32} if tiny else {}
        weights = None if tiny or not pretrained else read_weights(folder)
        with jax.default_device(jax.devices("cpu")[0]):  # hundreds of small operations, which compile quicker there
            backbone = finetune_model.encoder(weights, vocabulary, plan.LENGTHS[-1], dtype=dtype, **sizes)
            model = finetune_model.with_adapters(finetune_model.classifier(backbone, LOGITS), plan.RANK)
            self.program = AdapterProgram(model)
        self.frozen = jax.device_put(self.program.frozen, jax.devices()[0])
        self._data: dict[str, tuple] = {}
        self._compiled: dict[tuple[str, int], Future] = {}
        self.seconds_per_token = 0.0  # of training, all networks together; 0 until it is known

    def texts(self, name: str) -> Texts:
        if name not in self._texts:
            self._texts[name] = read_texts(self.folder, name, self.lengths[-1])
        return self._texts[name]

    def data(self, name: str) -> tuple:
        """Returns tokens, labels and the mask of absent classes on the device, in one shape for all data sets."""
        if name in self._data:
            return self._data[name]
        texts = self.texts(name)
        tokens = np.zeros((self.capacity, self.lengths[-1]), "uint16")
        labels = np.zeros(self.capacity, "int32")
        tokens[: len(texts.tokens)], labels[: len(texts.labels)] = texts.tokens, np.maximum(texts.labels, 0)
        mask = np.where(np.arange(LOGITS) < texts.classes, 0.0, -1e9).astype("float32")
        self._data[name] = jax.device_put((tokens, labels, mask))
        return self._data[name]

    def compile(self) -> None:
        """Traces the programs one after the other and compiles them side by side; who needs one waits for it."""
        state = jax.eval_shape(self.program.start_many, stacked([start_of(_ANY, 1)] * self.chunk))
        without = {name: values for name, values in state.items() if name != "optimizer"}
        block = jax.tree.map(lambda a: jax.ShapeDtypeStruct((BLOCK, *a.shape[1:]), a.dtype), without)
        data = self.data("sst2")
        rows = jax.ShapeDtypeStruct((self.chunk, plan.BATCH), np.dtype("int32"))
        some = jax.ShapeDtypeStruct((ROWS,), np.dtype("int32"))
        number = jax.ShapeDtypeStruct((), np.dtype("float32"))
        count = jax.ShapeDtypeStruct((), np.dtype("int32"))
        pool, begun = ThreadPoolExecutor(), time.time()

        def submit(what: str, length: int, program: Any, *arguments: Any) -> None:
            job = pool.submit(program.lower(*arguments, self.frozen, data, length=length).compile)
            job.add_done_callback(lambda _: print(f"  {what} {length}: {time.time() - begun:.0f} s", flush=True))
            self._compiled[what, length] = job

        for length in self.lengths:
            submit("train", length, self.program.train, state, rows, number)
        for length in self.predicted_lengths:
            submit("predict", length, self.program.predict, block, some, count)
        pool.shutdown(wait=False)

    def train(self, setting: Setting, members: Sequence[Trained], deadline: float) -> State:
        """Returns the trained state; raises `TimeoutError` where the deadline comes first."""
        texts = self.texts(setting.data)
        rows = {one.seed: texts.training_rows(setting, one.seed) for one in members}
        num_data = len(next(iter(rows.values())))
        padded = [*members, *[members[-1]] * (self.chunk - len(members))]
        state = self.program.start([start_of(one, num_data) for one in padded])
        keys = sorted({(one.seed, one.order) for one in members})
        which = np.array([keys.index((one.seed, one.order)) for one in padded])
        data = self.data(setting.data)
        steps = setting.epochs * (num_data // plan.BATCH)
        steps = min(steps, self.most_steps)
        for place in np.unique(np.searchsorted(self.lengths, texts.lengths[texts.parts["train"]])):
            self._compiled["train", self.lengths[place]].result()  # before the time is taken

        def epoch_of(epoch: int) -> tuple[np.ndarray, np.ndarray]:
            orders = [batches(texts, rows[seed], plan.BATCH, (seed, order, epoch)) for seed, order in keys]
            longest = np.stack([texts.lengths[order].max(axis=1) for order in orders]).max(axis=0)
            lengths = np.array(self.lengths)[np.searchsorted(self.lengths, longest)]
            return np.stack(orders)[which], lengths

        def step_of(state: State, batch: np.ndarray, length: int, factor: np.float32) -> tuple[State, Any]:
            return self._compiled["train", length].result()(state, batch, factor, self.frozen, data)

        state, self.seconds_per_token, _ = take_steps(state, steps, epoch_of, step_of, deadline)
        print(f"  {setting.name}: {steps} steps, {1 / self.seconds_per_token:.3g} tokens/s", flush=True)
        return state

    def seconds(self, setting: Setting) -> float:
        """Returns how long the training of a chunk will take, and a fifth for predictions."""
        texts = self.texts(setting.data)
        rows = texts.training_rows(setting, 0)
        padded = np.array(self.lengths)[np.searchsorted(self.lengths, texts.lengths[rows])]
        steps = setting.epochs * (len(rows) // plan.BATCH)
        tokens = float(padded.mean()) * plan.BATCH * min(steps, self.most_steps) * self.chunk
        return 1.2 * tokens * self.seconds_per_token

    def predict(
        self, setting: Setting, state: State, wanted: Sequence[tuple[int, int]], rows: np.ndarray
    ) -> dict[tuple[int, int], ClassPredictive]:
        """Returns predictions of some rows for every wanted (place of a network, number of draws)."""
        texts, data = self.texts(setting.data), self.data(setting.data)
        state = {name: values for name, values in state.items() if name != "optimizer"}
        lengths = texts.lengths[rows]
        p = np.zeros((len(wanted), len(rows), texts.classes), "float32")
        entropy = np.zeros((len(wanted), len(rows)), "float32")
        jobs: list[tuple] = []
        for draws in sorted({draws for _, draws in wanted}):
            own = [i for i, (_, count) in enumerate(wanted) if count == draws]
            for block in (own[i : i + BLOCK] for i in range(0, len(own), BLOCK)):
                some = _pick(state, np.resize([wanted[i][0] for i in block], BLOCK))
                for length, part in self._parts(lengths):
                    ids = np.resize(rows[part], ROWS).astype("int32")
                    program = self._compiled["predict", length].result()
                    got = program(some, ids, np.int32(draws), self.frozen, data)
                    jobs.append((block, part, got))
                    if len(jobs) > 8:  # results come while the next ones are computed
                        _store(jobs.pop(0), p, entropy)
        for job in jobs:
            _store(job, p, entropy)
        return {
            one: ClassPredictive(p[i], np.zeros((1, 1)), one[1], expected_entropy=entropy[i])
            for i, one in enumerate(wanted)
        }

    def _parts(self, lengths: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Yields a padded length and the places of at most `ROWS` texts that fit it, until all had their turn."""
        for low, length in itertools.pairwise((0, *self.predicted_lengths)):
            here = np.flatnonzero((lengths > low) & (lengths <= length))
            for i in range(0, len(here), ROWS):
                yield length, here[i : i + ROWS]

    def features(self, setting: Setting, state: State, place: int, rows: np.ndarray) -> np.ndarray:
        """Returns what the head of one network sees, (rows, width) in float16, without dropout."""
        data, lengths = self.data(setting.data), self.texts(setting.data).lengths[rows]
        one = {name: jax.tree.map(lambda a: a[place], values) for name, values in state.items() if name != "optimizer"}
        found: np.ndarray | None = None
        for length, part in self._parts(lengths):
            ids = np.resize(rows[part], ROWS).astype("int32")
            got = np.asarray(self.program.features(one, ids, self.frozen, data, length=length), "float16")
            found = np.zeros((len(rows), got.shape[1]), "float16") if found is None else found
            found[part] = got[: len(part)]
        assert found is not None
        return found


def take_steps(
    state: State,
    steps: int,
    epoch_of: Callable[[int], tuple[np.ndarray, np.ndarray]],
    step_of: Callable[[State, np.ndarray, int, np.float32], tuple[State, Any]],
    deadline: float,
) -> tuple[State, float, np.ndarray]:
    """Trains networks side by side, and raises `TimeoutError` where the deadline comes first.

    Args:
        epoch_of: number of an epoch → its batches (networks, batches, size) and the length of each.
        step_of: state, batch (networks, size), length, factor of the learning rate → state, NLL of every network.

    Returns:
        The state, seconds per token of all networks together, and the NLL of the last batches.
    """
    step, tokens, begun = 0, 0, time.time()
    for epoch in itertools.count():
        orders, lengths = epoch_of(epoch)
        for number in np.random.default_rng([3, epoch]).permutation(len(lengths)):
            batch, length = orders[:, number].astype("int32"), int(lengths[number])
            state, nll = step_of(state, batch, length, np.float32(schedule(step, steps)))
            step, tokens = step + 1, tokens + length * batch.size
            if step % 20 == 0 or step == steps:
                last = np.asarray(nll)  # waits for the device
                if time.time() > deadline:
                    raise TimeoutError
            if step == steps:
                return state, (time.time() - begun) / tokens, last
    raise AssertionError


@jax.jit
def _pick(state: State, places) -> State:
    return jax.tree.map(lambda array: array[places], state)


_ANY = Trained(Adaptation("bayes", 1e-3), 0)


def _store(job: tuple, p: np.ndarray, entropy: np.ndarray) -> None:
    block, part, (means, entropies) = job
    means, entropies = np.asarray(means), np.asarray(entropies)
    for place, i in enumerate(block):
        p[i, part] = means[place, : len(part), : p.shape[2]]
        entropy[i, part] = entropies[place, : len(part)]


def schedule(step: int, steps: int) -> float:
    """Returns the factor of the learning rate: a linear warm-up, then a linear decay to 0.

    >>> [schedule(step, 100) for step in (0, 5, 53, 99)]
    [0.16666666666666666, 1.0, 0.5, 0.010638297872340425]
    """
    warm_up = max(1, round(plan.WARM_UP * steps))
    return (step + 1) / warm_up if step < warm_up else (steps - step) / (steps - warm_up)
