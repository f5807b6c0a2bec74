"""Writes docs/performance.md from the records: python benchmarks/performance_page.py. A test holds the two equal."""

import json
from pathlib import Path
from statistics import mean, median
from typing import Any

from singularbayes_experiments.report.published.profile import profile

RECORDS = Path(__file__).parent / "records"
PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
NETWORKS = {
    "mlp 784-1200-1200-10": "MLP 784-1200-1200-10, ranks 25/25/10, batch 128",
    "mlp 44-128-128-1": "MLP 44-128-128-1, ranks 15/15/1, batch 64",
    "lstm 2x64 on 24x15": "LSTM 2 × 64 on 24 × 15, ranks 14/20/20/20/1, batch 64",
    "sst2 transformer": "SST-2 Transformer, 4 blocks of 256, length 64, rank 16, batch 64",
    "conv2d 3x3 128-128": "Conv2D 3 × 3, 128 → 128 on 28 × 28, rank 16, batch 16",
}


def record(name: str) -> dict[str, Any]:
    return json.loads((RECORDS / f"{name}.json").read_text())


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def source(name: str) -> str:
    """Returns where a table comes from: record, command, machine, versions."""
    kept = record(name)
    versions = ", ".join(f"{package} {version}" for package, version in kept["versions"].items())
    machine = kept["machine"]
    gpu = kept["results"].get("accelerator") or machine.get("accelerator")
    where = f"{machine['cpu']}, {machine['cores']} cores" + (f", {gpu}" if gpu else "")
    made = f" · {kept['finished'][:10]}, commit {kept['commit']}" if "finished" in kept else ""
    return f"`{kept['command']}` · {where} · {versions}{made} · [record](../benchmarks/records/{name}.json)"


def rivals(name: str, unit: str, networks: dict[str, str] | None = None) -> str:
    """Returns a table for every network of a record: who, how long, and low rank as a share of it."""
    parts = []
    for network, result in record(name)["results"].items():
        rows = result[f"{unit}s"]
        lines = [_line(rival, row, result["ratios"]) for rival, row in rows.items()]
        lines += [[rival, "–", "–", why] for rival, why in result.get("absent", {}).items()]
        title = f"**{(networks or {}).get(network, network)}**"
        parts.append(title + "\n\n" + table(["who", "ms (quartiles)", "low-rank / it", ""], lines))
    return "\n\n".join(parts)


def _line(rival: str, row: dict[str, Any], ratios: dict[str, Any]) -> list[str]:
    time = f"{_number(row['median_ms'])} ({_number(row['q1_ms'])} to {_number(row['q3_ms'])})"
    ratio = ratios.get(f"low_rank / {rival}")
    return [rival, time, f"{ratio[0]:.3f}" if ratio else "", row.get("note", "")]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


# Names of the rows of bench_inference.py, in the order of the page.
INFERENCE = (
    "request",
    "lstm_posteriors",
    "head",
    "mlp",
    "small_mlp",
    "lstm",
    "step_mlp",
    "step_small_mlp",
    "student",
)


def inference() -> str:
    """Returns every ratio that was measured on a CPU, and who is absent and why; then the commands."""
    return measured({f"inference_{row}": "" for row in INFERENCE})


def mixtures() -> str:
    """Returns the ratios of mixtures in training and in prediction."""
    on_gpu = {"mixture_step_sst2": "training step, SST-2 Transformer, H200"}
    return measured({"mixture_step": "training step", "mixture_prediction": "prediction", **on_gpu})


def measured(names: dict[str, str]) -> str:
    """Returns the ratios of some records, and who is absent and why; then the commands.

    Args:
        names: of the records, and what was timed; empty where the record itself says it.
    """
    lines, sources = [], []
    for name, title in names.items():
        [(work, result)] = record(name)["results"].items()
        work = title or work
        times = {
            rival: row["median_ms"] for unit in ("steps", "predictions") for rival, row in result.get(unit, {}).items()
        }
        for pair, (value, _) in result["ratios"].items():
            spent = " / ".join(_number(times[rival]) for rival in pair.split(" / "))
            lines.append([work, pair, f"{value:.3g}", spent, ""])
        lines += [[work, rival, "–", "", why] for rival, why in result.get("absent", {}).items()]
        sources.append(f"- {source(name)} · load {record(name)['machine']['load']}")
    made = table(["work", "ratio", "measured", "ms", ""], lines)
    return f"{made}\n\n" + "\n".join(sources)


