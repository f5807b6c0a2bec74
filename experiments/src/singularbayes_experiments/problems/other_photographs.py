"""Images that are none of CIFAR-10's classes, and detectors of them that know no network."""

import numpy as np
from sklearn.datasets import load_sample_images

from singularbayes_experiments import data

SIDE = 32
STRIDE = 16  # pixels between windows


def sets(count: int) -> dict[str, np.ndarray]:
    """Returns other data as images (n, 32, 32, 3) by name: the first `count` clothes and letters, and windows."""
    grey = {"clothes": data.fashion_mnist().test[0], "letters": data.notmnist().test[0]}
    return {name: in_colour(x[:count]) for name, x in grey.items()} | {"windows": windows()}


def in_colour(grey: np.ndarray) -> np.ndarray:
    """Returns grey images of 28 × 28 pixels with a black border, in three equal channels."""
    edge = (SIDE - grey.shape[1]) // 2
    return np.repeat(np.pad(grey, ((0, 0), (edge, edge), (edge, edge)))[..., None], 3, axis=-1)


def windows() -> np.ndarray:
    """Returns windows of scikit-learn's two photographs, a temple and a flower, at half their size.

    >>> windows().shape
    (456, 32, 32, 3)
    """
    found = []
    for photograph in load_sample_images().images:
        height, width = (2 * (length // 2) for length in photograph.shape[:2])
        half = photograph[:height, :width].reshape(height // 2, 2, width // 2, 2, 3).mean(axis=(1, 3)).astype("uint8")
        every = np.lib.stride_tricks.sliding_window_view(half, (SIDE, SIDE), axis=(0, 1))[::STRIDE, ::STRIDE]
        found.append(every.transpose(0, 1, 3, 4, 2).reshape(-1, SIDE, SIDE, 3))
    return np.concatenate(found)


def simple_scores(images: np.ndarray) -> dict[str, np.ndarray]:
    """Returns numbers of each image, the larger, the more it is taken for out-of-distribution.

    An AUROC below one half means that the opposite direction detects.

    >>> flat = np.full((1, 4, 4, 3), 255, "uint8")
    >>> {name: float(score[0]) for name, score in simple_scores(flat).items()}
    {'greyness': -0.0, 'darkness': -1.0, 'contrast': 0.0, 'roughness': 0.0}
    """
    x = images / 255
    most, least, light = x.max(axis=-1), x.min(axis=-1), x.mean(axis=-1)
    saturation = np.where(most > 0, (most - least) / np.maximum(most, 1e-9), 0.0)
    across, down = (np.abs(np.diff(light, axis=axis)).mean(axis=(1, 2)) for axis in (2, 1))
    return {
        "greyness": -saturation.mean(axis=(1, 2)),
        "darkness": -light.mean(axis=(1, 2)),
        "contrast": light.std(axis=(1, 2)),
        "roughness": (across + down) / 2,
    }
