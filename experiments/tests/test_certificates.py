"""The experiment of certificates: the paper's network, certificates that pay, and a table that is its records'."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from singularbayes_experiments.cli import app as cli
from singularbayes_experiments.problems import certificates
from singularbayes_experiments.problems.certificates import INITIAL, LEARNED, RULE, TUNED, CertificateSettings
from singularbayes_experiments.problems.smooth_filters import SmoothFilters
from singularbayes_experiments.records.record import Record

import singularbayes as sb
from singularbayes.models import count_trained

pytestmark = pytest.mark.on_torch

DOCS = Path(__file__).parents[2] / "docs"
SMALL = replace(certificates.QUICK, units=16, rank=2, batch_size=500, draws=100, learned_draws=100)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(1000, 784)).astype("float32")
    y = rng.integers(0, 10, 1000)
    return (x[:500], y[:500]), (x[500:], y[500:])


def test_the_network_is_the_papers_with_drawn_biases():
    model = certificates.network("low_rank", "initial", CertificateSettings())
    biases = 1200 + 1200 + 10
    assert count_trained(model) == 245_810 + biases  # a scale for every bias, which the paper has not
    assert count_trained(certificates.network("full_rank", "learned", CertificateSettings())) == 2 * (
        784 * 1200 + 1200 * 1200 + 1200 * 10 + biases
    )
    for posterior in sb.find_posteriors(model):
        (factor,) = posterior.factors
        loc, scale, reference = factor.float64_values()
        np.testing.assert_allclose(scale, CertificateSettings().start, rtol=1e-5)
        np.testing.assert_array_equal(reference[0], loc)
        assert posterior.prior.prior.scale == CertificateSettings().prior_scale


def test_what_was_chosen_is_among_what_is_paid_for(data):
    for method, settings in TUNED.items():
        grid = INITIAL if method.endswith("initial") else LEARNED
        assert all(getattr(settings, name) in values for name, values in grid.items())
    assert all(set(values) <= set(LEARNED[name]) for name, values in RULE.items())
    with pytest.raises(ValueError, match=r"pays for prior_scale among .*; got 0.06"):
        certificates.run("low_rank_initial", 0, replace(SMALL, prior_scale=0.06), images=data)


@pytest.mark.parametrize("method", ["low_rank_initial", "full_rank_learned"])
def test_a_run_certifies_on_examples_that_its_prior_has_not_seen(method, data):
    record = certificates.run(method, 0, replace(SMALL, filters=1.0), images=data)
    m = record.metrics
    learned = method.endswith("learned")
    assert m["is_certificate"] == 1 and m["N"] == (150 if learned else 500)
    assert m["tried"] == (4096 if learned else 192)
    assert m["δ data"] + m["δ Monte Carlo"] == pytest.approx(0.05)
    assert m["certificate"] >= m["with their error"] >= m["mistakes of the draws"]
    assert ("filters" in record.settings) is not learned


def test_the_rule_takes_what_makes_the_fewest_mistakes_and_reads_no_certifying_image(data, monkeypatch):
    settings = replace(SMALL, learned_by="rule")
    fitted, asked = [], []
    monkeypatch.setattr(certificates, "_fit_prior", lambda model, x, y, used: fitted.append((len(x), used)))

    def mistakes(model, x, y, draws, seed):
        used = fitted[-1][1]
        asked.append(x)
        return np.array([0.5 - 0.1 * (used.learned_start == 1e-2) - 0.1 * (used.learned_dropout == 0.2)])

    monkeypatch.setattr(certificates, "drawn_risks", mistakes)
    (x, y), _ = data
    found = certificates.apply_rule("low_rank", x[:350], y[:350], settings, seed=0)
    assert found == replace(settings, learned_start=1e-2, learned_dropout=0.2)  # the first beta of two that are equal
    assert [rows for rows, _ in fitted] == [292] * 8
    assert all(np.array_equal(one, x[292:350]) for one in asked)
    assert certificates.count_priors("learned", settings) == 4096 // 4**3
    assert certificates.apply_rule("low_rank", x, y, SMALL, seed=0) is SMALL


def test_records_are_appended_as_they_come_with_the_settings_that_were_asked_for(tmp_path, monkeypatch, capsys):
    metrics = {"certificate": 0.2, "mistakes of the draws": 0.1, "KL": 10.0}

    def run(method, seed, settings):
        return Record("certificates", method, seed, certificates.settings_read("initial", settings), metrics, 1, 2.0)

    monkeypatch.setattr(certificates, "run", run)
    for penalty in ("0.4", "0.5"):
        arguments = [
            "certificates",
            "--methods",
            "low_rank_i",
            "--out",
            str(tmp_path / "runs"),
            "--set",
            f"penalty={penalty}",
        ]
        assert cli.main([*arguments, "--preset", "quick"]) == 0
    lines = [json.loads(line) for line in (tmp_path / "runs" / "records.jsonl").read_text().splitlines()]
    assert [line["method"] for line in lines] == ["low_rank_initial"] * 2
    assert [line["settings"]["penalty"] for line in lines] == [0.4, 0.5] and lines[0]["settings"]["units"] == 64
    assert "penalty=0.4: certified 0.2000, mistakes 0.1000" in capsys.readouterr().out
    for wrong in (["--methods", "none"], ["--set", "penalti=1"], ["--set", "units=3"], ["--preset", "paper"]):
        with pytest.raises(SystemExit):
            cli.main(["certificates", *wrong, "--out", str(tmp_path)])


def test_smooth_filters_are_slow_and_have_the_variance_of_he():
    w = np.asarray(SmoothFilters(25, 1.0, seed=0)((784, 400)))
    assert np.linalg.matrix_rank(w) == 25
    # Each column of G has variance 1, so the mean square of W is 2/784 to within its standard error.
    squares = (w**2).mean(axis=0)
    assert squares.mean() == pytest.approx(2 / 784, abs=4 * float(squares.std()) / 400**0.5)
    spectrum = np.abs(np.fft.rfft2(w.T.reshape(-1, 28, 28))) ** 2
    slow = spectrum[:, [*range(7), *range(-6, 0)], :7].sum()
    assert slow > 0.9 * spectrum.sum()
    with pytest.raises(ValueError, match="needs a square image"):
        SmoothFilters(2)((783, 5))