def gpu_training() -> str:
    rows = record("sst2_profile_training")["results"]["rows"]
    low, keras = (median(rows[name]["step"]) for name in ("low_rank", "keras"))
    lines = []
    for name, row in rows.items():
        step, least = median(row["step"]), row["floors"]["step"]
        memory = f"{row['training_program_bytes'] / 1e6:.0f} MB"
        cells = [
            f"{row['parameters']:,}",
            f"{1e3 * step:.2f} ms",
            f"{1e3 * least:.2f} ms",
            f"{step / least:.0f} ×",
            memory,
        ]
        lines.append([name, *cells])
    made = table(["network", "parameters", "step", "floor", "step / floor", "memory of the program"], lines)
    return f"{made}\n\nLow rank / Keras: {low / keras:.2f} a step."


def gpu_prediction() -> str:
    lines = []
    for name, row in record("sst2_profile_prediction")["results"]["rows"].items():
        for job in ("mc1", "mc20", "mc100"):
            if job in row:
                time, least = median(row[job]), row["floors"][job]
                shown = name if name != "low_rank, 10000 draws" else "low_rank, float32"
                lines.append([shown, job[2:], f"{time:.3f} s", f"{least:.4f} s", f"{time / least:.1f} ×"])
    return table(["how", "draws", "time for 872 sentences", "floor", "time / floor"], lines)


def gpu_ranks() -> str:
    """Returns the seven ranks of the paper, ours and in brackets the paper's."""
    found = record("sst2_profile_ranks")["results"]["rows"]
    lines = []
    for ranks, paper in profile("tab:sst2_rank_sweep").items():
        row = found[f"low_rank ({ranks.replace(',', ', ')})"]
        times = {"epoch": mean(row["train"])} | {job: median(row[job]) for job in ("mc1", "mc20", "mc100")}
        cells = [f"{_number(time)} s ({paper[f'{job}_seconds']:g})" for job, time in times.items()]
        lines.append([*ranks.split(","), f"{row['parameters']:,}", _peak(row, paper), *cells])
    header = ["rank of the embedding", "of the matrices", "parameters", "peak memory", "25 steps", "one pass"]
    return table([*header, "20 draws", "100 draws"], lines)


def _peak(row: dict[str, Any], paper: dict[str, float]) -> str:
    return f"{row['training_peak_bytes'] / 1e6:.0f} MB ({paper['peak_bytes'] / 1e6:g})"


def gpu_profile() -> str:
    """Returns the paper's profile of methods, ours and in brackets the paper's."""
    rows = record("sst2_profile_training")["results"]["rows"]
    lines = []
    for name, paper in profile("tab:sst2_profile_appendix").items():
        members = 5 if name == "deep_ensemble" else 1  # not run: five of the deterministic network, one after another
        row = rows[{"deterministic": "keras", "deep_ensemble": "keras"}.get(name, name)]
        time = f"{_number(25 * members * median(row['step']))} s ({paper['epoch_seconds']:g})"
        peak = _peak(row, paper) if members == 1 else f"– ({paper['peak_bytes'] / 1e6:g})"
        lines.append([name if members == 1 else f"{name}, computed", f"{members * row['parameters']:,}", peak, time])
    return table(["network", "parameters", "peak memory", "25 steps"], lines)


def gpu_fit() -> str:
    """Returns a step of `fit`, with one and with ten steps an execution."""
    rows = record("sst2_profile_fit")["results"]["rows"]
    lines = [
        [name.removeprefix("fit, "), *(f"{1e3 * median(row[job]):.2f} ms" for job in ("fit", "fit10"))]
        for name, row in rows.items()
    ]
    return table(["network", "step of fit", "with steps_per_execution=10"], lines)


def adapters() -> str:
    """Returns a step of Bayesian adapters beside LoRA: times, and ratios."""
    lines, sources = [], []
    for name in ("adapters_float32", "adapters_mixed_bfloat16"):
        found = record(name)["results"]
        for rival, ratios in found["ratios"].items():
            times = " / ".join(_number(found["steps"][who]["median_ms"]) for who in ("adapter", rival))
            cells = [f"{value:.2f}" for value in ratios.values()]
            lines.append([found["dtype"], f"adapter / {rival}", times, *cells])
        sources.append(f"- {source(name)} · load {record(name)['machine']['load']}")
    heads = [name.replace("trained parameters", "trainable parameters") for name in ratios]
    return table(["type", "ratio", "ms", *heads], lines) + "\n\n" + "\n".join(sources)


