"""Fine-tuning a pretrained encoder with uncertainty: the plan, written before its runs.

Encoder: MiniLM-L6 (22.7 M weights, the KerasHub BERT backbone), frozen with its biases and normalisations. Every method
trains the same low-rank part W = W₀ + A Bᵀ, rank 8, of the six matrices of each block, and a new head on the mean of
the tokens. Frozen weights compute in bfloat16; what is trained is kept in float32.

Settings: SST-2 with 1,000, 4,000 and all rows (test: the 872 sentences of dev; no OOD data), CLINC150 with 10 queries
per intent and all (OOD: its 1,000 out-of-scope test queries), Banking77 with 10 per intent and all (OOD: the same
queries). Small settings draw other rows for every seed. Validation rows are fixed: 435 whole sentences of SST-2
with all their phrases, of which 2,000 rows; CLINC150's own 3,000; every seventh query of each intent of Banking77
(whose full setting is the rest).

Methods: LoRA by maximum likelihood; with a temperature fitted on validation rows; an ensemble of 5; MC dropout (the
encoder's own dropouts, in training and prediction); BLoB's form (A random with prior N(0, 0.2²), B not); the Bayesian
adapter (A and B random); a mixture of 4 of these, every component trained on every example, which is 4 adapters with
starts and heads of their own whose predictions are averaged. All train with Adam, batches of 32 of similar length, a
linear warm-up over 6 % of the steps and a linear decay to 0. Dropout in training is open to every method; in prediction
it is on for MC dropout alone. The scores of every method are also kept with a temperature fitted on validation rows.

Tuning, by `docs/protocol.md`: 16 configurations per method and small setting, four learning rates × four levels of what
regularises the method, two tuning seeds, least mean validation NLL; no OOD score decides ties, because the proxy of the
protocol has no counterpart for text, so the lower mean wins. This is a second plan. The first, with six configurations,
was run on SST-2 with 4,000 rows alone, and its results were seen: nearly all methods chose the least learning rate that
they had (the Bayesian adapter's was three times that of the others) and MC dropout the greatest rate. So the rates of
SST-2 reach lower, those of intents, which have hundreds of steps for a new head, higher; rates of dropout and β of
BLoB's form go beyond their edges. For the Bayesian adapter β / width² is 1, 30 or 100, by the table of `DEFAULTS`, and
η .3 or .6: before any training these change the mean of the tokens as much as a dropout of .1 and of .2 to .3 (relative
change of 64 sentences' logits under a random head: η .1: .11, .3: .35, .6: .76, 1: 1.4; dropout .1: .35, .2: .52,
.3: .68).

A full setting tries three per method, from the largest small setting of its data: the choice there, and that one with
half and with double its learning rate. LoRA and its ensemble train the same networks, and so do adapter and mixture:
where their choices differ, both are tried, and half the learning rate of the second. The temperature takes the
configuration that was chosen for LoRA. Five result seeds. Mixtures and ensembles are tuned as such, by the NLL of
their averaged predictions.

Predictions average 8 draws on validation rows and 16 on test rows, of a mixture 2 and 4 per component. The order of
work is that of `SETTINGS`; what does not fit into the time of the run is left out from its end, whole settings for all
methods alike: first the tuning of a full setting, which then takes the choices of the small one, then it itself.

A third call is for what the second left out: the full settings, last-layer Laplace and MonteCLoRA. Configurations,
seeds and choices are as above. Laplace takes LoRA's networks of every setting; those of the small ones are trained
again with the same seeds, for their features, after the full settings. The blocks of the encoder are one scanned block
now, which changes nothing but rounding.

A fourth call is for what the third left out: the results of SST-2 with all rows, which was tuned, LoRA's features of
the small settings and of SST-2 for Laplace, MonteCLoRA on CLINC150 and its last seed on SST-2.

A fifth call is for what the fourth left out: MonteCLoRA on CLINC150 with 10 queries per intent (the other learning
rate of its tuning, then the results) and its last seed on SST-2; LoRA's features of both settings of intents with 10
queries each and of SST-2 with all rows, for Laplace, five networks side by side. Configurations, seeds and choices are
as above. MonteCLoRA's steps are CUDA graphs now (`runs/monteclora_steps.py`), which changes rounding alone.

`DEFAULTS` is another question, asked on validation rows alone: which prior width, β, η and learning rate of ρ suit an
adapter that nobody tunes, and should its head be random, too. It takes no part in the comparison.

`SCALES` continues there. A newcomer sets nothing: β is the .03 of `KLSchedule()`, η .1, and the encoder drops out at
the .1 of its preset. Which scale should the default prior have then, as a multiple of the initial posterior scales? The
KL starts with log c + 1/(2 c²) − ½ nats per scalar: 0 for c = 1, .32 for 2, .65 for 3, .92 for 4, 1.99 for 12. By the
table of `DEFAULTS`, β / width² = 100 loses least, which is c = 2 here. The rule, written before the run: for each c of
`CANDIDATES` the validation NLL above the least candidate's, averaged over the three settings and over dropout 0 and .1,
at learning rate 10⁻³; the least c within .01 of the least mean becomes the default. Other learning rates, η = .3 and
equal ratios with c = 1 and 12 are tried beside, to be reported.
"""

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

