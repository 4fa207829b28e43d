"""What the two jobs should write, by plain programs that share no code with them."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

import numpy as np

from railyard.jobs.samples.sample import Files
from railyard.jobs.samples.steps import decoded, lines_of

_DIGITS_MAX = 18


def wrong_counts(files: Files, source: str, output: str) -> tuple[int, int, str]:
    """How often three words follow one another, against the counts in an output.

    Returns the number of sequences with their documents, how many occurrences they have, and what
    is wrong: "" = nothing.  They are compared by hashes of 64 bits, which take little memory.
    """
    every = np.fromiter(map(hash, _occurrences(files, source)), np.int64)
    expected, times = np.unique(every, return_counts=True)
    marks, counts = array("q"), array("q")
    for line in lines_of(files, output):
        what, _, count = line.rpartition(b"\t")
        if not (count.isdigit() and len(count) <= _DIGITS_MAX):
            return len(expected), len(every), f'"{_shown(line)}" has no count'
        marks.append(hash(what))
        counts.append(int(count))
    found = np.array(marks, np.int64)
    order = np.argsort(found)
    same = np.array_equal(found[order], expected)
    if same and np.array_equal(np.array(counts, np.int64)[order], times):
        return len(expected), len(every), ""
    right = dict(zip(expected.tolist(), times.tolist(), strict=True))
    lines = zip(lines_of(files, output), marks, counts, strict=True)
    others = [line for line, mark, count in lines if right.pop(mark, None) != count]
    example = f', such as "{_shown(others[0])}"' if others else ""
    wrong = f"{len(others)} wrong lines{example}, {len(right)} are missing"
    return len(expected), len(every), wrong


def _occurrences(files: Files, source: str) -> Iterator[bytes]:
    """Each occurrence of three words in a row, as "word word word<TAB>document"."""
    for path in files.list(source):
        name = path.rsplit("/", 1)[-1].encode("utf-8", "surrogateescape")
        for line in lines_of(files, path):
            document, text = line.split(b"\t", 1) if b"\t" in line else (name, line)
            words = text.split()
            for at in range(len(words) - 2):
                yield b"%s %s %s\t%s" % (words[at], words[at + 1], words[at + 2], document)


def ranked_lines(files: Files, source: str) -> list[bytes]:
    """The lines of the index of these counts, sorted."""
    rows = []
    for line in lines_of(files, source):
        sequence, document, count = line.split(b"\t")
        rows.append((sequence, -int(count), document))
    rows.sort()
    return [
        sequence + b"".join(b"\t%d %s" % (-count, document) for _, count, document in group)
        for sequence, group in groupby(rows, key=itemgetter(0))
    ]


def _shown(line: bytes) -> str:
    return decoded(line[:80]).replace("\t", " ")
