"""The page of the experiment on CIFAR-10, made from its records alone.

`singularbayes-experiments report experiments/results --markdown docs/results` writes it with all other pages; a test
holds page and records equal.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from singularbayes_experiments.methods import protocol
from singularbayes_experiments.problems import cifar10 as plan
from singularbayes_experiments.report.markdown_page import OwnPage
from singularbayes_experiments.runs.cifar10_records import read_lines

TITLE, PAGE, FOLDER, SECOND = "CIFAR-10", "cifar10.md", "cifar10", "second"
NAMES = {
    "deterministic": "deterministic",
    "deep_ensemble": "deep ensemble of 4",
    "full_rank": "full-rank",
    "rank_one": "rank-one",
    "low_rank": "low-rank",
    "low_rank_svd": "low-rank, SVD-initialised",
    "mixture": "mixture of 4",
    "mixture_svd": "SVD-initialised mixture of 4",
    "low_rank_distilled": "low-rank, distilled",
    "mixture_distilled": "distilled mixture of 4",
    "mc_dropout": "MC dropout",
    "swag": "SWAG",
}
NETWORKS = {"resnet9": "ResNet-9", "resnet20": "ResNet-20"}
PUBLISHED = (0.917, 0.925)  # accuracy of one deterministic ResNet-20
MARGIN = 0.003  # within which it counts as reproduced
OURS, THEIRS = ("mixture", "mixture_svd"), ("deep_ensemble", "full_rank", "deterministic")
Records = Sequence[dict]

_LEAD = (
    "Residual networks on the 60,000 images of CIFAR-10: a deep ensemble of 4 and one full-rank posterior against "
    "low-rank posteriors and mixtures of 4 of them. Plan, configurations, seeds and the order of work were committed "
    "before the run (`singularbayes_experiments.problems.cifar10`). ResNet-9 is the wide network, whose matrices a low "
    "rank makes smaller; those of ResNet-20 have at most 576 × 64 entries."
)
_LESS = (
    "Less than the [protocol](../protocol.md) asks for: five configurations of a family (three rates, one with "
    "another weight decay, β or prior width, and the best of the four with 24 epochs instead of 16), one tuning seed, "
    "at most three result seeds. SVD-initialised networks begin at the trained ensemble and train on, so they have "
    "seen more images than any other; they are compared by what they hold. Components of a mixture were trained one "
    "after the other, not in one `Mixture`. Intervals are over seeds, not over other test images. MC dropout and SWAG "
    "were cut before the run. The plan was written with the results of a first, less even round in view, which stands "
    "below."
)
_FIRST = (
    "Three configurations of every method, one tuning seed with half the epochs. For the deterministic network only "
    "the rate was tuned, for the others only β (rank-one: the width of the prior) at one rate each; most choices lie "
    "at an edge of what was tried. ResNet-9 trains for 16 epochs, an SVD-initialised network for 6 more after the "
    "ensemble's 16. All components of a mixture draw with the same seeds of noise."
)
_CORRUPTED = (
    "Corrupted: the mean over eight corruptions at five severities, 2,000 test images each, with the constants of "
    "CIFAR-10-C but noise of our own, so numbers are not those of its published files."
)


def results(records: Records) -> list[dict]:
    return [one for one in records if one["stage"] == "result" and not one["diverged"]]


def scores(records: Records, network: str, method: str, part: str, score: str) -> dict[int, float]:
    """Returns a score by seed; those of the part "ood" are of networks without the held-out classes."""
    held_out = part in ("ood", "detectors")
    return {
        one["seed"]: one[part][score]
        for one in sorted(results(records), key=lambda one: one["seed"])
        if (one["network"], one["method"], one["held_out"]) == (network, method, held_out)
        and score in (one.get(part) or {})
    }


def parameters(records: Records, network: str, method: str) -> int | None:
    """Returns the stored parameters of a method."""
    found = {one["parameters"] for one in results(records) if (one["network"], one["method"]) == (network, method)}
    return found.pop() if found else None


def results_table(records: Records, network: str) -> list[str]:
    """Returns accuracy, NLL and ECE of test and corrupted images, and the stored parameters."""
    heads = ("accuracy", "NLL", "ECE", "corrupted accuracy", "corrupted NLL", "corrupted ECE", "parameters", "seeds")
    rows = []
    for method, name in NAMES.items():
        cells = [
            list(scores(records, network, method, part, score).values())
            for part in ("test", "corrupted")
            for score in ("accuracy", "nll", "ece")
        ]
        if cells[0]:
            size = f"{parameters(records, network, method):,}"
            rows.append(f"| {' | '.join([name, *map(_mean, cells), size, str(len(cells[0]))])} |")
    return [f"| | {' | '.join(heads)} |", f"|---|{'---:|' * len(heads)}", *rows] if rows else []


def detection_table(records: Records) -> list[str]:
    """Returns the AUROC of held-out classes, with the plain scores of one deterministic network below."""
    rows = []
    for method, name in NAMES.items():
        cells = [
            list(scores(records, "resnet9", method, "ood", score).values()) for score in ("auroc_entropy", "auroc_mi")
        ]
        if cells[0]:
            rows.append(f"| {' | '.join([name, *map(_mean, cells), str(len(cells[0]))])} |")
    for score, name in (("max_softmax", "max-softmax"), ("energy", "energy"), ("mahalanobis", "Mahalanobis distance")):
        values = list(scores(records, "resnet9", "deterministic", "detectors", score).values())
        if values:
            rows.append(f"| {name} of the deterministic network | {_mean(values)} | | {len(values)} |")
    heads = "| | AUROC by entropy, or the score | AUROC by mutual information | seeds |"
    return [heads, "|---|---:|---:|---:|", *rows] if rows else []


def differences_table(records: Records, network: str) -> list[str]:
    """Returns paired differences of the NLL, with 95 % t intervals where there are two seeds or more."""
    rows = []
    for ours in OURS:
        for part in ("test", "corrupted"):
            cells = [difference(records, network, ours, theirs, part) for theirs in THEIRS]
            if any(cell != "–" for cell in cells):
                rows.append(f"| {' | '.join([f'{NAMES[ours]}, {part}', *cells])} |")
    heads = f"| NLL less that of | {' | '.join(NAMES[theirs] for theirs in THEIRS)} |"
    return [heads, f"|---|{'---:|' * len(THEIRS)}", *rows] if rows else []


def difference(records: Records, network: str, ours: str, theirs: str, part: str) -> str:
    """Returns one cell: the mean, its interval, and a word where that does not reach 0."""
    pairs = _pairs(records, network, ours, theirs, part)
    if not pairs:
        return "–"
    if len(pairs) == 1:
        return f"{_signed(pairs[0][0] - pairs[0][1])} (one seed)"
    found = protocol.paired(*map(list, zip(*pairs, strict=True)))
    word = " better" if found.high < 0 else " worse" if found.low > 0 else ""
    return f"{_signed(found.mean)} [{_signed(found.low)}, {_signed(found.high)}]{word}"


def _pairs(records: Records, network: str, ours: str, theirs: str, part: str) -> list[tuple[float, float]]:
    """Returns the NLLs of two methods with the seeds that both have."""
    own, other = (scores(records, network, method, part, "nll") for method in (ours, theirs))
    return [(own[seed], other[seed]) for seed in sorted(own.keys() & other.keys())]


def corruptions_table(records: Records) -> list[str]:
    """Returns the NLL of every corruption on ResNet-9, the mean over severities and seeds."""
    columns: dict[str, dict[str, float]] = {}
    for method in NAMES:
        own = [
            one["corrupted_nll"]
            for one in results(records)
            if (one["network"], one["method"]) == ("resnet9", method) and "corrupted_nll" in one
        ]
        if own:
            columns[method] = {name: float(np.mean([each[name] for each in own])) for name in own[0]}
    if not columns:
        return []
    lines = [f"| | {' | '.join(NAMES[method] for method in columns)} |", f"|---|{'---:|' * len(columns)}"]
    for name in next(iter(columns.values())):
        cells = [f"{each[name]:.3f}" for each in columns.values()]
        lines.append(f"| {' | '.join([name.replace('_', ' '), *cells])} |")
    return lines


def tuning_table(records: Records) -> list[str]:
    """Returns the validation NLL of every configuration; the chosen one is bold."""
    rows = []
    for family, methods in plan.FAMILIES.items():
        tried = [one for one in records if one["stage"] == "tuning" and one["family"] == family]
        values = [np.inf if one["diverged"] else one["validation"]["nll"] for one in tried]
        for one, value in zip(tried, values, strict=True):
            shown = "diverged" if one["diverged"] else f"{value:.4f}"
            shown = f"**{shown}**" if value == min(values) < np.inf else shown
            names = " and ".join(NAMES[name] for name in methods)
            rows.append(f"| {names} | {_short(one['configuration'])} | {shown} |")
    return ["| | configuration | validation NLL |", "|---|---|---:|", *rows] if rows else []


def reproduction(records: Records) -> str:
    """Returns whether the deterministic ResNet-20 reaches the published accuracy."""
    found = list(scores(records, "resnet20", "deterministic", "test", "accuracy").values())
    low, high = PUBLISHED
    published = f"published are about {100 * low:.1f} to {100 * high:.1f} %"
    if not found:
        return (
            f"The deterministic ResNet-20 has no result, so nothing here reproduces a published number ({published})."
        )
    mean = float(np.mean(found))
    good = low - MARGIN <= mean <= high + MARGIN
    word = "which it reproduces" if good else "which it does not reproduce"
    epochs = plan.PUBLISHED_EPOCHS
    seeds = "one seed" if len(found) == 1 else f"{len(found)} seeds"
    return (
        f"One deterministic ResNet-20 has an accuracy of {100 * mean:.2f} % after {epochs} epochs ({seeds}); "
        f"{published}, {word} within {100 * MARGIN:.1f} points."
    )


def comparison(records: Records, ours: str) -> str:
    """Returns how a mixture on ResNet-9 compares with the deep ensemble and with full-rank; "" without results."""
    size, theirs = (parameters(records, "resnet9", method) for method in (ours, "deep_ensemble"))
    if size is None or theirs is None:
        return ""
    sides = {"better": "lower", "worse": "higher"}
    found = []
    for other, part in (("deep_ensemble", "test"), ("deep_ensemble", "corrupted"), ("full_rank", "test")):
        pairs = _pairs(records, "resnet9", ours, other, part)
        if pairs:
            mine, base = np.mean(pairs, axis=0)
            level = "higher, though level" if mine > base else "lower, though level"
            side = sides.get(difference(records, "resnet9", ours, other, part).split()[-1], level)
            found.append(f"{part} NLL {mine:.3f} against {base:.3f} ({NAMES[other]}), {side}")
    name = NAMES[ours][0].upper() + NAMES[ours][1:]
    return f"{name}, with {100 * size / theirs:.0f} % of the parameters of the deep ensemble: {'; '.join(found)}."


def remark(folder: Path) -> str:
    """Returns which mixtures are worse than the ensemble, and than one deterministic network; "" if none is."""
    found = []
    for theirs, words in (("deep_ensemble", "the deep ensemble of 4"), ("deterministic", "one deterministic network")):
        lost = [
            one for one in OURS if difference(_latest(folder, one), "resnet9", one, theirs, "test").endswith(" worse")
        ]
        if lost:
            names = " and the ".join(NAMES[one] for one in lost)
            found.append(f"the {names} {'is' if len(lost) == 1 else 'are'} worse than {words}")
    text = ", and ".join(found)
    return f"Not among these data sets: on [CIFAR-10]({PAGE}), ResNet-9 with less tuning, {text}." if found else ""


def losses(folder: Path) -> list[str]:
    """Returns where mixtures on ResNet-9 have a higher NLL than the deep ensemble, a line each."""
    found = []
    for ours in OURS:
        for part in ("test", "corrupted"):
            cell = difference(_latest(folder, ours), "resnet9", ours, "deep_ensemble", part)
            if cell.endswith(" worse"):
                found.append(
                    f"- [CIFAR-10]({PAGE}), ResNet-9, {part} images: {NAMES[ours]} against {NAMES['deep_ensemble']}: "
                    f"NLL {cell.removesuffix(' worse')}"
                )
    return found


def _latest(folder: Path, method: str) -> Records:
    """Returns the records of the last round in which a method has results on ResNet-9."""
    second = read_lines(folder / SECOND)
    return second if scores(second, "resnet9", method, "test", "nll") else read_lines(folder)


def own_page(runs: Path) -> dict[str, OwnPage]:
    """Returns the page of the records below a folder of results by its file name; none where there are none."""
    folder = runs / FOLDER
    return {PAGE: OwnPage(page(folder), losses(folder), remark(folder))} if folder.is_dir() else {}


def page(folder: Path) -> str:
    """Returns the page from a folder of records; it says so where there are none."""
    rounds = {where: read_lines(where) for where in (folder / SECOND, folder)}
    done = {where: records for where, records in rounds.items() if results(records)}
    lines = [f"# {TITLE}", "", _LEAD, "", _LESS, ""]
    if not done:
        return "\n".join([*lines, "No results yet.", ""])
    (latest, records), *earlier = done.items()
    lines += [reproduction([one for each in reversed(done.values()) for one in each]), ""]
    for ours in OURS:
        its = _latest(folder, ours)
        sentence = comparison(its, ours)
        lines += [f"- {'' if its == records else 'First round. '}{sentence}"] if sentence else []
    lines += ["", *(line for _, older in earlier for line in _left_out(records, older))]
    lines += _round(latest, records, "## {}")
    for where, older in earlier:
        lines += ['<details markdown="1">', "<summary>The first round</summary>", "", _FIRST, ""]
        lines += [*_round(where, older, "**{}**"), "</details>", ""]
    return "\n".join(lines)


def _left_out(records: Records, older: Records) -> list[str]:
    """Returns what a round has no results of, though the one before has, and why where all configurations diverged."""
    lost = []
    for family, methods in plan.FAMILIES.items():
        tried = [one for one in records if one["stage"] == "tuning" and one["family"] == family]
        if tried and all(one["diverged"] for one in tried):
            rates = sorted({one["settings"]["rate"] for one in tried})
            names = " and ".join(NAMES[name] for name in methods)
            lost.append(
                f"All {len(tried)} configurations of {names} diverged, with rates from {rates[0]:g} to {rates[-1]:g}."
            )
    keys = {
        f"{NAMES[method]} on {title}": (network, method, "test", "nll")
        for network, title in NETWORKS.items()
        for method in NAMES
    }
    keys["held-out classes"] = ("resnet9", "deterministic", "ood", "auroc_entropy")
    absent = [name for name, key in keys.items() if scores(older, *key) and not scores(records, *key)]
    found = [*lost, f"Only the first round has: {', '.join(absent)}."] if absent else lost
    return [" ".join(found), ""] if found else []


def _round(folder: Path, records: Records, heading: str) -> list[str]:
    """Returns all tables of one round, below headings of that form."""
    lines = []
    for network, title in NETWORKS.items():
        table = results_table(records, network)
        if table:
            lines += [heading.format(title), "", *table, ""]
            lines += [f"Mean ± standard error over seeds; without ± there is one. {_CORRUPTED}", ""]
            lines += _titled("Paired differences over seeds, 95 % t intervals:", differences_table(records, network))
    lines += _titled(
        f"{heading.format('Held-out classes')}\n\nResNet-9 trained without ships and trucks, whose 2,000 test images "
        "are told from the other 8,000:",
        detection_table(records),
    )
    lines += _titled(
        f"{heading.format('Corruptions')}\n\nNLL on ResNet-9, the mean over five severities:",
        corruptions_table(records),
    )
    lines += _titled(
        f"{heading.format('What was tuned')}\n\nNLL of 5,000 validation images, one seed; bold is what results were "
        "run with:",
        tuning_table(records),
    )
    return [*lines, _diverged(records), *_ranks(records), _made_with(folder), ""]


def _titled(title: str, table: list[str]) -> list[str]:
    return [title, "", *table, ""] if table else []


def _ranks(records: Records) -> list[str]:
    return [
        line
        for one in records
        if one["stage"] == "ranks"
        for line in (
            f"Ranks of {NETWORKS[one['network']]}, first layer first: {', '.join(map(str, one['ranks']))}.",
            "",
        )
    ]


def _diverged(records: Records) -> str:
    lost = [one for one in records if one["stage"] == "result" and one["diverged"]]
    names = ", ".join(f"{NAMES[one['method']]} with seed {one['seed']}" for one in lost)
    return f"Diverged, and not in the tables: {names}.\n" if lost else "No result run diverged.\n"


def _made_with(folder: Path) -> str:
    about = json.loads((folder / "run.json").read_text())
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    machine = about["machine"].get("accelerator", about["machine"]["cpu"])
    commit = f"; commit {about['commit']}" if "commit" in about else ""
    where = f"{FOLDER}/{SECOND}" if folder.name == SECOND else FOLDER
    made = f"Records: `experiments/results/{where}`, made by `{about['command']}`"
    return f"{made} with {versions}, on {machine}{commit}."


def _short(name: str) -> str:
    return name.replace("rho_rate", "ρ rate").replace("beta", "β").replace("eta", "η")


def _mean(values: Sequence[float]) -> str:
    if not values:
        return "–"
    error = f" ± {np.std(values, ddof=1) / np.sqrt(len(values)):.4f}" if len(values) > 1 else ""
    return f"{np.mean(values):.4f}{error}"


def _signed(value: float) -> str:
    return ("−" if round(value, 4) < 0 else "+") + f"{abs(value):.4f}"


if __name__ == "__main__":
    ROOT = Path(__file__).parents[4]
    (ROOT / "docs" / "results" / PAGE).write_text(page(ROOT / "experiments" / "results" / FOLDER))
