"""UCI tables: splits as given, no test row in training, and scores in the units of the targets."""

import numpy as np
import pytest
import tiny
from singularbayes_experiments import data
from singularbayes_experiments.methods import Weights
from singularbayes_experiments.problems.uci import UCI, UCISettings

import singularbayes as sb
from singularbayes.models import count_trained


@pytest.fixture(autouse=True)
def tables(monkeypatch):
    monkeypatch.setattr(data, "uci_regression", tiny.table)


def test_rows_are_standardised_by_those_that_train_and_a_seed_has_a_split_of_its_own():
    table = tiny.table("yacht")
    train, test = table.splits[3]
    found = UCI().data("yacht", 4, UCISettings(), "result")
    np.testing.assert_allclose(found.train.x.std(axis=0), [1, 1, 0], rtol=1e-5)  # a column that never varies is 0
    back = found.test.x[:, 0] * table.x[train, 0].std() + table.x[train, 0].mean()
    np.testing.assert_allclose(back, table.x[test, 0], rtol=1e-5)
    assert found.unit == table.y[train].std() and found.validation is None
    back = found.test.y[:, 0] * found.unit + table.y[train].mean()
    np.testing.assert_allclose(back, table.y[test], rtol=1e-5)
    with pytest.raises(ValueError, match="A result seed of this table must be from 2 to 9; got 10"):
        UCI().data("yacht", 10, UCISettings(), "result")


@pytest.mark.parametrize(("stage", "split"), [("tuning", 0), ("result", 3)])
def test_what_trains_knows_no_test_row(stage, split, monkeypatch):
    before = UCI().data("yacht", 4, UCISettings(), stage)
    _, test = tiny.table("yacht").splits[split]
    monkeypatch.setattr(data, "uci_regression", lambda name: tiny.table(name, changed=test))
    after = UCI().data("yacht", 4, UCISettings(), stage)
    np.testing.assert_array_equal(after.train.x, before.train.x)
    np.testing.assert_array_equal(after.train.y, before.train.y)
    if stage == "tuning":
        np.testing.assert_array_equal(after.validation.x, before.validation.x)
        assert (len(after.train.x), len(after.validation.x), after.test) == (40, 10, None)
    else:
        assert not np.allclose(after.test.x, before.test.x)


def test_scores_are_in_the_units_of_the_targets():
    found = UCI().data("yacht", 2, UCISettings(), "result")

    def predict(x, **options):
        return sb.ValuePredictive(np.zeros((len(x), 1)), np.full((len(x), 1), 0.3), 5, noise=0.4)

    scored, _ = UCI().score(predict, found, UCISettings(), "result")
    y = found.test.y[:, 0] * found.unit
    assert scored["rmse"] == pytest.approx(np.sqrt((y**2).mean()))
    variance = (0.5 * found.unit) ** 2
    assert scored["nll"] == pytest.approx((0.5 * np.log(2 * np.pi * variance) + y**2 / (2 * variance)).mean())


@pytest.mark.parametrize(("kind", "parameters"), [("low_rank", 9292), ("deterministic", 4674), ("full_rank", 9218)])
def test_networks_have_the_recorded_sizes(kind, parameters):
    """Yacht has 6 inputs; a rank is no more than that, and the noise is one number."""
    settings = UCISettings()
    assert count_trained(UCI().network(Weights(kind, settings, inputs=(6,)), settings)) == parameters
