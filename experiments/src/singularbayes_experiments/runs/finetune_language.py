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
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from singularbayes.prediction import ClassPredictive
from singularbayes_experiments.methods import protocol
from singularbayes_experiments.methods.adapter_program import stacked
from singularbayes_experiments.problems import finetune_language as plan
from singularbayes_experiments.problems import finetune_language_model as model
from singularbayes_experiments.problems import finetune_questions as questions
from singularbayes_experiments.problems.finetune import Adaptation, Kind, Trained
from singularbayes_experiments.problems.finetune_language import LanguageSetting
from singularbayes_experiments.runs.finetune_language_machine import ANY, CHUNK, LanguageMachine
from singularbayes_experiments.runs.finetune_machine import start_of
from singularbayes_experiments.runs.finetune_records import (
    FinetuneRecords,
    begin,
    cooled,
    draws_of,
    pooled,
    quality,
    record_line,
    validation_nll,
)

Predictions = dict[tuple[Trained, int], ClassPredictive]  # by network and draws


def zero_shot(machine: LanguageMachine, setting: LanguageSetting, records: FinetuneRecords) -> float:
    """Adds the scores of the untrained model; returns the power of the number of tokens that validation chooses."""
    done = records.select("zero-shot", setting.name)
    if not done:
        state = machine.program.start_many(stacked([start_of(ANY, 1)] * CHUNK))
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
        done = records.select("zero-shot", setting.name)
    return next(line["power"] for line in done if "test" in line)


def tune(
    machine: LanguageMachine, setting: LanguageSetting, power: float, kinds, records: FinetuneRecords, deadline: float
) -> None:
    """Adds the validation scores of every configuration and tuning seed."""
    done = {(line["kind"], line["configuration"], line["seed"]) for line in records.select("tuning", setting.name)}
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
                    **record_line("tuning", setting, one.adaptation.kind, one.adaptation, one.seed, seconds),
                    "validation": quality(p, labels),
                }
                for one, p in zip(chunk, found, strict=True)
            ]
        )


def choices(records: FinetuneRecords, setting: LanguageSetting, kinds: Sequence[Kind]) -> dict[Kind, Adaptation]:
    """Returns the configuration of every kind with the least mean validation NLL over the tuning seeds."""
    found: dict[Kind, Adaptation] = {}
    for kind in kinds:
        nll, settings = validation_nll(line for line in records.select("tuning", setting.name) if line["kind"] == kind)
        found[kind] = settings[protocol.choose([protocol.Tried(name, tuple(each)) for name, each in nll.items()]).name]
    return found


def test(
    machine: LanguageMachine,
    setting: LanguageSetting,
    power: float,
    chosen: dict,
    records: FinetuneRecords,
    deadline: float,
) -> None:
    """Trains the chosen configurations with the result seeds and adds the scores of methods as they are complete."""
    done = {(line["method"], line["seed"]) for line in records.select("result", setting.name)}
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


def scored(
    machine: LanguageMachine, setting: LanguageSetting, one: tuple, known: Predictions, rows: dict, seconds: float
) -> dict:
    """Returns the line of one method and seed."""
    method, adaptation, seed, members = one
    texts = machine.sets[setting.name]
    mean = pooled([known[key] for key in members]).mean
    validation, tested = (
        ClassPredictive(part, np.zeros((1, 1)), 1) for part in np.split(np.asarray(mean), [len(rows["validation"])])
    )
    line = record_line("result", setting, method, adaptation, seed, seconds)
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
    machine: LanguageMachine,
    setting: LanguageSetting,
    power: float,
    kinds: Sequence[Kind],
    records: FinetuneRecords,
    deadline: float,
) -> None:
    """Tunes and tests some methods of one data set, chunk by chunk while there is time."""
    wanted = {(method, seed) for method in plan.methods(kinds) for seed in plan.RESULT_SEEDS}
    if wanted <= {(line["method"], line["seed"]) for line in records.select("result", setting.name)}:
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
    records = begin(given, "singularbayes_experiments.runs.finetune_language")
    begun = time.time()
    machine = LanguageMachine(given.gguf, given.inputs, given.dtype, given.most_steps, given.most_rows)
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
