"""Fine-tuning a language model on multiple choice, with uncertainty: the plan, written before its runs.

Model: SmolLM2-135M-Instruct (30 Llama blocks, `finetune_language_model.py`), frozen. Every method trains the same
low-rank part W = W₀ + A Bᵀ, rank 8, of the seven matrices of each block, and nothing else: there is no new head. The
score of a choice is the log-probability of its tokens after the question, their sum or their mean; a softmax over the
choices gives the probabilities. Of sum and mean the one with the higher zero-shot accuracy on validation questions is
taken, per data set, for all methods. Frozen weights compute in bfloat16; what is trained is kept in float32.

Data: ARC-Easy (2,247 training questions of which a fifth, drawn once, validates; test 2,376 less those left out) and
OpenBookQA (4,957, a fifth validates; test 500). The few questions with five choices are left out. No OOD data.

Methods, with the words of `finetune.py`: zero-shot (nothing trained), LoRA by maximum likelihood; with a temperature
fitted on validation questions; an ensemble of 5; MC dropout (the dropouts of attention that KerasHub's block has, in
training and prediction); BLoB's form; the Bayesian adapter; a mixture of 4 of these. All train with Adam, batches of 16
questions of similar length, a linear warm-up over 6 % of the steps and a linear decay to 0; three epochs of ARC-Easy,
two of OpenBookQA. The scores of every method are also kept with a temperature fitted on validation questions.

Tuning, a small form of `docs/protocol.md`: four configurations per kind of training, two learning rates × two levels of
what regularises it, two tuning seeds, least mean validation NLL. Ensemble and mixture take the choices of LoRA and of
the Bayesian adapter (they are not tuned as such, for time). Three result seeds; test questions are read once, at the
end. The learning rates are those that LoRA chose in the encoder's experiment on SST-2.

Predictions average 4 draws on validation questions in tuning, 8 in the results (2 per component of a mixture). LoRA is
clearly above chance where the lower end of its 95 % interval of test accuracy, over the questions, is above 0.25 + 0.05
for every seed; else nothing more is concluded.

Order of work: zero-shot of both sets, then LoRA and the Bayesian adapter for each set, then BLoB's form and MC dropout:
tuning before results. What does not fit into the time of the run is left out at its end, and named. The first call had
results of LoRA and the Bayesian adapter on ARC-Easy; the second those on OpenBookQA. The third is for BLoB's form and
MC dropout on both, eight networks side by side, which changes rounding alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from singularbayes_experiments.problems.finetune import ENSEMBLE, METHODS, MIXTURE, Adaptation, Kind, Trained

RANK, BATCH, CHOICES = 8, 16, 4
LENGTHS = (48, 96)  # tokens that a batch is padded to
SLOTS = {48: 32, 96: 64}  # tokens of choices, of all choices of a question
CHOICE_TOKENS = 16
TUNING_SEEDS = (0, 1)
RESULT_SEEDS = (10, 11, 12)
TUNING_DRAWS, RESULT_DRAWS = 4, 8
TEST_QUESTIONS = {"arc_easy": 2372, "openbookqa": 500}
CHANCE, MARGIN = 0.25, 0.05


@dataclass(frozen=True)
class LanguageSetting:
    """A data set and how long it trains."""

    name: str
    epochs: int


SETTINGS = (LanguageSetting("arc_easy", 3), LanguageSetting("openbookqa", 2))
RATES = (2e-4, 6e-4)
LEVELS: dict[Kind, tuple[dict[str, Any], ...]] = {
    "lora": ({}, {"dropout": 0.1}),
    "bayes": ({"beta": 0.01, "eta": 0.3}, {"beta": 0.3, "eta": 0.3}),
    "blob": ({"beta": 0.1, "width": 0.2}, {"beta": 1.0, "width": 0.2}),
    "mc_dropout": ({"dropout": 0.1}, {"dropout": 0.2}),
}
STAGES: tuple[tuple[Kind, ...], ...] = (("lora", "bayes"), ("blob", "mc_dropout"))


def configurations(kind: Kind) -> tuple[Adaptation, ...]:
    """Returns what a kind of training tries.

    >>> [one.name for one in configurations("lora")]  # doctest: +NORMALIZE_WHITESPACE
    ['learning_rate 0.0002', 'learning_rate 0.0006',
     'learning_rate 0.0002, dropout 0.1', 'learning_rate 0.0006, dropout 0.1']
    """
    return tuple(Adaptation(kind, rate, **level) for level in LEVELS[kind] for rate in RATES)


def methods(kinds: Sequence[Kind]) -> dict[str, tuple[Kind, int]]:
    """Returns the methods that networks of these kinds make, with how many are averaged."""
    return {method: (kind, count) for method, (kind, count) in METHODS.items() if kind in kinds}


def tuning(kinds: Sequence[Kind]) -> list[Trained]:
    """Returns the networks of tuning."""
    return [Trained(one, seed) for kind in kinds for one in configurations(kind) for seed in TUNING_SEEDS]


def results(chosen: dict[Kind, Adaptation]) -> list[Trained]:
    """Returns the networks of the results, those of one network per seed first."""
    counts = {"lora": ENSEMBLE, "bayes": MIXTURE}
    wanted = [
        Trained(one, seed, component)
        for kind, one in chosen.items()
        for seed in RESULT_SEEDS
        for component in range(counts.get(kind, 1))
    ]
    return sorted(wanted, key=lambda one: one.component)
