"""The tables of the experiment `finetune`, as Markdown, from its records.

`python -m singularbayes_experiments.report.finetune` writes them into docs/finetuning_results.md; a test holds page and
records equal.
"""

import gzip
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from singularbayes_experiments.methods import protocol
from singularbayes_experiments.problems.finetune import CANDIDATES, INITIAL, METHODS, SCALES, SMALL, Adaptation, scaled
from singularbayes_experiments.report.names import SIMPLE_NAMES

NAMES = {
    "lora": "LoRA",
    "lora_temperature": "LoRA + temperature",
    "lora_ensemble": "LoRA, ensemble of 5",
    "mc_dropout": "LoRA, MC dropout",
    "blob": "BLoB's form",
    "bayes": "Bayesian adapter",
    "mixture": "mixture of 4",
    "laplace": "LoRA, last-layer Laplace",
    "monteclora": "MonteCLoRA (PEFT)",
}
TITLES = {
    "sst2-1000": "SST-2, 1,000 rows",
    "sst2-4000": "SST-2, 4,000 rows",
    "sst2": "SST-2, all rows",
    "clinc150-10": "CLINC150, 10 per intent",
    "clinc150": "CLINC150, all",
    "banking77-10": "Banking77, 10 per intent",
    "banking77": "Banking77, all",
}
OURS, THEIRS = ("bayes", "mixture"), ("lora", "lora_temperature", "lora_ensemble", "mc_dropout")


def read(folder: Path) -> list[dict]:
    """Returns the records in a folder; those of the first plan count where the second has no results."""
    lines = []
    for path in sorted(folder.glob("*.jsonl.gz")):
        with gzip.open(path, "rt") as file:
            lines += [json.loads(line) for line in file]
    known = {one["setting"] for one in lines if (one["stage"], one["method"]) == ("result", "mixture")}
    counted = [one for one in lines if one["stage"] not in ("tuning", "result") or one["setting"] in known]
    for one in counted:
        if one["setting"] not in known:
            one["stage"] = one["stage"].removeprefix("first ")
    return counted


def scores(records: Sequence[dict], setting: str, method: str, part: str, score: str) -> list[float]:
    """Returns a score of the results, one per seed in their order."""
    own = [one for one in records if (one["stage"], one["setting"], one["method"]) == ("result", setting, method)]
    return [one[part][score] for one in sorted(own, key=lambda one: one["seed"]) if score in one.get(part, {})]


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


