"""Scores that need no posterior on the digits of compare.md and convert.md: what an uncertainty has to beat there.

    python docs/scripts/digit_detectors.py compare
    KERAS_BACKEND=tensorflow python docs/scripts/digit_detectors.py convert

Each writes its part of digit_detectors.json and a sentence into its page. Written down before their runs: the
deterministic network of the page, trained again with its settings and seeds, and its max-softmax, energy and
Mahalanobis distance in the last hidden layer; without a network the share of pixels that are not 0. On compare.md noise
leaves no pixel at 0, so that there it is the share of pixels above one half. More such pixels are taken for
out-of-distribution. Nothing is chosen by these runs.
"""

import json
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import compare
import convert
import keras
import numpy as np
from marks import fill
from singularbayes_experiments.problems.network_detectors import DetectorSets, detect
from singularbayes_experiments.records.record import machine, now, versions

import singularbayes as sb
from singularbayes.demo import noisy_digits
from singularbayes.metrics import auroc_ood

FOLDER = Path(__file__).parents[1]
RECORD = "digit_detectors.json"
OTHER = "digits"  # the name of the held-out digits among the sets
Scores = dict[str, float]  # AUROC by the name of the detector


def detectors(network: keras.Model, data: DetectorSets, above: float) -> Scores:
    """Returns the AUROC of the held-out digits by every score."""
    inside, outside = ((x > above).reshape(len(x), -1).mean(axis=1) for x in (data.test, data.others[OTHER]))
    p, q = (sb.predict(network, x, draws=1) for x in (data.test, data.others[OTHER]))
    found = {"pixels": auroc_ood(inside, outside), "entropy": auroc_ood(p.entropy, q.entropy)}
    by_network = detect(network, data, network.layers[-1].name)
    return {name: float(v) for name, v in (found | {n: s[f"{OTHER}/auroc_ood"] for n, s in by_network.items()}).items()}


def on_compare(settings: compare.Settings = compare.Settings()) -> dict[int, Scores]:
    """Returns the scores by seed; the networks are those of the row `deterministic`."""
    s = settings
    data = noisy_digits.add_noise(noisy_digits.load(s.held_out, s.split), s.pixel_noise, s.split)
    sets = DetectorSets(data.train, data.test[0], {OTHER: data.ood[0]}, len(data.classes))
    networks = compare.Trainer(data, s).seeds(lambda _: sb.Deterministic())
    return {seed: detectors(one, sets, above=0.5) for seed, one in zip(s.seeds, networks, strict=True)}


def on_convert(settings: convert.Settings = convert.Settings()) -> dict[int, Scores]:
    """Returns the scores of the one seed; the network is the CNN before it is converted."""
    keras.utils.set_random_seed(settings.seed)
    data = convert.digits(settings)
    model = convert.cnn()
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(*data["train"], epochs=settings.epochs, verbose=0)
    sets = DetectorSets(data["train"], data["test"][0], {OTHER: data["ood"][0]}, 8)
    return {settings.seed: detectors(model, sets, above=0.0)}


PAGES: dict[str, Callable[..., dict[int, Scores]]] = {"compare": on_compare, "convert": on_convert}
PIXELS = {"compare": "above one half", "convert": "that are not 0"}


def sentence(page: str, record: dict[str, Any]) -> str:
    """Returns what every score reaches, a mean over the seeds."""
    by_seed = record[page]["auroc"].values()
    mean = {name: f"{np.mean([one[name] for one in by_seed]):.3f}" for name in next(iter(by_seed))}
    seeds = f"means over {len(by_seed)} seeds" if len(by_seed) > 1 else "one seed"
    again = f", trained again (entropy: {mean['entropy']})," if page == "compare" else ""
    return textwrap.fill(
        f"Without a posterior: the share of pixels {PIXELS[page]} detects 8 and 9 with an AUROC of {mean['pixels']}. "
        f"The deterministic network{again} detects them with {mean['max_softmax']} by max-softmax, {mean['energy']} by "
        f"energy and {mean['mahalanobis']} by the Mahalanobis distance in its last hidden layer ({seeds}; "
        "[digit_detectors.py](scripts/digit_detectors.py)).",
        120,
        break_on_hyphens=False,
    )


def write(page: str, by_seed: dict[int, Scores], folder: Path) -> dict[str, Any]:
    """Writes one page's part of the record, and returns the whole."""
    path = folder / RECORD
    record = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    command = f"{'KERAS_BACKEND=tensorflow ' * (page == 'convert')}python docs/scripts/digit_detectors.py {page}"
    about = {"command": command, "versions": versions(), "machine": machine(), "finished": now()}
    record[page] = about | {"auroc": {str(seed): scores for seed, scores in by_seed.items()}}
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return record


if __name__ == "__main__":
    for name in sys.argv[1:]:
        made = write(name, PAGES[name](), FOLDER)
        fill(FOLDER / f"{name}.md", "digit_detectors.py", sentence(name, made))
        print(sentence(name, made))
