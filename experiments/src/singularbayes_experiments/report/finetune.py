"""The tables of the experiment `finetune`, as Markdown, from its records.

`python -m singularbayes_experiments.report.finetune` writes them into docs/finetuning_results.md and the guide,
docs/finetuning.md; a test compares pages and records.
"""

import json
import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from singularbayes import metrics
from singularbayes_experiments.methods.protocol import standard_error
from singularbayes_experiments.problems.finetune import METHODS
from singularbayes_experiments.report import text
from singularbayes_experiments.report.adapter_tables import (
    NAMES,
    OURS,
    THEIRS,
    averages,
    difference,
    mean_cell,
    number,
    paired_difference,
    read_lines,
    scores,
    short_name,
    signed,
)
from singularbayes_experiments.report.finetune_settings import (
    SST2_ROWS,
    TITLES,
    defaults_table,
    levels_table,
    recommended_table,
    scales_sentence,
    scales_table,
)
from singularbayes_experiments.report.names import SIMPLE_NAMES, WITHOUT_NETWORK


def read(folder: Path) -> list[dict]:
    """Returns the records in a folder; those of the first plan count where the second has no results."""
    lines = read_lines(folder)
    known = {one["setting"] for one in lines if (one["stage"], one["method"]) == ("result", "mixture")}
    counted = [one for one in lines if one["stage"] not in ("tuning", "result") or one["setting"] in known]
    for one in counted:
        if one["setting"] not in known:
            one["stage"] = one["stage"].removeprefix("first ")
    return counted


def settings_of(records: Sequence[dict]) -> list[str]:
    """Returns the settings that have results, in the order of the titles."""
    known = {one["setting"] for one in records if one["stage"] == "result"}
    return [name for name in TITLES if name in known]


def state_line(records: Sequence[dict]) -> str:
    """Returns a sentence on what has results."""
    known = settings_of(records)
    missing = [title for name, title in TITLES.items() if name not in known]
    without = f" Without results: {'; '.join(missing)}." if missing else ""
    return f"{len(known)} of {len(TITLES)} settings have results.{without}"


def others_lines(records: Sequence[dict]) -> str:
    """Returns what last-layer Laplace and MonteCLoRA have results of, in sentences."""
    seeds = {
        method: {one: len(scores(records, one, method, "test", "nll")) for one in TITLES}
        for method in ("laplace", "monteclora")
    }
    missing = [TITLES[one] for one, count in seeds["laplace"].items() if not count]
    known = len(TITLES) - len(missing)
    lines = [f"Last-layer Laplace has results on {known} of {len(TITLES)} settings"]
    lines[0] += f"; without: {', '.join(missing)}." if missing else "."
    for setting, title in TITLES.items():
        own = [one for one in records if _of(one, setting, "laplace")]
        for end, word in ((min, "least"), (max, "greatest")):
            ends = [f"prior precision {end(map(float, one['precisions'])):.3g}" for one in own]
            at = sum(one["configuration"] == name for one, name in zip(own, ends, strict=True))
            if at:
                lines.append(f"{title}: {at} of its {len(own)} seeds chose the {word} precision that was tried.")
    lines.append("PEFT's MonteCLoRA tried 4 configurations where the others tried 16.")
    for setting, count in seeds["monteclora"].items():
        tuned = [one for one in records if (one["stage"], one["method"]) == ("tuning", "monteclora")]
        tuned = [one for one in tuned if one["setting"] == setting]
        nll = sorted(one["validation"]["nll"] for one in tuned)
        if not tuned:
            continue
        found = f"{TITLES[setting]}: {len(tuned)} of 8 tuning runs"
        found += f", validation NLL {number(nll[0])} to {number(nll[-1])}"
        if count:
            chosen = next(one for one in records if _of(one, setting, "monteclora"))["configuration"]
            found += f", chosen {short_name(chosen)}, results of {count} seeds"
        lines.append(found + ".")
    return "\n".join(f"- {line}" for line in lines)


