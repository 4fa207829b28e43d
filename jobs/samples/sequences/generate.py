"""Articles as an encyclopedia has them: a title, and a text of very unequal length.

Lengths are lognormal, with a median of 300 words and a mean of 600, about as in the English
Wikipedia; words are those of ``jobs.samples.words.textgen``, drawn one by one.  So short sequences
of frequent words are in many articles, and most others in one, once.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from itertools import islice

import numpy as np

from railyard.jobs.formats import Lines
from railyard.jobs.generating import Part, check_parts, generating_stages
from railyard.jobs.model import Job, Stage
from railyard.jobs.samples.words.textgen import random_text
from railyard.jobs.taskio import Buffer, Counters

_MEDIAN_WORDS, _SIGMA = 300, math.sqrt(2 * math.log(2))
#: Bytes of a word and the blank after it, a bit above the mean.
_WORD_BYTES = 7


class ArticlesGen(Job):
    """Generates about `size` bytes of articles in `parts` files."""

    input = Lines()
    size: int
    parts: int = 1
    seed: int = 1

    def setup(self) -> None:
        check_parts(self.size, "bytes", self.parts, self.seed)

    def stages(self) -> tuple[Stage, ...]:
        return generating_stages(self.size, self.parts, self._articles)

    def _articles(self, part: Part, counters: Counters) -> Iterator[tuple[Buffer, int]]:
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
