"""The page of the experiment on CIFAR-10, made from its records alone.

`singularbayes-experiments report experiments/results --markdown docs/results` writes it with all other pages; a test
holds page and records equal.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from singularbayes_experiments.methods import protocol
from singularbayes_experiments.problems import cifar10 as plan
from singularbayes_experiments.problems.cifar10 import CORRUPTED as CORRUPTED_IMAGES
from singularbayes_experiments.report.markdown_page import OwnPage
from singularbayes_experiments.runs.cifar10_records import read_lines

TITLE, PAGE, FOLDER = "CIFAR-10", "cifar10.md", "cifar10"
SECOND, THIRD, FOURTH = "second", "third", "fourth"
# Folder below `FOLDER` → what the page calls it.
ROUNDS = {FOURTH: "fourth", THIRD: "third", SECOND: "second", "": "first"}
WORK = {FOURTH: plan.WORK, THIRD: plan.THIRD}  # of the rounds whose plan is a list
NAMES = {
    "deterministic": "deterministic",
    "deep_ensemble": "deep ensemble of 4",
    "full_rank": "full-rank",
    "rank_one": "rank-one",
    "low_rank": "low-rank",
    "low_rank_svd": "low-rank, SVD-initialised",
    "mixture": "mixture of 4",
    "mixture_svd": "SVD-initialised mixture of 4",
    "low_rank_tied": "low-rank, tied scales",
    "mixture_tied": "mixture of 4, tied scales",
    "low_rank_distilled": "low-rank, distilled",
    "mixture_distilled": "distilled mixture of 4",
    "mc_dropout": "MC dropout",
    "swag": "SWAG",
}
NETWORKS = {"resnet9": "ResNet-9", "resnet20": "ResNet-20"}
PUBLISHED = (0.917, 0.925)  # accuracy of one deterministic ResNet-20
MARGIN = 0.003  # within which it counts as reproduced
LEAST_SEEDS = 3  # of a paired interval that says something
OURS = ("mixture_tied", "mixture", "mixture_svd", "mixture_distilled")
THEIRS = ("deep_ensemble", "full_rank", "deterministic")
# Columns of out-of-distribution data, and rows of scores that any uncertainty has to beat.
OTHERS = {"clothes": "clothes", "letters": "letters", "windows": "photographs"}
DETECTORS = {
    "max_softmax": "max-softmax of the deterministic network",
    "energy": "energy of the deterministic network",
    "mahalanobis": "Mahalanobis distance of the deterministic network",
    "greyness": "less saturation (no network)",
    "darkness": "less brightness (no network)",
    "contrast": "more contrast (no network)",
    "roughness": "larger steps between pixels (no network)",
}
Records = Sequence[dict]

_LEAD = (
    "Residual networks on the 60,000 images of CIFAR-10: a deep ensemble of 4, one full-rank posterior and others "
    "against low-rank posteriors and mixtures of 4 of them. Plan, configurations, seeds and the order of work of "
    "every round were committed before its run (`singularbayes_experiments.problems.cifar10`). ResNet-9 is the wide "
    "network, whose matrices a low rank makes smaller; those of ResNet-20 have at most 576 × 64 entries."
)
_LESS = (
    "Less than the [protocol](../protocol.md) asks for: three or five configurations of a family, one tuning seed, at"
    " most three result seeds. SVD-initialised and distilled networks begin at the trained ensemble and train on, so "
    "they have seen more images than any other; they are compared by stored parameters, not by training cost. "
    "Components of a mixture were trained one after the other, not in one `Mixture`. Intervals are over seeds, not "
    "over other test images. The plan of each round was written with the results of those before in view; earlier "
    "rounds stand below."
)
_FOURTH = (
    "ResNet-9: three configurations of a family. With tied scales every column of A and of B has one scale instead of "
    "one for every entry, so twice the rank needs as many parameters; the networks begin at the SVDs of the deep "
    "ensemble, or (`outputs`) at what keeps most of the outputs of its layers, and train for as many epochs as were "
    "chosen for the ensemble. The library's posteriors store one scale for every entry; tied ones exist in this "
    "experiment alone. ResNet-20 and networks without the held-out classes have the settings and epochs of the third "
    "round; of these, methods and seeds that were not run again are those of the third round."
)
_THIRD = (
    "ResNet-20: three configurations of every family with 12 epochs; the epochs of the results are the most that the "
    "time allowed, the same for all, and half of them after the ensemble's for SVD-initialised networks. ResNet-9: "
    "configurations of the second round. A distilled network is an SVD-initialised one that trains for 32 epochs on "
    "the mean probabilities of the deep ensemble of its seed instead of labels; nothing of it was tuned. The ensemble"
    " had 24, the most that were tried for it, and no teacher. Networks without the held-out classes train for 12 "
    "epochs."
)
_SECOND = (
    "Five configurations of a family on ResNet-9: three rates, one with another weight decay, β or prior width, and "
    "the best of the four with 24 epochs instead of 16; one tuning seed. MC dropout and SWAG were cut before the run."
)
_FIRST = (
    "Three configurations of every method, one tuning seed with half the epochs. For the deterministic network only "
    "the rate was tuned, for the others only β (rank-one: the width of the prior) at one rate each; most choices lie "
    "at an edge of what was tried. ResNet-9 trains for 16 epochs, an SVD-initialised network for 6 more after the "
    "ensemble's 16. All components of a mixture draw with the same seeds of noise."
)
_CORRUPTED = (
    "Corrupted: the mean over eight corruptions at five severities, {images} test images each, with the constants of "
    "CIFAR-10-C but noise of our own, so numbers are not those of its published files."
)
_DETECTION = (
    "AUROC of out-of-distribution images against test images, by entropy (H) and mutual information (MI). Rows at the "
    "foot have one score, whatever the column; below one half the opposite direction detects."
)
_HELD_OUT = (
    "Held-out classes: ships and trucks, 2,000 test images, by networks trained without them, against the other 8,000."
)
_OTHER = (
    "Clothes (Fashion-MNIST) and letters (notMNIST) are grey on black, 2,000 of each; photographs are 456 windows of "
    "two pictures, a temple and a flower. Saturation alone detects clothes and letters, so these two say nothing about "
    "uncertainty."
)


def read_round(folder: Path, name: str) -> Records:
    """Returns the records of a round.

    The fourth adds seeds and methods to the third, on ResNet-20 and without the held-out classes, where the settings
    are the same: what it did not run of these is the third's.
    """
    own = read_lines(folder / name)
    if name != FOURTH:
        return own
    mine, earlier = (
        {(one["network"], one["held_out"], one["method"], one["seed"]): one for one in results(records)}
        for records in (own, read_lines(folder / THIRD))
    )
    shared = {key[:2] for key in mine if key[:2] != ("resnet9", False)}
    return own + [one for key, one in earlier.items() if key[:2] in shared and key not in mine]


def results(records: Records) -> list[dict]:
    return [one for one in records if one["stage"] == "result" and not one["diverged"]]


def scores(records: Records, network: str, method: str, part: str, score: str) -> dict[int, float]:
    """Returns a score by seed; those of the part "ood" are of networks without the held-out classes."""
    held_out = part == "ood"
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


def detection_table(records: Records, network: str = "resnet9") -> list[str]:
    """Returns the AUROC of held-out classes and of other data, with scores that need no posterior below."""
    columns = [name for name in ("held_out", *OTHERS) if detected(records, network, "deterministic", name)[0]]
    rows = []
    for method, name in NAMES.items():
        cells = [values for column in columns for values in detected(records, network, method, column)]
        if any(cells):
            rows.append(f"| {' | '.join([name, *map(_mean, cells), _counts(cells)])} |")
    for score, name in DETECTORS.items():
        values = [detector(records, network, column, score) for column in columns]
        if any(values):
            shown = [cell for each in values for cell in (_mean(each), "")]
            rows.append(f"| {' | '.join([name, *shown, _counts(values)])} |")
    titles = {"held_out": "held-out classes", **OTHERS}
    heads = [f"{titles[column]} ({by})" for column in columns for by in ("H", "MI")]
    return [f"| | {' | '.join([*heads, 'seeds'])} |", f"|---|{'---:|' * (len(heads) + 1)}", *rows] if rows else []


def _counts(cells: Sequence[Sequence[float]]) -> str:
    """Returns how many seeds the columns have, from left to right: 3, 2 where the first have three."""
    return ", ".join(map(str, dict.fromkeys(len(cell) for cell in cells if cell)))


def _detection_words(records: Records, network: str) -> str:
    """Returns what the columns of the table are, and whether a method is ahead of a plain score."""
    held_out, other = (detected(records, network, "deterministic", name)[0] for name in ("held_out", "clothes"))
    words = [_DETECTION, *([_HELD_OUT] if held_out else []), *([_OTHER] if other else [])]
    if held_out:
        every = {
            f"{name} ({by})": np.mean(values)
            for method, name in NAMES.items()
            for by, values in zip(("H", "MI"), detected(records, network, method, "held_out"), strict=True)
            if values
        }
        best = max(every, key=lambda name: every[name])
        energy = np.mean(detector(records, network, "held_out", "energy"))
        words.append(
            f"On held-out classes the best is {best} with {every[best]:.3f}; the energy of one deterministic network "
            f"has {energy:.3f}."
        )
    return " ".join(words)


def detected(records: Records, network: str, method: str, column: str) -> tuple[list[float], list[float]]:
    """Returns the AUROC of a method over seeds, by entropy and by mutual information."""
    if column == "held_out":
        by_entropy, by_mi = (scores(records, network, method, "ood", f"auroc_{score}") for score in ("entropy", "mi"))
        return list(by_entropy.values()), list(by_mi.values())
    own = [
        one["other"][column]
        for one in results(records)
        if (one["network"], one["method"], one["held_out"]) == (network, method, False)
        and column in one.get("other", {})
    ]
    first, second = ([one[score] for one in own if score in one] for score in ("auroc_entropy", "auroc_mi"))
    return first, second


def detector(records: Records, network: str, column: str, score: str) -> list[float]:
    """Returns the AUROC of a plain score over seeds; the first round had those of held-out classes alone."""
    found = []
    for one in results(records):
        own = one.get("detectors", {})
        own = own.get(column, own if one["held_out"] and column == "held_out" else {})
        if one["network"] == network and score in own:
            found.append(own[score])
    return found


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


def corruptions_table(records: Records, network: str = "resnet9") -> list[str]:
    """Returns the NLL of every corruption, the mean over severities and seeds."""
    columns: dict[str, dict[str, float]] = {}
    for method in NAMES:
        own = [
            one["corrupted_nll"]
            for one in results(records)
            if (one["network"], one["method"]) == (network, method) and "corrupted_nll" in one
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
    every = [one for one in records if one["stage"] == "tuning"]
    networks = list(dict.fromkeys(one.get("network", "resnet9") for one in every))
    for network in networks:
        for family, methods in plan.FAMILIES.items():
            tried = [one for one in every if (one.get("network", "resnet9"), one["family"]) == (network, family)]
            values = [np.inf if one["diverged"] else one["validation"]["nll"] for one in tried]
            for one, value in zip(tried, values, strict=True):
                shown = "diverged" if one["diverged"] else f"{value:.4f}"
                shown = f"**{shown}**" if value == min(values) < np.inf else shown
                names = " and ".join(NAMES[name] for name in methods)
                names = f"{NETWORKS[network]}, {names}" if len(networks) > 1 else names
                rows.append(f"| {names} | {_short(one['configuration'])} | {shown} |")
    return ["| | configuration | validation NLL |", "|---|---|---:|", *rows] if rows else []


def reproduction(records: Records) -> str:
    """Returns whether the deterministic ResNet-20 reaches the published accuracy."""
    found = [
        one["test"]["accuracy"]
        for one in records
        if one["stage"] in ("result", "reproduction")
        and (one["network"], one["method"]) == ("resnet20", "deterministic")
        and not one["diverged"]
        and one.get("epochs", plan.PUBLISHED_EPOCHS) == plan.PUBLISHED_EPOCHS
    ]
    low, high = PUBLISHED
    published = f"published are about {100 * low:.1f} to {100 * high:.1f} %"
    if not found:
        return (
            f"The deterministic ResNet-20 has no result, so nothing here reproduces a published number ({published})."
        )
    mean = float(np.mean(found))
    good = low - MARGIN <= mean <= high + MARGIN
    word = "which it reproduces" if good else "which it does not reproduce"
    after = f"{plan.PUBLISHED_EPOCHS} epochs ({_seeds(len(found))})"
    return (
        f"One deterministic ResNet-20 has an accuracy of {100 * mean:.2f} % after {after}; {published}, "
        f"{word} within {100 * MARGIN:.1f} points."
    )


def comparison(records: Records, ours: str, network: str = "resnet9") -> str:
    """Returns how a mixture compares with the deep ensemble and with full-rank; "" without results."""
    size, theirs = (parameters(records, network, method) for method in (ours, "deep_ensemble"))
    if size is None or theirs is None:
        return ""
    found = []
    for other, part in (("deep_ensemble", "test"), ("deep_ensemble", "corrupted"), ("full_rank", "test")):
        pairs = _pairs(records, network, ours, other, part)
        if pairs:
            mine, base = np.mean(pairs, axis=0)
            found.append(f"{part} NLL {mine:.3f} against {base:.3f} ({NAMES[other]}), {_side(pairs)}")
    name = NAMES[ours][0].upper() + NAMES[ours][1:]
    where = "" if network == "resnet9" else f" on {NETWORKS[network]}"
    return (
        f"{name}{where}, with {100 * size / theirs:.0f} % of the parameters of the deep ensemble: {'; '.join(found)}."
    )


def _side(pairs: Sequence[tuple[float, float]]) -> str:
    """Returns whether the first of pairs is lower or higher; of fewer than three seeds an interval says nothing."""
    mine, base = np.mean(pairs, axis=0)
    side = "higher" if mine > base else "lower"
    if len(pairs) < LEAST_SEEDS:
        return f"{side} ({_seeds(len(pairs))})"
    found = protocol.paired(*map(list, zip(*pairs, strict=True)))
    return side if found.high < 0 or found.low > 0 else f"{side}, though level"


def _seeds(count: int) -> str:
    return "one seed" if count == 1 else f"{count} seeds"


def single(records: Records) -> str:
    """Returns how one distilled low-rank network compares with the deterministic network; "" without results."""
    pairs = _pairs(records, "resnet9", "low_rank_distilled", "deterministic", "test")
    if not pairs:
        return ""
    sizes = [parameters(records, "resnet9", one) or 1 for one in ("low_rank_distilled", "deterministic")]
    mine, base = np.mean(pairs, axis=0)
    return (
        f"One distilled low-rank network, with {100 * sizes[0] / sizes[1]:.0f} % of the parameters of one "
        f"deterministic network: test NLL {mine:.3f} against {base:.3f}, {_side(pairs)}."
    )


def remark(folder: Path) -> str:
    """Returns which mixtures are worse than the ensemble, and than one deterministic network; "" if none is."""
    found = []
    for theirs, words in (("deep_ensemble", "the deep ensemble of 4"), ("deterministic", "one deterministic network")):
        lost = {one: few for one in OURS if (few := _lost(folder, one, theirs)) is not None}
        for some, verbs in (
            ([one for one in lost if not lost[one]], ("is worse", "are worse")),
            ([one for one in lost if lost[one]], ("has a higher mean NLL", "have a higher mean NLL")),
        ):
            names = [f"{NAMES[one]}{lost[one]}" for one in some]
            if names:
                listed = " and the ".join(filter(None, [", the ".join(names[:-1]), names[-1]]))
                found.append(f"the {listed} {verbs[len(names) > 1]} than {words}")
    text = ", and ".join(found)
    return f"Not among these data sets: on [CIFAR-10]({PAGE}), ResNet-9 with less tuning, {text}." if found else ""


def _lost(folder: Path, ours: str, theirs: str) -> str | None:
    """Returns None unless the test NLL on ResNet-9 is higher with all seeds; if few, how many; or level."""
    records = _latest(folder, ours)
    if difference(records, "resnet9", ours, theirs, "test").endswith(" worse"):
        return ""
    pairs = _pairs(records, "resnet9", ours, theirs, "test")
    if not pairs or any(mine <= base for mine, base in pairs):
        return None
    return f" ({_seeds(len(pairs))})" if len(pairs) < LEAST_SEEDS else " (level)"


def losses(folder: Path) -> list[str]:
    """Returns where mixtures have a higher NLL than the deep ensemble with all seeds, a line each."""
    found = []
    for network, title in NETWORKS.items():
        for ours in OURS:
            for part in ("test", "corrupted"):
                its = _latest(folder, ours, network)
                pairs = _pairs(its, network, ours, "deep_ensemble", part)
                cell = difference(its, network, ours, "deep_ensemble", part)
                if pairs and all(mine > base for mine, base in pairs):
                    shown = cell.removesuffix(" worse").removesuffix(" (one seed)")
                    if len(pairs) < LEAST_SEEDS:
                        shown = f"{shown.split(' [')[0]} ({_seeds(len(pairs))})"
                    elif not cell.endswith(" worse"):
                        shown += ", level"
                    found.append(
                        f"- [CIFAR-10]({PAGE}), {title}, {part} images: {NAMES[ours]} against "
                        f"{NAMES['deep_ensemble']}: NLL {shown}"
                    )
    return found


def _latest(folder: Path, method: str, network: str = "resnet9") -> Records:
    """Returns the records of the last round in which a method has results on a network."""
    every = [read_round(folder, name) for name in ROUNDS]
    return next((records for records in every if scores(records, network, method, "test", "nll")), every[-1])


def own_page(runs: Path) -> dict[str, OwnPage]:
    """Returns the page of the records below a folder of results by its file name; none where there are none."""
    folder = runs / FOLDER
    return {PAGE: OwnPage(page(folder), losses(folder), remark(folder))} if folder.is_dir() else {}


def page(folder: Path) -> str:
    """Returns the page from a folder of records; it says so where there are none."""
    rounds = {name: read_round(folder, name) for name in ROUNDS}
    done = {name: records for name, records in rounds.items() if results(records)}
    lines = [f"# {TITLE}", "", _LEAD, "", _LESS, ""]
    if not done:
        return "\n".join([*lines, "No results yet.", ""])
    latest = next(iter(done))
    lines += [reproduction([one for each in reversed(done.values()) for one in each]), ""]
    for ours in OURS:
        its = _latest(folder, ours)
        sentence = comparison(its, ours)
        which = next((name for name, records in done.items() if records == its), latest)
        said = "" if which == latest else f"{ROUNDS[which].capitalize()} round. "
        lines += [f"- {said}{sentence}"] if sentence else []
    for ours in OURS:
        sentence = comparison(_latest(folder, ours, "resnet20"), ours, "resnet20")
        lines += [f"- {sentence}"] if sentence else []
    alone = single(_latest(folder, "low_rank_distilled"))
    lines += [f"- {alone}"] if alone else []
    lines += ["", *_left_out(done)]
    for name, records in done.items():
        words = {
            FOURTH: [f"{_FOURTH}{_by_seed(records)}", ""],
            THIRD: [_THIRD, ""],
            SECOND: [_SECOND, ""],
            "": [_FIRST, ""],
        }[name]
        if name == latest:
            lines += [*(words if name in WORK else []), *_round(folder / name, records, "## {}")]
        else:
            lines += ['<details markdown="1">', f"<summary>The {ROUNDS[name]} round</summary>", "", *words]
            lines += [*_round(folder / name, records, "**{}**"), "</details>", ""]
    return "\n".join(lines)


def _by_seed(records: Records) -> str:
    """Returns the test NLL of the mixture with tied scales seed by seed: they differ by much."""
    nll = scores(records, "resnet9", "mixture_tied", "test", "nll")
    shown = ", ".join(f"{nll[seed]:.3f}" for seed in sorted(nll))
    return f" The test NLL of the mixture with tied scales is {shown}, one number per seed." if nll else ""


def _left_out(done: Mapping[str, Records]) -> list[str]:
    """Returns what only earlier rounds have results of, and families all of whose configurations diverged."""
    found = []
    for name, records in done.items():
        for family, methods in plan.FAMILIES.items():
            every = [one for one in records if one["stage"] == "tuning" and one["family"] == family]
            for network in dict.fromkeys(one.get("network", "resnet9") for one in every):
                tried = [one for one in every if one.get("network", "resnet9") == network]
                if all(one["diverged"] for one in tried):
                    rates = sorted({one["settings"]["rate"] for one in tried})
                    names = " and ".join(NAMES[each] for each in methods)
                    found.append(
                        f"All {len(tried)} configurations of {names} on {NETWORKS[network]} diverged in the "
                        f"{ROUNDS[name]} round, with rates from {rates[0]:g} to {rates[-1]:g}."
                    )
    keys = {
        f"{NAMES[method]} on {title}": (network, method, "test", "nll")
        for network, title in NETWORKS.items()
        for method in NAMES
    }
    keys["held-out classes"] = ("resnet9", "deterministic", "ood", "auroc_entropy")
    rounds = list(done)
    for i, name in enumerate(rounds[1:], start=1):
        absent = [
            what
            for what, key in keys.items()
            if scores(done[name], *key) and not any(scores(done[later], *key) for later in rounds[:i])
        ]
        if absent:
            found.append(f"Not run again, with results of the {ROUNDS[name]} round: {', '.join(absent)}.")
    return [" ".join(found), ""] if found else []


def _round(folder: Path, records: Records, heading: str) -> list[str]:
    """Returns all tables of one round, below headings of that form."""
    lines = []
    for network, title in NETWORKS.items():
        table = results_table(records, network)
        if table:
            images = f"{CORRUPTED_IMAGES[network] if folder.name in WORK else 2000:,}"
            lines += [heading.format(title), "", *table, ""]
            lines += [
                f"Mean ± standard error over seeds; without ± there is one. {_CORRUPTED.format(images=images)}"
                f"{_epochs(records, network)}",
                "",
            ]
            lines += _titled("Paired differences over seeds, 95 % t intervals:", differences_table(records, network))
    for network, title in NETWORKS.items():
        lines += _titled(
            f"{heading.format(f'Out-of-distribution images, {title}')}\n\n{_detection_words(records, network)}",
            detection_table(records, network),
        )
    for network, title in NETWORKS.items():
        lines += _titled(
            f"{heading.format(f'Corruptions, {title}')}\n\nNLL, the mean over five severities:",
            corruptions_table(records, network),
        )
    lines += _titled(
        f"{heading.format('What was tuned')}\n\nNLL of 5,000 validation images, one seed; bold is what results were "
        "run with:",
        tuning_table(records),
    )
    unreached = _unreached(records, WORK[folder.name]) if folder.name in WORK else []
    return [*lines, _diverged(records), *unreached, *_ranks(records), _made_with(folder), ""]


def _epochs(records: Records, network: str) -> str:
    """Returns the epochs of a network where the time decided them."""
    found = [one["epochs"] for one in records if one["stage"] == "epochs" and one["network"] == network]
    return f" Networks were trained for {found[0]} epochs." if found else ""


def _titled(title: str, table: list[str]) -> list[str]:
    return [title, "", *table, ""] if table else []


def _ranks(records: Records) -> list[str]:
    tied = {one["network"] for one in results(records) if one.get("family") == "tied"}
    lines = [
        f"Ranks with tied scales of {NETWORKS[network]}, first layer first: "
        f"{', '.join(map(str, plan.TIED_RANKS[network]))}."
        for network in sorted(tied)
    ]
    return [
        *(line for each in lines for line in (each, "")),
        *_ranks_found(records),
    ]


def _ranks_found(records: Records) -> list[str]:
    return [
        line
        for one in records
        if one["stage"] == "ranks"
        for line in (
            f"Ranks of {NETWORKS[one['network']]}, first layer first: {', '.join(map(str, one['ranks']))}.",
            "",
        )
    ]


def _unreached(records: Records, work: Sequence[plan.Piece]) -> list[str]:
    """Returns what the plan of a round has and the time did not allow."""
    lost: dict[str, list[int]] = {}
    for piece in work:
        stage = "result" if piece.epochs is None else "reproduction"
        for method, own in plan.FAMILIES[piece.family].items():
            there = any(
                (one["stage"], one["network"], one["method"], one["held_out"], one["seed"])
                == (stage, piece.network, method, piece.held_out, piece.seed)
                for one in records
                if one["stage"] == stage
            )
            if piece.seed is not None and own.members <= piece.members and not there:
                more = f" with {piece.epochs} epochs" if piece.epochs else ""
                more += " without the held-out classes" if piece.held_out else ""
                lost.setdefault(f"{NAMES[method]} on {NETWORKS[piece.network]}{more}", []).append(piece.seed)
    parts = [f"{name} ({', '.join(map(str, seeds))})" for name, seeds in lost.items()]
    return [f"Planned and not reached, with their seeds: {'; '.join(parts)}.", ""] if parts else []


def _diverged(records: Records) -> str:
    lost = [one for one in records if one["stage"] == "result" and one["diverged"]]
    names = ", ".join(f"{NAMES[one['method']]} on {NETWORKS[one['network']]} with seed {one['seed']}" for one in lost)
    return f"Diverged, and not in the tables: {names}.\n" if lost else "No result run diverged.\n"


def _made_with(folder: Path) -> str:
    about = json.loads((folder / "run.json").read_text())
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    machine = about["machine"].get("accelerator", about["machine"]["cpu"])
    commit = f"; commit {about['commit']}" if "commit" in about else ""
    where = f"{FOLDER}/{folder.name}" if folder.name in ROUNDS else FOLDER
    made = f"Records: `experiments/results/{where}`, made by `{about['command']}`"
    return f"{made} with {versions}, on {machine}{commit}."


def _short(name: str) -> str:
    return name.replace("rho_rate", "ρ rate").replace("outputs 1", "outputs").replace("beta", "β").replace("eta", "η")


def _mean(values: Sequence[float]) -> str:
    if not values:
        return "–"
    several = len(values) > 1 and max(values) > min(values)  # a detector without a network has one value
    error = f" ± {np.std(values, ddof=1) / np.sqrt(len(values)):.4f}" if several else ""
    return f"{np.mean(values):.4f}{error}"


def _signed(value: float) -> str:
    return ("−" if round(value, 4) < 0 else "+") + f"{abs(value):.4f}"


if __name__ == "__main__":
    ROOT = Path(__file__).parents[4]
    (ROOT / "docs" / "results" / PAGE).write_text(page(ROOT / "experiments" / "results" / FOLDER))
