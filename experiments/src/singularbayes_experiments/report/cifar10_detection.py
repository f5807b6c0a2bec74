"""How well methods detect out-of-distribution images on CIFAR-10, and how plain scores do."""

from collections.abc import Iterator, Sequence

import numpy as np

from singularbayes_experiments.report.cifar10_differences import Difference, find_difference
from singularbayes_experiments.report.cifar10_scores import (
    ENSEMBLE,
    NAMES,
    NETWORKS,
    OURS,
    Records,
    Rounds,
    count_seeds,
    mean_cell,
    results,
    scores,
    table_lines,
)
from singularbayes_experiments.report.text import difference

# Columns by the part of a record that has their scores.
COLUMNS = {"ood": "held-out classes", "clothes": "clothes", "letters": "letters", "windows": "photographs"}
BY = {"auroc_entropy": "H", "auroc_mi": "MI"}
WORDS = {"auroc_entropy": "by entropy", "auroc_mi": "by mutual information"}
# Scores that any uncertainty has to beat.
DETECTORS = {
    "max_softmax": "max-softmax of the deterministic network",
    "energy": "energy of the deterministic network",
    "mahalanobis": "Mahalanobis distance of the deterministic network",
    "greyness": "less saturation (no network)",
    "darkness": "less brightness (no network)",
    "contrast": "more contrast (no network)",
    "roughness": "larger steps between pixels (no network)",
}
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


def detected(records: Records, network: str, method: str, column: str) -> list[list[float]]:
    """Returns the AUROC of a method over seeds, by entropy and by mutual information."""
    return [list(scores(records, network, method, column, by).values()) for by in BY]


def detector(records: Records, network: str, column: str, score: str) -> list[float]:
    """Returns the AUROC of a plain score over seeds; the first round had those of held-out classes alone."""
    found, name = [], "held_out" if column == "ood" else column
    for one in results(records):
        own = one.get("detectors", {})
        own = own.get(name, own if one["held_out"] and column == "ood" else {})
        if one["network"] == network and score in own:
            found.append(own[score])
    return found


def detection_table(records: Records, network: str) -> list[str]:
    """Returns the AUROC of held-out classes and of other data, with scores that need no posterior below."""
    columns = [column for column in COLUMNS if detected(records, network, "deterministic", column)[0]]
    rows = []
    for method, name in NAMES.items():
        cells = [values for column in columns for values in detected(records, network, method, column)]
        if any(cells):
            rows.append([name, *map(mean_cell, cells), _counts(cells)])
    for score, name in DETECTORS.items():
        values = [detector(records, network, column, score) for column in columns]
        if any(values):
            rows.append([name, *(cell for each in values for cell in (mean_cell(each), "")), _counts(values)])
    return table_lines([*(f"{COLUMNS[column]} ({by})" for column in columns for by in BY.values()), "seeds"], rows)


def _counts(cells: Sequence[Sequence[float]]) -> str:
    """Returns how many seeds the columns have, from left to right: 3, 2 where the first have three."""
    return ", ".join(map(str, dict.fromkeys(len(cell) for cell in cells if cell)))


def detection_words(records: Records, network: str) -> str:
    """Returns what the columns of the table are, and whether a method is ahead of a plain score."""
    held_out, other = (detected(records, network, "deterministic", name)[0] for name in ("ood", "clothes"))
    words = [_DETECTION, *([_HELD_OUT] if held_out else []), *([_OTHER] if other else [])]
    if held_out:
        every = {
            f"{name} ({by})": np.mean(values)
            for method, name in NAMES.items()
            for by, values in zip(BY.values(), detected(records, network, method, "ood"), strict=True)
            if values
        }
        best = max(every, key=lambda name: every[name])
        words.append(f"On held-out classes the best is {best} with {every[best]:.3f}")
        energy = detector(records, network, "ood", "energy")
        words[-1] += f"; the energy of one deterministic network has {np.mean(energy):.3f}." if energy else "."
    else:
        words += _held_out_alone(records, network)
    return " ".join(words)


