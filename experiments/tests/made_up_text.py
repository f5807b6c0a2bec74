"""Reviews and news in the shape of SST-2 and AG News, of a vocabulary of some words."""

import functools

import numpy as np
from singularbayes_experiments import data
from singularbayes_experiments.data.text import News, Sentences
from singularbayes_experiments.problems import text

GOOD, BAD = ["fine", "warm", "bright", "clever"], ["dull", "flat", "weak", "stale"]
PLAIN = [f"w{i}" for i in range(20)]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *GOOD, *BAD, *PLAIN]


def labelled(rng: np.random.Generator, number: int, phrases: bool):
    """Returns sentences with one word that says the label, and of each a phrase if wanted."""
    rows, labels = [], []
    for label in rng.integers(0, 2, number).tolist():
        words = rng.choice(PLAIN, rng.integers(3, 9)).tolist()
        words[rng.integers(len(words))] = rng.choice(GOOD if label else BAD)
        parts = [words, words[:2]] if phrases else [words]
        rows += [" ".join(part) + " " for part in parts]
        labels += [label] * len(parts)
    return rows, np.array(labels, "int64")


def install(monkeypatch) -> None:
    """Puts them in the place of the real ones."""
    rng = np.random.default_rng(0)
    sentences = Sentences(labelled(rng, 120, phrases=True), labelled(rng, 40, phrases=False), [])
    texts = [" ".join(rng.choice(PLAIN, 14)) for _ in range(30)]
    news = News([each[:8] for each in texts], texts, np.zeros(30, "int64"), ("World",))
    for name, found in (("sst2", sentences), ("ag_news", news), ("bert_vocab", WORDS)):
        monkeypatch.setattr(data, name, lambda found=found: found)
    for name in ("_tokenizer", "training_texts"):
        monkeypatch.setattr(text, name, functools.cache(getattr(text, name).__wrapped__))