def results_table(records: Sequence[dict]) -> str:
    """Returns accuracy, NLL, ECE and out-of-scope detection: mean ± standard error over the seeds."""
    rows = ["| | accuracy | NLL | ECE | AUROC, entropy | AUROC, MI |", "|---|---|---|---|---|---|"]
    columns = [("test", "accuracy"), ("test", "nll"), ("test", "ece"), ("ood", "auroc_entropy"), ("ood", "auroc_mi")]
    for setting in settings_of(records):
        rows.append(f"| **{TITLES[setting]}** | | | | | |")
        for method, name in NAMES.items():
            found = [scores(records, setting, method, *column) for column in columns]
            if found[0]:
                rows.append(f"| {name} | {' | '.join(map(_mean, found))} |")
        rows += [
            f"| {SIMPLE_NAMES[one['method']]} | | | | {_number(one['ood']['auroc'])} | |"
            for one in records
            if (one["stage"], one["setting"]) == ("detector", setting)
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


def difference(records: Sequence[dict], setting: str, ours: str, theirs: str) -> str:
    """Returns one cell: the mean, its interval, and a word where that does not reach 0."""
    found = protocol.paired(*(scores(records, setting, method, "test", "nll") for method in (ours, theirs)))
    word = " better" if found.high < 0 else " worse" if found.low > 0 else ""
    return f"{_signed(found.mean)} [{_signed(found.low)}, {_signed(found.high)}]{word}"


def standing_table(records: Sequence[dict]) -> str:
    """Returns for every setting who has the least mean NLL and how one adapter and the mixture stand to LoRA."""
    heads = ["least mean NLL"]
    heads += [f"{NAMES[ours]}: {what}" for ours in OURS for what in ("NLL − LoRA + temperature", "accuracy", "ECE")]
    rows = [f"| | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for setting in settings_of(records):
        means = _averages(records, setting, "test", "nll")
        cells = [NAMES[min(means, key=means.__getitem__)]]
        for ours in OURS:
            behind, error = _behind(records, setting, ours)
            accuracy, ece = (_averages(records, setting, "test", score) for score in ("accuracy", "ece"))
            cells += [
                f"{_signed(behind)} ± {_number(error)}",
                f"{_signed(accuracy[ours] - accuracy['lora'])}",
                f"{ece[ours] / ece['lora']:.2f} × {_number(ece['lora'])}",
            ]
        rows.append(f"| {TITLES[setting]} | {' | '.join(cells)} |")
    return "\n".join(rows)


def tempered_table(records: Sequence[dict]) -> str:
    """Returns the NLL of every method with a temperature fitted on validation rows."""
    methods = [method for method in METHODS if method != "lora_temperature"]
    rows = [f"| | {' | '.join(NAMES[method] for method in methods)} |", "|---" * (len(methods) + 1) + "|"]
    for setting in settings_of(records):
        cells = [_mean(scores(records, setting, method, "tempered", "nll")) for method in methods]
        rows.append(f"| {TITLES[setting]} | {' | '.join(cells)} |")
    return "\n".join(rows)


def conclusions(records: Sequence[dict]) -> str:
    """Returns what the tables say, in sentences."""
    settings = settings_of(records)
    nll = {setting: _averages(records, setting, "test", "nll") for setting in settings}
    best = {setting: min(means, key=means.__getitem__) for setting, means in nll.items()}
    lines = []
    for ours in OURS:
        won = [setting for setting in settings if best[setting] == ours]
        lines.append(
            f"{NAMES[ours]}: least mean NLL on {_count(won, settings)}. "
            + " ".join(_against(records, settings, ours, theirs) for theirs in THEIRS)
        )
    least = [f"{TITLES[one]}: {NAMES[who]}, {_number(nll[one][who])}" for one, who in best.items()]
    lines.append(f"Least mean NLL: {_listed(least)}")
    for ours in OURS:
        behind = {one: _behind(records, one, ours) for one in settings}
        over = [f"{TITLES[one]} ({_signed(mean)} ± {_number(se)})" for one, (mean, se) in behind.items() if mean > se]
        lines.append(f"{NAMES[ours]} behind LoRA + temperature by more than a standard error: {_listed(over)}")
        lines.append(f"{NAMES[ours]} with an accuracy more than .005 below LoRA's: {_listed(_less(records, ours))}")
        lines.append(f"{NAMES[ours]}, ECE / LoRA's where that is above .03: {_listed(_ece_shares(records, ours))}")
    for score, what in (("auroc_entropy", "entropy"), ("auroc_mi", "mutual information")):
        lines.append(f"Out-of-scope queries, AUROC by {what}: {_listed(_detected(records, score))}")
    lines += _without_network(records)
    lines.append(f"Chosen at an edge of what was tried: {_listed(edges(records))}")
    return "\n".join(f"- {line[0].upper()}{line[1:].rstrip('.')}." for line in lines)


def _averages(records: Sequence[dict], setting: str, part: str, score: str) -> dict[str, float]:
    found = {method: scores(records, setting, method, part, score) for method in NAMES}
    return {method: float(np.mean(values)) for method, values in found.items() if values}


def _count(some: Sequence[str], settings: Sequence[str]) -> str:
    return f"{len(some)} of {len(settings)} settings"


def _listed(parts: Sequence[str]) -> str:
    return "; ".join(parts) if parts else "nowhere"


def _against(records: Sequence[dict], settings: Sequence[str], ours: str, theirs: str) -> str:
    """Returns on how many settings the interval of the paired difference is on one side of 0."""
    cells = [difference(records, setting, ours, theirs) for setting in settings]
    better, worse = (sum(cell.endswith(word) for cell in cells) for word in ("better", "worse"))
    return f"Against {NAMES[theirs]}: better on {better}, worse on {worse}."


def _behind(records: Sequence[dict], setting: str, ours: str) -> tuple[float, float]:
    """Returns the mean of the paired difference of the NLL to LoRA + temperature, and its standard error."""
    mine, theirs = (scores(records, setting, method, "test", "nll") for method in (ours, "lora_temperature"))
    found = np.subtract(mine, theirs)
    return float(found.mean()), float(found.std(ddof=1) / np.sqrt(len(found)))


def _less(records: Sequence[dict], ours: str) -> list[str]:
    found = {one: _averages(records, one, "test", "accuracy") for one in settings_of(records)}
    below = {one: means[ours] - means["lora"] for one, means in found.items()}
    return [f"{TITLES[one]} ({_signed(value)})" for one, value in below.items() if value < -0.005]


def _ece_shares(records: Sequence[dict], ours: str) -> list[str]:
    found = {one: _averages(records, one, "test", "ece") for one in settings_of(records)}
    return [f"{TITLES[one]}: {means[ours] / means['lora']:.2f}" for one, means in found.items() if means["lora"] > 0.03]


def _detected(records: Sequence[dict], score: str) -> list[str]:
    """Returns the best method of every setting with out-of-scope queries, and ours."""
    found = {one: _averages(records, one, "ood", score) for one in settings_of(records)}
    lines = []
    for setting, means in found.items():
        if means:
            best = max(means, key=means.__getitem__)
            others = [f"{NAMES[method]} {_number(means[method])}" for method in OURS if method != best]
            lines.append(f"{TITLES[setting]}: {NAMES[best]} is best with {_number(means[best])}, {', '.join(others)}")
    return lines


def _without_network(records: Sequence[dict]) -> list[str]:
    """Returns what tells out-of-scope queries without a network, beside the best method by entropy."""
    parts = []
    for setting in ("clinc150", "banking77"):
        own = [one for one in records if (one["stage"], one["setting"]) == ("detector", setting)]
        found = {SIMPLE_NAMES[one["method"]].removesuffix(" (no network)"): one["ood"]["auroc"] for one in own}
        best = max(_averages(records, setting, "ood", "auroc_entropy").values(), default=0.0)
        if found and best:
            shown = [f"{name} {_number(value)}" for name, value in found.items()]
            far = "far behind" if max(found.values()) < best - 0.05 else "about as good, so this pair says little"
            parts.append(f"{TITLES[setting]}: {', '.join(shown)}, {far} (best method {_number(best)})")
    return [f"Out-of-scope queries without a network, AUROC: {'; '.join(parts)}."] if parts else []


def edges(records: Sequence[dict]) -> list[str]:
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
    return [f"{what} ({'; '.join(where)})" for what, where in found.items()]


def _of(one: dict, setting: str, method: str) -> bool:
    return (one["stage"], one["setting"], one["method"]) == ("result", setting, method)


def levels_table(records: Sequence[dict]) -> str:
    """Returns the validation NLL of the tuning of one adapter by β, η and dropout, each at its best learning rate.

    Full settings tried one level each, and are left out.
    """
    small = {setting.name for setting in SMALL}
    nll: dict[tuple, dict[str, dict[float, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for one in records:
        if (one["stage"], one["method"]) == ("tuning", "bayes") and one["setting"] in small:
            own = one["settings"]
            key = own["beta"], own["eta"], own["dropout"]
            nll[key][one["setting"]][own["learning_rate"]].append(one["validation"]["nll"])
    settings = [name for name in TITLES if any(name in each for each in nll.values())]
    rows = ["| β / width² | η | dropout | " + " | ".join(TITLES[one] for one in settings) + " |"]
    rows.append("|---" * (len(settings) + 3) + "|")
    for (beta, eta, dropout), each in sorted(nll.items()):
        means = [{rate: float(np.mean(found)) for rate, found in each[setting].items()} for setting in settings]
        rates = [min(mean, key=mean.__getitem__) for mean in means]
        cells = " | ".join(f"{_number(mean[rate])} ({rate:g})" for mean, rate in zip(means, rates, strict=True))
        rows.append(f"| {beta / 0.1**2:.3g} | {eta:g} | {dropout:g} | {cells} |")
    return "\n".join(rows)


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
        cells = [_short(own[method]) for method in METHODS if method != "lora_temperature"]
        rows.append(f"| {TITLES[setting]} | {' | '.join(cells)} |")
    return "\n".join(rows)


def defaults_table(records: Sequence[dict]) -> str:
    """Returns the validation NLL of adapters that nobody tunes, by β / width², and their mean loss against the best."""
    nll: dict[tuple, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in records:
        if one["stage"] == "defaults":
            own = one["settings"]
            key = (own["head"], own["beta"] / own["width"] ** 2, own["eta"], own["rho_lr"], own["width"], own["beta"])
            nll[key][one["setting"]].append(one["validation"]["nll"])
    settings = [name for name in TITLES if any(name in each for each in nll.values())]
    means = {key: np.array([np.mean(each[setting]) for setting in settings]) for key, each in nll.items()}
    least = np.min(list(means.values()), axis=0)
    heads = [*(TITLES[setting] for setting in settings), "mean above the least"]
    rows = [f"| β / width² | β | width | η | ρ rate | head | {' | '.join(heads)} |", "|---" * (len(heads) + 6) + "|"]
    for head, strength, eta, rho_lr, width, beta in sorted(means):
        values = means[head, strength, eta, rho_lr, width, beta]
        cells = " | ".join(_number(value) for value in [*values, np.mean(values - least)])
        kind = "random" if head else "plain"
        rows.append(f"| {strength:.3g} | {beta:g} | {width:g} | {eta:g} | {rho_lr:g} | {kind} | {cells} |")
    return "\n".join(rows)


def scales(records: Sequence[dict]) -> dict[Adaptation, dict[str, float]]:
    """Returns the mean validation NLL over the tuning seeds of `SCALES`, by configuration and setting."""
    nll: dict[Adaptation, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in records:
        if one["stage"] == "scales":
            nll[Adaptation(**one["settings"])][one["setting"]].append(one["validation"]["nll"])
    return {one: {name: float(np.mean(each[name])) for name in TITLES if name in each} for one, each in nll.items()}


def losses_of_scales(records: Sequence[dict]) -> dict[float, float]:
    """Returns for every candidate c how far it is above the least, in the mean over settings and dropout 0 and .1."""
    found = scales(records)
    each = [
        np.array([[found[scaled(c, dropout=dropout)][setting] for setting in found[SCALES[0]]] for c in CANDIDATES])
        for dropout in (0.0, 0.1)
    ]
    above = np.mean([values - values.min(axis=0) for values in each], axis=(0, 2))
    return dict(zip(CANDIDATES, above.tolist(), strict=True))


def default_scale(records: Sequence[dict]) -> float:
    """Returns the least candidate within .01 of the least mean loss: the rule of the plan."""
    losses = losses_of_scales(records)
    return min(c for c, loss in losses.items() if loss <= min(losses.values()) + 0.01)


def scales_table(records: Sequence[dict]) -> str:
    """Returns the validation NLL of adapters whose prior has c times their initial scales."""
    found = scales(records)
    settings = list(found[SCALES[0]])
    least = {setting: min(each[setting] for each in found.values()) for setting in settings}
    heads = [*(TITLES[setting] for setting in settings), "mean above the least"]
    rows = ["| c | KL at the start | β / width² | β | η | dropout | learning rate | " + " | ".join(heads) + " |"]
    rows.append("|---" * (len(heads) + 7) + "|")
    for one in SCALES:
        c = round(one.width / (one.eta * INITIAL), 1)
        start = np.log(c) + 0.5 / c**2 - 0.5
        values = [found[one][setting] for setting in settings]
        cells = " | ".join(map(_number, [*values, float(np.mean(np.subtract(values, list(least.values()))))]))
        own = f"{one.beta / one.width**2:.3g} | {one.beta:g} | {one.eta:g} | {one.dropout:g} | {one.learning_rate:g}"
        rows.append(f"| {c:g} | {_number(start)} | {own} | {cells} |")
    return "\n".join(rows)


def scales_sentence(records: Sequence[dict]) -> str:
    """Returns what the rule of the plan chooses."""
    losses = ", ".join(f"{c:g}: {_number(loss)}" for c, loss in losses_of_scales(records).items())
    return f"Mean loss of every c, by the rule of the plan: {losses}. It chooses c = {default_scale(records):g}."


TABLES = {
    "state": state_line,
    "conclusions": conclusions,
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


def filled(page: str, records: Sequence[dict]) -> str:
    """Returns the page with the tables between `<!-- name -->` and `<!-- end -->`."""
    for name, table in TABLES.items():
        before, rest = page.split(f"<!-- {name} -->\n")
        _, after = rest.split("\n<!-- end -->", 1)
        page = f"{before}<!-- {name} -->\n{table(records)}\n<!-- end -->{after}"
    return page


def _short(name: str) -> str:
    return name.replace("learning_rate", "lr").replace("rho_lr", "ρ rate").replace("beta", "β").replace("eta", "η")


def _mean(values: Sequence[float]) -> str:
    if not values:
        return "–"
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{_number(float(np.mean(values)))} ± {_number(float(error))}"


def _number(value: float) -> str:
    """Returns three decimals, without a 0 before them."""
    return f"{value:.3f}".removeprefix("0")


def _signed(value: float) -> str:
    return ("−" if round(value, 3) < 0 else "+") + _number(abs(value))


if __name__ == "__main__":
    ROOT = Path(__file__).parents[4]
    PAGE = ROOT / "docs" / "finetuning_results.md"
    PAGE.write_text(filled(PAGE.read_text(), read(ROOT / "experiments" / "results" / "finetune")))
