"""WordCount: counts how often each word occurs.

Words are separated as by ``bytes.split()``: by blanks, tabs, line ends and form feeds.  The output
has lines "word<TAB>count", sorted by the words' bytes within each reduce.

With ``combined=false`` every single occurrence goes through the shuffle, which makes WordCount
heavy on the network.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from railyard.cluster.messages.execution import TaskSpec
from railyard.jobs.formats import Lines
from railyard.jobs.model import Job, Stage
from railyard.jobs.operators import FETCHED_SHARE, fetch, split_blocks, split_bytes
from railyard.jobs.samples.hashing import rows_by_partition
from railyard.jobs.samples.words.wordtable import WordTable
from railyard.jobs.taskio import Buffer, Counters, TaskIO, TaskResult

#: With this block size the working set fits into a core's cache; larger ones take up to twice as
#: long.
_TEXT = Lines(block_bytes=2**18)
_HEADER = struct.Struct("<QQ")  # words, bytes of the words
_LINES_PER_PIECE = 2**14
_LINE_END = ord("\n")
#: Of a word as it is shipped, without its letters: its count, and the blank after it.
_PAIR_BYTES = 9


class WordCount(Job):
    """Counts words; `combined=false` ships every occurrence instead of each map's counts."""

    input = _TEXT
    combined: bool = True

    def stages(self) -> tuple[Stage, ...]:
        mapper = _CountSplit() if self.combined else _ShipWords()
        return (Stage("m", mapper), Stage("r", _Sum(), reads=("m",)))


class _CountSplit:
    """Counts the words of its splits."""

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        table, lines = WordTable(), 0
        for _, block in split_blocks(_TEXT, task, io):
            table.add(block)
            lines += _lines_in(block)
        words, counts = table.counts()
        counters |= {"words": table.words, "shipped": len(words)}
        _count(counters, task, records_in=lines, pairs_out=table.words)
        _count(counters, task, combined_away=table.words - len(words))
        _count(counters, task, bytes_out=table.letters + table.words * _PAIR_BYTES)
        partitions = _Partitions(task.partitions)
        partitions.add(words, counts)
        return TaskResult(
            partitions=partitions.pieces, input_bytes=split_bytes(task), counters=counters
        )


class _ShipWords:
    """Ships each occurrence of a word in its splits with a count of one."""

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        partitions = _Partitions(task.partitions)
        shipped = lines = 0
        for _, block in split_blocks(_TEXT, task, io):
            words = bytes(block).split()
            lines += _lines_in(block)
            partitions.add(words, [1] * len(words))
            shipped += len(words)
        counters |= {"words": shipped, "shipped": shipped}
        _count(counters, task, records_in=lines, pairs_out=shipped)
        return TaskResult(
            partitions=partitions.pieces, input_bytes=split_bytes(task), counters=counters
        )


class _Sum:
    """Sums up the counts of each word."""

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        sums: dict[bytes, int] = {}
        fetched_bytes = records = 0
        for _, output in fetch(task, io):
            fetched_bytes += len(output)
            records += _words_in(output)
            for word, count in _shipped(output):
                sums[word] = sums.get(word, 0) + count
        counters["distinct_words"] = len(sums)
        _count(counters, task, records_in=records, keys_in=len(sums), pairs_out=len(sums))
        return TaskResult(output=_lines(sums, io), input_bytes=fetched_bytes, counters=counters)


def _count(counters: Counters, task: TaskSpec, **counts: int) -> None:
    """Count what the operators of record-by-record stages count."""
    counters |= {f"{task.stage}.{name}": count for name, count in counts.items()}


def _lines_in(block: Buffer) -> int:
    """Lines of a block; the last one may have no end."""
    letters = np.frombuffer(block, np.uint8)
    ends = int(np.count_nonzero(letters == _LINE_END))
    return ends + bool(len(letters) and letters[-1] != _LINE_END)


class _Partitions:
    """Shuffle output: per partition, blocks of (header, counts, words separated by blanks)."""

    def __init__(self, partitions: int) -> None:
        self.pieces: list[list[Buffer]] = [[] for _ in range(partitions)]

    def add(self, words: list[bytes], counts: list[int]) -> None:
        """Add words with their counts; equal words always go to the same partition."""
        counted = np.array(counts, "<u8")
        for partition, rows in rows_by_partition(words, len(self.pieces)):
            joined = b" ".join([words[row] for row in rows.tolist()])
            header = _HEADER.pack(len(rows), len(joined))
            self.pieces[partition] += [header, counted[rows].tobytes(), joined]


def _shipped(output: memoryview) -> Iterator[tuple[bytes, int]]:
    """The words and counts of one fetched output."""
    at = 0
    while at < len(output):
        words, length = _HEADER.unpack_from(output, at)
        at += _HEADER.size
        counts = np.frombuffer(output, "<u8", words, at).tolist()
        at += 8 * words
        yield from zip(bytes(output[at : at + length]).split(b" "), counts, strict=True)
        at += length


def _words_in(output: memoryview) -> int:
    """How many words a fetched output has, by its headers."""
    at = total = 0
    while at < len(output):
        words, length = _HEADER.unpack_from(output, at)
        at += _HEADER.size + 8 * words + length
        total += words
    return total


def _lines(sums: dict[bytes, int], io: TaskIO) -> Iterator[Buffer]:
    words: Iterable[bytes] = iter(sorted(sums))
    done = 0
    while piece := list(islice(words, _LINES_PER_PIECE)):
        yield b"".join([b"%s\t%d\n" % (word, sums[word]) for word in piece])
        done += len(piece)
        io.progress(FETCHED_SHARE + (1 - FETCHED_SHARE) * done / len(sums))
