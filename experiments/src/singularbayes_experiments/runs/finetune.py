"""The command of the experiment `finetune` (`problems/finetune.py` is its plan), for a machine with an accelerator.

    python -m singularbayes_experiments.runs.finetune prepare --preset FOLDER --inputs inputs
    python -m singularbayes_experiments.runs.finetune run --inputs inputs --earlier experiments/results/finetune \
        --out runs/finetune --features runs/finetune-features --minutes 20

Networks train side by side (`methods/adapter_program.py`), 71 at a time; every chunk ends in lines of JSON in the
folder, and a second call does what is missing. A stage that would not end in time is not begun. Training begins as soon
as the programs of its lengths are compiled. `--features` keeps what the heads of LoRA's result networks see, for
`runs/finetune_laplace.py`; those of settings whose results are earlier records are trained again, at the end.
"""

import argparse
import contextlib
import gzip
import itertools
import json
import shlex
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import numpy as np

from singularbayes import metrics
from singularbayes.prediction import ClassPredictive, recalibrate
from singularbayes_experiments.methods import protocol
from singularbayes_experiments.methods.adapter_program import AdapterProgram, Start, State, stacked
from singularbayes_experiments.problems import finetune as plan
from singularbayes_experiments.problems import finetune_model
from singularbayes_experiments.problems.finetune import Adaptation, Setting, Trained
from singularbayes_experiments.problems.finetune_texts import Texts, batches, prepare, read_texts, read_weights
from singularbayes_experiments.records.record import machine as machine_facts
from singularbayes_experiments.records.record import versions

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


class Machine:
    """The program on this machine: compiled once for every length, with the time that its steps take."""

    def __init__(self, folder: Path, dtype: str, tiny: bool = False, pretrained: bool = True):
        self.folder, self.tiny, self.chunk = folder, tiny, CHUNK
        self.most_steps = 4 if tiny else sys.maxsize
        self.lengths = plan.LENGTHS[:1] if tiny else plan.LENGTHS
        self.predicted_lengths = self.lengths if tiny else PREDICTED_LENGTHS
        self._texts: dict[str, Texts] = {}
        every = [self.texts(name) for name in ("sst2", "clinc150", "banking77")]
        self.room = max(len(texts.labels) for texts in every)
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
        tokens = np.zeros((self.room, self.lengths[-1]), "uint16")
        labels = np.zeros(self.room, "int32")
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
        for length in sorted(
            {next(one for one in self.lengths if one >= n) for n in texts.lengths[texts.parts["train"]]}
        ):
            self._compiled["train", length].result()  # before the time is taken
        step, begun, tokens, nll = 0, time.time(), 0, None
        for epoch in itertools.count():
            orders = [batches(texts, rows[seed], plan.BATCH, (seed, order, epoch)) for seed, order in keys]
            lengths = np.stack([texts.lengths[order].max(axis=1) for order in orders]).max(axis=0)
            for number in np.random.default_rng([3, epoch]).permutation(len(lengths)):
                length = next(one for one in self.lengths if one >= lengths[number])
                batch = np.stack([order[number] for order in orders])[which].astype("int32")
                program = self._compiled["train", length].result()
                state, nll = program(state, batch, np.float32(schedule(step, steps)), self.frozen, data)
                step, tokens = step + 1, tokens + length * plan.BATCH * self.chunk
                if step % 20 == 0 or step == steps:
                    nll.block_until_ready()
                    self.seconds_per_token = (time.time() - begun) / tokens
                    if time.time() > deadline:
                        raise TimeoutError
                if step == steps:
                    print(f"  {setting.name}: {steps} steps, {tokens / (time.time() - begun):.3g} tokens/s", flush=True)
                    return state
        raise AssertionError

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


def pooled(parts: Sequence[ClassPredictive]) -> ClassPredictive:
    """Returns the averaged prediction of several networks with as many draws each."""
    mean = np.mean([part.mean for part in parts], axis=0)
    entropy = np.mean([np.asarray(part.expected_entropy) for part in parts], axis=0)
    return ClassPredictive(mean, np.zeros((1, 1)), sum(part.num_draws for part in parts), expected_entropy=entropy)