def adapters_on_one_base() -> str:
    """Returns what one and several adapters on one base store and need for a step, beside one LoRA."""
    found = record("adapters_mixture")["results"]
    names = {"lora": "one LoRA", "adapter": "one adapter", "mixture_4": "four adapters", "lora_5": "five LoRAs"}
    lines = [
        [
            name,
            f"{found['trained'][who]:,}",
            f"{found['stored bytes'][who] / 1e6:.0f} MB",
            f"{found['bytes'][who] / 1e6:,.0f} MB",
            f"{found['steps'][who]['median_ms'] / 1e3:.1f} s",
            f"{found['to lora'][who]['time']:.1f}",
        ]
        for who, name in names.items()
    ]
    heads = ["on one base", "trainable parameters", "all weights", "memory of a step", "step, CPU", "step / one LoRA's"]
    load = record("adapters_mixture")["machine"]["load"]
    return table(heads, lines) + f"\n\n- {source('adapters_mixture')} · load {load}"


def summary() -> str:
    """Returns the figures that are asked for first."""
    step = record("training_step_peers")["results"]["mlp 784-1200-1200-10"]["ratios"]
    many = record("prediction_peers")["results"]["mlp, 10000 images x 50 draws"]["ratios"]
    trained = record("sst2_profile_training")["results"]["rows"]
    found = record("sst2_profile_prediction")["results"]["rows"]
    time = {name: median(row["mc100"]) for name, row in found.items()}
    memory = {name: row["training_program_bytes"] for name, row in trained.items()}
    peak = {name: row["training_peak_bytes"] for name, row in trained.items()}
    draws = found["low_rank, 10000 draws"]
    batch = "low_rank, batch 1000 / 50 x keras, batch 1000"
    gpu_step = median(trained["low_rank"]["step"]) / median(trained["keras"]["step"])
    grown = draws["mc10000_peak_bytes"] / draws["mc100_peak_bytes"]
    rows: dict[str, float] = {
        "MNIST MLP step, CPU: low-rank / Keras": step["low_rank / keras"][0],
        "same / full-rank": step["low_rank / full_rank"][0],
        "same / bayesian-torch": step["low_rank / bayesian_torch"][0],
        "same / torchbnn": step["low_rank / torchbnn"][0],
        "MNIST MLP, 10,000 images × 50 draws, CPU, one batch size: low-rank / (50 × Keras)": many[batch][0],
        "same / bayesian-torch, each at its best batch size": many["low_rank / bayesian_torch"][0],
        "SST-2 step, H200: low-rank / Keras": gpu_step,
        "SST-2, 100 draws × 872 sentences, H200, float32, seconds": time["low_rank, 10000 draws"],
        "same, bfloat16, seconds": time["low_rank, bfloat16"],
        "same, padding trimmed, seconds": time["low_rank, trimmed"],
        "same, bfloat16 and padding trimmed, seconds": time["low_rank, bfloat16, trimmed"],
        "SST-2 memory of the training program, H200: low-rank / full-rank": _share(memory),
        "same, peak of the allocator, the compiler's trials of kernels included": _share(peak),
        "peak memory of 10,000 draws / of 100 draws, H200": grown,
    }
    return table(["work", "measured"], [[work, f"{got:.3g}"] for work, got in rows.items()])


def _share(bytes_of: dict[str, float]) -> float:
    return bytes_of["low_rank"] / bytes_of["full_rank"]


def render() -> str:
    """Returns the page."""
    text = (Path(__file__).parent / "performance.md.in").read_text()
    return text.format(
        summary=summary(),
        training=rivals("training_step_peers", "step", NETWORKS),
        training_source=source("training_step_peers"),
        prediction=rivals("prediction_peers", "prediction"),
        prediction_source=source("prediction_peers"),
        inference=inference(),
        mixtures=mixtures(),
        growth_source=source("growth"),
        gpu_training=gpu_training(),
        gpu_training_source=source("sst2_profile_training"),
        gpu_prediction=gpu_prediction(),
        gpu_prediction_source=source("sst2_profile_prediction"),
        gpu_profile=gpu_profile(),
        gpu_ranks=gpu_ranks(),
        gpu_ranks_source=source("sst2_profile_ranks"),
        gpu_fit=gpu_fit(),
        gpu_fit_source=source("sst2_profile_fit"),
        adapters=adapters(),
        adapters_on_one_base=adapters_on_one_base(),
    )


if __name__ == "__main__":
    PAGE.write_text(render())
    print("Wrote docs/performance.md")
