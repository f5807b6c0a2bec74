"""Where a weight is used: Keras's layers with a posterior over their weights."""

from singularbayes.layers.attention import MultiHeadAttention
from singularbayes.layers.base import BayesianLayer, hand_down
from singularbayes.layers.convolution import Conv1D, Conv2D, Conv2DTranspose, Conv3D, SeparableConv1D, SeparableConv2D
from singularbayes.layers.dense import Dense, EinsumDense
from singularbayes.layers.embedding import Embedding, ReversibleEmbedding
from singularbayes.layers.learned_noise import LearnedNoise
from singularbayes.layers.per_component import PerComponent
from singularbayes.layers.recurrent import GRU, LSTM
from singularbayes.layers.torch_threads import one_thread
from singularbayes.layers.transformer import TransformerEncoder

__all__ = [
    "GRU",
    "LSTM",
    "BayesianLayer",
    "Conv1D",
    "Conv2D",
    "Conv2DTranspose",
    "Conv3D",
    "Dense",
    "EinsumDense",
    "Embedding",
    "LearnedNoise",
    "MultiHeadAttention",
    "PerComponent",
    "ReversibleEmbedding",
    "SeparableConv1D",
    "SeparableConv2D",
    "TransformerEncoder",
    "hand_down",
    "one_thread",
]
