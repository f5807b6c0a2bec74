"""The paper's networks have exactly the published numbers of parameters."""

import dataclasses

import pytest
from singularbayes_experiments.problems import beijing, reviews

from singularbayes.models import count_trained

pytestmark = pytest.mark.on_torch

SST2 = {"deterministic": 9_922_562, "full_rank": 19_841_028, "low_rank": 1_470_340, "rank_one": 10_013_306}
BEIJING = {"deterministic": 53_569, "full_rank": 107_138, "low_rank": 47_144, "rank_one": 56_161}
# (rank of the embedding, rank elsewhere): the paper's profiling table.
SWEEP = {
    (4, 8): 498_164,
    (8, 12): 861_140,
    (10, 16): 1_101_004,
    (12, 24): 1_457_620,
    (16, 32): 1_937_348,
    (24, 48): 2_896_804,
    (32, 64): 3_856_260,
}


@pytest.mark.parametrize("method", SST2)
def test_the_transformer_has_the_published_parameters(method):
    assert count_trained(reviews.network(method)) == SST2[method]


# Three points fix a number that is affine in both ranks.
@pytest.mark.parametrize(
    "ranks", [pytest.param(r, marks=[] if r in [(4, 8), (10, 16), (32, 64)] else pytest.mark.exhaustive) for r in SWEEP]
)
def test_the_rank_sweep_has_the_published_parameters(ranks):
    embedding, rank = ranks
    settings = dataclasses.replace(reviews.ReviewSettings(), embedding_rank=embedding, rank=rank)
    assert SWEEP[ranks] == 61_556 * embedding + 29_188 * rank + 18_436
    assert count_trained(reviews.network("low_rank", settings)) == SWEEP[ranks]


def test_factors_per_head_have_the_parameters_that_the_paper_does_not():
    assert count_trained(reviews.network("low_rank", reviews.ReviewSettings(per_head=True))) == 1_765_252


@pytest.mark.parametrize("method", BEIJING)
def test_the_forecaster_has_the_published_parameters(method):
    assert count_trained(beijing.network(method)) == BEIJING[method]
