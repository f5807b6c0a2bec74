"""Keras's summary: every row shows the posteriors of its layer, and the rows add up to the total."""

import re

import keras
import pytest
from posterior_table import TORCH_FIRST

import singularbayes as sb
from singularbayes import layers

pytestmark = [pytest.mark.backend, TORCH_FIRST]


def _rows(model):
    """Returns the last two columns of every layer, and the trained and other parameters below the table."""
    text = []
    model.summary(line_length=240, print_fn=text.append)
    cells = [[cell.strip() for cell in line.split("│")] for line in text[0].splitlines() if line.startswith("│")]
    shown = [re.fullmatch(r"([\d,]+) ?(.*)", row[3]).groups() for row in cells]
    totals = re.findall(r"(?:Trainable|Non-trainable) params: ([\d,]+)", text[0])
    return {row[1].split(" ")[0]: (_number(n), label) for row, (n, label) in zip(cells, shown, strict=True)}, [
        _number(n) for n in totals
    ]


def _number(text):
    return int(text.replace(",", ""))


def test_the_rows_show_the_posteriors_and_add_up(monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")  # so that no cell is broken into lines
    model = keras.Sequential(
        [
            keras.Input((4, 6)),
            layers.LSTM(8, return_sequences=True, posterior=7, name="memory"),  # kernels 6 × 32 and 8 × 32
            layers.TransformerEncoder(16, 2, posterior="low_rank", name="block"),  # 8 × 8, 8 × 16
            keras.layers.LayerNormalization(name="norm"),
            keras.layers.Flatten(name="flatten"),
            layers.Dense(3, posterior=sb.LowRank(2, prior="anchored"), bias_posterior="full_rank", name="head"),
        ]
    )
    model.compile("adam", "mse")
    before = _rows(model)
    sb.set_kl(model, num_data=4, beta=1.0)
    assert _rows(model) == before
    rows, totals = before
    assert {name: ", ".join(sorted(label.split(", "))) for name, (_, label) in rows.items()} == {
        "memory": "LowRank(7), LowRank(7→6)",
        "block": "LowRank(32→8)",
        "norm": "",
        "flatten": "",
        "head": "FullRank(), LowRank(2)",
    }
    assert sum(number for number, _ in rows.values()) == sum(totals) == model.count_params()
    # 2 r (m + n) for every kernel, then the biases; no KL weight is counted.
    assert rows["memory"][0] == 2 * 6 * (6 + 32) + 2 * 7 * (8 + 32) + 32


def test_elsewhere_the_number_of_parameters_is_a_number():
    layer = layers.Dense(3, posterior="mixture")
    layer.build((None, 5))
    count = layer.count_params()
    assert count == 4 * (2 * 3 * (5 + 3) + 3) and count + 0 == int(count)
    assert (f"{count}", f"{count:,}", repr(count)) == ("204", "204 Mixture of 4 LowRank(32→3)", "204")
