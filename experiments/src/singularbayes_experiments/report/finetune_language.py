"""The tables of the language model's experiment, as Markdown, from its records.

`python -m singularbayes_experiments.report.finetune_language` writes them into docs/language_model_results.md; a test
compares page and records.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from singularbayes_experiments.problems import finetune_language as plan
from singularbayes_experiments.problems.finetune import METHODS
from singularbayes_experiments.report import text
from singularbayes_experiments.report.adapter_tables import (
    NAMES,
    OURS,
    THEIRS,
    averages,
    difference,
    mean_cell,
    number,
    read_lines,
    scores,
    short_name,
)

WORDS = {7: "seven"}
TITLES = {"arc_easy": "ARC-Easy", "openbookqa": "OpenBookQA"}


def methods_of(records: Sequence[dict], setting: str) -> list[str]:
    """Returns the methods with all result seeds."""
    return [one for one in NAMES if len(scores(records, setting, one, "test", "nll")) == len(plan.RESULT_SEEDS)]


def settings_of(records: Sequence[dict]) -> list[str]:
    return [setting for setting in TITLES if methods_of(records, setting)]


def state_line(records: Sequence[dict]) -> str:
    """Returns what has results, and what has not."""
    every = [*METHODS]
    parts = []
    for setting, title in TITLES.items():
        missing = [NAMES[one] for one in every if one not in methods_of(records, setting)]
        if len(missing) == len(every):
            parts.append(f"{title}: no results but the zero-shot ones.")
        else:
            parts.append(
                f"{title}: not measured: {'; '.join(missing)}."
                if missing
                else f"{title}: all {WORDS[len(every)]} methods."
            )
    return " ".join(parts)


def is_untrained(one: dict, setting: str) -> bool:
    return (one["stage"], one["setting"]) == ("zero-shot", setting)


def zero_shot_table(records: Sequence[dict]) -> str:
    """Returns the scores of the untrained model; those of test questions for the score that validation chose."""
    heads = ("accuracy, validation", "NLL, validation", "accuracy, test", "NLL, test")
    rows = [f"| | score of a choice | {' | '.join(heads)} |", "|---" * (len(heads) + 2) + "|"]
    for setting, title in TITLES.items():
        for one in records:
            if is_untrained(one, setting):
                found = [
                    one.get(part, {}).get(score) for part in ("validation", "test") for score in ("accuracy", "nll")
                ]
                cells = ["–" if value is None else number(value) for value in found]
                rows.append(f"| {title} | {one['score']} | {' | '.join(cells)} |")
    return "\n".join(rows)


def lower_end(accuracy: float, questions: int) -> float:
    """Returns the lower end of the 95 % interval of an accuracy over questions (Wilson).

    >>> round(lower_end(0.5, 100), 3)
    0.404
    """
    z2 = 1.959964**2
    middle = accuracy + z2 / (2 * questions)
    return (middle - math.sqrt(z2 * (accuracy * (1 - accuracy) + z2 / (4 * questions)) / questions)) / (
        1 + z2 / questions
    )


def chance_line(records: Sequence[dict]) -> str:
    """Returns whether LoRA is clearly above chance, by the rule of the plan."""
    parts = []
    for setting in settings_of(records):
        found = scores(records, setting, "lora", "test", "accuracy")
        least = min(lower_end(value, plan.TEST_QUESTIONS[setting]) for value in found)
        word = "is" if least > plan.CHANCE + plan.MARGIN else "is not"
        parts.append(
            f"{TITLES[setting]}: LoRA's accuracy is {mean_cell(found)}; the least lower end of its 95 % intervals over "
            f"the questions is {number(least)}, which {word} clearly above chance ({number(plan.CHANCE)})."
        )
    return " ".join(parts)


def temperatures(records: Sequence[dict], setting: str, method: str) -> list[float]:
    """Returns the temperatures that are best on validation questions, one per seed."""
    wanted = ("result", setting, method)
    return [one["temperature"] for one in records if (one["stage"], one["setting"], one["method"]) == wanted]


def results_table(records: Sequence[dict]) -> str:
    """Returns accuracy, NLL, Brier score and ECE, mean ± standard error over the seeds, and what a temperature does."""
    columns = ("accuracy", "nll", "brier", "ece")
    heads = ("accuracy", "NLL", "Brier", "ECE", "temperature", "NLL with it")
    rows = [f"| | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for setting in settings_of(records):
        rows.append(f"| **{TITLES[setting]}** |{' |' * len(heads)}")
        for method in methods_of(records, setting):
            cells = [mean_cell(scores(records, setting, method, "test", column)) for column in columns]
            cells.append(f"{np.mean(temperatures(records, setting, method)):.2f}")
            cells.append(mean_cell(scores(records, setting, method, "tempered", "nll")))
            rows.append(f"| {NAMES[method]} | {' | '.join(cells)} |")
    return "\n".join(rows)


def differences_table(records: Sequence[dict]) -> str:
    """Returns paired differences of the NLL with their 95 % t intervals."""
    rows = [f"| less that of | {' | '.join(NAMES[theirs] for theirs in THEIRS)} |", "|---" * (len(THEIRS) + 1) + "|"]
    for setting in settings_of(records):
        known = methods_of(records, setting)
        for ours in (one for one in OURS if one in known):
            cells = [difference(records, setting, ours, one) if one in known else "–" for one in THEIRS]
            rows.append(f"| {TITLES[setting]}: {NAMES[ours]} | {' | '.join(cells)} |")
    return "\n".join(rows)


def conclusions(records: Sequence[dict]) -> str:
    """Returns what the tables say, in sentences."""
    lines = []
    for setting in settings_of(records):
        nll, ece, accuracy = (averages(records, setting, "test", score) for score in ("nll", "ece", "accuracy"))
        known = methods_of(records, setting)
        best = min(known, key=nll.__getitem__)
        lines.append(f"{TITLES[setting]}: least mean NLL has {NAMES[best]}, {number(nll[best])}.")
        for ours in (one for one in OURS if one in known):
            cell = difference(records, setting, ours, "lora_temperature")
            lines.append(
                f"{TITLES[setting]}, {NAMES[ours]}: NLL {number(nll[ours])} against LoRA's {number(nll['lora'])} "
                f"and {number(nll['lora_temperature'])} with a temperature (difference {cell}); accuracy "
                f"{number(accuracy[ours])} against {number(accuracy['lora'])}; ECE {number(ece[ours])} against "
                f"{number(ece['lora'])}."
            )
    return "\n".join(f"- {line}" for line in lines)


def temperature_lines(records: Sequence[dict]) -> str:
    """Returns how much a temperature does for every method, and who is best with it."""
    lines = []
    for setting in settings_of(records):
        known = [method for method in methods_of(records, setting) if method != "lora_temperature"]
        hot = {method: float(np.mean(temperatures(records, setting, method))) for method in known}
        nll = {method: float(np.mean(scores(records, setting, method, "tempered", "nll"))) for method in known}
        order = sorted(known, key=nll.__getitem__)
        lines.append(
            f"{TITLES[setting]}: temperatures are {min(hot.values()):.2f} to {max(hot.values()):.2f} in the mean over "
            f"seeds, and with them the NLL is {number(nll[order[0]])} ({NAMES[order[0]]}) to {number(nll[order[-1]])} "
            f"({NAMES[order[-1]]})."
        )
    return "\n".join(f"- {line}" for line in lines)


def edges_line(records: Sequence[dict]) -> str:
    """Returns which choices are the greater of the two learning rates that were tried."""
    greater: dict[bool, list[str]] = {True: [], False: []}
    for setting in settings_of(records):
        for kind in plan.LEVELS:
            results = [one for one in records if (one["stage"], one["setting"]) == ("result", setting)]
            own = [one for one in results if one["kind"] == kind]
            if own:
                greatest = own[0]["settings"]["learning_rate"] == max(plan.RATES)
                greater[greatest].append(f"{NAMES[kind]} on {TITLES[setting]}")
    if not greater[False]:
        return "- All choices are the greater of two learning rates: the best may lie above."
    return (
        f"- Of two learning rates, the lesser was chosen for {', '.join(greater[False])}, the greater for all others."
    )


def calls_line(records: Sequence[dict]) -> str:
    """Returns which run made the last stages of the plan."""
    if any("blob" in methods_of(records, setting) for setting in TITLES):
        return "BLoB's form and MC dropout are of a third run, which trained eight networks side by side."
    return "BLoB's form and MC dropout, the last stages of the plan, were not begun."


def chosen_table(records: Sequence[dict]) -> str:
    """Returns which configuration each kind of training was tested with."""
    kinds = list(plan.LEVELS)
    rows = [f"| | {' | '.join(NAMES[kind] for kind in kinds)} |", "|---" * (len(kinds) + 1) + "|"]
    for setting in settings_of(records):
        results = [one for one in records if (one["stage"], one["setting"]) == ("result", setting)]
        own = {one["kind"]: short_name(one["configuration"]) for one in results}
        rows.append(f"| {TITLES[setting]} | {' | '.join(own.get(kind, '–') for kind in kinds)} |")
    return "\n".join(rows)


TABLES = {
    "state": state_line,
    "calls": calls_line,
    "zero-shot": zero_shot_table,
    "chance": chance_line,
    "conclusions": conclusions,
    "temperatures": temperature_lines,
    "edges": edges_line,
    "results": results_table,
    "differences": differences_table,
    "chosen": chosen_table,
}


def filled(page: str, records: Sequence[dict]) -> str:
    """Returns the page with its tables."""
    return text.filled(page, {name: table(records) for name, table in TABLES.items()})


if __name__ == "__main__":
    ROOT = Path(__file__).parents[4]
    PAGE = ROOT / "docs" / "language_model_results.md"
    PAGE.write_text(filled(PAGE.read_text(), read_lines(ROOT / "experiments" / "results" / "finetune_language")))
