"""TeraSort with mrjob's local runner: lines of 100 bytes by their first 10."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mrjob.job import MRJob
from mrjob.protocol import RawProtocol, RawValueProtocol


class Sort(MRJob):
    """The runner sorts what mappers give by its key; reducers have nothing to do."""

    INPUT_PROTOCOL = RawValueProtocol
    INTERNAL_PROTOCOL = RawProtocol
    OUTPUT_PROTOCOL = RawValueProtocol

    def mapper(self, _: None, line: str) -> Iterator[tuple[str, str]]:
        """Yield a line by its key."""
        yield line[:10], line

    def reducer(self, _: str, lines: Iterable[str]) -> Iterator[tuple[None, str]]:
        """Yield the lines of a key."""
        for line in lines:
            yield None, line


if __name__ == "__main__":
    Sort.run()
