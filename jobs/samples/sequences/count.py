"""SequenceCount: how often three words follow one another in each document.

A sequence lies in one line.  Words are separated as by ``bytes.split()``.  The output has lines
"word word word<TAB>document<TAB>count"; each reduce sorts them by document, then by sequence.

Source: Sequence-Count of the PUMA suite (Ahmad et al., "PUMA: Purdue MapReduce Benchmarks Suite",
2012): a map emits (three words and the document, 1), a reduce adds up.  Documents there are files;
here also lines with a title, as small inputs have few files.  There is no combiner, as in Shadow's
experiments: nearly every sequence of a document is another.  Chosen here: a map ships a document's
name once for all of its sequences that go to a reduce.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator

from railyard.cluster.messages.execution import TaskSpec
from railyard.jobs.formats import Lines
from railyard.jobs.model import Job, Stage
from railyard.jobs.operators import FETCHED_SHARE, fetch, split_blocks, split_bytes
from railyard.jobs.samples.hashing import rows_by_partition
from railyard.jobs.samples.sequences.documents import LENGTH, documents
from railyard.jobs.taskio import Buffer, Counters, TaskIO, TaskResult

_TEXT = Lines(block_bytes=2**18)
_HEADER = struct.Struct("<QQ")  # bytes of the document's name, bytes of the sequences
#: Sequences of a document that are partitioned at once, about.
_SEQUENCES_AT_ONCE = 2**14


class SequenceCount(Job):
    """Counts the sequences of three words in each document."""

    input = _TEXT

    def stages(self) -> tuple[Stage, ...]:
        return (Stage("m", _ShipSequences()), Stage("r", _Sum(), reads=("m",)))


class _ShipSequences:
    """Ships each sequence in its splits, with its document."""

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        partitions: list[list[Buffer]] = [[] for _ in range(task.partitions)]
        counters |= {"words": 0, "sequences": 0}
        for split, block in split_blocks(_TEXT, task, io):
            for document, sequences in _by_document(block, split.path, counters):
                for partition, rows in rows_by_partition(sequences, task.partitions):
                    joined = b"\n".join([sequences[row] for row in rows.tolist()])
                    header = _HEADER.pack(len(document), len(joined))
                    partitions[partition] += [header, document, joined]
        return TaskResult(partitions=partitions, input_bytes=split_bytes(task), counters=counters)


def _by_document(
    block: Buffer, path: str, counters: Counters
) -> Iterator[tuple[bytes, list[bytes]]]:
    """(Document, sequences) for the lines of a block; those of one that follow one another join."""
    current, held = b"", list[bytes]()
    for document, text in documents(block, path):
        if held and (document != current or len(held) >= _SEQUENCES_AT_ONCE):
            yield current, held
            held = []
        current = document
        words = text.split()
        ahead = [words[start:] for start in range(LENGTH)]
        counters["words"] += len(words)
        counters["sequences"] += max(0, len(words) + 1 - LENGTH)
        held += map(b" ".join, zip(*ahead, strict=False))
    if held:
        yield current, held


class _Sum:
    """Adds up the occurrences of each sequence in each document."""

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        counts: dict[bytes, Counter[bytes]] = {}
        fetched_bytes = 0
        for _, output in fetch(task, io):
            fetched_bytes += len(output)
            for document, sequences in _shipped(output):
                counts.setdefault(document, Counter()).update(sequences)
        counters["counted"] = sum(map(len, counts.values()))
        return TaskResult(output=_lines(counts, io), input_bytes=fetched_bytes, counters=counters)


def _shipped(output: memoryview) -> Iterator[tuple[bytes, list[bytes]]]:
    """(Document, sequences) in one fetched output."""
    at = 0
    while at < len(output):
        named, length = _HEADER.unpack_from(output, at)
        at += _HEADER.size
        document, joined = bytes(output[at : at + named]), output[at + named : at + named + length]
        yield document, bytes(joined).split(b"\n")
        at += named + length


def _lines(counts: dict[bytes, Counter[bytes]], io: TaskIO) -> Iterator[Buffer]:
    for done, document in enumerate(sorted(counts), start=1):
        of = counts[document]
        rows = [b"%s\t%s\t%d\n" % (sequence, document, of[sequence]) for sequence in sorted(of)]
        yield b"".join(rows)
        io.progress(FETCHED_SHARE + (1 - FETCHED_SHARE) * done / len(counts))
