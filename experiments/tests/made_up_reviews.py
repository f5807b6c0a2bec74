"""Reviews and news made up, in the shape of SST-2 and AG News, of a vocabulary of some words."""

import numpy as np
from singularbayes_experiments.data.text import News, Sentences, Vocabulary

GOOD, BAD = ["fine", "warm", "bright", "clever"], ["dull", "flat", "weak", "stale"]
PLAIN = [f"w{i}" for i in range(20)]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *GOOD, *BAD, *PLAIN]


def _sentence(rng, label: int) -> list[str]:
    words = rng.choice(PLAIN, rng.integers(3, 9)).tolist()
    words[rng.integers(len(words))] = rng.choice(GOOD if label else BAD)
    return words


def _labelled(rng, number: int, phrases: bool):
    rows, labels = [], []
    for label in rng.integers(0, 2, number).tolist():
        words = _sentence(rng, label)
        rows.append(" ".join(words) + " ")
        labels.append(label)
        if phrases:
            rows.append(" ".join(words[:2]) + " ")
            labels.append(label)
    return rows, np.array(labels, "int64")


def sst2() -> Sentences:
    rng = np.random.default_rng(0)
    return Sentences(_labelled(rng, 120, phrases=True), _labelled(rng, 40, phrases=False), [], "made up")


def ag_news() -> News:
    rng = np.random.default_rng(1)
    texts = [" ".join(rng.choice(PLAIN, 14)) for _ in range(30)]
    return News([text[:8] for text in texts], texts, np.zeros(30, "int64"), ("World",), "made up")


def bert_vocab() -> Vocabulary:
    return Vocabulary(WORDS, "made up")
