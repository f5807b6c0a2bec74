"""Text as token ids: WordPiece by the `tokenizers` library, with the vocabulary of bert-base-uncased."""

import functools
from collections.abc import Sequence

import numpy as np

from singularbayes.checks import require_package
from singularbayes_experiments import data

PADDING = 0  # the id of [PAD]
_MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


class WordPieces:
    """Splits text into pieces of words: lower case, accents off, punctuation apart, words that are not known in parts.

    A word without known parts, or of more than 100 characters, is [UNK].

    Args:
        words: the vocabulary; the place of a word is its id, and [PAD] comes first.

    >>> pieces = WordPieces(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "film", "##s", "good"])
    >>> pieces.encode(["Good films", ""], length=6)
    array([[2, 6, 4, 5, 3, 0],
           [2, 3, 0, 0, 0, 0]], dtype=int32)
    """

    def __init__(self, words: Sequence[str]):
        places = {word: place for place, word in enumerate(words)}
        if not places.keys() >= set(_MARKS) or places["[PAD]"] != PADDING or len(places) < len(words):
            raise ValueError(
                f"WordPieces needs different words, {', '.join(_MARKS)} among them and [PAD] first; got {len(words)}, "
                f"{len(places)} of them different, that start with {list(words[:3])}."
            )
        tokenizers = require_package("tokenizers", "", "Text", "singularbayes-experiments")
        self._tokenizer = tokenizers.BertWordPieceTokenizer(places, lowercase=True)

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of the pieces of every text, however many they are."""
        _require_text(texts)
        return [found.ids for found in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)]

    def encode(self, texts: Sequence[str], length: int) -> np.ndarray:
        """Returns [CLS], the pieces, [SEP] and padding of every text, (texts, length) int32.

        What is too long is cut off at the end: the first length − 2 pieces stay, of however many words. A text without
        any is [CLS] [SEP].
        """
        if length < 3:
            raise ValueError(f"encode needs length >= 3: two marks and a piece; got length={length!r}.")
        first, last = (self._tokenizer.token_to_id(mark) for mark in ("[CLS]", "[SEP]"))
        encoded = np.full((len(texts), length), PADDING, "int32")
        for row, pieces in zip(encoded, self.ids(texts), strict=True):
            marked = [first, *pieces[: length - 2], last]
            row[: len(marked)] = marked
        return encoded


@functools.cache
def bert() -> WordPieces:
    """Returns the splitter with the vocabulary of bert-base-uncased, read once."""
    return WordPieces(data.bert_vocab().words)


def _require_text(texts: Sequence[str]) -> None:
    if isinstance(texts, str | bytes):  # its letters would be taken for texts
        raise TypeError(f"Texts need to be a list of str; got one {type(texts).__name__}, {texts[:20]!r}.")
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"Text needs to be str; got {type(text).__name__} at place {place}.")
        if "\0" in text:
            raise ValueError(
                f"Text needs to be without NUL characters; got one at place {place}, {text[:20]!r}. Was a file in "
                "UTF-16 read as UTF-8?"
            )
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"Text needs to be without lone surrogates; got one at place {place}, {text[:20]!r}. Was a file read "
                "with errors='surrogateescape'?"
            ) from error
