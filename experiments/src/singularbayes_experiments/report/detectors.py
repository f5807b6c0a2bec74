"""Detectors without a posterior beside the methods, as tables of the summary: the main pairs, and other ones."""

from collections.abc import Mapping, Sequence

from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report.names import SIMPLE, WITHOUT_NETWORK
from singularbayes_experiments.report.published import numbers
from singularbayes_experiments.report.summary import Scores, head

# Experiment → its main pair, where the metrics begin, and the detectors that need no network.
_PAIRS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "sst2": ("reviews, against news (AG News)", "", ("text_length", "word_rarity")),
    "beijing": ("Beijing, against Guangzhou", "", ("dew_point",)),
    "icu": ("intensive care, against a held-out kind (mean of shifts)", "", ("input_distance",)),
    "cnn": ("Fashion-MNIST, against MNIST (CNN)", "mnist/", ("fewer_pixels",)),
    "mnist": ("MNIST, against Fashion-MNIST", "fashion_mnist/", ("more_pixels",)),
    "fashion_mnist": ("Fashion-MNIST, against MNIST", "mnist/", ("fewer_pixels",)),
}
# Below one half a detector is better the other way round.
_OPPOSITE = {
    "more_pixels": WITHOUT_NETWORK["fewer_pixels"],
    "fewer_pixels": WITHOUT_NETWORK["more_pixels"],
    "text_length": "shorter text",
    "word_rarity": "commoner words",
}
_PIXELS, _WORDS = ("more_pixels", "fewer_pixels"), ("text_length", "word_rarity")
_OTHER: dict[str, tuple[str, str, tuple[str, ...], str]] = {
    "MNIST, against two held-out classes": ("mnist", "held_out/", _PIXELS, "held_out"),
    "Fashion-MNIST, against two held-out classes": ("fashion_mnist", "held_out/", _PIXELS, "held_out"),
    "film reviews, against product reviews": ("sst2", "product_reviews/", _WORDS, "texts"),
    "film reviews, against queries to an assistant (CLINC150)": ("sst2", "clinc150/", _WORDS, "texts"),
}
ONE_SEED = "¹: one seed."
_OF_NETWORK = {"max_softmax": "max-softmax", "energy": "energy score", "mahalanobis": "Mahalanobis"}
_TRAINED = {
    "low_rank": "low-rank",
    "deep_ensemble": "deep ensemble of 5",
    "low_rank_ensemble": "low-rank ensemble of 5",
}