RANK = 8
BATCH = 32
LENGTHS = (12, 16, 24, 32, 64)  # tokens that a batch is padded to; longer texts are cut
WARM_UP = 0.06  # share of the steps
TUNING_SEEDS = (0, 1)
RESULT_SEEDS = (10, 11, 12, 13, 14)
TUNING_DRAWS, RESULT_DRAWS = 8, 16
ENSEMBLE, MIXTURE = 5, 4
OFF = 1e-9  # a posterior scale of practically 0
FLAT = 1e6  # the width of a prior without influence

Kind = Literal["lora", "mc_dropout", "blob", "bayes"]


@dataclass(frozen=True)
class Setting:
    """A data set and how many of its rows train.

    Args:
        rows: in all, or per intent; None is all of them.
        tuned_as: the small setting whose choices a full one starts from.
    """

    name: str
    data: str
    rows: int | None
    per_class: bool
    epochs: int
    tuned_as: str | None = None


SETTINGS = (
    Setting("clinc150-10", "clinc150", 10, True, 20),
    Setting("banking77-10", "banking77", 10, True, 20),
    Setting("sst2-1000", "sst2", 1000, False, 10),
    Setting("sst2-4000", "sst2", 4000, False, 5),
    Setting("clinc150", "clinc150", None, False, 8, tuned_as="clinc150-10"),
    Setting("banking77", "banking77", None, False, 8, tuned_as="banking77-10"),
    Setting("sst2", "sst2", None, False, 2, tuned_as="sst2-4000"),
)
SMALL = tuple(setting for setting in SETTINGS if setting.tuned_as is None)


@dataclass(frozen=True)
class Adaptation:
    """How one adapter is trained.

    Args:
        dropout: rate of the encoder's dropouts in training, of MC dropout in prediction, too.
        width: standard deviation of the prior around the initial means; of BLoB's around 0.
        eta: initial posterior scales as a multiple of the scale of the means of A.
        rho_lr: learning rate of ρ as a multiple of the optimizer's.
        head: whether the head is random, too: prior N(0, 0.2²), initial scale 0.02.
    """

    kind: Kind
    learning_rate: float
    dropout: float = 0.0
    beta: float = 0.0
    width: float = 0.1
    eta: float = 0.1
    rho_lr: float = 1.0
    head: bool = False

    @property
    def name(self) -> str:
        """What differs from the defaults, short."""
        mine = {key: value for key, value in asdict(self).items() if value != _UNSET.get(key)}
        return ", ".join(f"{key} {value:g}" for key, value in mine.items() if key != "kind")


_UNSET = {"dropout": 0.0, "beta": 0.0, "width": 0.1, "eta": 0.1, "rho_lr": 1.0, "head": False}
RATES = {
    "sst2": (7e-5, 2e-4, 6e-4, 2e-3),
    "clinc150": (2e-4, 6e-4, 2e-3, 6e-3),
    "banking77": (2e-4, 6e-4, 2e-3, 6e-3),
}
LEVELS: dict[Kind, tuple[dict[str, Any], ...]] = {
    "lora": ({}, {"dropout": 0.1}, {"dropout": 0.2}, {"dropout": 0.3}),
    "mc_dropout": ({"dropout": 0.1}, {"dropout": 0.2}, {"dropout": 0.3}, {"dropout": 0.4}),
    "blob": ({"beta": 0.1}, {"beta": 1.0}, {"beta": 10.0}, {"beta": 1.0, "dropout": 0.2}),
    "bayes": (
        {"beta": 0.01, "eta": 0.3, "dropout": 0.1},
        {"beta": 0.01, "eta": 0.6},
        {"beta": 0.3, "eta": 0.6, "dropout": 0.1},
        {"beta": 1.0, "eta": 0.3, "dropout": 0.1},
    ),
}


