"""The lines of the two jobs: documents, and counts of their sequences of three words.

A line of text is "title<TAB>words"; a line without a tab belongs to the document that has the name
of its file.  A line of counts is "word word word<TAB>document<TAB>count".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from railyard.jobs.samples.checkedlines import BadLine
from railyard.jobs.taskio import Buffer

#: Words of a sequence.
LENGTH = 3

_COUNTED = re.compile(rb"(\S+ \S+ \S+)\t[^\t]*\t[0-9]{1,18}\r?")
_SHOWN_BYTES = 60


def documents(lines: Buffer, path: str) -> Iterator[tuple[bytes, bytes]]:
    """(Document, words) of each of these lines of a file."""
    name = path.rpartition("/")[2].encode("utf-8", "surrogateescape")
    for line in bytes(lines).split(b"\n"):
        title, tab, words = line.partition(b"\t")
        yield (title, words) if tab else (name, line)


def counted_sequences(lines: Buffer) -> tuple[list[bytes], list[bytes]]:
    """The sequence in each of these lines of counts, and the lines; ``BadLine`` for other lines."""
    rows = bytes(lines).split(b"\n")
    if not rows[-1]:
        rows.pop()
    sequences = []
    for number, row in enumerate(rows):
        found = _COUNTED.fullmatch(row)
        if found is None:
            shown = row[:_SHOWN_BYTES].decode(errors="replace")
            right = "word word word<TAB>document<TAB>count, as sequence-count writes them"
            raise BadLine(number, f"{shown!r}: need {right}")
        sequences.append(found[1])
    return sequences, rows
