"""The cost that is computed from sizes is that of the model with these sizes."""

import io
import json

import bench_scaling
import keras
import numpy as np
import performance_page
import pytest
import scaling_page
from footprint import Matrix, Sizes, decoder, footprint

from singularbayes import AdaptiveLowRank, Deterministic, FullRank, LowRank, ModelParallel, RankOne, layers
from singularbayes.models import count_trained
from singularbayes.prediction.memory import draw_bytes

BLOCKS, WIDTH, VOCABULARY, CONTEXT, INNER = 2, 8, 30, 6, 20
KINDS = {"low_rank": lambda: LowRank(3), "full_rank": FullRank, "deterministic": Deterministic}


def network(posterior):
    """The decoder of `decoder`, built of our layers."""
    ids, places = (keras.Input((CONTEXT,), dtype="int32") for _ in range(2))
    table = layers.ReversibleEmbedding(VOCABULARY, WIDTH, posterior=posterior())
    h = table(ids) + keras.layers.Embedding(CONTEXT, WIDTH)(places)
    for _ in range(BLOCKS):
        x = keras.layers.LayerNormalization()(h)
        h = h + layers.MultiHeadAttention(2, WIDTH // 2, posterior=posterior())(x, x, use_causal_mask=True)
        x = keras.layers.LayerNormalization()(h)
        x = layers.Dense(INNER, "gelu", posterior=posterior())(x)
        h = h + layers.Dense(WIDTH, posterior=posterior())(x)
    return keras.Model([ids, places], table(keras.layers.LayerNormalization()(h), reverse=True))


@pytest.mark.parametrize("kind", KINDS)
def test_trained_numbers_draws_and_moments_are_those_of_the_model(kind):
    model = network(KINDS[kind])
    model.compile("adam")
    model.optimizer.build(model.trainable_variables)
    cost = footprint(decoder(BLOCKS, WIDTH, VOCABULARY, CONTEXT, INNER), KINDS[kind]())
    moments = sum(int(np.prod(variable.shape)) for variable in model.optimizer.variables if variable.shape)
    assert (count_trained(model), moments) == (cost.trained, 2 * cost.trained)
    assert draw_bytes(model) == 4 * cost.drawn
    assert cost.stored_bytes == 4 * cost.trained and cost.training_bytes == 16 * cost.trained + 4 * cost.drawn


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.skipif(keras.backend.backend() != "jax", reason="reads JAX's programs")
def test_the_work_is_that_of_the_program(kind):
    """Every product of matrices in the program of a forward pass, counted."""
    import jax

    table = layers.Embedding(VOCABULARY, WIDTH, posterior=KINDS[kind]())
    body = [layers.Dense(units, posterior=KINDS[kind]()) for units in (INNER, WIDTH)]
    model = keras.Sequential([keras.Input((CONTEXT,), dtype="int32"), table, *body])
    sizes = Sizes((Matrix(VOCABULARY, WIDTH, applied=0, read=1), Matrix(WIDTH, INNER), Matrix(INNER, WIDTH)))
    tokens = np.zeros((4, CONTEXT), "int32")
    program = jax.make_jaxpr(lambda x: model(x))(tokens)
    assert products(program.jaxpr) == tokens.size * footprint(sizes, KINDS[kind]()).multiply_adds


def products(program):
    """How many pairs of numbers the dot products of a program multiply, those of programs inside it too."""
    total = 0
    for step in program.eqns:
        if step.primitive.name == "dot_general":
            ((left, _), _) = step.params["dimension_numbers"]
            shared = np.prod([step.invars[0].aval.shape[axis] for axis in left])
            total += int(shared * np.prod(step.outvars[0].aval.shape))
        for inner in step.params.values():
            if hasattr(inner, "jaxpr"):
                total += products(inner.jaxpr)
    return total


def test_gpt_2_xl_has_the_published_size():
    assert decoder(48, 1600, 50257, 1024).weights == 1_557_611_200


def test_what_has_no_formula_is_said():
    with pytest.raises(ValueError, match="footprint needs LowRank, FullRank or Deterministic; got RankOne"):
        footprint(decoder(1, 8, 20, 4), RankOne())
    with pytest.raises(ValueError, match=r"footprint needs a rank that is a number; got AdaptiveLowRank.*LowRank\(5\)"):
        footprint(decoder(1, 8, 20, 4), AdaptiveLowRank(max_rank=5))


def test_the_page_is_made_of_the_sizes_and_the_record():
    text = scaling_page.PAGE.read_text(encoding="utf-8")
    assert text == scaling_page.render()
    frozen = 4 * scaling_page.XL.weights / 1e9  # float32
    assert f"holds W₀ besides, {frozen:.1f} GB that have no gradients" in " ".join(text.split())


def test_a_share_of_every_large_array_of_the_page_is_on_each_device():
    devices = keras.distribution.list_devices()[:1] if keras.backend.backend() == "jax" else None
    if devices is None:
        pytest.skip("Keras distributes on JAX")
    layout = ModelParallel(keras.distribution.DeviceMesh((1,), ("model",), devices))
    layout.parts = scaling_page.DEVICES
    for rank in (16, 32, 64):
        shapes = [(2, m.rows + m.columns, rank) for m in scaling_page.XL.matrices]
        assert all(layout.split(shape) is not None for shape in [*shapes, (1024, 1600)])
    for m in scaling_page.XL.matrices:  # as point weights, and with a scale each
        assert all(layout.split(shape) is not None for shape in [(m.rows, m.columns), (2, m.rows, m.columns)])


def test_efficiency_is_speed_by_the_number_of_workers():
    rows = bench_scaling.efficiency({1: [8.0, 9.0, 7.0], 2: [5.0], 4: [4.0]})
    assert [(row["speed"], row["efficiency"]) for row in rows.values()] == [(1.0, 1.0), (1.6, 0.8), (2.0, 0.5)]


def test_work_is_compiled_before_it_is_timed(monkeypatch):
    clock, done, out = iter([10.0, 12.5, 20.0, 20.5]), [], io.StringIO()
    monkeypatch.setattr(bench_scaling.time, "perf_counter", lambda: next(clock))
    work = {name: lambda name=name: done.append(name) for name in ("data", "split")}
    bench_scaling.serve(work, ["split\n", "data\n"], out)
    assert done == ["data", "split", "split", "data"]
    assert [json.loads(line) for line in out.getvalue().splitlines()] == [0.0, 2.5, 0.5]


def test_what_was_measured_is_cost_with_the_most_that_its_machine_can_show(monkeypatch, tmp_path):
    for page in (performance_page, scaling_page):
        monkeypatch.setattr(page, "RECORDS", tmp_path)
    assert scaling_page.measured() == "Not measured yet."
    rows = bench_scaling.efficiency({1: [8.0], 2: [5.0], 4: [4.0]})
    kept = {
        "command": "python it",
        "versions": {"jax": "1"},
        "machine": {"cpu": "a processor", "cores": 2, "load": 0.1},
    }
    (tmp_path / "scaling.json").write_text(json.dumps({**kept, "results": {"4 runs": rows}}))
    text = scaling_page.measured()
    assert "**4 runs**" in text and "| 2 | 5 s | 1.60 × | 0.80 |" in text
    assert "The machine has 2 cores, so 2 × is the most there can be." in text and "`python it`" in text
    assert "load by others was 0.1 when" in text
