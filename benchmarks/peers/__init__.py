"""One file a rival, each with the same two functions.

    train(shape, variant)   -> a function that trains some steps and returns how many
    predict(shape, variant) -> a function of (x, draws, batch) that returns the mean prediction of every example

Each also has `PACKAGES`, whose versions are recorded, and `VECTORISED`, true when draws are taken together.
"""


class NoSuchLayer(Exception):
    """The library has no layer that the network needs."""
