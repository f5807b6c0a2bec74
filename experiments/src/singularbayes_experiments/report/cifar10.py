"""The page of the experiment on CIFAR-10, made from its records alone.

`singularbayes-experiments report experiments/results --markdown docs/results` writes it with all other pages; a test
compares it with the records.
"""

from collections.abc import Mapping
from pathlib import Path

from singularbayes_experiments.problems import cifar10 as plan
from singularbayes_experiments.report.cifar10_overview import COUNTED, FIGURE, figure, overview_table, sentence
from singularbayes_experiments.report.cifar10_rounds import detection_words, round_details, unreached
from singularbayes_experiments.report.cifar10_scores import (
    FIFTH,
    FOURTH,
    NAMES,
    NETWORKS,
    ROUNDS,
    SECOND,
    THIRD,
    Records,
    latest_rounds,
    of_networks,
    read_round,
    results,
)
from singularbayes_experiments.report.cifar10_sentences import (
    FOLDER,
    PAGE,
    by_component,
    by_seed,
    first_component_worse,
    losses,
    nominal_pairs,
    remark,
    reproduction,
)
from singularbayes_experiments.report.cifar10_tables import detection_table
from singularbayes_experiments.report.markdown_page import OwnPage

TITLE = "CIFAR-10"

_LEAD = (
    "Residual networks on the 60,000 images of CIFAR-10: low-rank posteriors and mixtures of 4 of them beside a deep "
    "ensemble of 4, one full-rank posterior and others. ResNet-9 is the wide network, whose matrices a low rank makes "
    "smaller; those of ResNet-20 have at most 576 × 64 entries."
)
_LESS = (
    "This is less than the [protocol](../protocol.md) asks for: three or five configurations of a family, one tuning "
    "seed, at most three result seeds. SVD-initialised and distilled networks start at the trained ensemble and train "
    "on, so they have seen more images than any other. Methods are compared by stored parameters, not by training "
    "cost. The components of a mixture were trained one after the other, not in one `Mixture`. Intervals are over "
    "seeds, not over other test images."
)
_CELLS = (
    "A row is the last round in which the method was run, and it is compared with the deep ensemble of that round, "
    "seed by seed: rounds differ in epochs, [below](#rounds). Means ± standard error over seeds. Better and worse: the "
    "95 % t interval of the paired differences excludes 0; with three seeds it is wide. Corrupted: eight corruptions "
    "at five severities, with the constants of CIFAR-10-C but noise of our own, so numbers are not those of its "
    "published files."
)
_FIGURE = (
    "NLL of test images on the left and of corrupted ones on the right, with standard errors over seeds, in the order "
    "of the test NLL. Low-rank networks are blue. As in the tables, a row is the last round of its method; the line is "
    "the deep ensemble of its last round. Behind a name are its stored parameters."
)
_TIED = (
    "Tied scales: one scale per column of A and of B, in this experiment alone. Distilled: trained on the mean "
    "probabilities of the ensemble instead of labels."
)
_ROUNDS = (
    "Plan, configurations, seeds and the order of work of a round were committed before its run "
    "(`singularbayes_experiments.problems.cifar10`), with the results of the earlier rounds in view. A piece of "
    "work is begun only if it fits into the minutes that are left. So the fifth round has short runs of SWAG, and not "
    "the longer ones of methods that come before it in the plan."
)
_ROUND = {
    "": "First: ResNet-9 with 16 epochs, all methods but MC dropout and SWAG; one ResNet-20 with 100 epochs.",
    SECOND: "Second: ResNet-9 with 24 epochs, five configurations per family instead of three.",
    THIRD: (
        "Third: ResNet-20 with 16 epochs, which is too few; on ResNet-9 distilled networks, MC dropout, and networks "
        "without the held-out classes, with 12 epochs."
    ),
    FOURTH: "Fourth: ResNet-9 with tied scales, SWAG, 24 epochs; more seeds of ResNet-20 with 16 epochs.",
    FIFTH: "Fifth: ResNet-20 with 64 epochs, with the settings that the third round chose.",
}


def own_page(runs: Path) -> dict[str, OwnPage]:
    """Returns the page of the records below a folder of results by its file name; none where there are none."""
    folder = runs / FOLDER
    if not folder.is_dir():
        return {}
    text = page(folder)
    figures = {FIGURE: figure(folder)} if FIGURE in text else {}
    return {PAGE: OwnPage(text, losses(folder), remark(folder), (TITLE, disclosures(folder)), figures)}


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


def page(folder: Path) -> str:
    """Returns the page from a folder of records; it says so where there are none."""
    done = {name: records for name in ROUNDS if results(records := read_round(folder, name))}
    lines = [f"# {TITLE}", ""]
    if not done:
        return "\n".join([*lines, _LEAD, "", "No results yet.", ""])
    lines += [sentence(folder), ""] if sentence(folder) else []
    lines += [_LEAD, "", _LESS, "", reproduction(folder), ""]
    for network, title in NETWORKS.items():
        table = overview_table(folder, network)
        lines += [f"## {title}", "", *table, "", *_notes(done, network)] if table else []
    lines += [_CELLS, "", f"![{figure(folder).alt}]({FIGURE})", "", _FIGURE, ""]
    tops = latest_rounds(folder)
    for network, name in tops.items():
        records = of_networks(done[name], [network])
        table = detection_table(records, network)
        title = f"## Out-of-distribution images, {NETWORKS[network]}"
        lines += [title, "", detection_words(records, network), "", *table, ""] if table else []
    lines += ["## Rounds", "", _ROUNDS, "", *(f"- {_ROUND[name]}" for name in reversed(ROUNDS) if name in done), ""]
    lines += _all_diverged(done)
    lines += [line for name in dict.fromkeys(tops.values()) for line in unreached(name, done[name])]
    for name, records in done.items():
        above = [network for network, latest in tops.items() if latest == name]
        lines += round_details(folder, name, records, above)
    return "\n".join(lines)


def _notes(done: Mapping[str, Records], network: str) -> list[str]:
    """Returns what a reader of the table of a network has to know about single rows."""
    notes = {"resnet9": by_seed, "resnet20": by_component}[network]
    found = [_TIED if network == "resnet9" else "", *(notes(records) for records in done.values())]
    words = " ".join(filter(None, (each.strip() for each in dict.fromkeys(found))))
    return [words, ""] if words else []


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
