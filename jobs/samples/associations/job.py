"""SelfJoin: joins associations of k items to candidates of k + 1 items.

An association is a line of items in increasing order, with commas between them.  Two that differ
in the last item only become a candidate: "a,b,c" and "a,b,d" give "a,b,c,d".  Equal lines count
once.  The output has a candidate a line; each reduce sorts them.

Source: Self-Join of the PUMA suite (Ahmad et al., 2012), the generation of candidates of Apriori
(Agrawal and Srikant, VLDB 1994, section 2.1.1, the join step without the pruning): a map splits
(first k - 1 items, last item), a reduce forms the pairs of last items.  Chosen here: a map ships
its lines as they are; items are compared byte by byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise

from railyard.cluster.messages.execution import TaskSpec
from railyard.jobs.formats import Lines
from railyard.jobs.model import Job, Stage
from railyard.jobs.operators import FETCHED_SHARE, fetch, split_bytes
from railyard.jobs.samples.checkedlines import BadLine, parsed_blocks
from railyard.jobs.samples.hashing import rows_by_partition
from railyard.jobs.taskio import Buffer, Counters, TaskIO, TaskResult

_PREFIXES_PER_PIECE = 2**12
_SHOWN_BYTES = 60

#: {all items but the last: the last items}
_Lasts = dict[bytes, set[bytes]]


class SelfJoin(Job):
    """Joins associations that differ in their last item."""

    input = Lines()

    def stages(self) -> tuple[Stage, ...]:
        return (Stage("m", _ShipLines()), Stage("r", _Join(), reads=("m",)))


class _ShipLines:
    """Ships each line of its splits to the reduce of all its items but the last."""

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        partitions: list[list[Buffer]] = [[] for _ in range(task.partitions)]
        total, done = max(1, split_bytes(task)), 0
        counters["associations"] = 0
        for split in task.splits:
            file = io.open(split.path)
            for block, (prefixes, lines) in parsed_blocks(associations, file, split):
                for partition, rows in rows_by_partition(prefixes, task.partitions):
                    joined = b"\n".join([lines[row] for row in rows.tolist()])
                    partitions[partition] += [joined, b"\n"]
                counters["associations"] += len(lines)
                done += len(block)
                io.progress(min(1.0, done / total))
        return TaskResult(partitions=partitions, input_bytes=split_bytes(task), counters=counters)


def associations(block: Buffer) -> tuple[list[bytes], list[bytes]]:
    """All items but the last of each of these lines, and the lines; ``BadLine`` for others."""
    lines = [line.removesuffix(b"\r") for line in bytes(block).split(b"\n")]
    if not lines[-1]:
        lines.pop()
    prefixes = []
    for number, line in enumerate(lines):
        items = line.split(b",")
        if not items[0] or any(first >= second for first, second in pairwise(items)):
            shown = line[:_SHOWN_BYTES].decode(errors="replace")
            right = "items in increasing order, with commas between them"
            raise BadLine(number, f"{shown!r}: need {right}")
        prefixes.append(line[: len(line) - len(items[-1])])
    return prefixes, lines


class _Join:
    """Forms the candidates."""

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        lasts: _Lasts = {}
        fetched_bytes = 0
        for _, output in fetch(task, io):
            fetched_bytes += len(output)
            for line in bytes(output).split(b"\n")[:-1]:
                cut = line.rfind(b",") + 1
                lasts.setdefault(line[:cut], set()).add(line[cut:])
        found = _candidates(lasts, io, counters)
        return TaskResult(output=found, input_bytes=fetched_bytes, counters=counters)


def _candidates(lasts: _Lasts, io: TaskIO, counters: Counters) -> Iterator[Buffer]:
    prefixes = sorted(lasts)
    counters["candidates"] = 0
    for start in range(0, len(prefixes), _PREFIXES_PER_PIECE):
        lines = [
            b"%s%s,%s\n" % (prefix, first, second)
            for prefix in prefixes[start : start + _PREFIXES_PER_PIECE]
            for first, second in combinations(sorted(lasts[prefix]), 2)
        ]
        counters["candidates"] += len(lines)
        yield b"".join(lines)
        io.progress(FETCHED_SHARE + (1 - FETCHED_SHARE) * start / len(prefixes))
