"""Questions about a Keras model: its posteriors, its parameters, its file, its devices."""

from singularbayes.models.distribution import ModelParallel
from singularbayes.models.engine import (
    activations,
    answers,
    compiled,
    device_count,
    draw_bytes,
    draw_keys,
    engine_for,
    free_bytes,
    one_answer,
    output_size,
    share_programs,
)
from singularbayes.models.inputs import arranged, as_arrays, count_examples, require_model
from singularbayes.models.mean_weights import forget_compiled, mean_weights
from singularbayes.models.outputs import loss_of, names_of, position_of
from singularbayes.models.parameters import count_stored, count_trained
from singularbayes.models.progress import quiet, track
from singularbayes.models.same_architecture import kind_of, optimizer_kind
from singularbayes.models.saving import load_without_optimizer, read_model
from singularbayes.models.sequence_lengths import lengths_of, require_any_length
from singularbayes.models.traversal import find_posteriors, find_sources, flat_layers

__all__ = [
    "ModelParallel",
    "activations",
    "answers",
    "arranged",
    "as_arrays",
    "compiled",
    "count_examples",
    "count_stored",
    "count_trained",
    "device_count",
    "draw_bytes",
    "draw_keys",
    "engine_for",
    "find_posteriors",
    "find_sources",
    "flat_layers",
    "forget_compiled",
    "free_bytes",
    "kind_of",
    "lengths_of",
    "load_without_optimizer",
    "loss_of",
    "mean_weights",
    "names_of",
    "one_answer",
    "optimizer_kind",
    "output_size",
    "position_of",
    "quiet",
    "read_model",
    "require_any_length",
    "require_model",
    "share_programs",
    "track",
]
