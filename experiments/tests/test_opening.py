"""The trial that chose when the noise opens: its rule gives what its plan says came of it."""

from pathlib import Path

import pytest
import yaml
from singularbayes_experiments.opening import choose

PLAN = Path(choose.__file__).with_name("plan.yaml")


@pytest.mark.parametrize(("number", "name"), [(1, "first round"), (2, "second round")])
def test_the_records_give_the_outcome_that_the_plan_states(number, name):
    found = choose.read(number)
    one = choose.one_network(choose.excess(found, "nll"), choose.matter(found))
    mixture = choose.mixture(choose.excess(found, "pooled"), one)
    outcome = yaml.safe_load(PLAN.read_text(encoding="utf-8"))["outcome"][name]
    if one == mixture:
        assert outcome == f"one network and mixture: {one}"
    else:
        beta = mixture.rpartition("β ")[2]
        assert outcome == f"one network: {one}; mixture: the same opening with β {beta}"
