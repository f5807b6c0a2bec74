"""A check that comes before the first step of training."""

import keras


class KLGuard(keras.metrics.Metric):
    """Refuses a loss without its KL before any step: `fit`, `evaluate` and `train_on_batch` reset the metrics first.

    The check in `sample` alone would come too late on JAX, where an error inside a step loses the model's weights.
    """

    def __init__(self, check):
        super().__init__(name="kl_guard")
        self.check = check

    def reset_state(self):
        self.check()

    def update_state(self, *args, **kwargs):
        """Nothing to count."""

    def result(self):
        return {}
