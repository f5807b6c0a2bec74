"""Early stopping by the likelihood of held-out data, which begins when the KL weight is full."""

import keras

_MINIMISED = ("nll", "kl", "kl_weight", "bound")  # what Keras has no metric of, so that it cannot tell


class EarlyStopping(keras.callbacks.EarlyStopping):
    """`keras.callbacks.EarlyStopping` by `val_loss`, the loss of the validation data, in which there is no KL.

    It watches from the first epoch with the full KL weight on, after zero epochs and warm-up of the `KLSchedule` of the
    same `fit`: before, the likelihood still gets better because the prior does not count yet. Its place in the list of
    callbacks does not matter, also where it watches `nll`, `kl` or `kl_weight`. The weights of the best epoch are
    restored.

    Args:
        monitor: what is watched; `val_loss` needs `validation_data` or `validation_split`.
        patience: epochs without an improvement before training stops.
        mode: "min" or "max"; "auto" is "min" for what this library logs, and as in Keras for metrics.
        start_from_epoch: the first epoch that counts; None is the first with the full KL weight.
        options: further arguments of Keras's callback: min_delta, baseline, verbose, restore_best_weights.

    >>> import keras, numpy as np, singularbayes as sb
    >>> model = keras.Sequential([keras.Input((1,)), sb.layers.Dense(1, posterior=sb.FullRank())])
    >>> model.compile(keras.optimizers.SGD(0.0), "mse")
    >>> x, callbacks = np.ones((20, 1)), [sb.EarlyStopping(min_delta=9.0, patience=1), sb.KLSchedule(16, warmup=3)]
    >>> model.fit(x, x, epochs=50, validation_split=0.2, callbacks=callbacks, verbose=0).epoch
    [0, 1, 2, 3, 4]
    """

    def __init__(self, monitor="val_loss", patience=10, mode="auto", start_from_epoch=None, **options):
        if mode == "auto" and monitor.removeprefix("val_") in _MINIMISED:
            mode = "min"
        options = {"restore_best_weights": True, **options}
        super().__init__(monitor, patience=patience, mode=mode, start_from_epoch=start_from_epoch or 0, **options)
        self._after_ramp = start_from_epoch is None

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        if self._after_ramp:
            self.start_from_epoch = getattr(self._schedule, "full_epoch", 0)

    def on_epoch_end(self, epoch, logs=None):
        if self._schedule is not None:  # may come later in the list
            self._schedule.end_epoch(epoch, logs)
        super().on_epoch_end(epoch, logs)

    @property
    def _schedule(self):
        found = getattr(self.model, "_kl_callback", None)  # one of an interrupted `fit` may still be there
        return found if found is not None and found.history is self.model.history else None
