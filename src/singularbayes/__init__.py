"""Low-rank variational Bayesian neural networks for Keras 3.

>>> import keras, singularbayes as sb
>>> from singularbayes import layers, LowRank
>>> model = keras.Sequential([layers.Dense(128, "relu", posterior=LowRank(15)), layers.Dense(1, posterior=LowRank(1))])

Names are imported when they are first used, so that `singularbayes.metrics` and the command line start without Keras.
`__init__.pyi` lists them.
"""

import os
import sys

import lazy_loader

if "keras" not in sys.modules:  # else its backend is chosen already
    os.environ.setdefault("KERAS_BACKEND", "jax")

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
