"""Eight of the corruptions of CIFAR-10-C (Hendrycks and Dietterich 2019), with its constants for five severities.

They take and return uint8 images (n, 32, 32, 3). The noise comes from seeds of its own, so the images are not those of
the published files; the distributions are.
"""

import io
from collections.abc import Callable

import numpy as np
from scipy import ndimage

from singularbayes.checks import require_package


def gaussian_noise(x: np.ndarray, constant: float, rng: np.random.Generator) -> np.ndarray:
    return _bytes(x / 255 + constant * rng.standard_normal(x.shape, "float32"))


def shot_noise(x: np.ndarray, constant: float, rng: np.random.Generator) -> np.ndarray:
    return _bytes(rng.poisson(x / 255 * constant) / constant)


def impulse_noise(x: np.ndarray, constant: float, rng: np.random.Generator) -> np.ndarray:
    hit, salt = rng.random(x.shape) < constant, rng.random(x.shape) < 0.5
    return np.where(hit, np.where(salt, 255, 0), x).astype("uint8")


def defocus_blur(x: np.ndarray, constant: tuple[float, float], rng: np.random.Generator) -> np.ndarray:
    """A disk of a radius, its edge softened by a 3 × 3 Gaussian."""
    radius, blur = constant
    places = np.arange(-3, 4)
    sharp = (places[:, None] ** 2 + places**2 <= radius**2).astype("float64")
    side = np.exp(-0.5 * (np.array([-1, 0, 1]) / blur) ** 2)
    disk = ndimage.convolve(sharp / sharp.sum(), np.outer(side, side) / side.sum() ** 2, mode="mirror")
    return _bytes(ndimage.convolve(x / 255, disk[None, :, :, None], mode="mirror"))


def brightness(x: np.ndarray, constant: float, rng: np.random.Generator) -> np.ndarray:
    """A larger value of hue, saturation and value: all channels grow by one factor; black becomes grey."""
    scaled = x / 255
    value = scaled.max(axis=-1, keepdims=True)
    wanted = np.minimum(value + constant, 1.0)
    return _bytes(np.where(value > 0, scaled * wanted / np.maximum(value, 1e-9), wanted))


def contrast(x: np.ndarray, constant: float, rng: np.random.Generator) -> np.ndarray:
    means = x.mean(axis=(1, 2), keepdims=True) / 255
    return _bytes((x / 255 - means) * constant + means)


def pixelate(x: np.ndarray, constant: float, rng: np.random.Generator) -> np.ndarray:
    pictures = require_package("PIL.Image", "plots", "Pixelated images")
    box, side = pictures.Resampling.BOX, int(x.shape[1] * constant)
    small = (pictures.fromarray(image).resize((side, side), box) for image in x)
    return np.stack([np.asarray(image.resize(x.shape[1:3], box)) for image in small])


def jpeg_compression(x: np.ndarray, constant: int, rng: np.random.Generator) -> np.ndarray:
    pictures = require_package("PIL.Image", "plots", "JPEG images")
    files = [io.BytesIO() for _ in x]
    for image, file in zip(x, files, strict=True):
        pictures.fromarray(image).save(file, "JPEG", quality=constant)
    return np.stack([np.asarray(pictures.open(file)) for file in files])


CONSTANTS: dict[Callable, tuple] = {
    gaussian_noise: (0.04, 0.06, 0.08, 0.09, 0.10),
    shot_noise: (500, 250, 100, 75, 50),
    impulse_noise: (0.01, 0.02, 0.03, 0.05, 0.07),
    defocus_blur: ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
    brightness: (0.05, 0.1, 0.15, 0.2, 0.3),
    contrast: (0.75, 0.5, 0.4, 0.3, 0.15),
    pixelate: (0.95, 0.9, 0.85, 0.75, 0.65),
    jpeg_compression: (80, 65, 58, 50, 40),
}
NAMES = tuple(function.__name__ for function in CONSTANTS)


def corrupted(x: np.ndarray, seed: int = 0) -> np.ndarray:
    """Returns all images under all corruptions, (corruptions, severities, n, 32, 32, 3)."""
    return np.stack(
        [
            [function(x, constant, np.random.default_rng([seed, i, j])) for j, constant in enumerate(constants)]
            for i, (function, constants) in enumerate(CONSTANTS.items())
        ]
    )


def _bytes(x: np.ndarray) -> np.ndarray:
    return (np.clip(x, 0.0, 1.0) * 255).astype("uint8")
