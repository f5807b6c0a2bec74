"""One training step of Bayesian adapters against Keras's own LoRA, on the encoder of the experiment `finetune`.

BERT with 6 blocks of width 384, rank 8 on the six matrices of a block and a new head; embeddings, normalisations and
biases are frozen. The two take turns. Weights are random: no time depends on them.
"""

from pathlib import Path
from typing import Any

import keras
import numpy as np
from cyclopts import App
from interleaved import keep, ratio, seconds, summary
from singularbayes_experiments.problems import finetune_model
from step import Step

import singularbayes as sb

app = App(help=__doc__)

RANK, CLASSES, VOCABULARY = 8, 150, 30_522
GOALS = {"time": 1.25, "trained parameters": 2.0, "memory": 1.1}


def lora(model: keras.Model) -> keras.Model:
    """Returns the model with Keras's LoRA on the matrices of its blocks."""
    kinds = (keras.layers.Dense, keras.layers.EinsumDense)
    layers = [layer for layer in model._flatten_layers() if isinstance(layer, kinds)]
    for layer in layers:
        if "transformer_layer" in layer.path:
            layer.enable_lora(RANK)
    return model


def adapters(model: keras.Model) -> keras.Model:
    """Returns the model with Bayesian adapters in the same places."""
    rules: dict[Any, Any] = {"*embedding*": None, "logits": None}
    return sb.bayesianize(model, sb.Adapter(RANK), rules=rules, unsupported="keep")


def frozen_but_adapters(model: keras.Model) -> keras.Model:
    """Freezes everything but low-rank parts and the head."""
    for weight in model.trainable_variables:
        kept = "lora" in weight.path or "posterior" in weight.path or weight.path.startswith("logits")
        weight.trainable = kept
    return model


@app.default
def main(
    repeats: int = 15,
    batch: int = 32,
    length: int = 64,
    dtype: str = "float32",
    out: Path | None = None,
    tiny: bool = False,
) -> None:
    """Measures both, in turn."""
    sizes: dict[str, Any] = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32} if tiny else {}
    rng = np.random.default_rng(0)
    tokens = rng.integers(1, 1000, (batch, length)).astype("int32")
    x: Any = {"token_ids": tokens, "segment_ids": np.zeros_like(tokens), "padding_mask": np.ones_like(tokens)}
    y = rng.integers(0, CLASSES, batch)
    models = {}
    for name, adapt in {"lora": lora, "adapter": adapters}.items():
        backbone = finetune_model.encoder(None, VOCABULARY, dtype=dtype, **sizes)
        models[name] = frozen_but_adapters(adapt(finetune_model.classifier(backbone, CLASSES)))
    trained = {name: sum(int(np.prod(v.shape)) for v in model.trainable_variables) for name, model in models.items()}
    steps = {name: Step(model, x, y, num_data=15_000) for name, model in models.items()}
    times, _ = seconds({name: step.seconds for name, step in steps.items()}, repeats)
    memory = {name: step.bytes for name, step in steps.items()}
    measured = {
        "time": ratio(times, "adapter", "lora"),
        "trained parameters": trained["adapter"] / trained["lora"],
        "memory": memory["adapter"] / memory["lora"],
    }
    for name, value in measured.items():
        print(f"{name}: {value:.3f} (goal at most {GOALS[name]})", flush=True)
    facts = {"batch": batch, "length": length, "dtype": dtype, "rank": RANK, "classes": CLASSES}
    results = {
        **facts,
        "steps": summary(times),
        "trained": trained,
        "bytes": memory,
        "ratios": measured,
        "goals": GOALS,
    }
    keep("adapters", results, out)


if __name__ == "__main__":
    app()
