"""TopWords: the most frequent words of a text, in three stages; an example of such a job.

``split`` counts words within each split, ``count`` sums the counts up, and ``top`` has one task
that gets the most frequent words of every ``count`` task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from railyard.cluster.errors import require
from railyard.jobs.model import Job, Stage
from railyard.jobs.operators import Map, Reduce


class TopWords(Job):
    """Finds the `most` most frequent words; ties are broken in alphabetical order."""

    most: int = 10

    def setup(self) -> None:
        require(self.most >= 1, "most", self.most, "a whole number >= 1")

    def stages(self) -> tuple[Stage, ...]:
        return (
            Stage("split", Map(self.split, self.input, combine=self.add)),
            Stage("count", Reduce(self.total, combine=self.best), reads=("split",)),
            Stage("top", Reduce(self.rank), reads=("count",), tasks=1),
        )

    def split(self, line: str) -> Iterator[tuple[str, int]]:
        """Yield each word of a line with a count of one."""
        for word in line.split():
            yield word, 1

    def add(self, word: str, counts: Iterable[int]) -> Iterator[tuple[str, int]]:
        """Yield a word's count so far."""
        yield word, sum(counts)

    def total(self, word: str, counts: Iterable[int]) -> Iterator[tuple[str, tuple[int, str]]]:
        """Yield all words under one key, so that one task sees them."""
        yield "top", (-sum(counts), word)

    def best(
        self, key: str, words: Iterable[tuple[int, str]]
    ) -> Iterator[tuple[str, tuple[int, str]]]:
        """Yield the words that can still be among the most frequent."""
        for word in sorted(words)[: self.most]:
            yield key, word

    def rank(self, _: str, words: Iterable[tuple[int, str]]) -> Iterator[tuple[str, int]]:
        """Yield the most frequent words, most frequent first."""
        for count, word in sorted(words)[: self.most]:
            yield word, -count
