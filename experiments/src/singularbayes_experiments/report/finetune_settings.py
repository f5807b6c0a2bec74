"""Tables of the experiment `finetune` on validation rows: settings of one adapter, tuned and untuned."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from singularbayes_experiments.problems.finetune import CANDIDATES, INITIAL, SCALES, SMALL, Adaptation, scaled
from singularbayes_experiments.report.adapter_tables import number

SST2_ROWS = {"sst2-1000": "1,000 rows", "sst2-4000": "4,000 rows", "sst2": "all rows"}
TITLES = {
    **{name: f"SST-2, {rows}" for name, rows in SST2_ROWS.items()},
    "clinc150-10": "CLINC150, 10 per intent",
    "clinc150": "CLINC150, all",
    "banking77-10": "Banking77, 10 per intent",
    "banking77": "Banking77, all",
}


NEAR = 'sb.Anchored(0.1, anchor="random")'
# What the guide recommends: its words, its code, and what it is in the records.
RECOMMENDED = (
    ("a first try", "sb.Adapter(8)", "scales", "bayes", scaled(3.0, dropout=0.1)),
    (
        "two classes",
        f"sb.Adapter(8, prior={NEAR}, eta=0.6)",
        "tuning",
        "bayes",
        Adaptation("bayes", 6e-4, beta=0.01, eta=0.6),
    ),
    (
        "two classes, the cost of four",
        f'sb.Mixture(sb.Adapter(8, prior={NEAR}, eta=0.6), 4, examples="repeat")',
        "tuning",
        "mixture",
        Adaptation("bayes", 6e-4, beta=0.01, eta=0.6),
    ),
    (
        "many classes",
        'sb.Adapter(8, prior=sb.Normal(0.2), random_factors="a")',
        "tuning",
        "blob",
        Adaptation("blob", 2e-3, dropout=0.2, beta=1.0, width=0.2),
    ),
    (
        "many classes, the cost of four",
        f'sb.Mixture(sb.Adapter(8, prior={NEAR}, eta=0.3), 4, examples="repeat")',
        "tuning",
        "mixture",
        Adaptation("bayes", 2e-3, dropout=0.1, beta=0.01, eta=0.3),
    ),
)


def recommended_table(records: Sequence[dict]) -> str:
    """Returns the validation NLL of what the guide recommends."""
    settings = [one for one in TITLES if one in {setting.name for setting in SMALL}]
    rows = ["| start | " + " | ".join(TITLES[one] for one in settings) + " |", "|---" * (len(settings) + 1) + "|"]
    for words, _, stage, method, adaptation in RECOMMENDED:
        cells = []
        for setting in settings:
            found = [
                one["validation"]["nll"]
                for one in records
                if (one["stage"], one["method"], one["setting"]) == (stage, method, setting)
                and Adaptation(**one["settings"]) == adaptation
            ]
            cells.append(number(float(np.mean(found))) if found else "–")
        rows.append(f"| {words} | {' | '.join(cells)} |")
    return "\n".join(rows)


def levels_table(records: Sequence[dict]) -> str:
    """Returns the validation NLL of the tuning of one adapter by β, η and dropout, each at its best learning rate.

    Full settings tried one level each, and are left out.
    """
    small = {setting.name for setting in SMALL}
    nll: dict[tuple, dict[str, dict[float, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for one in records:
        if (one["stage"], one["method"]) == ("tuning", "bayes") and one["setting"] in small:
            own = one["settings"]
            key = own["beta"], own["eta"], own["dropout"]
            nll[key][one["setting"]][own["learning_rate"]].append(one["validation"]["nll"])
    settings = [name for name in TITLES if any(name in each for each in nll.values())]
    rows = ["| β / width² | η | dropout | " + " | ".join(TITLES[one] for one in settings) + " |"]
    rows.append("|---" * (len(settings) + 3) + "|")
    for (beta, eta, dropout), each in sorted(nll.items()):
        means = [{rate: float(np.mean(found)) for rate, found in each[setting].items()} for setting in settings]
        rates = [min(mean, key=mean.__getitem__) for mean in means]
        cells = " | ".join(f"{number(mean[rate])} ({rate:g})" for mean, rate in zip(means, rates, strict=True))
        rows.append(f"| {beta / 0.1**2:.3g} | {eta:g} | {dropout:g} | {cells} |")
    return "\n".join(rows)


def defaults_table(records: Sequence[dict]) -> str:
    """Returns the validation NLL of adapters that nobody tunes, by β / width², and their mean loss against the best."""
    nll: dict[tuple, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in records:
        if one["stage"] == "defaults":
            own = one["settings"]
            key = (own["head"], own["beta"] / own["width"] ** 2, own["eta"], own["rho_lr"], own["width"], own["beta"])
            nll[key][one["setting"]].append(one["validation"]["nll"])
    settings = [name for name in TITLES if any(name in each for each in nll.values())]
    means = {key: np.array([np.mean(each[setting]) for setting in settings]) for key, each in nll.items()}
    least = np.min(list(means.values()), axis=0)
    heads = [*(TITLES[setting] for setting in settings), "mean above the least"]
    rows = [f"| β / width² | β | width | η | ρ rate | head | {' | '.join(heads)} |", "|---" * (len(heads) + 6) + "|"]
    for head, strength, eta, rho_lr, width, beta in sorted(means):
        values = means[head, strength, eta, rho_lr, width, beta]
        cells = " | ".join(number(value) for value in [*values, np.mean(values - least)])
        kind = "random" if head else "plain"
        rows.append(f"| {strength:.3g} | {beta:g} | {width:g} | {eta:g} | {rho_lr:g} | {kind} | {cells} |")
    return "\n".join(rows)


def scales(records: Sequence[dict]) -> dict[Adaptation, dict[str, float]]:
    """Returns the mean validation NLL over the tuning seeds of `SCALES`, by configuration and setting."""
    nll: dict[Adaptation, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in records:
        if one["stage"] == "scales":
            nll[Adaptation(**one["settings"])][one["setting"]].append(one["validation"]["nll"])
    return {one: {name: float(np.mean(each[name])) for name in TITLES if name in each} for one, each in nll.items()}


def losses_of_scales(records: Sequence[dict]) -> dict[float, float]:
    """Returns for every candidate c how far it is above the least, in the mean over settings and dropout 0 and .1."""
    found = scales(records)
    each = [
        np.array([[found[scaled(c, dropout=dropout)][setting] for setting in found[SCALES[0]]] for c in CANDIDATES])
        for dropout in (0.0, 0.1)
    ]
    above = np.mean([values - values.min(axis=0) for values in each], axis=(0, 2))
    return dict(zip(CANDIDATES, above.tolist(), strict=True))


def default_scale(records: Sequence[dict]) -> float:
    """Returns the least candidate within .01 of the least mean loss: the rule of the plan."""
    losses = losses_of_scales(records)
    return min(c for c, loss in losses.items() if loss <= min(losses.values()) + 0.01)


def scales_table(records: Sequence[dict]) -> str:
    """Returns the validation NLL of adapters whose prior has c times their initial scales."""
    found = scales(records)
    settings = list(found[SCALES[0]])
    least = {setting: min(each[setting] for each in found.values()) for setting in settings}
    heads = [*(TITLES[setting] for setting in settings), "mean above the least"]
    rows = ["| c | KL at the start | β / width² | β | η | dropout | learning rate | " + " | ".join(heads) + " |"]
    rows.append("|---" * (len(heads) + 7) + "|")
    for one in SCALES:
        c = round(one.width / (one.eta * INITIAL), 1)
        start = np.log(c) + 0.5 / c**2 - 0.5
        values = [found[one][setting] for setting in settings]
        cells = " | ".join(map(number, [*values, float(np.mean(np.subtract(values, list(least.values()))))]))
        own = f"{one.beta / one.width**2:.3g} | {one.beta:g} | {one.eta:g} | {one.dropout:g} | {one.learning_rate:g}"
        rows.append(f"| {c:g} | {number(start)} | {own} | {cells} |")
    return "\n".join(rows)


def scales_sentence(records: Sequence[dict]) -> str:
    """Returns what the rule of the plan chooses."""
    losses = ", ".join(f"{c:g}: {number(loss)}" for c, loss in losses_of_scales(records).items())
    return f"Mean loss of every c, by the rule of the plan: {losses}. It chooses c = {default_scale(records):g}."
