"""One training step of Bayesian adapters against LoRA, on the encoder of the experiment `finetune`.

BERT with 6 blocks of width 384, rank 8 on the six matrices of a block and a new head; embeddings, normalisations and
biases are frozen. `lora` is x W₀ + (x A) B with one A and one B per matrix, as published and as PEFT has it;
`keras_lora` is Keras's own, which has an A for every head of an attention matrix and adds A B to the matrix. They take
turns. Weights are random: no time depends on them.

`mixture` measures several adapters on one base instead: four random ones (`mixture_4`), and five without noise and KL
(`lora_5`), all of which train on every example, beside one `lora` and one `adapter`.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
from cyclopts import App
from interleaved import keep, ratio, seconds, summary
from keras import ops
from singularbayes_experiments.problems import finetune_model
from step import Step

import singularbayes as sb

app = App(help=__doc__)

RANK, CLASSES, VOCABULARY = 8, 150, 30_522
TINY = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32}


def matrices(model: keras.Model) -> list:
    """Returns the layers of the blocks that have a matrix."""
    kinds = (keras.layers.Dense, keras.layers.EinsumDense)
    return [one for one in model._flatten_layers() if isinstance(one, kinds) and "transformer_layer" in one.path]


def keras_lora(model: keras.Model) -> keras.Model:
    """Returns the model with Keras's LoRA on the matrices of its blocks."""
    for layer in matrices(model):
        layer.enable_lora(RANK)
    return model


def lora(model: keras.Model) -> keras.Model:
    """Returns the model with LoRA beside the matrices of its blocks."""
    for layer in matrices(model):
        _add_low_rank(layer)
    return model


def _add_low_rank(layer) -> None:
    """Makes a layer compute activation(x W₀ + b + (x A) B)."""
    shape = tuple(layer.kernel.shape)
    rows = int(np.prod(shape[:2] if layer.name == "attention_output" else shape[:1]))
    columns = int(np.prod(shape)) // rows
    layer._tracker.unlock()
    a = layer.add_weight(name="lora_a", shape=(rows, RANK), initializer="glorot_uniform")
    b = layer.add_weight(name="lora_b", shape=(RANK, columns), initializer="zeros")
    layer._tracker.lock()
    base, activation, layer.activation = layer.call, layer.activation, None

    def call(inputs, training=None):
        outputs = base(inputs)
        x = ops.reshape(inputs, (*ops.shape(inputs)[:2], rows))
        outputs = outputs + ops.reshape(ops.matmul(ops.matmul(x, a), b), ops.shape(outputs))
        return outputs if activation is None else activation(outputs)

    layer.call = call


def adapters(model: keras.Model) -> keras.Model:
    """Returns the model with Bayesian adapters in the same places."""
    rules: dict[Any, Any] = {"*embedding*": None, "logits": None}
    return sb.bayesianize(model, sb.Adapter(RANK), rules=rules, unsupported="keep")


def several(components: int, **arguments: Any) -> Callable[[keras.Model], keras.Model]:
    """Returns what puts so many adapters, each with a head of its own, on one base."""
    posterior = sb.Mixture(sb.Adapter(RANK, **arguments), components, examples="repeat")
    return lambda model: sb.bayesianize(model, posterior, rules={"pooled_dense": None})


def frozen_but_adapters(model: keras.Model) -> keras.Model:
    """Freezes everything but low-rank parts and the head."""
    for weight in model.trainable_variables:
        kept = "lora" in weight.path or "posterior" in weight.path or "logits" in weight.path
        weight.trainable = kept
    return model


def data(batch: int, length: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(0)
    tokens = rng.integers(1, 1000, (batch, length)).astype("int32")
    x = {"token_ids": tokens, "segment_ids": np.zeros_like(tokens), "padding_mask": np.ones_like(tokens)}
    return x, rng.integers(0, CLASSES, batch)


@app.command
def mixture(
    repeats: int = 5, steps: int = 3, batch: int = 32, length: int = 32, out: Path | None = None, tiny: bool = False
) -> None:
    """Measures one and several adapters on one base, in turn; the mean of so many steps is one repeat."""
    from keras_hub.models import BertTextClassifier

    x, y = data(batch, length)
    rules: dict[Any, Any] = {"pooled_dense": None}
    kinds: dict[str, Callable[[keras.Model], keras.Model]] = {
        "lora": lora,
        "adapter": lambda model: sb.bayesianize(model, sb.Adapter(RANK), rules=rules),
        "mixture_4": several(4),
        "lora_5": several(5, eta=1e-6),
    }
    steps_of, trained, stored = {}, {}, {}
    for name, adapt in kinds.items():
        backbone = finetune_model.encoder(None, VOCABULARY, **(TINY if tiny else {}))
        model = frozen_but_adapters(adapt(BertTextClassifier(backbone, CLASSES, dropout=0.0)))
        trained[name] = sum(math.prod(v.shape) for v in model.trainable_variables)
        stored[name] = sum(4 * math.prod(v.shape) for v in model.weights)
        steps_of[name] = Step(model, x, y, num_data=15_000)
        print(f"{name}: {trained[name]:,} trained, {steps_of[name].bytes:,} bytes", flush=True)

    def timed(step: Step) -> Callable[[], float]:
        return lambda: step.seconds(steps, before=1)

    times, _ = seconds({name: timed(step) for name, step in steps_of.items()}, repeats, patience=float("inf"))
    memory = {name: step.bytes for name, step in steps_of.items()}
    measured = {name: {"time": ratio(times, name, "lora"), "memory": memory[name] / memory["lora"]} for name in kinds}
    facts = {"batch": batch, "length": length, "dtype": "float32", "rank": RANK, "classes": CLASSES}
    own = {"steps": summary(times), "trained": trained, "stored bytes": stored, "bytes": memory, "to lora": measured}
    keep("adapters_mixture", {**facts, **own}, out)


@app.default
def main(
    repeats: int = 15,
    batch: int = 32,
    length: int = 64,
    dtype: str = "float32",
    out: Path | None = None,
    tiny: bool = False,
) -> None:
    """Measures the three, in turn."""
    sizes: dict[str, Any] = TINY if tiny else {}
    x, y = data(batch, length)
    models = {}
    for name, adapt in {"lora": lora, "keras_lora": keras_lora, "adapter": adapters}.items():
        backbone = finetune_model.encoder(None, VOCABULARY, dtype=dtype, **sizes)
        models[name] = frozen_but_adapters(adapt(finetune_model.classifier(backbone, CLASSES)))
    trained = {name: sum(int(np.prod(v.shape)) for v in model.trainable_variables) for name, model in models.items()}
    steps = {name: Step(model, x, y, num_data=15_000) for name, model in models.items()}
    times, _ = seconds({name: step.seconds for name, step in steps.items()}, repeats)
    memory = {name: step.bytes for name, step in steps.items()}
    measured = {
        rival: {
            "time": ratio(times, "adapter", rival),
            "trained parameters": trained["adapter"] / trained[rival],
            "memory": memory["adapter"] / memory[rival],
        }
        for rival in ("lora", "keras_lora")
    }
    for rival, ratios in measured.items():
        for name, value in ratios.items():
            print(f"{name}, adapter / {rival}: {value:.3f}", flush=True)
    facts = {"batch": batch, "length": length, "dtype": dtype, "rank": RANK, "classes": CLASSES}
    results = {
        **facts,
        "steps": summary(times),
        "trained": trained,
        "bytes": memory,
        "ratios": measured,
    }
    keep(f"adapters_{dtype}", results, out)


if __name__ == "__main__":
    app()
