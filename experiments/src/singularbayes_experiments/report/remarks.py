"""What a reader has to keep in mind about the earlier runs of an experiment; the numbers are computed from records."""

from collections.abc import Sequence

from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report.detectors import Means
from singularbayes_experiments.report.summary import METHODS


def remarks(records: Sequence[Record], beside_paper: bool = True) -> dict[str, str]:
    """Returns the remarks by experiment; none of an experiment without the runs that its remark speaks of.

    Args:
        beside_paper: False leaves out the paper's numbers.
    """
    means = Means(records)
    found = {
        "toy": toy(means, beside_paper),
        "beijing": air(means, beside_paper),
        "icu": intensive_care(means),
        "uci": small_regression(means),
    }
    return {name: words for name, words in found.items() if words}


def _every(*values: float | None) -> list[float]:
    """Returns the values; none where one is missing."""
    return [] if None in values else [value for value in values if value is not None]


def toy(means: Means, beside_paper: bool = True) -> str:
    """Returns what the band does away from the data, on our regions and on the paper's."""
    runs = [one.metrics for one in means.runs("toy", "low_rank_ensemble")]
    ratios = sorted(one["iqr_ratio"] for one in runs if "iqr_ratio" in one)
    shown = [f"{value:.2f}" for value in ratios]
    found = _every(
        *(
            means("toy", "low_rank", metric, preset)
            for preset in ("chosen", "paper")
            for metric in ("iqr_ratio", "iqr_published_ratio")
        ),
        *(means("toy", name, "iqr_ratio") for name in ("low_rank_ensemble", "deep_ensemble")),
    )
    if not found or len(shown) < 2:
        return ""
    tuned, tuned_published, paper, paper_published, low_rank, ensemble = found
    published = "on those, where it has 2.01, ours are" if beside_paper else "on those ours are"
    return (
        "Outside the range of the data the band of one low-rank network is "
        f"{tuned:.2f} times as wide as inside with the tuned settings, {paper:.2f} times with the paper's. The "
        f"paper measures on two regions that overlap: {published} {tuned_published:.2f} and "
        f"{paper_published:.2f}. The low-rank ensemble's {low_rank:.2f} is a mean of "
        f"{', '.join(shown[:-1])} and {shown[-1]}; that of a deep ensemble is {ensemble:.2f}."
    )


def air(means: Means, beside_paper: bool = True) -> str:
    """Returns what the rows of Beijing may be compared for."""
    changes = [
        METHODS[name] for name in METHODS if any(one.settings.get("from_last") for one in means.runs("beijing", name))
    ]
    found = _every(
        *(
            means("beijing", "low_rank", metric, preset)
            for preset in ("paper", "chosen")
            for metric in ("mae", "auroc_ood_epistemic")
        ),
        *(means("beijing", name, "picp_95_epistemic") for name in ("low_rank", "low_rank_svd")),
    )
    if not found or not changes:
        return ""
    mae, auroc, tuned_mae, tuned_auroc, covered, covered_svd = found
    picp = f"The paper's PICP{' of 0.790' if beside_paper else ''} is of the epistemic variance alone"
    return (
        f"The rows {' and '.join(changes)} with tuned settings predict the change from the last hour, "
        "the others the value itself, as validation chose; so they differ in more than the posterior. With the "
        f"paper's settings, where all predict the value, the low-rank network has an MAE "
        f"of {mae:.2f} and an AUROC-OOD of {auroc:.3f}, "
        f"with the tuned ones {tuned_mae:.2f} and {tuned_auroc:.3f}: which setting made detection worse was not "
        f"tested. {picp}, of which ours have {covered:.3f} and, SVD-initialised, {covered_svd:.3f}."
    )


def intensive_care(means: Means) -> str:
    """Returns what intensive care shows, with the NLL that compares."""
    found = _every(
        *(means("icu", name, "nll") for name in ("low_rank", "deep_ensemble")),
        *(
            means("icu", "low_rank", metric, preset)
            for preset in ("paper", "hand")
            for metric in ("auroc", "unweighted_nll")
        ),
        means("icu", "low_rank", "auroc_ood_mi", "hand"),
    )
    if not found:
        return ""
    low_rank, ensemble, paper, paper_nll, hand, hand_nll, detected = found
    return (
        "With tuned settings low-rank has an NLL of "
        f"{low_rank:.3f}, the deep ensemble {ensemble:.3f}. With the paper's β and class weights "
        f"low-rank networks collapse (AUROC of death {paper:.3f}, NLL with the class weight undone {paper_nll:.3f}); "
        f"with β scaled to the number of stays, a manual override with two seeds, they have {hand:.3f} and "
        f"{hand_nll:.3f}, and detect shifts with {detected:.3f}."
    )


def small_regression(means: Means) -> str:
    """Returns on how many small regression sets one low-rank network is better, and why that says little."""
    runs = means.runs("uci", "low_rank")
    names = runs[0].settings.get("sets", ()) if runs else ()
    wins = {
        (other, score): [
            _every(means("uci", "low_rank", f"{name}/{score}"), means("uci", other, f"{name}/{score}"))
            for name in names
        ]
        for other in ("full_rank", "deep_ensemble")
        for score in ("rmse", "nll")
    }
    if not names or not all(pair for pairs in wins.values() for pair in pairs):
        return ""
    count = {key: sum(ours < theirs for ours, theirs in pairs) for key, pairs in wins.items()}
    return (
        f"One low-rank network has a lower RMSE than full-rank on {count['full_rank', 'rmse']} of {len(names)} data "
        f"sets and a lower NLL on {count['full_rank', 'nll']}, but it predicts a noise level for every example and the "
        "full-rank network has one for all. Against the deep ensemble, which predicts the noise too, it is on "
        f"{count['deep_ensemble', 'rmse']} and {count['deep_ensemble', 'nll']}."
    )
