"""The rounds of the experiment on CIFAR-10, each with all its tables: parts of its page that are folded."""

import json
from collections.abc import Collection
from pathlib import Path

import numpy as np

from singularbayes_experiments.problems import cifar10 as plan
from singularbayes_experiments.problems.cifar10 import CORRUPTED as CORRUPTED_IMAGES
from singularbayes_experiments.report.cifar10_scores import (
    FIFTH,
    FOURTH,
    NAMES,
    NETWORKS,
    ROUNDS,
    SECOND,
    THIRD,
    WORK,
    Records,
    count_seeds,
    detected,
    detector,
    results,
)
from singularbayes_experiments.report.cifar10_sentences import FOLDER, by_component, by_seed, trained_epochs
from singularbayes_experiments.report.cifar10_tables import (
    corruptions_table,
    detection_table,
    differences_table,
    results_table,
    tuning_table,
)

# Methods whose networks start at trained ones.
STARTED: tuple[str, ...] = ("low_rank_svd", "mixture_svd", "low_rank_tied", "mixture_tied", "swag")
STARTED += ("low_rank_distilled", "mixture_distilled")
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
    "Clothes (Fashion-MNIST) and letters (notMNIST) are grey on black, 2,000 of each. Saturation alone detects them: "
    "they say nothing about uncertainty. Photographs are 456 windows of two pictures, a temple and a flower, so "
    "their standard errors say nothing about other photographs."
)


def detection_words(records: Records, network: str) -> str:
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
    else:
        words += _held_out_alone(records, network)
    return " ".join(words)


def _held_out_alone(records: Records, network: str) -> list[str]:
    """Returns the AUROC of held-out classes of methods that have nothing to be compared with."""
    found = {name: detected(records, network, method, "held_out") for method, name in NAMES.items()}
    shown = [
        f"{name}, {np.mean(first):.3f} (H) and {np.mean(second):.3f} (MI), {count_seeds(len(first))}"
        for name, (first, second) in found.items()
        if first and second
    ]
    if not shown:
        return []
    return [f"Networks without ships and trucks were trained of one method alone: {'; '.join(shown)}."]


def round_details(folder: Path, name: str, records: Records, above: Collection[str] = ()) -> list[str]:
    """Returns all tables of a round, folded; those of detection on the networks `above` are left out."""
    there = [network for network in NETWORKS if results_table(records, network)]
    lines = ['<details markdown="1">', f"<summary>The {ROUNDS[name]} round, all tables</summary>", ""]
    lines += [*_words(name, there, records)]
    for network in there:
        images = f"{CORRUPTED_IMAGES[network] if name in WORK else 2000:,}"
        note = f"{_CORRUPTED.format(images=images)}{_epochs(records, network)}"
        lines += _titled(f"**{NETWORKS[network]}**", results_table(records, network))
        lines += [f"Mean ± standard error over seeds; without ± there is one. {note}", ""]
        lines += _titled("Paired differences over seeds, 95 % t intervals:", differences_table(records, network))
        if network not in above:
            title = f"**Out-of-distribution images, {NETWORKS[network]}**\n\n{detection_words(records, network)}"
            lines += _titled(title, detection_table(records, network))
        title = f"**Corruptions, {NETWORKS[network]}**\n\nNLL, the mean over five severities:"
        lines += _titled(title, corruptions_table(records, network))
    shown = " and ".join(NETWORKS[network] for network in there)
    tuned = "NLL of 5,000 validation images, one seed; bold is what results were run with:"
    lines += _titled(f"**What was tuned, {shown}**\n\n{tuned}", tuning_table(records))
    lines += [_diverged(records), *unreached(name, records), *_ranks(records), _made_with(folder / name), ""]
    return [*lines, "</details>", ""]


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
    return [*(line for each in lines for line in (each, "")), *_ranks_found(records)]


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


def unreached(name: str, records: Records) -> list[str]:
    """Returns what the plan of a round has and the time did not allow."""
    networks = {one["network"] for one in results(records)}
    work = [piece for piece in WORK.get(name, ()) if piece.network in networks]
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
