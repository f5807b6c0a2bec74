"""Held-out sentences: nothing of one side stands inside a row of the other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from singularbayes_experiments.problems.phrases import split

SENTENCES = st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=9), min_size=3, max_size=12)


def inside(part, row) -> bool:
    """Whether a part stands in a row, looked up place by place."""
    return any(list(row[i : i + len(part)]) == list(part) for i in range(len(row) - len(part) + 1))


@st.composite
def treebanks(draw):
    """Sentences and some of their phrases, mixed; some rows twice."""
    rows = draw(SENTENCES)
    for row in list(rows):
        for _ in range(draw(st.integers(0, 3))):
            start = draw(st.integers(0, len(row) - 1))
            rows.append(row[start : draw(st.integers(start + 1, len(row)))])
    return draw(st.permutations(rows))


def tops(rows) -> int:
    """How many different rows are in no other one."""
    different = {tuple(row) for row in rows}
    return sum(not any(inside(row, other) for other in different if other != row) for row in different)


@given(treebanks(), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_no_row_of_one_side_stands_in_a_row_of_the_other(rows, seed):
    count = tops(rows)
    if count < 2:
        return
    found = split(rows, count // 2, seed)
    for i in found.train:
        for j in found.held_out:
            assert not inside(rows[i], rows[j]) and not inside(rows[j], rows[i])
    assert len(found.sentences) == count // 2 and set(found.sentences) <= set(found.held_out)


@given(treebanks(), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_only_rows_that_both_sides_hold_are_left_out(rows, seed):
    count = tops(rows)
    if count < 2:
        return
    found = split(rows, 1, seed)
    held = [rows[i] for i in found.sentences]
    left = set(range(len(rows))) - set(found.train) - set(found.held_out)
    trained = [rows[i] for i in range(len(rows)) if not any(inside(rows[i], sentence) for sentence in held)]
    for i in left:
        assert any(inside(rows[i], sentence) for sentence in held)
        assert any(inside(rows[i], row) for row in trained)
    assert sorted(map(tuple, trained)) == sorted(tuple(rows[i]) for i in found.train)


def test_a_random_slice_leaks_and_this_split_does_not():
    rng = np.random.default_rng(0)
    sentences = [rng.integers(0, 1000, 12).tolist() for _ in range(40)]
    rows = [row[i : i + 4] for row in sentences for i in range(0, 9, 2)] + sentences
    sliced = set(rng.choice(len(rows), 40, replace=False).tolist())
    kept = [row for i, row in enumerate(rows) if i not in sliced]
    assert sum(any(inside(rows[i], row) for row in kept) for i in sliced) > 20
    found = split(rows, 8)
    trained = [rows[i] for i in found.train]
    assert not any(inside(rows[i], row) for i in found.held_out for row in trained)


def test_the_split_depends_on_the_seed_alone():
    rows = [[i, i + 1, i + 2] for i in range(0, 60, 3)] + [[i] for i in range(0, 60, 3)]
    one, again, other = (split(rows, 5, seed) for seed in (0, 0, 1))
    assert one.sentences.tolist() == again.sentences.tolist() != other.sentences.tolist()


@pytest.mark.parametrize("sentences", [0, 2, -1])
def test_more_sentences_than_there_are_cannot_be_held_out(sentences):
    with pytest.raises(ValueError, match="split needs 0 < sentences < 2"):
        split([[1, 2], [2], [3]], sentences)