def results_table(records: Sequence[dict]) -> str:
    """Returns accuracy, NLL, ECE and out-of-scope detection: mean ± standard error over the seeds."""
    rows = ["| | accuracy | NLL | ECE | AUROC, entropy | AUROC, MI |", "|---|---|---|---|---|---|"]
    columns = [("test", "accuracy"), ("test", "nll"), ("test", "ece"), ("ood", "auroc_entropy"), ("ood", "auroc_mi")]
    for setting in settings_of(records):
        rows.append(f"| **{TITLES[setting]}** | | | | | |")
        for method, name in NAMES.items():
            found = [scores(records, setting, method, *column) for column in columns]
            if found[0]:
                rows.append(f"| {name} | {' | '.join(map(mean_cell, found))} |")
        rows += [
            f"| {SIMPLE_NAMES[one['method']]} | | | | {number(one['ood']['auroc'])} | |"
            for one in records
            if _is_detector(one, setting)
        ]
    return "\n".join(rows)


def differences_table(records: Sequence[dict]) -> str:
    """Returns paired differences of the NLL with their 95 % t intervals."""
    rows = [f"| less that of | {' | '.join(NAMES[theirs] for theirs in THEIRS)} |", "|---" * (len(THEIRS) + 1) + "|"]
    for setting in settings_of(records):
        for ours in OURS:
            cells = [difference(records, setting, ours, theirs) for theirs in THEIRS]
            rows.append(f"| {TITLES[setting]}: {NAMES[ours]} | {' | '.join(cells)} |")
    return "\n".join(rows)


