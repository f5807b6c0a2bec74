"""Questions about a Keras model: its data and outputs, its parameters, its file, its devices."""

from singularbayes.models.data import Block, as_arrays, blocks, collected, common_length, is_stream, one_example
from singularbayes.models.distribution import batch_mesh, device_count
from singularbayes.models.draw_weights import draw_weights, fixed_draw, forget_compiled
from singularbayes.models.inputs import (
    arranged,
    count_examples,
    in_order,
    require_model,
)
from singularbayes.models.outputs import loss_of, names_of, output_mask, position_of
from singularbayes.models.parameters import count_stored, count_trained
from singularbayes.models.programs import (
    as_numpy,
    compiled,
    form_of,
    kind_of,
    no_gradient,
    optimizer_kind,
    program_of,
    share_programs,
    variable_values,
)
from singularbayes.models.progress import quiet, track
from singularbayes.models.saving import load_without_optimizer, read_model, write_whole
from singularbayes.models.text import (
    find_backbone,
    has_text,
    is_backbone,
    require_positions,
    require_tokenizer,
    tokenized,
)

__all__ = [
    "Block",
    "arranged",
    "as_arrays",
    "as_numpy",
    "batch_mesh",
    "blocks",
    "collected",
    "common_length",
    "compiled",
    "count_examples",
    "count_stored",
    "count_trained",
    "device_count",
    "draw_weights",
    "find_backbone",
    "fixed_draw",
    "forget_compiled",
    "form_of",
    "has_text",
    "in_order",
    "is_backbone",
    "is_stream",
    "kind_of",
    "load_without_optimizer",
    "loss_of",
    "names_of",
    "no_gradient",
    "one_example",
    "optimizer_kind",
    "output_mask",
    "position_of",
    "program_of",
    "quiet",
    "read_model",
    "require_model",
    "require_positions",
    "require_tokenizer",
    "share_programs",
    "tokenized",
    "track",
    "variable_values",
    "write_whole",
]