def configurations(data: str) -> dict[Kind, tuple[Adaptation, ...]]:
    """Returns what every kind of training tries on the small settings of a data set."""
    width: dict[Kind, dict[str, Any]] = {"blob": {"width": 0.2}}
    return {
        kind: tuple(Adaptation(kind, lr, **level, **width.get(kind, {})) for level in levels for lr in RATES[data])
        for kind, levels in LEVELS.items()
    }


DEFAULTS = (
    *(
        Adaptation("bayes", 1e-3, beta=beta, width=width, eta=eta, rho_lr=rho_lr)
        for width, beta, (eta, rho_lr) in itertools.product(
            (0.03, 0.1, 0.3), (0.01, 0.1, 1.0), ((0.1, 1.0), (0.3, 1.0), (0.1, 4.0))
        )
    ),
    *(
        Adaptation("bayes", 1e-3, beta=beta, width=width, head=True)
        for width, beta in itertools.product((0.03, 0.1), (0.01, 0.1, 1.0))
    ),
)

CANDIDATES = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 12.0)
BETA = 0.03  # of `KLSchedule()`
INITIAL = 0.0789  # scale of the means of A: KerasHub's BERT has initial weights of about 0.0176, and the rank is 8


def scaled(
    c: float, learning_rate: float = 1e-3, beta: float = BETA, eta: float = 0.1, dropout: float = 0.0
) -> Adaptation:
    """Returns an adapter whose prior has c times its initial posterior scales.

    >>> round(scaled(12.0, beta=1.0).width, 3)
    0.095
    """
    return Adaptation("bayes", learning_rate, dropout, beta, round(c * eta * INITIAL, 5), eta)


SCALES = (
    *(scaled(c, dropout=dropout) for c in CANDIDATES for dropout in (0.0, 0.1)),
    *(scaled(c, rate) for c in (1.0, 2.0, 3.0, 4.0, 12.0) for rate in (3e-4, 3e-3)),
    *(scaled(c, eta=0.3, dropout=0.1) for c in (1.0, 2.0, 4.0)),
    *(scaled(12.0, beta=1.0, dropout=dropout) for dropout in (0.0, 0.1)),
    *(scaled(1.0, beta=beta) for beta in (0.0021, 0.007)),  # ratios of 30 and 100 with a KL that starts at 0
)

# Method in the tables → kind of training, number of networks that are averaged.
METHODS: dict[str, tuple[Kind, int]] = {
    "lora": ("lora", 1),
    "lora_temperature": ("lora", 1),
    "lora_ensemble": ("lora", ENSEMBLE),
    "mc_dropout": ("mc_dropout", 1),
    "blob": ("blob", 1),
    "bayes": ("bayes", 1),
    "mixture": ("bayes", MIXTURE),
}
NETWORKS: dict[Kind, int] = {"lora": ENSEMBLE, "mc_dropout": 1, "blob": 1, "bayes": MIXTURE}  # of a run of tuning


@dataclass(frozen=True)
class Trained:
    """One network to train: its start and noise come from `start`, its rows from `seed`, their order from `order`."""

    adaptation: Adaptation
    seed: int
    component: int = 0

    @property
    def start(self) -> int:
        return self.seed + 1000 * self.component

    @property
    def order(self) -> int:
        """Members of an ensemble shuffle on their own; components of a mixture see the same batches."""
        return self.component if self.adaptation.kind == "lora" else 0


def tuning(tried: dict[Kind, tuple[Adaptation, ...]], size: int) -> list[list[Trained]]:
    """Returns the networks of all tuning seeds in chunks of at most `size`; those of one run stay together."""
    runs = [
        [Trained(one, seed, component) for component in range(NETWORKS[kind])]
        for kind, every in tried.items()
        for one in every
        for seed in TUNING_SEEDS
    ]
    chunks: list[list[Trained]] = []
    for run in sorted(runs, key=len, reverse=True):
        room = next((chunk for chunk in chunks if len(chunk) + len(run) <= size), None)
        if room is None:
            chunks.append(room := [])
        room += run
    return chunks


def around(chosen: Sequence[Adaptation]) -> tuple[Adaptation, ...]:
    """Returns what a full setting tries: the choices of the small one, then half and double the last one's rate."""
    more = [replace(chosen[-1], learning_rate=chosen[-1].learning_rate * by) for by in (0.5, 2.0)]
    return tuple(dict.fromkeys([*chosen, *more]))[:3]


def results(chosen: dict[str, Adaptation], seeds: Sequence[int] = RESULT_SEEDS) -> list[Trained]:
    """Returns the networks of all methods with their chosen configurations, each once."""
    found = {
        Trained(chosen[method], seed, component): None
        for method, (_, count) in METHODS.items()
        for seed in seeds
        for component in range(count)
    }
    return list(found)