def quality(p: ClassPredictive, labels: np.ndarray) -> dict[str, float]:
    mean = np.maximum(np.asarray(p.mean, "float64"), 1e-30)
    return {
        "accuracy": metrics.accuracy(mean, labels),
        "nll": metrics.negative_log_likelihood(mean, labels),
        "brier": metrics.brier(mean, labels),
        "ece": metrics.expected_calibration_error(mean, labels),
    }


def detection(p: ClassPredictive, ood: ClassPredictive) -> dict[str, float]:
    """Returns how well entropy and, of several draws, mutual information tell unknown queries."""
    totals = [metrics.entropy(np.asarray(one.mean, "float64")) for one in (p, ood)]
    found = {"auroc_entropy": metrics.auroc_ood(*totals)}
    if p.num_draws > 1:
        found["auroc_mi"] = metrics.auroc_ood(
            *(t - one.expected_entropy for t, one in zip(totals, (p, ood), strict=True))
        )
    return found


class Records:
    """Lines of JSON in a folder; earlier folders are read, too."""

    def __init__(self, out: Path, earlier: Sequence[Path]):
        self.out = out
        self.lines: list[dict] = []
        for folder in [*earlier, out]:
            for path in sorted(folder.glob("finetune*.jsonl.gz")):
                with gzip.open(path, "rt") as file:
                    self.lines += [json.loads(line) for line in file]

    def add(self, lines: list[dict]) -> None:
        self.lines += lines
        with gzip.open(self.out / "finetune.jsonl.gz", "at") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)

    def of(self, stage: str, setting: str) -> list[dict]:
        return [line for line in self.lines if line["stage"] == stage and line["setting"] == setting]


def tune(machine: Machine, setting: Setting, tried: dict, records: Records, deadline: float) -> None:
    """Trains what `tried` has and adds the validation scores of every method, configuration and tuning seed."""
    for chunk in plan.tuning(tried, machine.chunk):
        done = {(line["kind"], line["configuration"]) for line in records.of("tuning", setting.name)}
        if all((one.adaptation.kind, one.adaptation.name) in done for one in chunk):
            continue
        begun = time.time()
        state = machine.train(setting, chunk, deadline)
        records.add(validated(machine, setting, state, chunk, begun, "tuning"))


def validated(machine: Machine, setting: Setting, state: State, chunk: Sequence[Trained], begun: float, stage: str):
    """Returns the scores of validation rows of all methods that the networks of a chunk make."""
    texts = machine.texts(setting.data)
    rows = texts.parts["validation"]
    rows = rows[:40] if machine.tiny else rows
    wanted: dict[tuple[int, int], None] = {}
    lines = []
    for method, adaptation, seed, places in _runs(chunk):
        draws = draws_of(method, adaptation.kind, plan.TUNING_DRAWS)
        wanted |= {(i, draws): None for i in places}
        lines.append((method, adaptation, seed, places, draws))
    predictions = machine.predict(setting, state, list(wanted), rows)
    seconds = time.time() - begun
    return [
        {
            **_line(stage, setting, method, adaptation, seed, seconds),
            "validation": quality(pooled([predictions[i, draws] for i in places]), texts.labels[rows]),
        }
        for method, adaptation, seed, places, draws in lines
    ]


def _runs(chunk: Sequence[Trained]) -> list[tuple[str, Adaptation, int, list[int]]]:
    """Returns method, configuration, seed and the places of the networks of every run that a chunk has in full."""
    place = {one: i for i, one in enumerate(chunk)}
    found = []
    for method, (kind, count) in plan.METHODS.items():
        for adaptation, seed in dict.fromkeys(
            (one.adaptation, one.seed) for one in chunk if one.adaptation.kind == kind
        ):
            members = [Trained(adaptation, seed, component) for component in range(count)]
            if method != "lora_temperature" and all(one in place for one in members):
                found.append((method, adaptation, seed, [place[one] for one in members]))
    return found


