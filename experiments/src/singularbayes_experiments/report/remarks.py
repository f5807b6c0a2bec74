"""What a reader has to keep in mind about the results, in sentences whose numbers are computed from the records."""

from collections.abc import Sequence

from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report.names import SIMPLE
from singularbayes_experiments.report.summary import METHODS

_NAMED = (*METHODS, "low_rank_svd", "low_rank_laplace", "low_rank_svd_ensemble", "rank_one", "swag")
_NEEDED = ("mnist", "fashion_mnist", "sst2", "beijing", "icu", "toy", "uci")


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


def remarks(records: Sequence[Record]) -> list[str]:
    """Returns the remarks; none where an experiment that they speak of has no tuned runs."""
    if not all(any((one.experiment, one.preset) == (name, "chosen") for one in records) for name in _NEEDED):
        return []
    means = Means(records)
    said = [each(means) for each in (simple_detectors, harder_pairs, toy, air, intensive_care, small_regression)]
    return [each for each in said if each]


def simple_detectors(means: Means) -> str:
    """Returns what detectors reach that need no network, beside the best of our methods on the same pair."""

    def pair(experiment: str, detector: str, start: str = "", by: str = "mi") -> str:
        simple = means(experiment, detector, f"{start}auroc_ood", SIMPLE)
        return f"{simple:.3f} ({means.best(experiment, f'{start}auroc_ood_{by}'):.3f})"

    return (
        "**AUROC-OOD.** Read every one beside what needs no network (in brackets the best method of the earlier "
        "runs on the same pair, by mutual information or the epistemic deviation): the share of non-zero pixels "
        f"separates Fashion-MNIST from MNIST with {pair('mnist', 'more_pixels', 'fashion_mnist/')} and MNIST from "
        f"Fashion-MNIST with {pair('fashion_mnist', 'fewer_pixels', 'mnist/')}; the length of a text separates news "
        f"from reviews with {pair('sst2', 'text_length')}, the rarity of its word pieces with "
        f"{pair('sst2', 'word_rarity')}; the dew point separates Guangzhou from Beijing with "
        f"{pair('beijing', 'dew_point', by='epistemic')}; the distance of a stay from the training inputs detects the "
        f"shifts of intensive care with {pair('icu', 'input_distance')}. So these pairs say little "
        "about uncertainty, those of SST-2 and intensive care least: there no method reaches the simple "
        f"number.{_distances(means)}"
    )


def _distances(means: Means) -> str:
    """Returns what the Mahalanobis distance in the last hidden layer of one deterministic network reaches."""
    pairs = {
        "Fashion-MNIST from MNIST": ("mnist", "fashion_mnist/auroc_ood"),
        "MNIST from Fashion-MNIST": ("fashion_mnist", "mnist/auroc_ood"),
        "the same with the CNN": ("cnn", "mnist/auroc_ood"),
        "news from reviews": ("sst2", "auroc_ood"),
        "Guangzhou from Beijing": ("beijing", "auroc_ood"),
        "the shifts of intensive care": ("icu", "auroc_ood"),
    }
    has = {words: key for words, key in pairs.items() if means.runs(key[0], "mahalanobis", SIMPLE)}
    if not has:
        return ""
    scores = {words: means(name, "mahalanobis", metric, SIMPLE) for words, (name, metric) in has.items()}
    ahead = []
    for words, (name, metric) in has.items():
        by = "epistemic" if name == "beijing" else "mi"
        ahead += [words] if scores[words] > means.best(name, f"{metric}_{by}") else []
    shown = ", ".join(f"{words} with {score:.3f}" for words, score in scores.items())
    more = f"; that is more than the best method on {len(ahead)} of {len(has)}" if ahead else ""
    return f" A Mahalanobis distance in the last hidden layer of one deterministic network separates {shown}{more}."


def harder_pairs(means: Means) -> str:
    """Returns what detects where a number without a network does not; nothing where there are no such records."""

    def scored(experiment: str, start: str, names: dict[str, str], by: str = "") -> list[str]:
        metric = f"{start}/auroc_ood{by}"
        has = [name for name in names if any(metric in one.metrics for one in means.runs(experiment, name, SIMPLE))]
        trained = [name for name in has if "pixels" not in name and name not in ("text_length", "word_rarity")]
        once = [name for name in trained if len(means.runs(experiment, name, SIMPLE)) == 1]
        shown = {name: f"{names[name]} {means(experiment, name, metric, SIMPLE):.3f}" for name in has}
        return [f"{text} (one seed)" if name in once else text for name, text in shown.items()]

    network = {"max_softmax": "max-softmax", "energy": "energy", "mahalanobis": "Mahalanobis distance"}
    networks = {"low_rank": "low-rank", "deep_ensemble": "deep ensemble", "low_rank_ensemble": "five modes"}
    parts = []
    for experiment, title in (("mnist", "MNIST"), ("fashion_mnist", "Fashion-MNIST"), ("cnn", "Fashion-MNIST, CNN")):
        pixels = {"more_pixels": "non-zero pixels", "fewer_pixels": "non-zero pixels"}
        found = scored(experiment, "held_out", pixels | network)
        found += scored(experiment, "held_out", {f"{name}_held_out": words for name, words in networks.items()}, "_mi")
        parts += [f"two classes of {title} that training did not have ({', '.join(found)})"] if found else []
    for start, what in (("product_reviews", "reviews of products"), ("clinc150", "queries to an assistant")):
        found = scored("sst2", start, {"text_length": "length", "word_rarity": "rare words"} | network)
        found += scored("sst2", start, {f"{name}_texts": words for name, words in networks.items()}, "_mi")
        parts += [f"{what} against reviews of films ({', '.join(found)})"] if found else []
    if not parts:
        return ""
    return (
        "**Pairs that are harder.** AUROC of numbers without a network, of scores of one deterministic network, and by "
        f"mutual information of Bayesian networks and ensembles: {'; '.join(parts)}. Below one half, the number is "
        "higher in-distribution."
    )


