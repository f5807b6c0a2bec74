"""Detectors without a posterior beside the methods, as tables of the summary: easy pairs, and pairs that are harder."""

from collections.abc import Sequence

from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report.names import SIMPLE
from singularbayes_experiments.report.published import numbers
from singularbayes_experiments.report.summary import METHODS, head

_NAMED = (*METHODS, "low_rank_svd", "low_rank_laplace", "low_rank_svd_ensemble", "rank_one", "swag")
# Pair → experiment, where its metrics begin, the detectors that need no network, and by what networks detect.
_PAIRS: dict[str, tuple[str, str, dict[str, str], str]] = {
    "Fashion-MNIST from MNIST": ("mnist", "fashion_mnist/", {"more_pixels": "non-zero pixels"}, "mi"),
    "MNIST from Fashion-MNIST": ("fashion_mnist", "mnist/", {"fewer_pixels": "non-zero pixels"}, "mi"),
    "news from reviews": ("sst2", "", {"text_length": "length", "word_rarity": "rare words"}, "mi"),
    "Guangzhou from Beijing": ("beijing", "", {"dew_point": "dew point"}, "epistemic"),
    "held-out care, five shifts": ("icu", "", {"input_distance": "distance of inputs"}, "mi"),
}
_PIXELS = {"more_pixels": "non-zero pixels", "fewer_pixels": "non-zero pixels"}
_WORDS = {"text_length": "length", "word_rarity": "rare words"}
_HARDER: dict[str, tuple[str, str, dict[str, str], str]] = {
    "MNIST, two held-out classes": ("mnist", "held_out/", _PIXELS, "held_out"),
    "Fashion-MNIST, two held-out classes": ("fashion_mnist", "held_out/", _PIXELS, "held_out"),
    "the same with the CNN": ("cnn", "held_out/", _PIXELS, "held_out"),
    "product reviews from film reviews": ("sst2", "product_reviews/", _WORDS, "texts"),
    "queries to an assistant from film reviews": ("sst2", "clinc150/", _WORDS, "texts"),
}
ONE_SEED = "¹: one seed."
_OF_NETWORK = {"max_softmax": "max-softmax", "energy": "energy", "mahalanobis": "Mahalanobis"}
_TRAINED = {
    "low_rank": "low-rank",
    "deep_ensemble": "deep ensemble of 5",
    "low_rank_ensemble": "low-rank ensemble of 5",
}


