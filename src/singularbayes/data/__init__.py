"""Files in, arrays out: one loader a data set, each checked against the sums of what was published.

A file is looked for in `$SINGULARBAYES_DATA/<set>/`, then in the cache; else it is downloaded into the cache.
"""

from singularbayes.data.images import Images, fashion_mnist, mnist, notmnist
from singularbayes.data.source import DataError

__all__ = ["DataError", "Images", "fashion_mnist", "mnist", "notmnist"]
