"""A U-Net that segments discs and squares, converted: the figure unet.png of convert.md, an uncertainty per pixel.

pip install ".[plots]"
python docs/scripts/unet.py
"""

import json
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np

import singularbayes as sb

FOLDER = Path(__file__).parents[1]
BACKGROUND, DISC, SQUARE = range(3)


@dataclass(frozen=True)
class Settings:
    images: int = 600
    size: int = 32
    filters: int = 12
    trained_epochs: int = 12
    epochs: int = 12
    rank: int = 8
    draws: int = 64
    seed: int = 0


def shapes(number: int, size: int, seed: int, kinds=(DISC, SQUARE)) -> tuple[np.ndarray, np.ndarray]:
    """Returns noisy images of two shapes each, (number, size, size, 1), and the class of every pixel."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:size, :size]
    x, y = rng.normal(0, 0.25, (number, size, size)), np.zeros((number, size, size), "int32")
    for image, label in zip(x, y, strict=True):
        for kind in rng.permutation(kinds)[:2]:
            (row, column), radius = rng.uniform(7, size - 7, 2), rng.uniform(4, 7)
            down, right = abs(rows - row), abs(columns - column)
            inside = {
                DISC: down**2 + right**2 < radius**2,
                SQUARE: np.maximum(down, right) < 0.9 * radius,
                "cross": (np.minimum(down, right) < 0.4 * radius) & (np.maximum(down, right) < 1.2 * radius),
            }[kind if kind == "cross" else int(kind)]
            image[inside] += 1.0
            label[inside] = BACKGROUND if kind == "cross" else int(kind)
    return x[..., None].astype("float32"), y


def u_net(size: int, filters: int) -> keras.Model:
    """Returns a U-Net of plain Keras layers that gives the logits of every pixel."""
    layers = keras.layers
    x = inputs = keras.Input((size, size, 1))
    kept = []
    for width in (filters, 2 * filters):
        x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
        kept.append(x)
        x = layers.MaxPooling2D()(x)
    x = layers.Conv2D(4 * filters, 3, padding="same", activation="relu")(x)
    for width in (2 * filters, filters):
        x = layers.Conv2DTranspose(width, 2, strides=2, activation="relu")(x)
        x = layers.Concatenate()([x, kept.pop()])
        x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
    return keras.Model(inputs, layers.Conv2D(3, 1)(x), name="u_net")


def main(settings: Settings = Settings(), folder: Path = FOLDER) -> dict[str, float]:
    keras.utils.set_random_seed(settings.seed)
    x, y = shapes(settings.images, settings.size, settings.seed)
    x_test, y_test = shapes(100, settings.size, settings.seed + 1)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    trained = u_net(settings.size, settings.filters)
    trained.compile(keras.optimizers.Adam(3e-3), loss)
    trained.fit(x, y, epochs=settings.trained_epochs, verbose=0)
    bayes = sb.bayesianize(trained, sb.LowRank.paper(settings.rank))
    bayes.fit(x, y, epochs=settings.epochs, callbacks=[sb.KLSchedule(num_data=y.size, beta=1)], verbose=0)
    p = sb.predict(bayes, x_test, draws=settings.draws)
    wrong = p.mean.argmax(axis=-1) != y_test
    crosses, _ = shapes(100, settings.size, settings.seed + 2, kinds=("cross", "cross"))
    q = sb.predict(bayes, crosses, draws=settings.draws)
    bright = crosses[..., 0] > 0.6
    draw_maps(x_test, y_test, p, crosses, q, folder / "unet.png")
    return {
        "accuracy": float(1 - wrong.mean()),
        "entropy_wrong": float(p.entropy[wrong].mean()),
        "entropy_right": float(p.entropy[~wrong].mean()),
        "information_shapes": float(p.mutual_information[y_test > 0].mean()),
        "information_crosses": float(q.mutual_information[bright].mean()),
    }


def draw_maps(x, y, p, crosses, q, path: Path) -> None:
    """Draws two test images and one of a shape that was not in the data, with the maps of their uncertainty."""
    from matplotlib import pyplot as plt

    from singularbayes import plots

    rows = [(x[0], y[0], p, 0), (x[1], y[1], p, 1), (crosses[0], np.zeros_like(y[0]), q, 0)]
    information = max(float(p.mutual_information[:2].max()), float(q.mutual_information[0].max()))
    figure, axes = plt.subplots(len(rows), 5, figsize=(8.5, 5.2), layout="constrained")
    for number, (image, label, prediction, place) in enumerate(rows):
        panels = {
            "image": (image[..., 0], {"cmap": "gray"}),
            "class": (label, {"cmap": "viridis", "vmin": 0, "vmax": 2}),
            "predicted": (prediction.mean[place].argmax(axis=-1), {"cmap": "viridis", "vmin": 0, "vmax": 2}),
            "entropy (nats)": (prediction.entropy[place], {"cmap": "magma", "vmin": 0, "vmax": np.log(3)}),
            "mutual information": (prediction.mutual_information[place], {"cmap": "magma", "vmax": information}),
        }
        for axis, (title, (values, options)) in zip(axes[number], panels.items(), strict=True):
            shown = axis.imshow(values, **options)
            axis.set(xticks=[], yticks=[], title="" if number else title)
            if options["cmap"] == "magma":
                figure.colorbar(shown, ax=axis, shrink=0.8)
    for line, name in zip(axes, ("test", "test", "crosses: not in the data"), strict=True):
        line[0].set_ylabel(name, fontsize=8)
    plots.write(figure, path, dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    record = main()
    (FOLDER / "unet.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(record)
