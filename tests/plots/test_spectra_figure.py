"""The figure of spectra shows every matrix, its curve and its chosen rank, whether there are three or fifty."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")
from singularbayes import plots
from singularbayes.convert.spectrum import MatrixSpectrum, Spectrum
from singularbayes.plots.spectra import _short


def _spectrum(number):
    values = [np.exp(-np.arange(n) / n * 4) for n in np.linspace(4, 60, number).astype(int)]
    rows = [MatrixSpectrum(f"block_{i}/dense", "Dense", "kernel", (99, len(v)), v) for i, v in enumerate(values)]
    return Spectrum("model", tuple(rows))


@pytest.mark.parametrize("number", [1, 3, 50])
def test_every_matrix_has_its_curves_and_its_bar(number):
    spectrum = _spectrum(number)
    upper, lower = plots.spectra(spectrum, 0.8).subfigs
    decay, kept = upper.axes
    (chosen,) = lower.axes
    # A curve and a mark a matrix, and the line of the share.
    assert len(decay.lines) == 2 * number and len(kept.lines) == 2 * number + 1
    for row, curve, mark in zip(spectrum.rows, kept.lines[1::2], kept.lines[2::2], strict=True):
        np.testing.assert_allclose(curve.get_ydata(), row.explained)
        assert mark.get_xdata() == [row.rank_for(0.8)] and mark.get_ydata()[0] >= 0.8
        assert mark.get_color() is curve.get_color() or np.array_equal(mark.get_color(), curve.get_color())
    assert [label.get_text() for label in chosen.get_yticklabels()] == [row.name for row in spectrum.rows]
    assert [text.get_text() for text in chosen.texts] == [
        f"{row.rank_for(0.8)} of {len(row.values)}" for row in spectrum.rows
    ]


def test_long_names_keep_their_ends():
    long = "encoder/" * 10 + "dense/kernel"
    assert _short(long).startswith("…") and _short(long).endswith("dense/kernel")
    assert len(_short(long)) == 44 and _short("head/kernel") == "head/kernel"


def test_a_zero_matrix_can_be_drawn():
    rows = (MatrixSpectrum("layer", "Dense", "kernel", (3, 2), np.zeros(2)),)
    chosen = plots.spectra(Spectrum("model", rows), 0.9).axes[-1]
    assert [label.get_text() for label in chosen.get_yticklabels()] == [rows[0].name]
