"""Articles as an encyclopedia has them: a title, and a text of very unequal length.

Lengths are lognormal, with a median of 300 words and a mean of 600, about as in the English
Wikipedia; words are those of ``jobs.samples.textgen``, drawn one by one.  So short sequences of
frequent words are in many articles, and most others in one, once.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from itertools import islice

import numpy as np

from railyard.cluster.errors import require
from railyard.cluster.messages.execution import TaskSpec
from railyard.jobs.formats import Lines
from railyard.jobs.model import Job, Stage
from railyard.jobs.samples.textgen import random_text
from railyard.jobs.taskio import Buffer, Counters, TaskIO, TaskResult

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
        require(1 <= self.parts <= self.size, "parts", self.parts, "1 to the number of bytes")
        require(self.seed >= 0, "seed", self.seed, "a whole number >= 0")

    def stages(self) -> tuple[Stage, ...]:
        return (Stage("m", _Generate(self), tasks=self.parts),)


class _Generate:
    """Generates the articles of one part."""

    def __init__(self, job: ArticlesGen) -> None:
        self._job = job

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        return TaskResult(output=self._articles(task, io, counters), counters=counters)

    def _articles(self, task: TaskSpec, io: TaskIO, counters: Counters) -> Iterator[Buffer]:
        job, index = self._job, task.index
        first, stop = (job.size * i // job.parts for i in (index, index + 1))
        size, done = stop - first, 0
        dice = np.random.default_rng((job.seed, index))
        words = _endless_words((job.seed, index, 1))
        counters["articles"] = 0
        while done < size:
            length = 1 + int(dice.lognormal(math.log(_MEDIAN_WORDS), _SIGMA))
            length = min(length, 1 + (size - done) // _WORD_BYTES)  # the last ones are cut short
            title = b"%s %d.%d" % (next(words).capitalize(), index, counters["articles"])
            article = b"%s\t%s\n" % (title, b" ".join(islice(words, length)))
            counters["articles"] += 1
            done += len(article)
            yield article
            io.progress(min(1.0, done / size))


def _endless_words(seed: tuple[int, ...]) -> Iterator[bytes]:
    for piece in random_text(sys.maxsize, seed):
        yield from bytes(piece).split()
