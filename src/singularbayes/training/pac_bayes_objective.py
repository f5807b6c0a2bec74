"""Training on a PAC-Bayes bound: a loss in [0, 1], and the KL weight with which plain `fit` descends the bound.

A bound F(L̂, KL) of the risk grows with both. Its gradient is ∂F/∂L̂ (∇L̂ + w ∇KL) with w = (∂F/∂KL)/(∂F/∂L̂), so a step
on L̂ + w KL, which is what the posteriors' regularizers give, is a step on F. F is concave in KL: with w from the last
epoch the straight line lies above F and touches it there, so descending the one descends the other.
"""

import math
from typing import Any

import keras
from keras import ops

from singularbayes.bounds import kl_inverse, pac_bayes
from singularbayes.checks import require_choice, require_integer, require_positive, require_share
from singularbayes.models import compiled
from singularbayes.posteriors import find_random_posteriors
from singularbayes.training.data_size import data_of, read_size, remember_data
from singularbayes.training.elbo import kl
from singularbayes.training.kl_schedule import end_interrupted_fit, give_up_kl_weight, prepare_fit, take_kl_weight
from singularbayes.training.logged_loss import log_nll, require_sound_steps
from singularbayes.training.repeated_examples import prepare_mixtures

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


class PACBayesObjective(keras.callbacks.Callback):
    """Makes `fit` descend a PAC-Bayes bound, by the KL weight of each epoch; logs `nll`, `kl`, `kl_weight`, `bound`.

    The model is compiled with a loss in [0, 1], `BoundedCrossentropy`. `nll` is its mean over the epoch, `bound` the
    bound of that loss with the epoch's last KL. It is what is descended, not a certificate: `certify` computes one
    afterwards, which holds whatever the objective was.

    Args:
        num_data: number of examples that will certify, which the prior has not seen; None is the number of this
            `fit`, read from arrays. Of any other data it has to be given.
        delta: of the bound.
        form: "quadratic" (the default of Pérez-Ortiz et al. 2021), "sqrt" (McAllester's) or "kl", the tightest.
        penalty: multiplies the KL weight; 1 is the bound itself.

    >>> import singularbayes as sb
    >>> objective = sb.PACBayesObjective(num_data=60_000, penalty=0.1)  # model.fit(x, y, callbacks=[objective])
    """

    def __init__(self, num_data: int | None = None, delta: float = 0.05, form: str = "quadratic", penalty: float = 1.0):
        super().__init__()
        require_integer("PACBayesObjective", num_data=1 if num_data is None else num_data)
        require_share("PACBayesObjective", delta=delta)
        require_choice("PACBayesObjective", FORMS, form=form)
        require_positive("PACBayesObjective", penalty=penalty)
        self.num_data, self.delta, self.form, self.penalty = num_data, delta, form, penalty
        self._kl_weight: Any = None  # that of the next epoch, where L̂ is known
        self._reads_num_data = num_data is None  # from the data of every `fit`
        self._data: Any = None  # of the `fit` that begins
        remember_data(end_interrupted_fit)

    def set_model(self, model):
        super().set_model(model)
        prepare_mixtures(model)
        log_nll(model)
        take_kl_weight(model, self)
        self._data = data_of(model)

    def on_train_begin(self, logs=None):
        if not find_random_posteriors(self.model):
            raise ValueError(f"PACBayesObjective needs a model with a posterior; got {self.model.name!r} with none.")
        data, self._data = self._data, None
        if self._reads_num_data:
            self.num_data = self._read_num_data(data)
        if self._kl_weight is None:
            self._kl_weight = self.penalty / self._examples  # that of the ELBO
        prepare_fit(self.model, self, "PACBayesObjective" if self._reads_num_data else None)
        self._set_weight()

    @staticmethod
    def _read_num_data(data) -> int:
        size = read_size(data, "PACBayesObjective")
        if not size.exact:
            raise ValueError(
                "PACBayesObjective needs the exact num_data, which it reads from arrays alone; got batches, of "
                f"which about {size.examples} examples are expected. Pass PACBayesObjective(num_data=…)."
            )
        return size.examples

    @property
    def _examples(self) -> int:
        assert self.num_data is not None  # once training has begun
        return self.num_data

    def on_epoch_begin(self, epoch, logs=None):
        self._set_weight()

    def on_epoch_end(self, epoch, logs=None):
        require_sound_steps(self.model)
        logs = {} if logs is None else logs
        if "nll" not in logs:
            raise ValueError(
                f"PACBayesObjective needs `nll` in the logs; the train_step of {self.model.name!r} does not return it. "
                "Let it call compute_loss and return the results of all of the model's metrics."
            )
        risk = float(logs["nll"])
        if not 0 <= risk <= 1:
            raise ValueError(
                f"PACBayesObjective needs a loss in [0, 1], such as BoundedCrossentropy(); got a mean of {risk:.4g}."
            )
        nats = float(ops.convert_to_numpy(compiled(self.model, kl)))
        logs["kl"], logs["kl_weight"] = nats, self._kl_weight
        logs["bound"] = pac_bayes(risk, max(nats, 0.0), self._examples, self.delta, self.form).value
        self._kl_weight = self.penalty * bound_slope(self.form, risk, max(nats, 0.0), self._examples, self.delta)

    def on_train_end(self, logs=None):
        give_up_kl_weight(self.model, self)

    def _set_weight(self):
        for posterior in find_random_posteriors(self.model):
            posterior.set_kl_weight(self._kl_weight)
