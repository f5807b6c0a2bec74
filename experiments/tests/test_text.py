"""Text as token ids: what BERT's own rules give, what is cut, and what is refused."""

import sys

import numpy as np
import pytest
from singularbayes_experiments.problems.text import PADDING, WordPieces

pytest.importorskip("tokenizers")
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "film", "##s", "good", "a", "-", "e", "##a", ".", "it", "'"]
CLS, SEP, UNK = 2, 3, 1
PIECES = WordPieces(WORDS)


def test_words_are_split_into_their_longest_known_parts_in_lower_case_without_accents():
    (row,) = PIECES.encode(["Good FILMS é. it's xyz"], length=14)
    assert [WORDS[i] for i in row] == [
        *("[CLS]", "good", "film", "##s", "e", ".", "it", "'", "[UNK]", "[UNK]", "[SEP]"),
        *["[PAD]"] * 3,
    ]
    assert PIECES.ids(["Good FILMS"]) == [[6, 4, 5]]


def test_a_text_of_a_hundred_thousand_words_keeps_its_first_and_both_marks():
    (row,) = PIECES.encode(["film " + "good " * 100_000], length=64)
    assert row.tolist() == [CLS, 4, *[6] * 61, SEP]
    assert len(PIECES.ids(["good " * 100_000])[0]) == 100_000


def test_a_text_that_just_fits_is_not_cut():
    exact, longer = PIECES.encode(["a a a", "a a a a"], length=5)
    assert exact.tolist() == longer.tolist() == [CLS, 7, 7, 7, SEP]


@pytest.mark.parametrize("text", ["", "   ", "\n\t"])
def test_a_text_without_words_is_its_two_marks(text):
    assert PIECES.encode([text], length=4).tolist() == [[CLS, SEP, PADDING, PADDING]]


def test_a_word_of_more_than_a_hundred_characters_is_unknown():
    assert PIECES.ids(["e" + "a" * 99, "e" + "a" * 100]) == [[9, *[10] * 99], [UNK]]


def test_no_texts_give_no_rows():
    assert PIECES.encode([], length=7).shape == (0, 7)


@pytest.mark.parametrize(
    ("texts", "error", "description"),
    [
        (["good", "a\0b"], ValueError, r"without NUL characters; got one at place 1, 'a\\x00b'"),
        ([b"good"], TypeError, "needs to be str; got bytes at place 0"),
        (["good", None], TypeError, "needs to be str; got NoneType at place 1"),
        ("good film", TypeError, "Texts need to be a list of str; got one str, 'good film'"),
        (b"good film", TypeError, "Texts need to be a list of str; got one bytes, b'good film'"),
        (["good", "\ud800"], ValueError, r"without lone surrogates; got one at place 1, '\\ud800'"),
        (["a\udfff film"], ValueError, r"without lone surrogates; got one at place 0, 'a\\udfff film'"),
    ],
)
def test_what_is_no_text_is_refused(texts, error, description):
    with pytest.raises(error, match=description):
        PIECES.encode(texts, length=8)


def test_letters_beside_the_surrogates_are_text():
    assert PIECES.ids(["good \ud7ff \ue000 \U0001f600"])[0][0] == 6


def test_a_length_without_room_for_a_piece_is_refused():
    with pytest.raises(ValueError, match="encode needs length >= 3"):
        PIECES.encode(["good"], length=2)


@pytest.mark.parametrize("words", [WORDS[1:], WORDS[:2], [*WORDS, "film"], ["film", *WORDS]])
def test_a_vocabulary_needs_its_marks_and_different_words(words):
    with pytest.raises(ValueError, match=r"needs different words, \[PAD\], \[UNK\], \[CLS\], \[SEP\] among them"):
        WordPieces(words)


def test_without_the_library_the_error_says_what_to_type(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ImportError, match=r"pip install 'singularbayes-experiments'"):
        WordPieces(WORDS)


def test_ids_are_whole_numbers_of_32_bits():
    assert PIECES.encode(["good"], length=4).dtype == np.int32
