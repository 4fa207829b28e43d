"""TextGen and ArticlesGen: random text of made-up words with the word frequencies of real text.

By Zipf's law, the n-th most frequent word has a share in proportion to 1/n.  In place of Hadoop's
RandomTextWriter, where all words are equally frequent.

Articles are as an encyclopedia has them: a title, and a text of very unequal length.  Lengths are
lognormal, with a median of 300 words and a mean of 600, about as in the English Wikipedia; words
are drawn one by one.  So short sequences of frequent words are in many articles, and most others in
one, once.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from railyard.jobs.samples.tasks import Generator, Part
from railyard.jobs.taskio import Buffer, Counters

_VOCABULARY = 20_000
_LETTERS_MAX = 14
_WORDS_AT_ONCE = 2**16
_WORDS_PER_LINE = 12
_MEDIAN_WORDS, _SIGMA = 300, math.sqrt(2 * math.log(2))
#: Bytes of a word and the blank after it, a bit above the mean.
_WORD_BYTES = 7

Bytes = npt.NDArray[np.uint8]


class TextGen(Generator):
    """Generates `size` bytes of text in `parts` files."""

    TOTAL, OF = "size", "bytes"
    size: int
    parts: int = 1
    seed: int = 1

    def pieces(self, part: Part, _: Counters) -> Iterator[tuple[Buffer, int]]:
        for piece in random_text(part.stop - part.first, (self.seed, part.index)):
            yield piece, len(piece)


class ArticlesGen(Generator):
    """Generates about `size` bytes of articles in `parts` files."""

    TOTAL, OF = "size", "bytes"
    size: int
    parts: int = 1
    seed: int = 1

    def pieces(self, part: Part, counters: Counters) -> Iterator[tuple[Buffer, int]]:
        index, size, done = part.index, part.stop - part.first, 0
        dice = np.random.default_rng((self.seed, index))
        words = _endless_words((self.seed, index, 1))
        counters["articles"] = 0
        while done < size:
            length = 1 + int(dice.lognormal(math.log(_MEDIAN_WORDS), _SIGMA))
            length = min(length, 1 + (size - done) // _WORD_BYTES)  # the last ones are cut short
            title = b"%s %d.%d" % (next(words).capitalize(), index, counters["articles"])
            article = b"%s\t%s\n" % (title, b" ".join(islice(words, length)))
            counters["articles"] += 1
            done += len(article)
            yield article, len(article)


def _endless_words(seed: tuple[int, ...]) -> Iterator[bytes]:
    for piece in random_text(sys.maxsize, seed):
        yield from bytes(piece).split()


def random_text(size: int, seed: tuple[int, ...]) -> Iterator[Buffer]:
    """``size`` bytes of text in pieces, equal for equal seeds; ends with a newline."""
    dice = np.random.default_rng(seed)
    words = _vocabulary()
    line_ends = np.arange(_WORDS_PER_LINE - 1, _WORDS_AT_ONCE, _WORDS_PER_LINE)
    while size > 0:
        drawn = words.draws[dice.integers(0, len(words.draws), _WORDS_AT_ONCE, np.uint32)]
        grid = words.letters.take(drawn, axis=0)
        grid[line_ends, words.lengths[drawn[line_ends]]] = ord("\n")
        text = np.compress(words.used.take(drawn, axis=0).ravel(), grid.ravel())
        piece = bytearray(text[:size].data)
        size -= len(piece)
        if size == 0:
            piece[-1] = ord("\n")
        yield piece


class _Words(NamedTuple):
    """A vocabulary, the most frequent words first."""

    letters: Bytes  #: one word per row, padded with blanks
    lengths: npt.NDArray[np.int64]  #: letters of each word
    used: npt.NDArray[np.bool_]  #: which of ``letters`` are the word and one blank
    draws: npt.NDArray[np.uint16]  #: 2**20 rows of words, each in proportion to its share


@cache
def _vocabulary() -> _Words:
    dice = np.random.default_rng(0)
    # Frequent words are short, as in real text.  Words may repeat; then their shares add up.
    mean = np.linspace(4.5, 8.0, _VOCABULARY)
    lengths = np.clip(dice.poisson(mean), 1, _LETTERS_MAX).astype(np.int64)
    letters = dice.integers(ord("a"), ord("z") + 1, (_VOCABULARY, _LETTERS_MAX + 1), np.uint8)
    columns = np.arange(_LETTERS_MAX + 1)
    letters[columns >= lengths[:, None]] = ord(" ")
    shares = np.cumsum(1 / np.arange(1, _VOCABULARY + 1))
    draws = np.searchsorted(shares / shares[-1], (np.arange(2**20) + 0.5) / 2**20)
    return _Words(letters, lengths, columns <= lengths[:, None], draws.astype(np.uint16))
