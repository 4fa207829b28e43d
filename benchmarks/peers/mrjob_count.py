"""WordCount with mrjob's local runner, counted within each mapper as ours is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from mrjob.job import MRJob


class Count(MRJob):
    """Counts words."""

    def mapper_init(self) -> None:
        """Begin with nothing."""
        self.words: Counter[str] = Counter()

    def mapper(self, _: None, line: str) -> None:
        """Count a line's words."""
        self.words.update(line.split())

    def mapper_final(self) -> Iterator[tuple[str, int]]:
        """Yield this mapper's counts."""
        yield from self.words.items()

    def reducer(self, word: str, counts: Iterable[int]) -> Iterator[tuple[str, int]]:
        """Add up a word's counts."""
        yield word, sum(counts)


if __name__ == "__main__":
    Count.run()
