"""The command of the language model's experiment (`problems/finetune_language.py` is its plan), for an accelerator.

    python -m singularbayes_experiments.runs.finetune_language prepare --gguf FILE --inputs inputs
    python -m singularbayes_experiments.runs.finetune_language run --gguf FILE --inputs inputs \
        --out runs/finetune_language --minutes 20

Networks train side by side (`methods/choice_program.py`), eight at a time; every chunk ends in lines of JSON in the
folder, and a second call does what is missing. A chunk that would not end in time is not begun.
"""

import argparse
import itertools
import json
import shlex
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np

from singularbayes.prediction import ClassPredictive
from singularbayes_experiments.methods import protocol
from singularbayes_experiments.methods.adapter_program import State, stacked
from singularbayes_experiments.methods.choice_program import ChoiceProgram, stacked_places
from singularbayes_experiments.problems import finetune_language as plan
from singularbayes_experiments.problems import finetune_language_model as model
from singularbayes_experiments.problems import finetune_questions as questions
from singularbayes_experiments.problems.finetune import Adaptation, Kind, Trained
from singularbayes_experiments.problems.finetune_language import Setting
from singularbayes_experiments.records.record import machine as machine_facts
from singularbayes_experiments.records.record import versions
from singularbayes_experiments.runs.finetune_machine import schedule, start_of
from singularbayes_experiments.runs.finetune_stages import Records, cooled, draws_of, pooled, quality

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
_ANY = Trained(Adaptation("lora", 1e-3), 0)
_ARRAYS = ("tokens", "groups", "positions", "sources", "targets", "owners", "labels")
Predictions = dict[tuple[Trained, int], ClassPredictive]  # by network and draws


