"""A trained CNN and a small BERT become Bayesian, and leave as files that others can run: the code of convert.md.

    pip install ".[tensorflow,export,plots]" keras-hub
    KERAS_BACKEND=tensorflow python docs/scripts/convert.py

It needs no download and takes some minutes. It writes convert.json and convert.png beside itself and prints what the
page shows.
"""

import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import keras
import numpy as np
from sklearn.datasets import load_digits

import singularbayes as sb
from singularbayes import metrics

FOLDER = Path(__file__).parents[1]


@dataclass(frozen=True)
class Settings:
    """Sizes of both examples."""

    seed: int = 0
    images: int = 500  # for training; one label in ten is wrong, as in data from life
    epochs: int = 100
    bayes_epochs: int = 40
    sentences: int = 1500
    text_epochs: int = 10
    bayes_text_epochs: int = 6
    draws: int = 32
    text_draws: int = 4  # in the exported BERT


QUICK = Settings(
    images=64, epochs=1, bayes_epochs=1, sentences=64, text_epochs=1, bayes_text_epochs=1, draws=4, text_draws=2
)


def digits(settings: Settings) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Returns images of 0 … 7 for training, a tenth of them with a wrong label, and for test; and those of 8 and 9."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).reshape(-1, 8, 8, 1).astype("float32")
    known = np.random.default_rng(settings.seed).permutation(np.flatnonzero(labels < 8))
    parts = {"train": known[: settings.images], "test": known[-400:], "ood": np.flatnonzero(labels >= 8)}
    found = {name: (images[part], labels[part]) for name, part in parts.items()}
    wrong = slice(0, settings.images // 10)
    found["train"][1][wrong] = (found["train"][1][wrong] + 1) % 8
    return found


def cnn() -> keras.Model:
    """Returns a small CNN for eight classes."""
    layers = keras.layers
    stack = [
        layers.Conv2D(32, 3, activation="relu", name="edges"),
        layers.Conv2D(64, 3, activation="relu", name="shapes"),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dense(64, "relu", name="hidden"),
        layers.Dense(8, name="head"),
    ]
    return keras.Sequential([keras.Input((8, 8, 1), name="image"), *stack], name="digits")


def scores(probabilities, labels, uncertainty=None, ood=None) -> dict[str, float]:
    """Returns accuracy, NLL and calibration error, and how well an uncertainty detects out-of-distribution inputs."""
    found = {
        "accuracy": metrics.accuracy(probabilities, labels),
        "nll": metrics.negative_log_likelihood(probabilities, labels),
        "ece": metrics.expected_calibration_error(probabilities, labels),
    }
    return found if uncertainty is None else {**found, "auroc": metrics.auroc_ood(uncertainty, ood)}


def deterministic(model, known, labels, ood) -> dict[str, float]:
    """Returns the scores of a plain model; its uncertainty is the entropy of its probabilities."""
    p, q = (sb.predict(model, x, draws=1) for x in (known, ood))
    return scores(p.mean, labels, p.entropy, q.entropy)


def bayesian(model, known, labels, ood, draws) -> dict[str, float]:
    """Returns the scores of a Bayesian model; its uncertainty is the mutual information."""
    p, q = (sb.predict(model, x, draws=draws) for x in (known, ood))
    return scores(p.mean, labels, p.mutual_information, q.mutual_information)


def convert_cnn(settings: Settings, folder: Path) -> dict:
    """Trains the CNN, converts it, trains on, and exports it; returns what the page shows."""
    keras.utils.set_random_seed(settings.seed)
    data = digits(settings)
    (x, y), (x_test, y_test), (x_ood, _) = (data[part] for part in ("train", "test", "ood"))
    model = cnn()
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(x, y, epochs=settings.epochs, verbose=0)

    spectrum = sb.spectrum(model)

    from singularbayes import plots

    plots.write(plots.spectra(spectrum, explained=0.9), folder / "convert.png", dpi=130)

    posterior = sb.LowRank(16, prior=sb.Normal(0.3), rho_lr=4)
    plan = sb.plan(model, posterior)
    print(plan)

    bayes = sb.bayesianize(model, posterior)
    start = bayesian(bayes, x_test, y_test, x_ood, settings.draws)
    bayes.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    bayes.fit(x, y, epochs=settings.bayes_epochs, verbose=0, callbacks=[sb.KLSchedule(beta=0.1)])
    p = sb.predict(bayes, x_test, draws=settings.draws)

    frozen = sb.freeze_draws(bayes, settings.draws)
    frozen.export(folder / "digits.onnx", format="onnx", verbose=False)

    import onnxruntime

    session = onnxruntime.InferenceSession(folder / "digits.onnx")
    _, mean, mutual_information = session.run(None, {"image": x_test})

    sb.collapse(bayes).save(folder / "plain.keras")  # Keras alone can load it

    difference = max(np.abs(mean - p.mean).max(), np.abs(mutual_information - p.mutual_information).max())
    return {
        "spectrum": str(spectrum),
        "plan": str(plan),
        "parameters": {"before": plan.before, "after": plan.after, "plain": sb.collapse(bayes).count_params()},
        "before": deterministic(model, x_test, y_test, x_ood),
        "start": start,
        "after": bayesian(bayes, x_test, y_test, x_ood, settings.draws),
        "onnx": {"difference": float(difference), "kilobytes": (folder / "digits.onnx").stat().st_size // 1000},
    }


# A made-up language. A sentence has one word that praises or blames, and "not" before it turns it round.
PAD, CLS, NOT = 0, 1, 2
GOOD, BAD, PLAIN, UNSEEN = range(10, 20), range(20, 30), range(30, 80), range(80, 100)
LENGTH = 12


def sentences(number: int, seed: int, words=PLAIN) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Returns token ids with their masks, and whether each sentence praises; one label in twenty is wrong."""
    rng = np.random.default_rng(seed)
    ids, labels = np.full((number, LENGTH), PAD, "int32"), np.zeros(number, "int32")
    for row in range(number):
        praised, turned = rng.random(2) < 0.5
        filler = list(rng.choice(words, rng.integers(4, 9)))
        verdict = [NOT] * bool(turned) + [rng.choice(GOOD if praised else BAD)]
        place = rng.integers(0, len(filler) + 1)
        sentence = [CLS, *filler[:place], *verdict, *filler[place:]]
        ids[row, : len(sentence)] = sentence
        labels[row] = (praised != turned) != (rng.random() < 0.05)
    return {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": (ids != PAD).astype("int32")}, labels


def bert() -> keras.Model:
    """Returns a KerasHub BERT with a head for two classes."""
    import keras_hub

    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=100,
        num_layers=2,
        num_heads=2,
        hidden_dim=32,
        intermediate_dim=64,
        max_sequence_length=LENGTH,
        dropout=0.0,
    )
    outputs = keras.layers.Dense(2, name="head")(backbone.output["pooled_output"])
    return keras.Model(backbone.input, outputs, name="bert")


def convert_bert(settings: Settings, folder: Path) -> dict:
    """Trains the BERT, converts it with adapters, trains on, and exports it; returns what the page shows."""
    keras.utils.set_random_seed(settings.seed)
    x, y = sentences(settings.sentences, 1)
    x_test, y_test = sentences(500, 2)
    x_ood, _ = sentences(500, 3, words=UNSEEN)
    model = bert()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-3), loss)
    model.fit(x, y, epochs=settings.text_epochs, verbose=0)

    plan = sb.plan(model, sb.Adapter(4, prior="scale_mixture"))
    print(plan)

    truncated = sb.bayesianize(model, sb.LowRank(4), unsupported="keep")
    adapted = sb.bayesianize(model, sb.Adapter(4, prior="scale_mixture"), unsupported="keep")

    at_means = {}
    for name, made in {"truncated": truncated, "adapted": adapted}.items():
        at_means[name] = scores(softmax(made.predict(x_test, verbose=0)), y_test)

    adapted.compile(keras.optimizers.Adam(1e-3), loss)
    schedule = sb.KLSchedule(beta=0.1)
    adapted.fit(x, y, epochs=settings.bayes_text_epochs, verbose=0, callbacks=[schedule])

    frozen = sb.freeze_draws(adapted, settings.text_draws)
    signature = {name: keras.InputSpec(shape=ids.shape, dtype="int32", name=name) for name, ids in x_test.items()}
    frozen.export(folder / "bert.onnx", format="onnx", verbose=False, input_signature=[signature])

    import onnxruntime

    _, mean, mutual_information = onnxruntime.InferenceSession(folder / "bert.onnx").run(None, x_test)

    p = sb.predict(adapted, x_test, draws=settings.text_draws)
    difference = max(np.abs(mean - p.mean).max(), np.abs(mutual_information - p.mutual_information).max())
    return {
        "plan": shortened(str(plan)),
        "before": deterministic(model, x_test, y_test, x_ood),
        "at_means": at_means,
        "after": bayesian(adapted, x_test, y_test, x_ood, settings.draws),
        "onnx": {"difference": float(difference), "kilobytes": (folder / "bert.onnx").stat().st_size // 1000},
    }


def softmax(logits: np.ndarray) -> np.ndarray:
    return keras.ops.convert_to_numpy(keras.ops.softmax(logits))


def shortened(plan: str) -> str:
    """Returns a plan without the layers that have no weight matrix."""
    return "\n".join(line for line in plan.splitlines() if "no weight matrix" not in line)


def rows(record: dict) -> list[str]:
    """Returns the tables of the page, line by line."""
    cnn, text = record["cnn"], record["bert"]
    named = {
        "cnn": {
            "trained": cnn["before"],
            "converted, not yet trained": cnn["start"],
            "converted and trained": cnn["after"],
        },
        "bert": {"trained": text["before"], "converted and trained": text["after"]},
    }
    head = ["| network | accuracy | NLL | calibration error | AUROC of OOD inputs |", "|---|---|---|---|---|"]
    body = [
        [
            f"| {name} | {s['accuracy']:.3f} | {s['nll']:.3f} | {s['ece']:.3f} | {s['auroc']:.3f} |"
            for name, s in kind.items()
        ]
        for kind in named.values()
    ]
    means = [
        f"| {posterior} | {s['accuracy']:.3f} | {s['nll']:.3f} |"
        for posterior, s in zip(("`LowRank(4)`", "`Adapter(4)`"), text["at_means"].values(), strict=True)
    ]
    return [*head, *body[0], *means, *body[1]]


def main(settings: Settings = Settings(), folder: Path = FOLDER, kinds=("cnn", "bert")) -> dict:
    """Runs both examples, writes the record and the figure into the folder, and returns the record."""
    functions = {"cnn": convert_cnn, "bert": convert_bert}
    with tempfile.TemporaryDirectory() as scratch:
        record = {kind: functions[kind](settings, Path(scratch)) for kind in kinds}
        if "cnn" in kinds:
            (folder / "convert.png").write_bytes((Path(scratch) / "convert.png").read_bytes())
    record = {"settings": asdict(settings), "backend": keras.backend.backend(), "keras": keras.__version__, **record}
    (folder / "convert.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return record


if __name__ == "__main__":
    made = main()
    print("\n".join(rows(made)))
