"""Which layer gets which posterior: rules, functions and ranks; and the errors of those that make no sense."""

import keras
import pytest
from convertible import Block, functional, not_on_jax, ranks
from posterior_table import JAX_FIRST, TORCH_FIRST

import singularbayes as sb
from singularbayes import FullRank, LowRank, find_posteriors

pytestmark = [pytest.mark.backend, TORCH_FIRST]
L = keras.layers


@not_on_jax
def test_rules_choose_by_name_pattern_class_and_holder():
    model = keras.Sequential([keras.Input((6,)), L.Dense(6, name="in"), Block(6, name="block"), L.Dense(6, name="out")])
    assert ranks(sb.bayesianize(model, 2)) == [2] * 7
    bayes = sb.bayesianize(model, 2, rules={"out": 3})
    assert bayes.get_layer("out").posterior.rank == 3 and ranks(bayes) == [2] * 6 + [3]
    bayes = sb.bayesianize(model, 2, rules={"block/la*": 4})
    assert bayes.get_layer("block").late.posterior.rank == 4 and ranks(bayes) == [2] * 6 + [4]
    assert ranks(sb.bayesianize(model, 2, rules={Block: None})) == [2, 2]
    assert ranks(sb.bayesianize(model, rules={"block": FullRank(), "*": None})) == [0] * 5
    # The first rule that fits is taken.
    assert ranks(sb.bayesianize(model, 2, rules={"out": 1, L.Dense: 3})) == [1] + [3] * 6


@not_on_jax
def test_a_name_with_brackets_is_matched_by_itself():
    model = keras.Sequential([keras.Input((6,)), L.Dense(4, name="block[0]"), L.Dense(2)])
    bayes = sb.bayesianize(model, 2, rules={"block[0]": 1})
    assert [posterior.rank for posterior in sb.find_posteriors(bayes)] == [1, 2]


@not_on_jax
def test_a_matrix_that_is_smaller_than_the_rank_lowers_it_and_the_plan_shows_it():
    model = keras.Sequential([keras.Input((7, 1)), L.LSTM(6), L.Dense(2, name="head")])
    assert [row.posterior for row in sb.plan(model, 4).rows] == ["LowRank(4 → 1, 4)", "LowRank(4 → 2)"]
    assert [[matrix.rank for matrix in row.matrices] for row in sb.plan(model, 4).rows] == [[1, 4], [2]]
    found = find_posteriors(sb.bayesianize(model, 4))  # whose order is the backend's
    assert sorted((q.rank, q.effective_rank) for q in found) == [(4, 1), (4, 2), (4, 4)]


def test_a_rule_that_matches_nothing_is_an_error_that_lists_the_layers():
    with pytest.raises(ValueError, match=r"got 'heads'. The layers are: shared, nested/inner, y"):
        sb.plan(functional(), 2, rules={"y": 1, "heads": 3})
    with pytest.raises(ValueError, match=r"A rule needs a name, a pattern or a class of layers; got 3"):
        sb.plan(functional(), 2, rules={3: 1})


def test_a_rule_that_another_hides_is_named():
    model = keras.Sequential([keras.Input((6,)), L.Dense(4, name="g"), L.Dense(2)])
    with pytest.raises(ValueError, match=r"that no rule before it matches; got 'g'"):
        sb.plan(model, 2, rules={L.Dense: 2, "g": 1})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"posterior": None}, r"needs a posterior for at least one layer"),
        ({"posterior": 0}, r"an integer rank >= 1, or one of .*; got 0"),
        ({"posterior": "odd"}, r"posterior needs a Posterior .*got 'odd'"),
        ({"posterior": LowRank}, r"got the class LowRank\. Make one: LowRank\(32\)\."),
        ({"posterior": 2, "rules": {"y": FullRank}}, r"got the class FullRank\. Make one: FullRank\(\)\."),
        ({"posterior": 2, "rules": "y"}, r"rules needs a mapping .*\{\"head\": None\}; got rules='y'"),
        ({"posterior": 2, "rules": ["y"]}, r"rules needs a mapping .*got rules=\['y'\]"),
        (
            {"posterior": None, "rules": {"*": None}},
            r"got posterior=None and rules=\{'\*': None\}, which",
        ),
        ({"posterior": 2, "init": "zeros"}, r"needs init to be one of \('svd', 'random'\); got init='zeros'"),
        ({"posterior": 2, "unsupported": "drop"}, r"unsupported to be one of .*got unsupported='drop'"),
    ],
)
@JAX_FIRST
def test_bad_arguments_are_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        sb.bayesianize(functional(), **arguments)
