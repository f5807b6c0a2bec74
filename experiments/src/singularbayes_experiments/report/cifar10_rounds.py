"""The rounds of the experiment on CIFAR-10, each with all its tables: parts of its page that are folded."""

import json
from collections.abc import Collection
from pathlib import Path

from singularbayes_experiments.problems import cifar10 as plan
from singularbayes_experiments.problems.cifar10 import CORRUPTED as CORRUPTED_IMAGES
from singularbayes_experiments.report.cifar10_detection import detection_table, detection_words
from singularbayes_experiments.report.cifar10_differences import differences_table
from singularbayes_experiments.report.cifar10_left_out import diverged
from singularbayes_experiments.report.cifar10_scores import (
    FIFTH,
    FOURTH,
    NAMES,
    NETWORKS,
    ROUNDS,
    SECOND,
    THIRD,
    Records,
    epochs_of,
)
from singularbayes_experiments.report.cifar10_sentences import FOLDER
from singularbayes_experiments.report.cifar10_settings import tuning_table
from singularbayes_experiments.report.cifar10_tables import corruptions_table, results_table
from singularbayes_experiments.report.text import folded

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
    "tuned. The ensemble had 24 epochs and no teacher. Networks without the held-out classes train for 12 epochs."
)
_SECOND = (
    "A family has five configurations on ResNet-9: three rates; one with another weight decay, β or prior width; and "
    "the best of these four with 24 epochs instead of 16. There is one tuning seed. MC dropout and SWAG were cut "
    "before the run."
)
_FIRST = (
    "Every method has three configurations, tuned with one seed and half the epochs. For the deterministic network "
    "only the learning rate was tuned. The others have one rate each, and β was tuned (for rank-one, the width of the "
    "prior). ResNet-9 trains for 16 epochs, an SVD-initialised network "
    "for 6 more after the ensemble's 16. All components of a mixture draw with the same seeds of noise."
)
_CORRUPTED = (
    "Corrupted: the mean over eight corruptions at five severities, {images} test images each, with the constants of "
    "CIFAR-10-C but noise of our own, so numbers are not those of its published files."
)


def round_details(folder: Path, name: str, records: Records, above: Collection[str] = ()) -> list[str]:
    """Returns all tables of a round, folded; those of detection on the networks `above` are left out."""
    there = [network for network in NETWORKS if results_table(records, network)]
    lines = _words(name, there)
    for network in there:
        few = name in (THIRD, FOURTH, FIFTH)
        note = _CORRUPTED.format(images=f"{CORRUPTED_IMAGES[network] if few else 2000:,}") + _epochs(records, network)
        lines += titled(f"**{NETWORKS[network]}**", results_table(records, network))
        lines += [f"Mean ± standard error over seeds; without ± there is one. {note}", ""]
        lines += titled(
            "Paired differences over seeds, 95 % t intervals where there are three seeds:",
            differences_table(records, network),
        )
        if network not in above:
            title = f"**Out-of-distribution images, {NETWORKS[network]}**\n\n{detection_words(records, network)}"
            lines += titled(title, detection_table(records, network))
        title = f"**Corruptions, {NETWORKS[network]}**\n\nNLL, the mean over five severities:"
        lines += titled(title, corruptions_table(records, network))
    lines += titled("**What was tuned**\n\nNLL of 5,000 validation images, one seed:", tuning_table(records))
    lines += [diverged(records), "", _made_with(folder / name), ""]
    return folded(f"The {ROUNDS[name]} round, all tables", lines)


def _words(name: str, networks: Collection[str]) -> list[str]:
    """Returns how the networks of a round were tuned and trained."""
    fourth = {"resnet9": _FOURTH_RESNET9, "resnet20": _FOURTH_RESNET20}
    words = {
        FIFTH: [_FIFTH],
        FOURTH: [fourth[network] for network in NETWORKS if network in networks],
        THIRD: [_THIRD],
        SECOND: [_SECOND],
        "": [_FIRST],
    }[name]
    return [" ".join(words), ""]


def _epochs(records: Records, network: str) -> str:
    """Returns the epochs of a network, and of methods that start at a trained one."""
    epochs = epochs_of(records, network, "deterministic")
    more: dict[int, list[str]] = {}
    for method, name in NAMES.items():
        own = epochs_of(records, network, method)
        if plan.METHODS[method].starts_at_trained and own is not None:
            more.setdefault(own, []).append(name)
    shown = "".join(f"; {' and '.join(names)} for {number} more" for number, names in more.items())
    return f" Networks were trained for {epochs} epochs{shown}." if epochs else ""


def titled(title: str, table: list[str]) -> list[str]:
    """Returns a table below its title; nothing without a table."""
    return [title, "", *table, ""] if table else []


def _made_with(folder: Path) -> str:
    about = json.loads((folder / "run.json").read_text())
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    machine = about["machine"].get("accelerator", about["machine"]["cpu"])
    commit = f"; commit {about['commit']}" if "commit" in about else ""
    where = f"{FOLDER}/{folder.name}" if folder.name in ROUNDS else FOLDER
    made = f"Records: `experiments/results/{where}`, made by `{about['command']}`"
    return f"{made} with {versions}, on {machine}{commit}."
