"""Tiny random presets of KerasHub in a folder, made as its own are, and texts for them."""

import json

import keras
import numpy as np
import pytest

keras_hub = pytest.importorskip("keras_hub", reason="KerasHub is not installed")

WORDS = ["good", "fine", "great", "lovely", "bad", "poor", "dull", "awful", "film", "plot", "story", "cast"]
WORDS += ["the", "a", "was", "so", "very", "not"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]


def make_bert(folder, seed=0, words=VOCABULARY, layers=1, positions=10):
    """Writes a preset of a BERT and its tokenizer."""
    keras.utils.set_random_seed(seed)
    keras_hub.models.BertBackbone(
        len(words), layers, num_heads=2, hidden_dim=8, intermediate_dim=12, dropout=0.0, max_sequence_length=positions
    ).save_to_preset(folder)
    keras_hub.models.BertTokenizer(vocabulary=words, lowercase=True).save_to_preset(folder)
    return folder


def make_hugging_face(folder, positions=10):
    """Writes a BERT as Hugging Face keeps it, with random matrices (outputs, inputs); returns these by name."""
    from safetensors.numpy import save_file

    rng = np.random.default_rng(0)
    width, inner = 8, 12
    shapes = {
        "embeddings.word_embeddings.weight": (len(VOCABULARY), width),
        "embeddings.position_embeddings.weight": (positions, width),
        "embeddings.token_type_embeddings.weight": (2, width),
    }
    block, dense = "encoder.layer.0", {"pooler.dense": (width, width)}
    dense |= {f"{block}.attention.self.{name}": (width, width) for name in ("query", "key", "value")}
    dense |= {f"{block}.attention.output.dense": (width, width)}
    dense |= {f"{block}.intermediate.dense": (inner, width), f"{block}.output.dense": (width, inner)}
    for norm in ("embeddings", f"{block}.attention.output", f"{block}.output"):
        shapes |= {f"{norm}.LayerNorm.{name}": (width,) for name in ("weight", "bias")}
    for name, shape in dense.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    arrays = {name: rng.normal(0, 0.5, shape).astype("float32") for name, shape in shapes.items()}
    config = {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "vocab_size": len(VOCABULARY),
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "hidden_size": width,
        "intermediate_size": inner,
        "max_position_embeddings": positions,
    }
    folder.mkdir()
    save_file(arrays, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True}))
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY))
    return arrays


def bert_classifier(folder, **options):
    """Returns a classifier of two classes with a new head."""
    model = keras_hub.models.BertTextClassifier.from_preset(folder, num_classes=2, **options)
    model.preprocessor.sequence_length = 8
    return model


def sentences(number, seed=0):
    """Returns sentences and whether each is good."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, number)
    words = np.where(labels[:, None], rng.choice(WORDS[:4], (number, 2)), rng.choice(WORDS[4:8], (number, 2)))
    subjects = rng.choice(WORDS[8:12], number)
    return [f"the {subject} was {a} {b}" for subject, (a, b) in zip(subjects, words, strict=True)], labels
