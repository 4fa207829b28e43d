"""Text whose lines have to have a form: the first one that has not is named by file and line.

    for block, rows in parsed_blocks(parse, file, split):
        ...                                # parse(block) raises BadLine

Lines are numbered only for an error: a task sees a split, and not the lines before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from railyard.cluster.messages.execution import Split
from railyard.jobs.formats import Lines
from railyard.jobs.samples.sample import GivenFile
from railyard.jobs.taskio import BadInput, Buffer, FileReader

_LINES = Lines()
#: Bytes per read while lines are counted.
_COUNTED_BYTES = 2**20

Parsed = TypeVar("Parsed")
#: Parses a block of whole lines; raises ``BadLine``.
Parse = Callable[[Buffer], Parsed]


class BadLine(Exception):
    """A line, by its number among those of its block from 0 on, has not the form that is needed."""

    def __init__(self, number: int, words: str) -> None:
        super().__init__(words)
        self.number = number


def parsed_blocks(
    parse: Parse[Parsed], file: FileReader, split: Split, shown: str = ""
) -> Iterator[tuple[Buffer, Parsed]]:
    """(Block of whole lines, what it is parsed as) for all lines that begin in the split.

    Raises ``BadInput`` for a line that has not the form; ``shown``: the file in its words.
    """
    lines_before = 0
    for block in _LINES.blocks(file, split):
        try:
            parsed = parse(block)
        except BadLine as bad:
            at = _lines_before(file, split) + lines_before + bad.number + 1
            raise BadInput(f"{shown or split.path}:{at}: {bad}") from None
        yield block, parsed
        lines_before += bytes(block).count(b"\n")


def parsed_file(parse: Parse[Parsed], file: FileReader, shown: str) -> Iterator[Parsed]:
    """What each block of a whole file is parsed as; raises as ``parsed_blocks``."""
    whole = Split(path="/", stored_offset=0, stored_length=file.stored_bytes)
    for _, parsed in parsed_blocks(parse, file, whole, shown):
        yield parsed


def check_lines(parse: Parse[Parsed], files: Iterable[GivenFile]) -> None:
    """Raise ``BadInput`` unless all lines of these files have the form."""
    for given in files:
        for _ in parsed_file(parse, given.file, given.shown):
            pass


def _lines_before(file: FileReader, split: Split) -> int:
    """How many lines of the file begin before the first that begins in the split."""
    if split.stored_offset == 0:
        return 0
    end = split.stored_offset - 1  # a newline here ends the last of them, and is not needed for it
    return 1 + sum(
        bytes(file.read(at, min(_COUNTED_BYTES, end - at))).count(b"\n")
        for at in range(0, end, _COUNTED_BYTES)
    )
