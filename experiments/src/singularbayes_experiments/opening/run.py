"""Trains every candidate of plan.yaml on some tasks and appends one line of JSON for each to a file."""

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singularbayes_experiments.opening import networks, training

SCHEDULES = {"constant": {"rate": 1e-3, "cosine": 0.0}, "cosine": {"rate": 3e-3, "cosine": 1.0}}
EPOCHS = {1000: 150, 5000: 60, 55_000: 24}  # of images, by rows
QUARTER = 0.25
ROUNDS = {1: ((0.05, 0.2, 0.5), (0.03, 0.1, 0.3)), 2: ((0.0, 0.05), (0.003, 0.01, 0.03))}  # shares and η
DENSE = {"name": "dense", "eta": 0.1, "share": 0.0, "beta": 0.0, "noise": 0.0}


def candidates(total: int, shares: tuple, etas: tuple) -> list[dict[str, Any]]:
    """Returns the settings of low-rank networks that train for `total` steps, by schedule."""
    found = []
    for schedule, options in SCHEDULES.items():
        decay = (QUARTER / 2 + math.sin(math.pi * QUARTER) / (2 * math.pi)) if options["cosine"] else QUARTER
        eta = max(0.3 * math.exp(-options["rate"] * total * decay), 1e-5)
        rows = [(f"rule β {beta:g}", eta, 0.0, beta, 1.0) for beta in (0.1, 0.3, 1.0)]
        rows += [
            (f"ramp {share:g} η {start:g} β {beta:g}", start, share, beta, 1.0)
            for share in shares
            for start in etas
            for beta in (0.1, 0.3, 1.0)
        ]
        rows += [("closed", 1e-4, 0.0, 0.03, 1.0), ("means", 0.1, 0.0, 0.0, 0.0)]
        keys = ("name", "eta", "share", "beta", "noise")
        found += [{"schedule": schedule, **options, **dict(zip(keys, row, strict=True))} for row in rows]
    return found


def task(name: str, folder: Path) -> tuple[dict, Any, int, int, int | None]:
    """Returns arrays, network, batch size, epochs, and the steps of an epoch where it is not one pass."""
    if "mnist" in name:
        arrays, count = images(name, folder)
        return arrays, networks.mlp(784, (1200, 1200), 10), 128, EPOCHS[count], None
    arrays = dict(np.load(folder / f"{name}.npz"))
    x = arrays["train_x"]
    if name.startswith("sst2"):
        arrays = {k: v.astype("int32") for k, v in arrays.items()}
        network = networks.transformer(int(arrays["train_x"].max()) + 1, x.shape[2])
        return arrays, network, 64, 20 if name == "sst2_5000" else 5, None
    arrays = {k: v.astype("float32") if v.dtype == np.float16 else v for k, v in arrays.items()}
    classes = arrays["train_y"].dtype.kind == "i"
    outputs = int(arrays["train_y"].max()) + 1 if classes else 2
    if name == "beijing":
        return arrays, networks.lstm(x.shape[-1], 64, 2), 256, 15, None
    if name in ("breast_cancer", "wine", "diabetes") or name.startswith("digits"):
        return arrays, networks.mlp(x.shape[-1], (128,), outputs), 32, 60, None
    return arrays, networks.mlp(x.shape[-1], (64, 64), 2), 64, 40, 100


def images(name: str, folder: Path) -> tuple[dict, int]:
    """Returns standardised images, of "mnist_1000_noisy" with noise of one standard deviation, and how many train."""
    noisy = name.endswith("_noisy")
    name, _, count = name.removesuffix("_noisy").rpartition("_")
    rng, found = np.random.default_rng(1), {}
    for key, values in np.load(folder / f"{name}.npz").items():
        found[key] = values[:, : int(count)] if key.startswith("train") else values
    mean, std = found["train_x"].mean(), found["train_x"].std()
    for key in [key for key in found if key.endswith("x")]:
        noise = rng.normal(size=found[key].shape) if noisy else 0.0
        found[key] = ((found[key] - mean) / std + noise).astype("float32")
    return found, int(count)


def run(name: str, folder: Path, seeds: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Returns a row for every candidate: arrays (splits, seeds), and the NLL of the pooled seeds of every split."""
    arrays, network, batch, epochs, steps = task(name, folder)
    if options.tiny:
        arrays, epochs = {k: v[:2, :400] for k, v in arrays.items()}, 2
    count = arrays["train_x"].shape[1]
    batch = min(batch, count)
    steps = (2 if options.tiny else steps) or count // batch
    data = {part: (arrays[f"{part}_x"], arrays[f"{part}_y"]) for part in ("train", "stop", "score")}
    data = jax.tree.map(jnp.asarray, data)
    keys = jax.vmap(jax.random.key)(jnp.arange(seeds))
    classes = arrays["train_y"].dtype.kind == "i"
    rows: list[dict[str, Any]] = []
    dense = [{"schedule": schedule, **rate, **DENSE} for schedule, rate in SCHEDULES.items()]
    for low_rank, wanted in ((True, candidates(epochs * steps, *ROUNDS[options.round])), (False, dense)):
        plan = training.Plan(network, low_rank, classes, batch, epochs, steps, options.least_rank)
        train = jax.vmap(lambda d, k, s: training.train(plan, d, k, s), (None, 0, None))  # noqa: B023
        train = jax.jit(jax.vmap(jax.vmap(train, (0, None, None)), (None, None, 0)))
        for begin in range(0, len(wanted), options.at_once):
            part = wanted[begin : begin + options.at_once]
            numbers = [key for key in part[0] if key not in ("schedule", "name")]
            start = time.perf_counter()
            settings = {key: jnp.asarray([setting[key] for setting in part], "float32") for key in numbers}
            found = jax.tree.map(np.asarray, train(data, keys, settings))
            likelihood = found.pop("log_likelihood").astype("float64")  # (settings, splits, seeds, examples)
            pooled = -(np.logaddexp.reduce(likelihood, axis=2) - math.log(seeds)).mean(-1)
            seconds = (time.perf_counter() - start) / len(part)
            for i, setting in enumerate(part):
                own = {key: np.round(value[i].astype("float64"), 5).tolist() for key, value in found.items()}
                rows.append({"task": name, "round": options.round, "least_rank": options.least_rank, **setting, **own})
                rows[-1] |= {"pooled": pooled[i].round(5).tolist(), "seconds": round(seconds, 3)}
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--tasks", nargs="+", required=True)
    parser.add_argument("--at-once", type=int, default=64, help="settings in one program")
    parser.add_argument("--seeds", type=int, help="by default as in plan.yaml")
    parser.add_argument("--round", type=int, choices=ROUNDS, default=1)
    parser.add_argument("--least-rank", type=int, default=8)
    parser.add_argument("--tiny", action="store_true", help="few rows and steps: shows that it runs")
    options = parser.parse_args()
    for name in options.tasks:
        seeds = options.seeds or (5 if "mnist" in name and "55000" not in name else 3)
        start = time.perf_counter()
        try:
            rows = run(name, options.folder, seeds, options)
        except Exception as error:
            print(f"{name} failed: {error!r:.500}", flush=True)
            continue
        with options.output.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        print(f"{name}: {len(rows)} rows, {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
