"""Detection scores: the chance of ranking a pair right, and average precision as the paper means it."""

import numpy as np
import pytest

from singularbayes.metrics import aupr_ood, auroc_ood


def test_auroc_is_the_share_of_pairs_ranked_right_with_ties_as_half():
    rng = np.random.default_rng(0)
    inside, outside = rng.integers(0, 6, 50).astype(float), rng.integers(2, 8, 70).astype(float)
    wins = (outside[:, None] > inside).mean() + 0.5 * (outside[:, None] == inside).mean()
    assert auroc_ood(inside, outside) == pytest.approx(wins, rel=1e-12)


def test_auroc_of_swapped_roles_is_the_rest():
    inside, outside = np.random.default_rng(0).normal(size=(2, 30))
    assert auroc_ood(inside, outside) + auroc_ood(outside, inside) == pytest.approx(1)


@pytest.mark.parametrize(("known", "foreign", "expected"), [(4490, 5357, 0.544), (872, 7600, 0.897)])
def test_a_blind_score_gets_the_prevalence_as_in_the_papers_tables(known, foreign, expected):
    assert aupr_ood(np.zeros(known), np.zeros(foreign)) == pytest.approx(expected, abs=5e-4)
    assert auroc_ood(np.zeros(known), np.zeros(foreign)) == 0.5


def test_average_precision_by_hand():
    # Ranks from the top: foreign, known, foreign. Precision at the foreign ones: 1 and 2/3.
    assert aupr_ood(np.array([2.0]), np.array([1.0, 3.0])) == pytest.approx((1 + 2 / 3) / 2)


@pytest.mark.parametrize("score", [auroc_ood, aupr_ood])
@pytest.mark.parametrize(("inside", "outside"), [(np.ones((2, 1)), np.ones(2)), (np.ones(0), np.ones(2))])
def test_wrong_uncertainties_are_refused(score, inside, outside):
    with pytest.raises(ValueError, match=f"{score.__name__} needs one uncertainty an example"):
        score(inside, outside)