def toy(means: Means) -> str:
    """Returns what the band does away from the data, on our regions and on the paper's."""
    ratios = sorted(one.metrics["iqr_ratio"] for one in means.runs("toy", "low_rank_ensemble"))
    shown = [f"{value:.2f}" for value in ratios]
    ours, paper = (
        [means("toy", "low_rank", metric, preset) for metric in ("iqr_ratio", "iqr_published_ratio")]
        for preset in ("chosen", "paper")
    )
    return (
        "**Toy regression.** The band of one low-rank network, outside the data against inside, is "
        f"{ours[0]:.2f} times as wide with the tuned settings and {paper[0]:.2f} times with the paper's. The paper "
        f"measures on two regions that overlap: on those, where it has 2.01, ours are {ours[1]:.2f} and "
        f"{paper[1]:.2f}. The ensemble's {means('toy', 'low_rank_ensemble', 'iqr_ratio'):.2f} is a mean of "
        f"{', '.join(shown[:-1])} and {shown[-1]}; a deep ensemble has "
        f"{means('toy', 'deep_ensemble', 'iqr_ratio'):.2f}."
    )


def air(means: Means) -> str:
    """Returns what the rows of Beijing may be compared for."""
    changes = [
        METHODS[name] for name in METHODS if any(one.settings["from_last"] for one in means.runs("beijing", name))
    ]
    paper, tuned = (
        [means("beijing", "low_rank", metric, preset) for metric in ("mae", "auroc_ood_epistemic")]
        for preset in ("paper", "chosen")
    )
    covered = [means("beijing", name, "picp_95_epistemic") for name in ("low_rank", "low_rank_svd")]
    return (
        f"**Beijing.** Of the earlier runs the columns {' and '.join(changes)} predict the change from the last hour, "
        "the others the value itself, as validation chose; so they differ in more than the posterior. With the "
        f"paper's settings, where all predict the value, the low-rank network has an MAE "
        f"of {paper[0]:.2f} and an AUROC-OOD of {paper[1]:.3f}, "
        f"with the tuned ones {tuned[0]:.2f} and {tuned[1]:.3f}: what made detection worse was not tried. The paper's "
        f"PICP of 0.790 is of the epistemic variance alone, of which ours have {covered[0]:.3f} and, SVD-initialised, "
        f"{covered[1]:.3f}."
    )


def intensive_care(means: Means) -> str:
    """Returns what intensive care shows, with the NLL that compares."""
    nll = [means("icu", name, "nll") for name in ("low_rank", "deep_ensemble")]
    paper, hand = (
        [means("icu", "low_rank", metric, preset) for metric in ("auroc", "unweighted_nll")]
        for preset in ("paper", "hand")
    )
    return (
        "**Intensive care** (PhysioNet 2012, five shifts). In the earlier runs low-rank has an NLL of "
        f"{nll[0]:.3f}, the deep ensemble {nll[1]:.3f}. No method's uncertainty detects the shifts well: the best mean "
        f"AUROC by mutual information is {means.best('icu', 'auroc_ood_mi'):.3f}. With the paper's β and class weights "
        f"low-rank networks collapse (AUROC of death {paper[0]:.3f}, NLL with the class weight undone {paper[1]:.3f}); "
        f"with β scaled to the number of stays, a manual override with two seeds, they have {hand[0]:.3f} and "
        f"{hand[1]:.3f}, and detect shifts with {means('icu', 'low_rank', 'auroc_ood_mi', 'hand'):.3f}."
    )


def small_regression(means: Means) -> str:
    """Returns on how many small regression sets one low-rank network is better, and why that says little."""
    names = means.runs("uci", "low_rank")[0].settings["sets"]

    def wins(other: str, score: str) -> int:
        keys = [f"{name}/{score}" for name in names]
        return sum(means("uci", "low_rank", key) < means("uci", other, key) for key in keys)

    return (
        f"**Small regression sets** (UCI, {len(names)} of them). One low-rank network has the lower RMSE than "
        f"full-rank on {wins('full_rank', 'rmse')} and the lower NLL on {wins('full_rank', 'nll')}, but it learns a "
        "noise for every example and the full-rank network has one noise level for all; against the deep ensemble, "
        f"which learns the noise too, on {wins('deep_ensemble', 'rmse')} and {wins('deep_ensemble', 'nll')}."
    )