class Machine:
    """The program on this machine: compiled once for every length, with the time that its steps take."""

    def __init__(self, gguf: Path | None, inputs: Path, dtype: str, most_steps: int, most_rows: int):
        self.most_steps, self.most_rows = most_steps, most_rows
        self.sets = {one.name: questions.load(inputs / f"{one.name}.npz") for one in plan.SETTINGS}
        self.room = max(len(every.labels) for every in self.sets.values())
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
                arrays[key] = np.concatenate([values, np.repeat(values[:1], self.room - len(values), axis=0)])
            self._data[name, power] = jax.device_put(arrays, jax.devices()[0])
        return self._data[name, power]

    def compile(self) -> None:
        """Traces the programs one after the other and compiles them side by side."""
        state = jax.eval_shape(self.program.start_many, stacked([start_of(_ANY, 1)] * CHUNK))
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

    def steps(self, setting: Setting) -> int:
        return min(setting.epochs * (len(self.sets[setting.name].parts["train"]) // plan.BATCH), self.most_steps)

    def train(self, setting: Setting, power: float, members: Sequence[Trained], deadline: float) -> State:
        """Returns the trained state of at most `CHUNK` networks; raises `TimeoutError` at the deadline."""
        texts, data = self.sets[setting.name], self.data(setting.name, power)
        rows = texts.parts["train"]
        padded = [*members, *[members[-1]] * (CHUNK - len(members))]
        state = self.program.start_many(stacked([start_of(one, len(rows)) for one in padded]))
        keys = sorted({(one.seed, one.order) for one in members})
        which = np.array([keys.index((one.seed, one.order)) for one in padded])
        step, steps, begun, tokens = 0, self.steps(setting), time.time(), 0
        for epoch in itertools.count():
            orders = [batches(texts.buckets, rows, (seed, order, epoch)) for seed, order in keys]
            lengths = np.stack([texts.buckets[order].max(axis=1) for order in orders]).max(axis=0)
            for number in np.random.default_rng([3, epoch]).permutation(len(lengths)):
                batch = np.stack([order[number] for order in orders])[which].astype("int32")
                state, nll = self._compiled["train", int(lengths[number])](
                    state, batch, np.float32(schedule(step, steps)), self.frozen, data
                )
                step, tokens = step + 1, tokens + int(lengths[number]) * plan.BATCH * CHUNK
                if step % 20 == 0 or step == steps:
                    last = np.asarray(nll)
                    self.seconds_per_token = (time.time() - begun) / tokens
                    if time.time() > deadline:
                        raise TimeoutError
                if step == steps:
                    speed = tokens / (time.time() - begun)
                    print(f"  {setting.name}: {steps} steps, {speed:.3g} tokens/s, NLL {last.round(2)}", flush=True)
                    return state
        raise AssertionError

    def seconds(self, setting: Setting) -> float:
        """Returns how long a chunk will take, with a half more for predictions."""
        mean = float(self.sets[setting.name].buckets.mean())
        return 1.5 * mean * plan.BATCH * self.steps(setting) * CHUNK * self.seconds_per_token

    def check_time(self, setting: Setting, deadline: float) -> None:
        """Raises `TimeoutError` where a chunk would end after the deadline, by the time of the last one."""
        if time.time() + self.seconds(setting) > deadline:
            raise TimeoutError

    def part(self, setting: Setting, name: str) -> np.ndarray:
        return self.sets[setting.name].parts[name][: self.most_rows]

    def predict(
        self, setting: Setting, power: float, state: State, wanted: Sequence[tuple[int, int]], rows: np.ndarray
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


def zero_shot(machine: Machine, setting: Setting, records: Records) -> float:
    """Adds the scores of the untrained model; returns the power of the number of tokens that validation chooses."""
    done = records.of("zero-shot", setting.name)
    if not done:
        state = machine.program.start_many(stacked([start_of(_ANY, 1)] * CHUNK))
        lines: list[dict[str, Any]] = []
        for name, power in (("sum", 0.0), ("mean", 1.0)):
            (p,) = machine.predict(setting, power, state, [(0, 1)], rows := machine.part(setting, "validation"))
            found = quality(p, machine.sets[setting.name].labels[rows])
            lines.append({"score": name, "power": power, "validation": found})
        best = max(lines, key=lambda line: line["validation"]["accuracy"])
        (p,) = machine.predict(setting, best["power"], state, [(0, 1)], rows := machine.part(setting, "test"))
        best["test"] = quality(p, machine.sets[setting.name].labels[rows])
        records.add([{"stage": "zero-shot", "setting": setting.name, "method": "zero_shot", **line} for line in lines])
        print(setting.name, json.dumps(lines), flush=True)
        done = records.of("zero-shot", setting.name)
    return next(line["power"] for line in done if "test" in line)


def _line(stage: str, setting: Setting, method: str, adaptation: Adaptation, seed: int, seconds: float) -> dict:
    return {
        "stage": stage,
        "setting": setting.name,
        "method": method,
        "kind": adaptation.kind,
        "configuration": adaptation.name,
        "settings": vars(adaptation),
        "seed": seed,
        "chunk_seconds": round(seconds, 2),
    }


def tune(machine: Machine, setting: Setting, power: float, kinds, records: Records, deadline: float) -> None:
    """Adds the validation scores of every configuration and tuning seed."""
    done = {(line["kind"], line["configuration"], line["seed"]) for line in records.of("tuning", setting.name)}
    left = [one for one in plan.tuning(kinds) if (one.adaptation.kind, one.adaptation.name, one.seed) not in done]
    rows = machine.part(setting, "validation")
    labels = machine.sets[setting.name].labels[rows]
    for chunk in (left[i : i + CHUNK] for i in range(0, len(left), CHUNK)):
        begun = time.time()
        machine.check_time(setting, deadline)
        state = machine.train(setting, power, chunk, deadline)
        wanted = [(i, draws_of("", one.adaptation.kind, plan.TUNING_DRAWS)) for i, one in enumerate(chunk)]
        found = machine.predict(setting, power, state, wanted, rows)
        seconds = time.time() - begun
        records.add(
            [
                {
                    **_line("tuning", setting, one.adaptation.kind, one.adaptation, one.seed, seconds),
                    "validation": quality(p, labels),
                }
                for one, p in zip(chunk, found, strict=True)
            ]
        )


def choices(records: Records, setting: Setting, kinds: Sequence[Kind]) -> dict[Kind, Adaptation]:
    """Returns the configuration of every kind with the least mean validation NLL over the tuning seeds."""
    found: dict[Kind, Adaptation] = {}
    for kind in kinds:
        nll: dict[str, list[float]] = defaultdict(list)
        settings = {}
        for line in records.of("tuning", setting.name):
            if line["kind"] == kind:
                nll[line["configuration"]].append(line["validation"]["nll"])
                settings[line["configuration"]] = Adaptation(**line["settings"])
        found[kind] = settings[protocol.choose([protocol.Tried(name, tuple(each)) for name, each in nll.items()]).name]
    return found


def test(machine: Machine, setting: Setting, power: float, chosen: dict, records: Records, deadline: float) -> None:
    """Trains the chosen configurations with the result seeds and adds the scores of methods as they are complete."""
    done = {(line["method"], line["seed"]) for line in records.of("result", setting.name)}
    runs = []
    for method, (kind, count) in plan.methods(list(chosen)).items():
        draws = draws_of(method, kind, plan.RESULT_DRAWS)
        for seed in plan.RESULT_SEEDS:
            if (method, seed) not in done:
                members = [(Trained(chosen[kind], seed, component), draws) for component in range(count)]
                runs.append((method, chosen[kind], seed, members))
    needed = {key for *_, members in runs for key in members}
    networks = [one for one in plan.results(chosen) if any(one == network for network, _ in needed)]
    rows = {name: machine.part(setting, name) for name in ("validation", "test")}
    known: Predictions = {}
    for chunk in (networks[i : i + CHUNK] for i in range(0, len(networks), CHUNK)):
        begun = time.time()
        machine.check_time(setting, deadline)
        state = machine.train(setting, power, chunk, deadline)
        keys = [key for key in sorted(needed, key=lambda key: key[1]) if key[0] in chunk]
        wanted = [(chunk.index(one), draws) for one, draws in keys]
        found = machine.predict(setting, power, state, wanted, np.concatenate([rows["validation"], rows["test"]]))
        known |= dict(zip(keys, found, strict=True))
        complete = [one for one in runs if all(key in known for key in one[3])]
        runs = [one for one in runs if one not in complete]
        seconds = time.time() - begun
        records.add([scored(machine, setting, one, known, rows, seconds) for one in complete])


def scored(machine: Machine, setting: Setting, one: tuple, known: Predictions, rows: dict, seconds: float) -> dict:
    """Returns the line of one method and seed."""
    method, adaptation, seed, members = one
    texts = machine.sets[setting.name]
    mean = pooled([known[key] for key in members]).mean
    validation, tested = (
        ClassPredictive(part, np.zeros((1, 1)), 1) for part in np.split(np.asarray(mean), [len(rows["validation"])])
    )
    line = _line("result", setting, method, adaptation, seed, seconds)
    nothing = ClassPredictive(np.zeros((0, plan.CHOICES)), np.zeros((1, 1)), 1)
    line["temperature"], tempered = cooled(validation, tested, nothing, texts, rows)  # type: ignore[arg-type]
    line["tempered"] = quality(tempered[1], texts.labels[rows["test"]])
    if method == "lora_temperature":
        validation, tested = tempered[:2]
    line["validation"] = quality(validation, texts.labels[rows["validation"]])
    line["test"] = quality(tested, texts.labels[rows["test"]])
    print(f"  {setting.name} {method} {seed}: {line['test']}", flush=True)
    return line


def one_stage(
    machine: Machine, setting: Setting, power: float, kinds: Sequence[Kind], records: Records, deadline: float
) -> None:
    """Tunes and tests some methods of one data set, chunk by chunk while there is time."""
    wanted = {(method, seed) for method in plan.methods(kinds) for seed in plan.RESULT_SEEDS}
    if wanted <= {(line["method"], line["seed"]) for line in records.of("result", setting.name)}:
        return
    try:
        tune(machine, setting, power, kinds, records, deadline)
        chosen = choices(records, setting, kinds)
        print(setting.name, {kind: one.name for kind, one in chosen.items()}, flush=True)
        test(machine, setting, power, chosen, records, deadline)
    except TimeoutError:
        print(f"{setting.name}: out of time", flush=True)
    print(f"{setting.name}: {deadline - time.time():.0f} s left", flush=True)


def run(given, deadline: float) -> None:
    """Does what is left, in the order of the plan, while there is time."""
    given.out.mkdir(parents=True, exist_ok=True)
    command = shlex.join(["python", "-m", "singularbayes_experiments.runs.finetune_language", *sys.argv[1:]])
    about = {"command": command, "versions": versions(), "machine": machine_facts()}
    (given.out / "run.json").write_text(json.dumps(about, indent=1) + "\n")
    records = Records(given.out, given.earlier)
    begun = time.time()
    machine = Machine(given.gguf, given.inputs, given.dtype, given.most_steps, given.most_rows)
    print(f"read and converted: {time.time() - begun:.0f} s; {machine.program.num_trained:,} trained", flush=True)
    machine.compile()
    print(f"compiled: {time.time() - begun:.0f} s; {jax.devices()}", flush=True)
    powers = {setting.name: zero_shot(machine, setting, records) for setting in plan.SETTINGS}
    for kinds, setting in itertools.product(plan.STAGES, plan.SETTINGS):
        one_stage(machine, setting, powers[setting.name], kinds, records, deadline)
    memory = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0)
    print(f"done; peak memory {memory / 2**30:.1f} GiB", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("prepare", "run"))
    parser.add_argument("--gguf", type=Path, help="file of the language model; without, a tiny random one runs")
    parser.add_argument("--inputs", type=Path, required=True, help="folder of the packed questions")
    parser.add_argument("--out", type=Path, default=Path("runs/finetune_language"))
    parser.add_argument("--earlier", type=Path, nargs="*", default=[], help="folders with records of earlier calls")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--dtype", default="mixed_bfloat16")
    parser.add_argument("--most-steps", type=int, default=sys.maxsize, help="of a training: does it run?")
    parser.add_argument("--most-rows", type=int, default=None, help="of validation and test: does it run?")
    given = parser.parse_args(arguments)
    if given.what == "prepare":
        given.inputs.mkdir(parents=True, exist_ok=True)
        tokenizer = model.tokenizer(model.read_gguf(given.gguf)[0])
        for setting in plan.SETTINGS:
            questions.prepare(tokenizer, setting.name, given.inputs / f"{setting.name}.npz")
    else:
        run(given, time.time() + 60 * given.minutes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
