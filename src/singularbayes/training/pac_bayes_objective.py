"""Training on a PAC-Bayes bound: a loss in [0, 1], and the KL weight with which plain `fit` descends the bound.

A bound F(L̂, KL) of the risk grows with both. Its gradient is ∂F/∂L̂ (∇L̂ + w ∇KL) with w = (∂F/∂KL)/(∂F/∂L̂), so a step
on L̂ + w KL, which is what the posteriors' regularizers give, is a step on F. F is concave in KL: with w from the last
epoch the straight line lies above F and touches it there, so descending the one descends the other.
"""

import math

from singularbayes.bounds import kl_inverse, pac_bayes
from singularbayes.checks import require_choice, require_integer, require_positive, require_share
from singularbayes.training.kl_schedule import KLWeightCallback

FORMS = ("quadratic", "sqrt", "kl")


def bound_slope(form: str, risk: float, kl: float, num_data: int, delta: float = 0.05) -> float:
    """Returns w = (∂F/∂KL)/(∂F/∂L̂) of a PAC-Bayes bound F: how much empirical risk a nat of KL is worth.

    With B = (KL + ln(2√N/δ))/N: "quadratic" (1 + √(1 + 2 L̂/B))/(2N), "sqrt" 1/(4N √(B/2)), and "kl"
    1/(N ln(p (1 − L̂)/(L̂ (1 − p)))) at p = kl⁻¹(L̂ | B). Of the three only "sqrt" does not look at L̂.

    >>> [bound_slope(form, 0.05, 2000.0, 60_000) * 60_000 for form in FORMS]
    [1.498, 1.932, 0.986]
    """
    require_choice("bound_slope", FORMS, form=form)
    budget = (kl + math.log(2 * math.sqrt(num_data) / delta)) / num_data
    if form == "quadratic":
        return (1 + math.sqrt(1 + 2 * risk / budget)) / (2 * num_data)
    if form == "sqrt":
        return 1 / (4 * num_data * math.sqrt(budget / 2))
    risk = min(max(risk, 1e-9), 1 - 1e-9)
    p = min(kl_inverse(risk, budget), 1 - 1e-12)
    return 1 / (num_data * math.log(p * (1 - risk) / (risk * (1 - p))))


class PACBayesObjective(KLWeightCallback):
    """Makes `fit` descend a PAC-Bayes bound, by the KL weight of each epoch; logs `nll`, `kl`, `kl_weight`, `bound`.

    The model is compiled with a loss in [0, 1], `BoundedCrossentropy`. `nll` is its mean over the epoch, as
    `KLSchedule` logs it, and `bound` the bound of that loss with the epoch's last KL. It is what is descended, not a
    certificate: `certify` computes one afterwards, which holds whatever the objective was.

    Args:
        num_data: number of examples that will certify, which the prior has not seen; None counts those of the `fit`,
            as in `KLSchedule`.
        delta: of the bound.
        form: "quadratic" (the default of Pérez-Ortiz et al. 2021), "sqrt" (McAllester's) or "kl", the tightest.
        penalty: multiplies the KL weight; 1 is the bound itself.

    >>> import singularbayes as sb
    >>> objective = sb.PACBayesObjective(num_data=60_000, penalty=0.1)  # model.fit(x, y, callbacks=[objective])
    """

    def __init__(self, num_data: int | None = None, delta: float = 0.05, form: str = "quadratic", penalty: float = 1.0):
        require_integer("PACBayesObjective", num_data=1 if num_data is None else num_data)
        require_share("PACBayesObjective", delta=delta)
        require_choice("PACBayesObjective", FORMS, form=form)
        require_positive("PACBayesObjective", penalty=penalty)
        super().__init__(num_data)
        self.delta, self.form, self.penalty = delta, form, penalty
        self._slope: float | None = None  # for the next epoch, where L̂ is known

    def weight(self, epoch):
        return self.penalty * (1 / self.num_data if self._slope is None else self._slope)  # first that of the ELBO

    def end_epoch(self, epoch, logs):
        if self._ended == epoch:
            return
        super().end_epoch(epoch, logs)
        if not logs or "nll" not in logs:
            raise ValueError(
                f"PACBayesObjective needs `loss` in the logs; the train_step of {self.model.name!r} does not return it."
            )
        risk, nats = float(logs["nll"]), max(logs["kl"], 0.0)
        if not 0 <= risk <= 1:
            raise ValueError(
                f"PACBayesObjective needs a loss in [0, 1], such as BoundedCrossentropy(); got a mean of {risk:.4g}."
            )
        logs["bound"] = pac_bayes(risk, nats, self.num_data, self.delta, self.form).value
        self._slope = bound_slope(self.form, risk, nats, self.num_data, self.delta)
