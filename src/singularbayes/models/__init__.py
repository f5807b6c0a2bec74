"""Questions about a Keras model: its data and outputs, its parameters, its file, its devices."""

from singularbayes.models.draw_weights import draw_weights, fixed_draw
from singularbayes.models.outputs import count_stored, count_trained

__all__ = ["count_stored", "count_trained", "draw_weights", "fixed_draw"]
