"""ONNX files in onnxruntime: the plain Keras network ("plain"), and a student with its uncertainty ("student")."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
from builders import rivals
from shapes import SHAPES, Shape

import singularbayes as sb
from peers.worker import THREADS

PACKAGES = ("keras", "onnxruntime")
VECTORISED = True


def predict(shape: Shape, variant: str) -> Callable[[np.ndarray, int, int], np.ndarray]:
    """Both predict once, however many draws are requested."""
    import onnxruntime

    keras.utils.set_random_seed(0)
    [name] = [name for name, known in SHAPES.items() if known == shape]
    if variant == "student":  # of a teacher that knows nothing: what it learns does not change its speed
        teacher = rivals(name)["low_rank"]()
        student = sb.distill(teacher, shape.inputs(8), likelihood="categorical_logits", draws=2, epochs=1)
        graph, mean = sb.freeze_draws(student), 1  # entropy, mean, information
    else:
        network = rivals(name)["keras"]()
        graph, mean = keras.Sequential([*network.layers, keras.layers.Softmax()]), 0
        graph.build(network.input_shape)
        graph(shape.inputs(1))
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = THREADS
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "graph.onnx")
        graph.export(path, format="onnx", verbose=False)
        session = onnxruntime.InferenceSession(path, settings)
    [argument] = session.get_inputs()
    return lambda x, draws, batch: session.run(None, {argument.name: x[:batch]})[mean]