def held_out(rounds: Rounds) -> str:
    """Returns how well held-out classes are detected by the ensemble, mixtures and plain scores; "" without any."""
    parts = []
    for network, title in NETWORKS.items():
        records = next((own for own in rounds.values() if detected(own, network, ENSEMBLE, "ood")[0]), [])
        every = {
            NAMES[method]: [float(np.mean(values)) for values in found]
            for method in (ENSEMBLE, *OURS)
            if all(found := detected(records, network, method, "ood"))
        }
        plain = {name: detector(records, network, "ood", score) for score, name in DETECTORS.items()}
        best = max((name for name in plain if plain[name]), key=lambda name: np.mean(plain[name]), default="")
        shown = [f"{name} {entropy:.3f} and {mi:.3f}" for name, (entropy, mi) in every.items()]
        if shown and best:
            parts.append(f"on {title} {', '.join(shown)}, the {best} {np.mean(plain[best]):.3f}")
    return (
        "**CIFAR-10, against two held-out classes**, by entropy and by mutual information: "
        f"{'; '.join(parts)} ([more pairs](cifar10.md))."
        if parts
        else ""
    )


def _held_out_alone(records: Records, network: str) -> list[str]:
    """Returns the AUROC of held-out classes of methods that have nothing to be compared with."""
    found = {name: detected(records, network, method, "ood") for method, name in NAMES.items()}
    shown = [
        f"{name}, {np.mean(first):.3f} (H) and {np.mean(second):.3f} (MI), {count_seeds(len(first))}"
        for name, (first, second) in found.items()
        if first and second
    ]
    if not shown:
        return []
    alone = "one method alone" if len(shown) == 1 else f"{len(shown)} methods, not of a deterministic network"
    return [f"Networks without ships and trucks were trained of {alone}: {'; '.join(shown)}."]


def detection_differences(rounds: Rounds, network: str) -> Iterator[tuple[str, str, str, Difference]]:
    """Yields mixture, column, score and difference in AUROC to the ensemble, of the last round that has the column."""
    for ours in OURS:
        for column in COLUMNS:
            for score in BY:
                every = (find_difference(own, network, ours, ENSEMBLE, column, score) for own in rounds.values())
                if found := next((each for each in every if each is not None), None):
                    yield ours, column, score, found


def detection_losses(rounds: Rounds, network: str) -> str:
    """Returns where mixtures detect worse than the ensemble, and how often they do or detect better.

    Worse is an interval below 0. On held-out classes a lower mean whose interval reaches 0 is named as well: it is the
    comparison that saturation does not decide.
    """
    every = list(detection_differences(rounds, network))
    sure = [each for each in every if each[3].interval is not None]
    if not sure:
        return ""
    worse = [_shown(*each) for each in sure if each[3].verdict == "worse"]
    better = [_shown(*each) for each in sure if each[3].verdict == "better"]
    held_out = [_shown(*each) for each in sure if each[1] == "ood" and not each[3].verdict and each[3].mean < 0]
    parts = [
        f"worse in {len(worse)} of {len(sure)} comparisons over three seeds{_listed(worse)}",
        f"better in {len(better)}{_listed(better)}",
    ]
    more = f". On held-out classes the interval reaches 0, with a lower mean: {'; '.join(held_out)}" if held_out else ""
    return f"AUROC of out-of-distribution images, {' and '.join(parts)}{more}."


def by_saturation(rounds: Rounds) -> str:
    """Returns how well the saturation of grey images detects them without any network."""
    found: dict[str, float] = {}
    for own in rounds.values():
        for network in NETWORKS:
            for column in ("clothes", "letters"):
                values = detector(own, network, column, "greyness")
                found |= {column: float(np.mean(values))} if values and column not in found else {}
    shown = " and ".join(f"{column} with {value:.3f}" for column, value in found.items())
    return (
        f"Detection of grey images says little: saturation alone, without a network, detects {shown}." if found else ""
    )


def _listed(parts: Sequence[str]) -> str:
    return f" ({'; '.join(parts)})" if parts else ""


def _shown(ours: str, column: str, score: str, found: Difference) -> str:
    assert found.interval is not None
    return f"{NAMES[ours]}, {COLUMNS[column]} {WORDS[score]}, {difference(found.interval, 4)}"