def draws_of(method: str, kind: str, draws: int) -> int:
    """Returns the draws of each network of a method."""
    return 1 if kind == "lora" else draws // plan.MIXTURE if method == "mixture" else draws


def _line(stage: str, setting: Setting, method: str, adaptation: Adaptation, seed: int, seconds: float) -> dict:
    return {
        "stage": stage,
        "setting": setting.name,
        "method": method,
        "kind": adaptation.kind,
        "configuration": adaptation.name,
        "settings": asdict(adaptation),
        "seed": seed,
        "chunk_seconds": round(seconds, 2),
    }


def choices(records: Records, setting: Setting) -> dict[str, Adaptation]:
    """Returns the configuration of every method with the least mean validation NLL over the tuning seeds."""
    found: dict[str, Adaptation] = {}
    for method in plan.METHODS:
        own = "lora" if method == "lora_temperature" else method
        nll: dict[str, list[float]] = defaultdict(list)
        settings = {}
        for line in records.of("tuning", setting.name):
            if line["method"] == own:
                nll[line["configuration"]].append(line["validation"]["nll"])
                settings[line["configuration"]] = Adaptation(**line["settings"])
        best = protocol.choose([protocol.Tried(name, tuple(each)) for name, each in nll.items()])
        found[method] = settings[min(best.ties, key=lambda name: np.mean(nll[name]))]
    return found


def test(
    machine: Machine, setting: Setting, chosen: dict[str, Adaptation], records: Records, deadline: float
) -> tuple[State, list[Trained]]:
    """Trains the chosen configurations with the result seeds, adds their scores and returns the networks."""
    texts, begun = machine.texts(setting.data), time.time()
    members = plan.results(chosen)
    state = machine.train(setting, members, deadline)
    parts = {name: rows[:40] if machine.tiny else rows for name, rows in texts.parts.items()}
    place = {one: i for i, one in enumerate(members)}
    wanted: dict[tuple[int, int], None] = {}
    runs = []
    for method, (kind, count) in plan.METHODS.items():
        draws = draws_of(method, kind, plan.RESULT_DRAWS)
        for seed in plan.RESULT_SEEDS:
            networks = [Trained(chosen[method], seed, component) for component in range(count)]
            runs.append((method, seed, [(place[one], draws) for one in networks]))
            wanted |= dict.fromkeys(runs[-1][2])
    every = np.concatenate([parts["validation"], parts["test"], parts["ood"]])
    predictions = machine.predict(setting, state, list(wanted), every)
    cuts = np.cumsum([len(parts["validation"]), len(parts["test"])])
    seconds = time.time() - begun
    lines = []
    for method, seed, used in runs:
        p = pooled([predictions[one] for one in used])
        split = zip(np.split(p.mean, cuts), np.split(np.asarray(p.expected_entropy), cuts), strict=True)
        validation, tested, ood = (
            ClassPredictive(mean, np.zeros((1, 1)), p.num_draws, expected_entropy=entropy) for mean, entropy in split
        )
        line = _line("result", setting, method, chosen[method], seed, seconds)
        line["temperature"], with_temperature = cooled(validation, tested, ood, texts, parts)
        line["tempered"] = quality(with_temperature[1], texts.labels[parts["test"]])
        if method == "lora_temperature":
            validation, tested, ood = with_temperature
        line["validation"] = quality(validation, texts.labels[parts["validation"]])
        line["test"] = quality(tested, texts.labels[parts["test"]])
        if len(parts["ood"]):
            line["ood"] = detection(tested, ood)
        lines.append(line)
    records.add(lines)
    return state, members