class Means:
    """The mean of a metric over the runs of a method."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records

    def runs(self, experiment: str, method: str, preset: str = "chosen") -> list[Record]:
        key = experiment, method, preset
        return [one for one in self.records if (one.experiment, one.method, one.preset) == key]

    def __call__(self, experiment: str, method: str, metric: str, preset: str = "chosen") -> float:
        values = [one.metrics[metric] for one in self.runs(experiment, method, preset) if metric in one.metrics]
        return sum(values) / len(values)

    def best(self, experiment: str, metric: str) -> float:
        """Returns the highest mean of a metric among the methods that readers compare."""
        has = [name for name in _NAMED if any(metric in one.metrics for one in self.runs(experiment, name))]
        return max(self(experiment, name, metric) for name in has)

    def simple(self, experiment: str, method: str, metric: str) -> float | None:
        """Returns the mean of a detector; None where it has no record of it."""
        has = any(metric in one.metrics for one in self.runs(experiment, method, SIMPLE))
        return self(experiment, method, metric, SIMPLE) if has else None


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
    own = [(start, names) for name, start, names, _ in _PAIRS.values() if name == experiment]
    scores = {
        words: value
        for start, names in own
        for name, words in names.items()
        if (value := means.simple(experiment, name, f"{start}auroc_ood")) is not None
    }
    return " and ".join(f"{words} {value:.3f}" for words, value in scores.items())


def paper_pairs(means: Means) -> str:
    """Returns that the easy pairs are those of the paper, with its best number beside one without a network."""
    best = {
        name: max(number.value for (_, measure), number in numbers(name).items() if measure == f"auroc_ood_{by}")
        for name, by in (("sst2", "mi"), ("beijing", "epistemic"))
    }
    return (
        "**Published comparisons that mean little.** News against reviews, Guangzhou against Beijing and newborns "
        "against adults are the paper's own pairs. Its best AUROC is "
        f"{best['sst2']:.3f} on the first (without a network: {_alone(means, 'sst2')}) and {best['beijing']:.3f} on "
        f"the second ({_alone(means, 'beijing')}). {_NEWBORNS}. "
        "[Its tables](paper_tables.md) have this beside them."
    )


def simple_detectors(means: Means) -> str:
    """Returns what detectors reach that need no network, beside the best of our methods on the same pair."""
    rows: list[str] = []
    ahead: list[str] = []
    distant = 0
    for words, (experiment, start, names, by) in _PAIRS.items():
        metric = f"{start}auroc_ood"
        plain = {name: value for each, name in names.items() if (value := means.simple(experiment, each, metric))}
        best = means.best(experiment, f"{metric}_{by}")
        distance = means.simple(experiment, "mahalanobis", metric)
        shown = ", ".join(f"{name} {value:.3f}" for name, value in plain.items())
        rows.append(f"| {words} | {shown} | {best:.3f} | {_cell(distance)} |")
        ahead += [words] if plain and max(plain.values()) > best else []
        distant += distance is not None and distance > best
    heads = head(["no network", "best method", "Mahalanobis"])
    return "\n".join(
        [
            "**AUROC-OOD.** Read every one beside what needs no network. On these pairs a number of each example "
            "alone, or a Mahalanobis distance in the last hidden layer of one deterministic network, is near the best "
            "method or ahead of it, so they say little about uncertainty. The best method is that of the earlier "
            "runs, by mutual information or the epistemic deviation.",
            "",
            *heads,
            *rows,
            "",
            f"The number without a network is ahead of every method on {', '.join(ahead) or 'none'}; the distance is "
            f"on {distant} of {len(rows)}.",
        ]
    )


def harder_pairs(means: Means) -> str:
    """Returns the table of pairs on which a number without a network fails; nothing where there are no such records."""
    table = harder_table(means)
    words = (
        "**Pairs that are harder.** AUROC of numbers without a network, of scores of one deterministic network, and by "
        "mutual information of networks that were trained for this. Below one half, the number is higher "
        f"in-distribution. {ONE_SEED}"
    )
    return "\n".join([words, "", *table]) if table else ""


def harder_table(means: Means) -> list[str]:
    """Returns the lines of that table; none where there are no records."""
    found = _harder_rows(means)
    columns = ("no network", *_OF_NETWORK.values(), *_TRAINED.values())
    shown = [name for name in columns if any(name in cells for cells in found.values())]
    rows = [f"| {words} | {' | '.join(cells.get(name, '–') for name in shown)} |" for words, cells in found.items()]
    return [*head(shown), *rows] if rows else []


def _harder_rows(means: Means) -> dict[str, dict[str, str]]:
    """Returns the cells of every pair that has records, by column; those of networks with one seed are marked."""
    found: dict[str, dict[str, str]] = {}
    for words, (experiment, start, names, end) in _HARDER.items():
        metric = f"{start}auroc_ood"
        plain = {each: value for each in names if (value := means.simple(experiment, each, metric)) is not None}
        cells = (
            {"no network": ", ".join(f"{names[each]} {value:.3f}" for each, value in plain.items())} if plain else {}
        )
        methods = {name: (name, metric) for name in _OF_NETWORK}
        methods |= {name: (f"{name}_{end}", f"{metric}_mi") for name in _TRAINED}
        for name, (method, score) in methods.items():
            value = means.simple(experiment, method, score)
            if value is not None:
                once = sum(score in one.metrics for one in means.runs(experiment, method, SIMPLE)) == 1
                cells[(_OF_NETWORK | _TRAINED)[name]] = f"{value:.3f}{'¹' * once}"
        if cells:
            found[words] = cells
    return found


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
