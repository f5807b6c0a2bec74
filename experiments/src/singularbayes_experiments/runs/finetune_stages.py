"""The stages of the experiment `finetune`: tuning, choice, results, and what they keep."""

import contextlib
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from singularbayes.prediction import ClassPredictive
from singularbayes_experiments.methods import protocol
from singularbayes_experiments.methods.adapter_program import State
from singularbayes_experiments.problems import finetune as plan
from singularbayes_experiments.problems.finetune import Adaptation, Setting, Trained
from singularbayes_experiments.runs.finetune_machine import AdapterMachine
from singularbayes_experiments.runs.finetune_records import (
    FinetuneRecords,
    cooled,
    detection,
    draws_of,
    pooled,
    quality,
    record_line,
    validation_nll,
)


def one_setting(
    machine: AdapterMachine, setting: Setting, records: FinetuneRecords, deadline: float, features: Path | None = None
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
            if left < cost or not records.select("result", start.name):
                return
            chosen = choices(records, start)
            if records.select("tuning", setting.name) or left > 2 * cost:
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


def tune(machine: AdapterMachine, setting: Setting, tried: dict, records: FinetuneRecords, deadline: float) -> None:
    """Trains what `tried` has and adds the validation scores of every method, configuration and tuning seed."""
    for chunk in plan.tuning(tried, machine.chunk):
        done = {(line["kind"], line["configuration"]) for line in records.select("tuning", setting.name)}
        if all((one.adaptation.kind, one.adaptation.name) in done for one in chunk):
            continue
        begun = time.time()
        state = machine.train(setting, chunk, deadline)
        records.add(validated(machine, setting, state, chunk, begun, "tuning"))


def validated(
    machine: AdapterMachine, setting: Setting, state: State, chunk: Sequence[Trained], begun: float, stage: str
):
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
            **record_line(stage, setting, method, adaptation, seed, seconds),
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


def choices(records: FinetuneRecords, setting: Setting) -> dict[str, Adaptation]:
    """Returns the configuration of every method with the least mean validation NLL over the tuning seeds."""
    found: dict[str, Adaptation] = {}
    for method in plan.METHODS:
        own = "lora" if method == "lora_temperature" else method
        nll, settings = validation_nll(line for line in records.select("tuning", setting.name) if line["method"] == own)
        best = protocol.choose([protocol.Tried(name, tuple(each)) for name, each in nll.items()])
        found[method] = settings[min(best.ties, key=lambda name: np.mean(nll[name]))]
    return found


def test(
    machine: AdapterMachine, setting: Setting, chosen: dict[str, Adaptation], records: FinetuneRecords, deadline: float
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
        line = record_line("result", setting, method, chosen[method], seed, seconds)
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


def save_features(machine: AdapterMachine, setting: Setting, chosen: Adaptation, trained: tuple, folder: Path) -> None:
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


def features_again(
    machine: AdapterMachine, setting: Setting, records: FinetuneRecords, deadline: float, folder: Path
) -> None:
    """Trains LoRA's result networks of a setting with results a second time, for their features."""
    done = (folder / f"{setting.name}-{plan.RESULT_SEEDS[-1]}.npz").exists()
    if done or any(line["method"] == "laplace" for line in records.select("result", setting.name)):
        return
    if time.time() + machine.seconds(setting) > deadline:
        return
    chosen = choices(records, setting)["lora"]
    members = [Trained(chosen, seed) for seed in plan.RESULT_SEEDS]
    with contextlib.suppress(TimeoutError):
        state = machine.train(setting, members, deadline)
        save_features(machine, setting, chosen, (state, members), folder)


def ask(machine: AdapterMachine, stage: str, setting: Setting, records: FinetuneRecords, deadline: float) -> None:
    """Adds the validation scores of `plan.DEFAULTS` or `plan.SCALES`, of the stage "defaults" or "scales"."""
    if records.select(stage, setting.name) or time.time() + machine.seconds(setting) > deadline:
        return
    begun = time.time()
    tried = {"defaults": plan.DEFAULTS, "scales": plan.SCALES}[stage]
    chunk = [Trained(one, seed) for one in tried for seed in plan.TUNING_SEEDS]
    state = machine.train(setting, chunk, deadline)
    records.add(validated(machine, setting, state, chunk, begun, stage))