def save_features(machine: Machine, setting: Setting, chosen: Adaptation, trained: tuple, folder: Path) -> None:
    """Writes for every result seed what the head of LoRA's network sees of all rows, the head, and the labels."""
    state, members = trained
    texts = machine.texts(setting.data)
    folder.mkdir(parents=True, exist_ok=True)
    for seed in plan.RESULT_SEEDS:
        place = members.index(Trained(chosen, seed))
        arrays: dict[str, Any] = dict(zip(("kernel", "bias"), machine.program.head_of(state, place), strict=True))
        for part, rows in {**texts.parts, "train": texts.training_rows(setting, seed)}.items():
            rows = rows[:40] if machine.tiny else rows
            if len(rows):
                arrays |= {part: machine.features(setting, state, place, rows), f"{part}_labels": texts.labels[rows]}
        partial = folder / f"{setting.name}-{seed}.partial.npz"
        np.savez(partial, **arrays, classes=texts.classes)
        partial.rename(folder / f"{setting.name}-{seed}.npz")  # who waits for it never sees half a file


def cooled(validation, tested, ood, texts: Texts, parts) -> tuple[float | None, tuple]:
    """Returns the temperature that is best on validation rows, and all predictions with it; None where none is."""
    safe = [
        ClassPredictive(np.maximum(np.asarray(one.mean, "float64"), 1e-30), np.zeros((1, 1)), 1)
        for one in (validation, tested, ood)
    ]
    try:
        temperature: Any = recalibrate(safe[0], texts.labels[parts["validation"]])
    except ValueError:  # probabilities that know nothing
        return None, tuple(safe)
    return temperature.value, tuple(temperature(one) if len(one.mean) else one for one in safe)


def ask_defaults(machine: Machine, setting: Setting, records: Records, deadline: float) -> None:
    """Adds the validation scores of `plan.DEFAULTS`."""
    if records.of("defaults", setting.name):
        return
    begun = time.time()
    chunk = [Trained(one, seed) for one in plan.DEFAULTS for seed in plan.TUNING_SEEDS]
    state = machine.train(setting, chunk, deadline)
    records.add(validated(machine, setting, state, chunk, begun, "defaults"))


def run(given, deadline: float) -> None:
    """Does what is left, in the order of the plan, while there is time."""
    given.out.mkdir(parents=True, exist_ok=True)
    command = shlex.join(["python", "-m", "singularbayes_experiments.runs.finetune", *sys.argv[1:]])
    about = {"command": command, "versions": versions(), "machine": machine_facts()}
    (given.out / "run.json").write_text(json.dumps(about, indent=1) + "\n")
    records = Records(given.out, given.earlier)
    begun = time.time()
    machine = Machine(given.inputs, given.dtype, given.tiny)
    print(f"read and converted: {time.time() - begun:.0f} s; {machine.program.num_trained:,} trained", flush=True)
    machine.compile()
    print(f"traced: {time.time() - begun:.0f} s; {jax.devices()}", flush=True)
    wanted = given.settings.split(",") if given.settings else [one.name for one in plan.SETTINGS]
    asked = False
    for setting in (one for one in plan.SETTINGS if one.name in wanted):
        if setting.tuned_as and not asked:
            asked = True
            for small in plan.SMALL[:3]:
                if small.name in wanted and time.time() + machine.seconds(small) < deadline:
                    ask_defaults(machine, small, records, deadline)
        if records.of("result", setting.name):
            continue
        one_setting(machine, setting, records, deadline, given.features)
        print(f"{setting.name}: {deadline - time.time():.0f} s left", flush=True)
    if given.features is not None:
        for setting in plan.SMALL:
            if setting.name in wanted and records.of("result", setting.name):
                features_again(machine, setting, records, deadline, given.features)


def features_again(machine: Machine, setting: Setting, records: Records, deadline: float, folder: Path) -> None:
    """Trains LoRA's result networks of a setting with results a second time, for their features."""
    done = (folder / f"{setting.name}-{plan.RESULT_SEEDS[-1]}.npz").exists()
    if done or any(line["method"] == "laplace" for line in records.of("result", setting.name)):
        return
    if time.time() + machine.seconds(setting) > deadline:
        return
    chosen = choices(records, setting)["lora"]
    members = [Trained(chosen, seed) for seed in plan.RESULT_SEEDS]
    with contextlib.suppress(TimeoutError):
        state = machine.train(setting, members, deadline)
        save_features(machine, setting, chosen, (state, members), folder)


