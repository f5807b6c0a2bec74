"""The page of the experiment on CIFAR-10, made from its records alone.

`singularbayes-experiments report experiments/results --markdown docs/results` writes it with all other pages; a test
compares it with the records.
"""

from pathlib import Path

from singularbayes_experiments.report.cifar10_detection import detection_table, detection_words, held_out
from singularbayes_experiments.report.cifar10_differences import grouped_table
from singularbayes_experiments.report.cifar10_figure import CAPTION, FIGURE, figure, figure_rows
from singularbayes_experiments.report.cifar10_lead import (
    beside_one_network,
    ensemble_between_rounds,
    remarks,
    sentences,
    where_it_loses,
)
from singularbayes_experiments.report.cifar10_left_out import all_diverged, cut_by_time, unreached
from singularbayes_experiments.report.cifar10_rounds import round_details, titled
from singularbayes_experiments.report.cifar10_scores import (
    ENSEMBLE,
    FIFTH,
    FOURTH,
    NETWORKS,
    ROUNDS,
    SECOND,
    THIRD,
    Rounds,
    latest_name,
    read_rounds,
)
from singularbayes_experiments.report.cifar10_sentences import (
    FOLDER,
    PAGE,
    first_component_worse,
    losses,
    nominal_pairs,
    remark,
    reproduction,
)
from singularbayes_experiments.report.cifar10_settings import WORDS, edge_count, ranks_words, settings_table
from singularbayes_experiments.report.summary_page import OwnPage
from singularbayes_experiments.report.text import folded

TITLE = "CIFAR-10"
COUNTED = ("no", "one", "two", "three", "four", "five", "six")

_LEAD = (
    "Low-rank posteriors and mixtures of 4 of them beside a deep ensemble of 4, one full-rank posterior and others. "
    "ResNet-9 is the wide network, whose matrices a low rank makes smaller; those of ResNet-20 have at most 576 × 64 "
    "entries."
)
_LESS = (
    "This is less than the [protocol](../protocol.md) asks for: three or five configurations of a family, one tuning "
    "seed, at most three result seeds. SVD-initialised and distilled networks start at the trained ensemble and train "
    "on, so they have seen more images than any other. Methods are compared by stored parameters, not by training "
    "cost. The components of a mixture were trained one after the other, not in one `Mixture`. Intervals are over "
    "seeds, not over other test images."
)
_CELLS = (
    "A method has one row, of the last round with its results, below the deep ensemble of that round, whose NLL is "
    "subtracted seed by seed. Epochs: 24 + 8 starts at the trained ensemble of 24 epochs and trains for 8 more. "
    "± is the standard error over seeds. Intervals are 95 % t intervals of paired differences over three seeds: better "
    "or worse is one that excludes 0, and of others *all higher* means with every seed. Parameters are the stored "
    "ones. Corrupted: eight corruptions at five severities, with the constants of CIFAR-10-C but noise of our own, so "
    "numbers are not those of its published files."
)
_BESIDE = (
    "NLL of low-rank networks and mixtures less that of one deterministic and of one full-rank network in the same "
    "round, paired over seeds. –: one of the two has no results in that round."
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
    done, text = _done(folder), page(folder)
    figures = {FIGURE: figure(done)} if FIGURE in text else {}
    return {
        PAGE: OwnPage(
            text,
            losses(done),
            remark(done),
            (TITLE, disclosures(folder)),
            detection=held_out(done),
            cut=cut_by_time(done),
            figures=figures,
        )
    }


def _done(folder: Path) -> Rounds:
    """Returns the rounds that have records, the last one first."""
    return {name: records for name, records in read_rounds(folder).items() if records}


def disclosures(folder: Path) -> list[str]:
    """Returns what a sceptic should know: how settings were found, and what makes single numbers uncertain."""
    done = _done(folder)
    worse, nominal = first_component_worse(done), nominal_pairs(folder)
    return [
        f"There were {COUNTED[len(done)]} rounds. For each, a plan that was committed before the run fixed what was "
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
    done = _done(folder)
    if not done:
        return "\n".join([f"# {TITLE}", "", _LEAD, "", "No results yet.", ""])
    lines = [f"# {TITLE}", "", *_paragraphs(*sentences(done), _LEAD)]
    for network, title in NETWORKS.items():
        words = [remarks(done, network), reproduction(done) if network == "resnet20" else ""]
        lines += titled(f"## {title}", grouped_table(done, network)) + _paragraphs(*words)
    lines += _paragraphs(_CELLS, _TIED, ensemble_between_rounds(done))
    if any(figure_rows(done, network) for network in NETWORKS):
        lines += [f"![{figure(done).alt}]({FIGURE})", "", CAPTION, ""]
    lost = where_it_loses(done)
    lines += ["## Where it loses", "", *lost, ""] if lost else []
    beside = {network: beside_one_network(done, network) for network in NETWORKS}
    tables = [line for network, title in NETWORKS.items() for line in titled(f"**{title}**", beside[network])]
    lines += ["## Beside one network", "", *_paragraphs(_BESIDE), *tables] if tables else []
    lines += _settings(done)
    lines += ["## Everything else", "", *folded("How it was run, and what was left out", _how(done))]
    tops = {network: name for network in NETWORKS if (name := _with_detection(done, network)) is not None}
    for network, name in tops.items():
        words = _paragraphs(detection_words(done[name], network))
        table = [*detection_table(done[name], network), ""]
        lines += folded(f"Out-of-distribution images, {NETWORKS[network]}", [*words, *table])
    for name, records in done.items():
        above = [network for network, latest in tops.items() if latest == name]
        lines += round_details(folder, name, records, above)
    return "\n".join(lines)


def _paragraphs(*words: str) -> list[str]:
    return [line for each in words if each for line in (each, "")]


def _settings(done: Rounds) -> list[str]:
    """Returns the tables of what was chosen, and how many of the choices lie at an edge."""
    lines = []
    for network, title in NETWORKS.items():
        lines += titled(f"**{title}**", settings_table(done, network))
    return ["## Settings", "", *lines, *_paragraphs(edge_count(done), WORDS, ranks_words(done))] if lines else []


def _how(done: Rounds) -> list[str]:
    """Returns how the rounds were run, and what was planned and has no results."""
    rounds = [*(f"- {_ROUND[name]}" for name in reversed(ROUNDS) if name in done), ""]
    left = [f"{ROUNDS[name].capitalize()} round. {words}" for name in done if (words := unreached(name, done[name]))]
    return [*_paragraphs(_LESS, _ROUNDS), *rounds, *_paragraphs(all_diverged(done), *left)]


def _with_detection(done: Rounds, network: str) -> str | None:
    """Returns the last round that has the ensemble of a network, if it has a table of detection."""
    name = latest_name(done, ENSEMBLE, network)
    return name if name is not None and detection_table(done[name], network) else None