class Means:
    """The mean of a metric over the runs of a method; None without a run that has it."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records

    def runs(self, experiment: str, method: str, preset: str = "chosen") -> list[Record]:
        key = experiment, method, preset
        return [one for one in self.records if (one.experiment, one.method, one.preset) == key]

    def __call__(self, experiment: str, method: str, metric: str, preset: str = "chosen") -> float | None:
        values = [one.metrics[metric] for one in self.runs(experiment, method, preset) if metric in one.metrics]
        return sum(values) / len(values) if values else None

    def best(self, experiment: str, metric: str) -> float:
        """Returns the highest mean of a metric among the tuned methods of the earlier runs."""
        tuned = {one.method for one in self.records if (one.experiment, one.preset) == (experiment, "chosen")}
        means = [self(experiment, name, metric) for name in tuned]
        return max(mean for mean in means if mean is not None)

    def simple(self, experiment: str, method: str, metric: str) -> float | None:
        """Returns the mean of a detector."""
        return self(experiment, method, metric, SIMPLE)


# The paper's tables of detection, and the numbers of an example that detect the same pair without a network.
PUBLISHED = {
    "tab:sst2": "sst2",
    "tab:ood_std_vs_mi": "sst2",
    "tab:sst2_lowrank_ensemble": "sst2",
    "tab:swag_sst2": "sst2",
    "tab:lstm_results": "beijing",
    "tab:swag_beijing": "beijing",
    "tab:mimic": "mimic3",
    "tab:swag_mimic": "mimic3",
}
_NEWBORNS = "Age or weight alone tells newborns from adults (not measured here)"


def means_little(label: str, records: Sequence[Record]) -> str:
    """Returns why the detection of a table of the paper says little of uncertainty; "" of other tables."""
    experiment = PUBLISHED.get(label)
    if experiment == "mimic3":
        return f"Its detection means little: {_NEWBORNS[0].lower()}{_NEWBORNS[1:]}."
    found = _alone(Means(records), experiment) if experiment else ""
    return f"Its detection means little. AUROC without any network: {found}." if found else ""


def _alone(means: Means, experiment: str) -> str:
    """Returns what the detectors without a network of the main pair of an experiment reach."""
    found = _without_network(means, experiment)
    return " and ".join(f"{words} {value:.3f}" for words, value in found.items())


def _without_network(means: Means, experiment: str) -> dict[str, float]:
    _, start, names = _PAIRS.get(experiment, ("", "", ()))
    found = {WITHOUT_NETWORK[name]: means.simple(experiment, name, f"{start}auroc_ood") for name in names}
    return {words: value for words, value in found.items() if value is not None}


def best_without_network(experiment: str, records: Sequence[Record]) -> tuple[str, float] | None:
    """Returns name and AUROC of the best detector of the main pair of an experiment that needs no network."""
    found = _without_network(Means(records), experiment)
    return max(found.items(), key=lambda each: each[1]) if found else None


def paper_pairs(means: Means) -> str:
    """Returns that some pairs are those of the paper, with its best number beside one without a network.

    Nothing where one of the pairs has no such number.
    """
    alone = [_alone(means, name) for name in ("sst2", "beijing")]
    if not all(alone):
        return ""
    best = {
        name: max(number.value for (_, measure), number in numbers(name).items() if measure == f"auroc_ood_{by}")
        for name, by in (("sst2", "mi"), ("beijing", "epistemic"))
    }
    return (
        "**Published comparisons that mean little.** Reviews against news, Beijing against Guangzhou and adults "
        "against newborns are the paper's own pairs. The paper's best AUROC is "
        f"{best['sst2']:.3f} on the first (without a network: {alone[0]}) and {best['beijing']:.3f} on "
        f"the second ({alone[1]}). {_NEWBORNS}. "
        "[The paper's tables](paper_tables.md) have this beside them."
    )


def main_pairs(means: Means, scores: Sequence[Scores], methods: Mapping[str, str]) -> str:
    """Returns a verdict on the main pairs and their table: detectors without a posterior beside the methods.

    Args:
        methods: names of the methods that have a column, by key.
    """
    found = {each.data.experiment: each for each in scores}
    rows, ahead, distant = [], 0, 0
    for experiment, (words, start, _) in _PAIRS.items():
        plain, own = best_without_network(experiment, means.records), found.get(experiment)
        ours = {name: own.mean(name, own.data.ood) for name in methods if own.values(name, own.data.ood)} if own else {}
        if ours and plain is not None:
            network = {name: means.simple(experiment, name, f"{start}auroc_ood") for name in _OF_NETWORK}
            cells = [
                f"{plain[0]} {plain[1]:.3f}",
                *map(_cell, network.values()),
                *(_cell(ours.get(n)) for n in methods),
            ]
            rows.append(f"| {' | '.join([words, *cells])} |")
            best = max(ours.values())
            ahead += plain[1] >= best
            distant += plain[1] < best <= (network["mahalanobis"] or 0.0)
    if not rows:
        return ""
    verdict = (
        f"On {ahead} of {len(rows)} pairs a single number of each input, without any network, detects at least as well "
        "as every method of the table above"
    )
    verdict += f", and on {distant} more the Mahalanobis distance of one deterministic network" if distant else ""
    same = " (two of them have the same images)" if {"cnn", "fashion_mnist"} <= found.keys() else ""
    lead = (
        f"**{verdict}**, so these pairs say little about uncertainty{same}. AUROC of that number, of scores of one "
        "deterministic network of the earlier runs (the Mahalanobis distance is of its last hidden layer), and of the "
        "methods by mutual information (Beijing: epistemic standard deviation). –: a network with one output has no "
        "such score."
    )
    return "\n".join([lead, "", *head(["no network", *_OF_NETWORK.values(), *methods.values()]), *rows])


def other_pairs(means: Means) -> str:
    """Returns the table of the other pairs with a verdict; nothing where there are no such records."""
    table = other_pairs_table(means)
    if not table:
        return ""
    ahead = _ahead(means)
    behind = [words for words, lead in ahead.items() if lead < 0]
    first = {words: lead for words, lead in ahead.items() if lead >= 0}
    rest = "; ".join(f"{words}: networks with a posterior lead by {lead:.3f}" for words, lead in first.items())
    words = (
        "**Other pairs**, with networks that were trained for them: the methods detect by mutual information, "
        "detectors without a network are in their better direction. No mixture and no full-rank network was run on "
        "them; networks have the settings of the earlier runs. A detector without a posterior is ahead of every "
        f"network with one on {len(behind)} of {len(ahead)}{f' ({rest})' if rest else ''}. {ONE_SEED}"
    )
    return "\n".join([words, "", *table])


def other_pairs_table(means: Means, experiment: str = "") -> list[str]:
    """Returns the lines of that table, of one experiment or of all; none where there are no records."""
    found = _other_rows(means, experiment)
    columns = ("no network", *_OF_NETWORK.values(), *_TRAINED.values())
    shown = [name for name in columns if any(name in cells for cells in found.values())]
    rows = [
        f"| {words} | {' | '.join(cells[name][1] if name in cells else '–' for name in shown)} |"
        for words, cells in found.items()
    ]
    return [*head(shown), *rows] if rows else []


def _ahead(means: Means) -> dict[str, float]:
    """Returns by how much the best network with a posterior leads over all other detectors, by pair."""
    trained = set(_TRAINED.values())
    found = {}
    for words, cells in _other_rows(means).items():
        with_posterior = [value for name, (value, _) in cells.items() if name in trained]
        others = [value for name, (value, _) in cells.items() if name not in trained]
        if with_posterior and others:
            found[words] = max(with_posterior) - max(others)
    return found


def _other_rows(means: Means, only: str = "") -> dict[str, dict[str, tuple[float, str]]]:
    """Returns value and text of the cells of every pair that has records, by column; those of one seed are marked."""
    found: dict[str, dict[str, tuple[float, str]]] = {}
    for words, (experiment, start, names, end) in _OTHER.items():
        if only not in ("", experiment):
            continue
        metric = f"{start}auroc_ood"
        cells = {}
        every = {name: means.simple(experiment, name, metric) for name in names}
        better = {
            (WITHOUT_NETWORK[name] if value >= 0.5 else _OPPOSITE[name]): max(value, 1 - value)
            for name, value in every.items()
            if value is not None
        }
        if better:
            name = max(better, key=lambda each: better[each])
            cells["no network"] = better[name], f"{name} {better[name]:.3f}"
        methods = {name: (name, metric) for name in _OF_NETWORK}
        methods |= {name: (f"{name}_{end}", f"{metric}_mi") for name in _TRAINED}
        for name, (method, score) in methods.items():
            value = means.simple(experiment, method, score)
            if value is not None:
                once = sum(score in one.metrics for one in means.runs(experiment, method, SIMPLE)) == 1
                cells[(_OF_NETWORK | _TRAINED)[name]] = value, f"{value:.3f}{'¹' * once}"
        if cells:
            found[words] = cells
    return found


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