def probe(given, deadline: float) -> None:
    """Compiles the programs of an encoder with random weights and prints how long 40 of its steps take."""
    begun = time.time()
    machine = Machine(given.inputs, given.dtype, given.tiny, pretrained=False)
    print(f"converted: {time.time() - begun:.0f} s", flush=True)
    machine.compile()
    print(f"traced: {time.time() - begun:.0f} s; {jax.devices()}", flush=True)
    machine.most_steps = 40
    setting = plan.SETTINGS[0]
    for _ in range(2):
        chunk = plan.tuning(plan.configurations(setting.data), machine.chunk)[0]
        state = machine.train(setting, chunk, deadline)
    begun = time.time()
    machine.predict(setting, state, [(i, 8) for i in range(BLOCK)], machine.texts(setting.data).parts["validation"])
    print(f"predicted with {BLOCK} networks and 8 draws: {time.time() - begun:.1f} s", flush=True)
    stats = jax.devices()[0].memory_stats() or {}
    print(f"peak memory {stats.get('peak_bytes_in_use', 0) / 2**30:.1f} GiB", flush=True)
    for setting in plan.SETTINGS:
        print(f"a chunk of {setting.name}: {machine.seconds(setting):.0f} s", flush=True)


def one_setting(
    machine: Machine, setting: Setting, records: Records, deadline: float, features: Path | None = None
) -> None:
    """Tunes and tests a setting, if there is time for both; the tuning of a full setting goes first."""
    left, cost = deadline - time.time() - 15, machine.seconds(setting)
    try:
        if setting.tuned_as is None:
            tried = plan.configurations(setting.data)
            if left < (len(plan.tuning(tried, machine.chunk)) + 1) * cost:
                return
            tune(machine, setting, tried, records, deadline)
            chosen = choices(records, setting)
        else:
            start = next(one for one in plan.SETTINGS if one.name == setting.tuned_as)
            if left < cost or not records.of("result", start.name):
                return
            chosen = choices(records, start)
            if left > 2 * cost:
                tune(machine, setting, full_configurations(chosen), records, deadline)
                chosen = choices(records, setting)
        print(setting.name, {method: one.name for method, one in chosen.items()}, flush=True)
        trained = test(machine, setting, chosen, records, deadline)
        if features is not None:
            save_features(machine, setting, chosen["lora"], trained, features)
    except TimeoutError:
        print(f"{setting.name}: out of time", flush=True)


def full_configurations(chosen: dict[str, Adaptation]) -> dict:
    """Returns three configurations per kind, from what its methods chose."""
    of_kind = defaultdict(list)
    for method, one in chosen.items():
        of_kind[plan.METHODS[method][0]].append(one)
    return {kind: plan.around(every) for kind, every in of_kind.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("prepare", "probe", "run"))
    parser.add_argument("--inputs", type=Path, required=True, help="folder of texts and weights")
    parser.add_argument("--preset", type=Path, help="folder of the pretrained encoder, for `prepare`")
    parser.add_argument("--out", type=Path, default=Path("runs/finetune"))
    parser.add_argument("--earlier", type=Path, nargs="*", default=[], help="folders with records of earlier calls")
    parser.add_argument("--features", type=Path, help="folder for what the heads of LoRA's result networks see")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--settings", default="", help="names, separated by commas; all without")
    parser.add_argument("--dtype", default="mixed_bfloat16")
    parser.add_argument("--tiny", action="store_true", help="a random encoder, 4 steps, 40 rows: does it run?")
    given = parser.parse_args(arguments)
    if given.what == "prepare":
        prepare(given.preset, given.inputs)
    else:
        {"probe": probe, "run": run}[given.what](given, time.time() + 60 * given.minutes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
