"""RankedInvertedIndex: for each sequence of three words the documents that have it, by count.

It reads what SequenceCount writes.  The output has lines
"word word word<TAB>count document<TAB>count document ...", with the largest count first, sorted by
sequence within each reduce.

Source: Ranked-Inverted-Index of the PUMA suite (Ahmad et al., 2012): a map splits each line into
the words, and document and count; a reduce makes a list, in decreasing order of the counts.  Chosen
here: documents with equal counts go by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from railyard.cluster.messages.execution import TaskSpec
from railyard.jobs.formats import Lines
from railyard.jobs.model import Job, Stage
from railyard.jobs.operators import FETCHED_SHARE, fetch, split_bytes
from railyard.jobs.samples.checkedlines import parsed_blocks
from railyard.jobs.samples.hashing import rows_by_partition
from railyard.jobs.samples.sequences.documents import counted_sequences
from railyard.jobs.taskio import Buffer, Counters, TaskIO, TaskResult

_LINES_PER_PIECE = 2**13

#: {sequence: (-count, document) of each document that has it}
_Index = dict[bytes, list[tuple[int, bytes]]]


class RankedInvertedIndex(Job):
    """Ranks the documents that have a sequence by how often they have it."""

    input = Lines()

    def stages(self) -> tuple[Stage, ...]:
        return (Stage("m", _ShipCounts()), Stage("r", _Rank(), reads=("m",)))


class _ShipCounts:
    """Ships each line of its splits to the reduce of its sequence."""

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        partitions: list[list[Buffer]] = [[] for _ in range(task.partitions)]
        total, done = max(1, split_bytes(task)), 0
        counters["counts"] = 0
        for split in task.splits:
            file = io.open(split.path)
            for block, (sequences, lines) in parsed_blocks(counted_sequences, file, split):
                for partition, rows in rows_by_partition(sequences, task.partitions):
                    partitions[partition] += [
                        b"\n".join([lines[row] for row in rows.tolist()]),
                        b"\n",
                    ]
                counters["counts"] += len(lines)
                done += len(block)
                io.progress(min(1.0, done / total))
        return TaskResult(partitions=partitions, input_bytes=split_bytes(task), counters=counters)


class _Rank:
    """Sorts the documents of each sequence."""

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        index: _Index = {}
        fetched_bytes = 0
        for _, output in fetch(task, io):
            fetched_bytes += len(output)
            for line in bytes(output).split(b"\n")[:-1]:
                sequence, document, count = line.split(b"\t")
                index.setdefault(sequence, []).append((-int(count), document))
        counters["distinct_sequences"] = len(index)
        return TaskResult(output=_lines(index, io), input_bytes=fetched_bytes, counters=counters)


def _lines(index: _Index, io: TaskIO) -> Iterator[Buffer]:
    sequences = iter(sorted(index))
    done = 0
    while piece := list(islice(sequences, _LINES_PER_PIECE)):
        yield b"".join([_line(sequence, index[sequence]) for sequence in piece])
        done += len(piece)
        io.progress(FETCHED_SHARE + (1 - FETCHED_SHARE) * done / len(index))


def _line(sequence: bytes, documents: list[tuple[int, bytes]]) -> bytes:
    ranked = [b"%d %s" % (-negative, document) for negative, document in sorted(documents)]
    return b"\t".join([sequence, *ranked]) + b"\n"
