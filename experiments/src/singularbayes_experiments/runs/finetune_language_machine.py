"""The program of the language model's experiment on one machine: compiled for every length, trained, predicted from."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np

from singularbayes.prediction import ClassPredictive
from singularbayes_experiments.methods.adapter_program import State, stacked
from singularbayes_experiments.methods.choice_program import ChoiceProgram, stacked_places
from singularbayes_experiments.problems import finetune_language as plan
from singularbayes_experiments.problems import finetune_language_model as model
from singularbayes_experiments.problems import finetune_questions as questions
from singularbayes_experiments.problems.finetune import Adaptation, Trained
from singularbayes_experiments.problems.finetune_language import LanguageSetting
from singularbayes_experiments.runs.finetune_machine import start_of, take_steps

CHUNK = 8  # networks that train side by side
BLOCK, ROWS = 3, 96  # networks and questions that predict side by side
_TINY = {
    "num_layers": 2,
    "num_query_heads": 2,
    "num_key_value_heads": 1,
    "hidden_dim": 16,
    "intermediate_dim": 32,
    "vocabulary_size": 49152,
}
ANY = Trained(Adaptation("lora", 1e-3), 0)
_ARRAYS = ("tokens", "groups", "positions", "sources", "targets", "owners", "labels")


class LanguageMachine:
    """The program on this machine: compiled once for every length, with the time that its steps take."""

    def __init__(self, gguf: Path | None, inputs: Path, dtype: str, most_steps: int, most_rows: int):
        self.most_steps, self.most_rows = most_steps, most_rows
        self.sets = {one.name: questions.load(inputs / f"{one.name}.npz") for one in plan.SETTINGS}
        self.capacity = max(len(every.labels) for every in self.sets.values())
        fields, arrays = model.read_gguf(gguf) if gguf else ({}, None)
        with jax.default_device(jax.devices("cpu")[0]):  # hundreds of small operations, which compile quicker there
            backbone = model.language_model(model.backbone_sizes(fields) if gguf else _TINY, arrays, dtype=dtype)
            self.program = ChoiceProgram(model.with_adapters(backbone, plan.RANK))
        self.frozen = jax.device_put(self.program.frozen, jax.devices()[0])
        self._compiled: dict[tuple, Any] = {}
        self._data: dict[tuple, dict[str, Any]] = {}
        self.seconds_per_token = 0.0  # of training, all networks together; 0 until it is known

    def data(self, name: str, power: float) -> dict[str, Any]:
        """Returns the questions on the device, in one shape for all data sets."""
        if (name, power) not in self._data:
            arrays: dict[str, Any] = {"power": np.float32(power)}
            for key in _ARRAYS:
                values = getattr(self.sets[name], key).astype("int32")
                arrays[key] = np.concatenate([values, np.repeat(values[:1], self.capacity - len(values), axis=0)])
            self._data[name, power] = jax.device_put(arrays, jax.devices()[0])
        return self._data[name, power]

    def compile(self) -> None:
        """Traces the programs one after the other and compiles them side by side."""
        state = jax.eval_shape(self.program.start_many, stacked([start_of(ANY, 1)] * CHUNK))
        without = {name: values for name, values in state.items() if name != "optimizer"}
        block = jax.tree.map(lambda a: jax.ShapeDtypeStruct((BLOCK, *a.shape[1:]), a.dtype), without)
        data = self.data(plan.SETTINGS[0].name, 1.0)
        rows = jax.ShapeDtypeStruct((CHUNK, plan.BATCH), np.dtype("int32"))
        some = jax.ShapeDtypeStruct((ROWS,), np.dtype("int32"))
        number, count = (jax.ShapeDtypeStruct((), np.dtype(kind)) for kind in ("float32", "int32"))
        with ThreadPoolExecutor() as pool:
            jobs = {}
            for size in plan.SLOTS.items():
                lowered = self.program.predict.lower(block, some, count, self.frozen, data, size=size)
                jobs["predict", size[0]] = pool.submit(lowered.compile)
            for size in plan.SLOTS.items():
                lowered = self.program.train.lower(state, rows, number, self.frozen, data, size=size)
                jobs["train", size[0]] = pool.submit(lowered.compile)
            for key, job in jobs.items():
                self._compiled[key] = job.result()

    def steps(self, setting: LanguageSetting) -> int:
        return min(setting.epochs * (len(self.sets[setting.name].parts["train"]) // plan.BATCH), self.most_steps)

    def train(self, setting: LanguageSetting, power: float, members: Sequence[Trained], deadline: float) -> State:
        """Returns the trained state of at most `CHUNK` networks; raises `TimeoutError` at the deadline."""
        texts, data = self.sets[setting.name], self.data(setting.name, power)
        rows = texts.parts["train"]
        padded = [*members, *[members[-1]] * (CHUNK - len(members))]
        state = self.program.start_many(stacked([start_of(one, len(rows)) for one in padded]))
        keys = sorted({(one.seed, one.order) for one in members})
        which = np.array([keys.index((one.seed, one.order)) for one in padded])

        def epoch_of(epoch: int) -> tuple[np.ndarray, np.ndarray]:
            orders = [batches(texts.buckets, rows, (seed, order, epoch)) for seed, order in keys]
            lengths = np.stack([texts.buckets[order].max(axis=1) for order in orders]).max(axis=0)
            return np.stack(orders)[which], lengths

        def step_of(state: State, batch: np.ndarray, length: int, factor: np.float32) -> tuple[State, Any]:
            return self._compiled["train", length](state, batch, factor, self.frozen, data)

        steps = self.steps(setting)
        state, self.seconds_per_token, nll = take_steps(state, steps, epoch_of, step_of, deadline)
        speed = 1 / self.seconds_per_token
        print(f"  {setting.name}: {steps} steps, {speed:.3g} tokens/s, NLL {nll.round(2)}", flush=True)
        return state

    def seconds(self, setting: LanguageSetting) -> float:
        """Returns how long a chunk will take, with a half more for predictions."""
        mean = float(self.sets[setting.name].buckets.mean())
        return 1.5 * mean * plan.BATCH * self.steps(setting) * CHUNK * self.seconds_per_token

    def check_time(self, setting: LanguageSetting, deadline: float) -> None:
        """Raises `TimeoutError` where a chunk would end after the deadline, by the time of the last one."""
        if time.time() + self.seconds(setting) > deadline:
            raise TimeoutError

    def part(self, setting: LanguageSetting, name: str) -> np.ndarray:
        return self.sets[setting.name].parts[name][: self.most_rows]

    def predict(
        self, setting: LanguageSetting, power: float, state: State, wanted: Sequence[tuple[int, int]], rows: np.ndarray
    ) -> list[ClassPredictive]:
        """Returns predictions of some rows for every wanted (place of a network, number of draws)."""
        data, buckets = self.data(setting.name, power), self.sets[setting.name].buckets[rows]
        p = np.zeros((len(wanted), len(rows), plan.CHOICES), "float32")
        entropy = np.zeros((len(wanted), len(rows)), "float32")
        jobs = []
        for draws in sorted({draws for _, draws in wanted}):
            own = [i for i, (_, count) in enumerate(wanted) if count == draws]
            for block in (own[i : i + BLOCK] for i in range(0, len(own), BLOCK)):
                some = stacked_places(state, np.resize([wanted[i][0] for i in block], BLOCK))
                for length, part in _parts(buckets):
                    ids = np.resize(rows[part], ROWS).astype("int32")
                    jobs.append(
                        (block, part, self._compiled["predict", length](some, ids, np.int32(draws), self.frozen, data))
                    )
        for block, part, (means, entropies) in jobs:
            for place, i in enumerate(block):
                p[i, part], entropy[i, part] = means[place, : len(part)], entropies[place, : len(part)]
        return [
            ClassPredictive(p[i], np.zeros((1, 1)), draws, expected_entropy=entropy[i])
            for i, (_, draws) in enumerate(wanted)
        ]


def _parts(buckets: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    for length in plan.LENGTHS:
        here = np.flatnonzero(buckets == length)
        for i in range(0, len(here), ROWS):
            yield length, here[i : i + ROWS]


def batches(buckets: np.ndarray, rows: np.ndarray, seed: tuple[int, ...]) -> np.ndarray:
    """Returns an epoch of batches (batches, size) of one length where possible; an incomplete one is left out."""
    rows = np.random.default_rng(seed).permutation(rows)[: len(rows) // plan.BATCH * plan.BATCH]
    return rows[np.argsort(buckets[rows], kind="stable")].reshape(-1, plan.BATCH)