def standing_table(records: Sequence[dict]) -> str:
    """Returns for every setting who has the least mean NLL and how one adapter and the mixture stand to LoRA."""
    heads = ["least mean NLL"]
    heads += [f"{NAMES[ours]}: {what}" for ours in OURS for what in ("NLL − LoRA + temperature", "accuracy", "ECE")]
    rows = [f"| | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for setting in settings_of(records):
        means = averages(records, setting, "test", "nll")
        cells = [NAMES[min(means, key=means.__getitem__)]]
        for ours in OURS:
            behind, error = _behind(records, setting, ours)
            accuracy, ece = (averages(records, setting, "test", score) for score in ("accuracy", "ece"))
            cells += [
                f"{signed(behind)} ± {number(error)}",
                f"{signed(accuracy[ours] - accuracy['lora'])}",
                f"{ece[ours] / ece['lora']:.2f} × {number(ece['lora'])}",
            ]
        rows.append(f"| {TITLES[setting]} | {' | '.join(cells)} |")
    return "\n".join(rows)


def tempered_table(records: Sequence[dict]) -> str:
    """Returns the NLL of every method with a temperature fitted on validation rows."""
    methods = [method for method in METHODS if method != "lora_temperature"]
    rows = [f"| | {' | '.join(NAMES[method] for method in methods)} |", "|---" * (len(methods) + 1) + "|"]
    for setting in settings_of(records):
        cells = [mean_cell(scores(records, setting, method, "tempered", "nll")) for method in methods]
        rows.append(f"| {TITLES[setting]} | {' | '.join(cells)} |")
    return "\n".join(rows)


def conclusions(records: Sequence[dict]) -> str:
    """Returns what the tables say, in sentences."""
    settings = settings_of(records)
    nll = {setting: averages(records, setting, "test", "nll") for setting in settings}
    best = {setting: min(means, key=means.__getitem__) for setting, means in nll.items()}
    lines = []
    for ours in OURS:
        won = [setting for setting in settings if best[setting] == ours]
        against = [_against(records, settings, ours, theirs) for theirs in THEIRS]
        lines.append(". ".join([f"{NAMES[ours]}: least mean NLL on {_count(won, settings)}", *against]))
    for ours in OURS:
        behind = {one: _behind(records, one, ours) for one in settings}
        over = [f"{TITLES[one]} ({signed(mean)} ± {number(se)})" for one, (mean, se) in behind.items() if mean > se]
        lines.append(f"{NAMES[ours]} behind LoRA + temperature by more than a standard error: {_listed(over)}")
        lines.append(f"{NAMES[ours]} with an accuracy more than .005 below LoRA's: {_listed(_less(records, ours))}")
        lines.append(f"{NAMES[ours]}, ECE / LoRA's where that is above .03: {_listed(_ece_shares(records, ours))}")
    return "\n".join(f"- {line[0].upper()}{line[1:]}." for line in lines)


ROOT = Path(__file__).parents[4]
BENCHMARKS = ROOT / "benchmarks" / "records"
SENTENCES = 872  # of SST-2's dev set, by which it is tested


def calibrated_error(brier: float, rows: int, repeats: int = 200) -> float:
    """Returns the mean ECE on so many rows of two classes of a predictor that is calibrated, and has this Brier score.

    Its log-odds are normal around 0, as wide as the score needs; labels are drawn by its probabilities, so that all of
    the ECE is that of the sample.
    """
    rng = np.random.default_rng(0)
    middle = (np.arange(2000) + 0.5) / 2000
    z = np.array([statistics.NormalDist().inv_cdf(one) for one in middle])
    low, high = 0.0, 1e3  # widths between which the Brier score, the mean of 2 p (1 − p), is found by bisection
    for _ in range(60):
        width = (low + high) / 2
        p = 1 / (1 + np.exp(-np.clip(width * z, -700, 700)))
        low, high = (width, high) if (2 * p * (1 - p)).mean() > brier else (low, width)
    found = []
    for _ in range(repeats):
        p = 1 / (1 + np.exp(-np.clip(width * rng.normal(size=rows), -700, 700)))
        labels = (rng.random(rows) < p).astype(int)
        found.append(metrics.expected_calibration_error(np.stack([1 - p, p], axis=1), labels))
    return float(np.mean(found))


def calibrated_line(records: Sequence[dict]) -> str:
    """Returns how small an ECE SST-2's few test sentences can show."""
    settings = [setting for setting in settings_of(records) if setting in SST2_ROWS]
    floor = {
        one: calibrated_error(float(np.mean(list(averages(records, one, "test", "brier").values()))), SENTENCES)
        for one in settings
    }
    least = ", ".join(f"{number(value)} ({SST2_ROWS[one]})" for one, value in floor.items())
    return (
        f"- SST-2 has {SENTENCES} test sentences, {round(SENTENCES / 15)} per bin. A perfectly calibrated predictor "
        f"with the methods' mean Brier score\n  has an expected ECE of {least} there, by simulation.\n"
        "  Differences between ECEs near or below these mean nothing."
    )


def least_table(records: Sequence[dict]) -> str:
    """Returns who has the least mean NLL of all methods, and of those that cost one network."""
    rows = ["| | least mean NLL | least of methods that cost one network |", "|---|---|---|"]
    for setting in settings_of(records):
        nll = averages(records, setting, "test", "nll")
        single = [who for who in nll if METHODS.get(who, ("", 1))[1] == 1]
        least = [min(names, key=nll.__getitem__) for names in (nll, single)]
        rows.append(f"| {TITLES[setting]} | {' | '.join(f'{NAMES[who]}, {number(nll[who])}' for who in least)} |")
    return "\n".join(rows)


def detection_table(records: Sequence[dict]) -> str:
    """Returns the AUROC of out-of-scope queries by entropy and MI: the best method, ours, and no network."""
    shown = [f"{what}: {who}" for what in ("entropy", "MI") for who in ("best", *(NAMES[ours] for ours in OURS))]
    rows = [f"| | {' | '.join(shown)} | no network |", "|---" * (len(shown) + 2) + "|"]
    reached: dict[str, list[str]] = {"auroc_entropy": [], "auroc_mi": []}
    for setting in settings_of(records):
        cells = []
        plain = {one["method"]: one["ood"]["auroc"] for one in records if _is_detector(one, setting)}
        for score, where in reached.items():
            means = averages(records, setting, "ood", score)
            if means:
                best = max(means, key=means.__getitem__)
                cells += [f"{NAMES[best]}, {number(means[best])}", *(number(means[ours]) for ours in OURS)]
                where += [TITLES[setting]] if round(max(plain.values()), 3) >= round(means[best], 3) else []
        if cells:
            name = max(plain, key=plain.__getitem__)
            rows.append(f"| {TITLES[setting]} | {' | '.join(cells)} | {WITHOUT_NETWORK[name]}, {number(plain[name])} |")
    by_entropy, by_mi = map(_listed, reached.values())
    last = "A number without a network reaches the best method, to three decimals, by entropy on"
    return "\n".join([*rows, "", f"{last}: {by_entropy}; by mutual information on: {by_mi}."])


def out_of_scope_table(records: Sequence[dict]) -> str:
    """Returns the AUROC of out-of-scope queries by the entropy of some methods, and by their words alone."""
    methods = ("lora", "lora_temperature", "lora_ensemble", "bayes", "mixture")
    rows = [f"| | {' | '.join(NAMES[who] for who in methods)} | {WITHOUT_NETWORK['word_rarity']}, no network |"]
    rows.append("|---" * (len(methods) + 2) + "|")
    for setting in settings_of(records):
        means = averages(records, setting, "ood", "auroc_entropy")
        if means:
            plain = {one["method"]: one["ood"]["auroc"] for one in records if _is_detector(one, setting)}
            cells = [number(means[who]) for who in methods]
            rows.append(f"| {TITLES[setting]} | {' | '.join(cells)} | {number(plain['word_rarity'])} |")
    return "\n".join(rows)


def _is_detector(one: dict, setting: str) -> bool:
    return (one["stage"], one["setting"]) == ("detector", setting)


def edges_table(records: Sequence[dict]) -> str:
    """Returns what was chosen at an edge of what was tried."""
    rows = ["| at an edge | settings |", "|---|---|"]
    return "\n".join([*rows, *(f"| {what} | {'; '.join(where)} |" for what, where in edges(records).items())])


def cost_table(_: Sequence[dict]) -> str:
    """Returns what a step costs beside one of LoRA, from the records of the benchmark."""
    single, half, several = (
        json.loads((BENCHMARKS / f"adapters_{name}.json").read_text())["results"]
        for name in ("float32", "mixed_bfloat16", "mixture")
    )
    one, low = (found["ratios"]["lora"] for found in (single, half))
    base = several["stored bytes"]["lora"]

    def of(who: str) -> tuple[str, str, str]:
        """Returns time and memory of a step, and the weights, as multiples of those of one LoRA."""
        found = several["to lora"][who]
        return f"{found['time']:.1f}", f"{found['memory']:.1f}", f"{several['stored bytes'][who] / base:.2f}"

    rows = [
        "| beside one LoRA | time of a step | memory of a step | all weights | trainable parameters |",
        "|---|---|---|---|---|",
    ]
    for dtype, own in (("float32", one), ("bfloat16", low)):
        cells = f"{own['time']:.2f} | {own['memory']:.2f} | – | {own['trained parameters']:.2f}"
        rows.append(f"| one adapter, H200, {dtype} | {cells} |")
    for who, name in {"mixture_4": "four adapters", "lora_5": "five LoRAs"}.items():
        trained = several["trained"][who] / several["trained"]["lora"]
        rows.append(f"| {name} on one base, CPU, float32 | {' | '.join(of(who))} | {trained:.2f} |")
    return "\n".join(rows)


def _count(some: Sequence[str], settings: Sequence[str]) -> str:
    return f"{len(some)} of {len(settings)} settings"


def _listed(parts: Sequence[str]) -> str:
    return "; ".join(parts) if parts else "nowhere"


def _against(records: Sequence[dict], settings: Sequence[str], ours: str, theirs: str) -> str:
    """Returns on how many settings the interval of the paired difference is on one side of 0."""
    sides = [paired_difference(records, setting, ours, theirs).side() for setting in settings]
    return f"Against {NAMES[theirs]}: better on {sides.count('better')}, worse on {sides.count('worse')}"


def _behind(records: Sequence[dict], setting: str, ours: str) -> tuple[float, float]:
    """Returns the mean of the paired difference of the NLL to LoRA + temperature, and its standard error."""
    mine, theirs = (scores(records, setting, method, "test", "nll") for method in (ours, "lora_temperature"))
    found = np.subtract(mine, theirs)
    return float(found.mean()), standard_error(found)


def _less(records: Sequence[dict], ours: str) -> list[str]:
    found = {one: averages(records, one, "test", "accuracy") for one in settings_of(records)}
    below = {one: means[ours] - means["lora"] for one, means in found.items()}
    return [f"{TITLES[one]} ({signed(value)})" for one, value in below.items() if value < -0.005]


def _ece_shares(records: Sequence[dict], ours: str) -> list[str]:
    found = {one: averages(records, one, "test", "ece") for one in settings_of(records)}
    return [f"{TITLES[one]}: {means[ours] / means['lora']:.2f}" for one, means in found.items() if means["lora"] > 0.03]


def edges(records: Sequence[dict]) -> dict[str, list[str]]:
    """Returns where a chosen learning rate, or a dropout of LoRA, is the least or the greatest that was tried."""
    found: dict[str, list[str]] = defaultdict(list)
    for setting in settings_of(records):
        for method, (kind, _) in METHODS.items():
            own = next(one for one in records if _of(one, setting, method))["settings"]
            tried = [
                one["settings"]
                for one in records
                if (one["stage"], one["setting"], one["kind"]) == ("tuning", setting, kind)
            ]
            for name in ("learning_rate", *(("dropout",) if kind in ("lora", "mc_dropout") else ())):
                values = {one[name] for one in tried}
                if len(values) > 1 and own[name] in (min(values), max(values)):
                    found[f"{NAMES[method]}, {name.replace('_', ' ')} {own[name]:g}"].append(TITLES[setting])
    return dict(found)


def _of(one: dict, setting: str, method: str) -> bool:
    return (one["stage"], one["setting"], one["method"]) == ("result", setting, method)


def chosen_table(records: Sequence[dict]) -> str:
    """Returns which configuration each method was tested with."""
    rows = ["| | " + " | ".join(NAMES[method] for method in METHODS if method != "lora_temperature") + " |"]
    rows.append("|---" * len(METHODS) + "|")
    for setting in settings_of(records):
        own = {
            one["method"]: one["configuration"]
            for one in records
            if (one["stage"], one["setting"]) == ("result", setting)
        }
        cells = [short_name(own[method]) for method in METHODS if method != "lora_temperature"]
        rows.append(f"| {TITLES[setting]} | {' | '.join(cells)} |")
    return "\n".join(rows)


TABLES = {
    "state": state_line,
    "others": others_lines,
    "conclusions": conclusions,
    "least": least_table,
    "detection": detection_table,
    "edges": edges_table,
    "cost": cost_table,
    "recommended": recommended_table,
    "calibrated": calibrated_line,
    "results": results_table,
    "standing": standing_table,
    "tempered": tempered_table,
    "differences": differences_table,
    "chosen": chosen_table,
    "levels": levels_table,
    "defaults": defaults_table,
    "scales": scales_table,
    "scale": scales_sentence,
}


GUIDE = {"cost": cost_table, "out-of-scope": out_of_scope_table}


def filled(page: str, records: Sequence[dict]) -> str:
    """Returns the page with its tables."""
    return text.filled(page, {name: table(records) for name, table in TABLES.items()})


def filled_guide(page: str, records: Sequence[dict]) -> str:
    """Returns the guide with its tables."""
    return text.filled(page, {name: table(records) for name, table in GUIDE.items()})


if __name__ == "__main__":
    RECORDS = read(ROOT / "experiments" / "results" / "finetune")
    for name, fill in {"finetuning_results.md": filled, "finetuning.md": filled_guide}.items():
        page = ROOT / "docs" / name
        page.write_text(fill(page.read_text(), RECORDS))
