"""The page of the experiment on CIFAR-10, made from its records alone.

`singularbayes-experiments report experiments/results --markdown docs/results` writes it with all other pages; a test
holds page and records equal.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from singularbayes_experiments.problems import cifar10 as plan
from singularbayes_experiments.problems.cifar10 import CORRUPTED as CORRUPTED_IMAGES
from singularbayes_experiments.report.cifar10_scores import (
    FIFTH,
    FOURTH,
    NAMES,
    NETWORKS,
    OURS,
    ROUNDS,
    SECOND,
    THIRD,
    WORK,
    Records,
    detected,
    detector,
    latest_round,
    latest_rounds,
    of_networks,
    read_round,
    results,
    round_of,
    scores,
)
from singularbayes_experiments.report.cifar10_sentences import (
    FOLDER,
    PAGE,
    by_component,
    by_seed,
    comparison,
    first_component_worse,
    losses,
    nominal_pairs,
    remark,
    reproduction,
    single,
    trained_epochs,
)
from singularbayes_experiments.report.cifar10_tables import (
    corruptions_table,
    detection_table,
    differences_table,
    results_table,
    tuning_table,
)
from singularbayes_experiments.report.markdown_page import OwnPage
from singularbayes_experiments.runs.cifar10_records import read_lines

TITLE = "CIFAR-10"
# Methods whose networks start at trained ones.
STARTED: tuple[str, ...] = ("low_rank_svd", "mixture_svd", "low_rank_tied", "mixture_tied", "swag")
STARTED += ("low_rank_distilled", "mixture_distilled")
COUNTED = ("no", "one", "two", "three", "four", "five", "six")

_LEAD = (
    "Residual networks on the 60,000 images of CIFAR-10: a deep ensemble of 4, one full-rank posterior and others "
    "against low-rank posteriors and mixtures of 4 of them. Plan, configurations, seeds and the order of work of "
    "every round were committed before its run (`singularbayes_experiments.problems.cifar10`). ResNet-9 is the wide "
    "network, whose matrices a low rank makes smaller; those of ResNet-20 have at most 576 × 64 entries."
)
_LESS = (
    "This is less than the [protocol](../protocol.md) asks for: three or five configurations of a family, one tuning "
    "seed, at most three result seeds. SVD-initialised and distilled networks start at the trained ensemble and train "
    "on, so they have seen more images than any other. Methods are compared by stored parameters, not by training "
    "cost. The components of a mixture were trained one after the other, not in one `Mixture`. Intervals are over "
    "seeds, not over other test images. The plan of each round was written with the results of the earlier ones in "
    "view. Earlier rounds are below."
)
_FIFTH = (
    "ResNet-20 has the settings and ranks of the third round, found with 12 epochs, and trains for 64. MC dropout and "
    "the rate of SWAG are tuned here, three configurations each with 24 epochs. SWAG starts at the first members of "
    "the ensembles."
)
_FOURTH_RESNET9 = (
    "ResNet-9 has three configurations of a family. With tied scales, every column of A and of B has one scale instead "
    "of one per entry, so the same number of parameters allows twice the rank. These networks start at the SVDs of the "
    "deep ensemble, or (`outputs`) at factors that keep most of the outputs of its layers. They train for as many "
    "epochs as were chosen for the ensemble. The library's posteriors store one scale per entry: tied scales exist in "
    "this experiment alone. Networks without the held-out classes have the settings and epochs of the third round, and "
    "where the fourth did not run a method again the table has that of the third."
)
_FOURTH_RESNET20 = (
    "ResNet-20 has the settings and epochs of the third round. Where the fourth did not run one of its methods or "
    "seeds again, the table has that of the third."
)
_THIRD = (
    "ResNet-20 has three configurations of every family, tuned with 12 epochs. The results have as many epochs as the "
    "time allowed, the same for all methods; SVD-initialised networks train for half as many, after the ensemble's. "
    "ResNet-9 has the configurations of the second round. A distilled network is an SVD-initialised one that trains "
    "for 32 epochs on the mean probabilities of the deep ensemble of its seed instead of labels. Nothing of it was "
    "tuned. The ensemble had 24 epochs, the most that were tried for it, and no teacher. Networks without the held-out "
    "classes train for 12 epochs."
)
_SECOND = (
    "A family has five configurations on ResNet-9: three rates; one with another weight decay, β or prior width; and "
    "the best of these four with 24 epochs instead of 16. There is one tuning seed. MC dropout and SWAG were cut "
    "before the run."
)
_FIRST = (
    "Every method has three configurations, tuned with one seed and half the epochs. For the deterministic network "
    "only the learning rate was tuned. The others have one rate each, and β was tuned (for rank-one, the width of the "
    "prior). Most choices lie at an edge of what was tried. ResNet-9 trains for 16 epochs, an SVD-initialised network "
    "for 6 more after the ensemble's 16. All components of a mixture draw with the same seeds of noise."
)
_CORRUPTED = (
    "Corrupted: the mean over eight corruptions at five severities, {images} test images each, with the constants of "
    "CIFAR-10-C but noise of our own, so numbers are not those of its published files."
)
_DETECTION = (
    "AUROC of out-of-distribution images against test images, by entropy (H) and mutual information (MI). The last "
    "rows have one score, whatever the column; below one half the opposite direction detects."
)
_HELD_OUT = (
    "Held-out classes: ships and trucks, 2,000 test images, by networks trained without them, against the other 8,000."
)
_OTHER = (
    "Clothes (Fashion-MNIST) and letters (notMNIST) are grey on black, 2,000 of each; photographs are 456 windows of "
    "two pictures, a temple and a flower. Saturation alone detects clothes and letters, so these two say nothing about "
    "uncertainty."
)


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


def own_page(runs: Path) -> dict[str, OwnPage]:
    """Returns the page of the records below a folder of results by its file name; none where there are none."""
    folder = runs / FOLDER
    if not folder.is_dir():
        return {}
    return {PAGE: OwnPage(page(folder), losses(folder), remark(folder), (TITLE, disclosures(folder)))}


def disclosures(folder: Path) -> list[str]:
    """Returns what a sceptic should know: how settings were found, and what makes single numbers uncertain."""
    rounds = [name for name in ROUNDS if results(read_round(folder, name))]
    worse, nominal = first_component_worse(folder), nominal_pairs(folder)
    return [
        f"There were {COUNTED[len(rounds)]} rounds. For each, a plan that was committed before the run fixed what was "
        "tried, all other settings and the order of work. Each was written with the test results of the earlier ones "
        "in view.",
        "In the first, three configurations of every method differ in one setting alone: the learning rate of "
        "deterministic networks, β of the others, the prior's width of rank-one. In the second a family has five: "
        "three rates, another weight decay, β or prior width, and longer training. In the third, on ResNet-20, it has "
        "three, in the fourth, on ResNet-9, three again, and in the fifth, on ResNet-20, those of the third.",
        "Every round has one tuning seed, the first, third and fifth with fewer epochs than the results, and at most "
        "three result seeds, the third mostly fewer. That is less than the [protocol](../protocol.md) asks for. "
        "SVD-initialised and distilled networks are trained after the ensemble they start at, so longer in all than "
        "the others. Distilled ones learn from its probabilities, which no other method does.",
        "The mixture with tied scales was planned when the results of three rounds were known. Its posteriors exist "
        f"in this experiment alone, not in the library.{f' {worse}' if worse else ''}",
        *([nominal] if nominal else []),
    ]


def _words(name: str, networks: Collection[str], records: Records) -> list[str]:
    """Returns how the networks of a round were tuned and trained."""
    fourth = {"resnet9": f"{_FOURTH_RESNET9}{by_seed(records)}", "resnet20": _FOURTH_RESNET20}
    words = {
        FIFTH: [f"{_FIFTH}{by_component(records)}"],
        FOURTH: [fourth[network] for network in NETWORKS if network in networks],
        THIRD: [_THIRD],
        SECOND: [_SECOND],
        "": [_FIRST],
    }[name]
    return [" ".join(words), ""]


def page(folder: Path) -> str:
    """Returns the page from a folder of records; it says so where there are none."""
    rounds = {name: read_round(folder, name) for name in ROUNDS}
    done = {name: records for name, records in rounds.items() if results(records)}
    lines = [f"# {TITLE}", "", _LEAD, "", _LESS, ""]
    if not done:
        return "\n".join([*lines, "No results yet.", ""])
    tops = latest_rounds(folder)
    lines += [reproduction(folder), ""]
    for ours in OURS:
        sentence = comparison(folder, ours)
        which = round_of(folder, latest_round(folder, ours))
        said = "" if which == ROUNDS[tops.get("resnet9", "")] else f"{which.capitalize()} round. "
        lines += [f"- {said}{sentence}"] if sentence else []
    for ours in OURS:
        sentence = comparison(folder, ours, "resnet20")
        lines += [f"- {sentence}"] if sentence else []
    alone = single(latest_round(folder, "low_rank_distilled"))
    lines += [f"- {alone}"] if alone else []
    lines += ["", *_rounds_table(folder), *_all_diverged(done)]
    for name in dict.fromkeys(tops.values()):  # ResNet-9 first
        above = [network for network, latest in tops.items() if latest == name]
        records = of_networks(done[name], above)
        lines += _round(folder / name, records, "## {}", _words(name, above, records) if name in WORK else [])
    for name, records in done.items():
        below = [network for network in NETWORKS if tops.get(network) != name]
        rest = of_networks(records, below)
        if results(rest):
            lines += ['<details markdown="1">', f"<summary>{_summary(name, records, rest)}</summary>", ""]
            lines += [*_words(name, below, rest), *_round(folder / name, rest, "**{}**", []), "</details>", ""]
    return "\n".join(lines)


def _summary(name: str, records: Records, rest: Records) -> str:
    """Returns the words for a round, and for its network where the other one is above."""
    few = {one["network"] for one in results(rest)} != {one["network"] for one in results(records)}
    shown = ", ".join(NETWORKS[network] for network in NETWORKS if network in {one["network"] for one in results(rest)})
    return f"The {ROUNDS[name]} round{f', {shown}' if few else ''}"


def _rounds_table(folder: Path) -> list[str]:
    """Returns the table of the last round in which each method was run; none where there was one round."""
    done = {name: records for name in ROUNDS if results(records := read_lines(folder / name))}

    def last(network: str, method: str, part: str = "test", score: str = "nll") -> str:
        return next((ROUNDS[name] for name in done if scores(done[name], network, method, part, score)), "–")

    if len(done) < 2:
        return []
    rows = {name: [last(network, method) for network in NETWORKS] for method, name in NAMES.items()}
    rows["held-out classes"] = [last(network, "deterministic", "ood", "auroc_entropy") for network in NETWORKS]
    shown = [f"| {' | '.join([name, *cells])} |" for name, cells in rows.items() if set(cells) != {"–"}]
    heads = [f"| last run in round | {' | '.join(NETWORKS.values())} |", f"|---|{'---|' * len(NETWORKS)}"]
    return [*heads, *shown, ""]


def _all_diverged(done: Mapping[str, Records]) -> list[str]:
    """Returns the families all of whose configurations diverged in a round."""
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
    return [" ".join(found), ""] if found else []


def _round(folder: Path, records: Records, heading: str, words: Sequence[str]) -> list[str]:
    """Returns all tables of one round, below headings of that form; `words` come below the first."""
    lines: list[str] = []
    for network, title in NETWORKS.items():
        table = results_table(records, network)
        if table:
            images = f"{CORRUPTED_IMAGES[network] if folder.name in WORK else 2000:,}"
            lines += [heading.format(title), "", *(words if not lines else []), *table, ""]
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
    there = " and ".join(title for network, title in NETWORKS.items() if results_table(records, network))
    title = heading.format(f"What was tuned, {there}")
    lines += _titled(
        f"{title}\n\nNLL of 5,000 validation images, one seed; bold is what results were run with:",
        tuning_table(records),
    )
    networks = {one["network"] for one in results(records)}
    work = [piece for piece in WORK.get(folder.name, ()) if piece.network in networks]
    unreached = _unreached(records, work)
    return [*lines, _diverged(records), *unreached, *_ranks(records), _made_with(folder), ""]


def _epochs(records: Records, network: str) -> str:
    """Returns the epochs of a network, and of methods that start at a trained one."""
    epochs = trained_epochs(records, network)
    more: dict[int, list[str]] = {}
    for one in results(records):
        if (one["network"], one["held_out"]) == (network, False) and one["method"] in STARTED and "epochs" in one:
            names = more.setdefault(one["epochs"], [])
            names += [NAMES[one["method"]]] if NAMES[one["method"]] not in names else []
    shown = "".join(f"; {' and '.join(names)} for {number} more" for number, names in more.items())
    return f" Networks were trained for {epochs} epochs{shown}." if epochs else ""


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
