"""The command of the experiment `finetune` (`problems/finetune.py` is its plan), for a machine with an accelerator.

    python -m singularbayes_experiments.runs.finetune prepare --preset FOLDER --inputs inputs
    python -m singularbayes_experiments.runs.finetune run --inputs inputs --earlier experiments/results/finetune \
        --out runs/finetune --features runs/finetune-features --minutes 20
    python -m singularbayes_experiments.runs.finetune features --inputs inputs --earlier experiments/results/finetune \
        --out runs/finetune --features runs/finetune-features --minutes 8

Networks train side by side (`methods/adapter_program.py`), 71 at a time; every chunk ends in lines of JSON in the
folder, and a second call does what is missing. A stage that would not end in time is not begun. Training begins as soon
as the programs of its lengths are compiled. `--features` keeps what the heads of LoRA's result networks see, for
`runs/finetune_laplace.py`; those of settings whose results are earlier records are trained again, at the end.
`features` does that alone, for every setting without Laplace, with as many networks side by side as result seeds.
"""

import argparse
import itertools
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import jax

from singularbayes_experiments.problems import finetune as plan
from singularbayes_experiments.problems.finetune_texts import prepare
from singularbayes_experiments.runs.finetune_machine import BLOCK, AdapterMachine
from singularbayes_experiments.runs.finetune_records import FinetuneRecords, begin
from singularbayes_experiments.runs.finetune_stages import ask, features_again, one_setting


def run(given, deadline: float) -> None:
    """Does what is left, in the order of the plan, while there is time."""
    records = begin(given, "singularbayes_experiments.runs.finetune")
    begun = time.time()
    machine = AdapterMachine(given.inputs, given.dtype, given.tiny)
    print(f"read and converted: {time.time() - begun:.0f} s; {machine.program.num_trained:,} trained", flush=True)
    machine.compile()
    print(f"traced: {time.time() - begun:.0f} s; {jax.devices()}", flush=True)
    wanted = given.settings.split(",") if given.settings else [one.name for one in plan.SETTINGS]
    asked = False
    for setting in (one for one in plan.SETTINGS if one.name in wanted):
        if setting.tuned_as and not asked:
            asked = True
            for stage, small in itertools.product(("defaults", "scales"), plan.SMALL[:3]):
                if small.name in wanted:
                    ask(machine, stage, small, records, deadline)
        if records.select("result", setting.name):
            continue
        one_setting(machine, setting, records, deadline, given.features)
        print(f"{setting.name}: {deadline - time.time():.0f} s left", flush=True)
    if given.features is not None:
        for setting in plan.SMALL:
            if setting.name in wanted and records.select("result", setting.name):
                features_again(machine, setting, records, deadline, given.features)


def features(given, deadline: float) -> None:
    """Trains LoRA's result networks again where last-layer Laplace is missing, and keeps what their heads see."""
    records = FinetuneRecords(given.out, given.earlier)
    machine = AdapterMachine(given.inputs, given.dtype, given.tiny, chunk=len(plan.RESULT_SEEDS))
    machine.compile()
    for setting in plan.SETTINGS:
        begun = time.time()
        features_again(machine, setting, records, deadline, given.features)
        print(f"{setting.name}: {time.time() - begun:.0f} s", flush=True)


def probe(given, deadline: float) -> None:
    """Compiles the programs of an encoder with random weights and prints how long 40 of its steps take."""
    begun = time.time()
    machine = AdapterMachine(given.inputs, given.dtype, given.tiny, pretrained=False)
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


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("prepare", "probe", "run", "features"))
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
        {"probe": probe, "run": run, "features": features}[given.what](given, time.time() + 60 * given.minutes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
