"""TeraValidate: checks that an output is sorted, within its files and from file to file.

Each map checks a split, and the one reduce the borders between splits in the order of the files'
names.  Each "error" line of the output is a fault.  "checksum" is the sum of the records' CRC-32
values in hexadecimal, and "records" their number; both must equal those of the unsorted input.

Source: Hadoop's TeraValidate, which has one map per file and no "records", and its TeraChecksum,
which is `ordered=false` here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from railyard.cluster.messages.execution import TaskSpec
from railyard.jobs.model import Job, Stage
from railyard.jobs.operators import PairsOperator, Reduce, split_blocks, split_bytes
from railyard.jobs.samples.tera.teragen import RECORDS, checksum
from railyard.jobs.samples.tera.terasort import as_records, padded, whole_keys
from railyard.jobs.taskio import Counters, TaskIO, TaskResult

_PART, _ERROR = "part", "error"
#: How many unsorted places of a block are listed; all are counted.
_ERRORS_LISTED = 10


class Part(NamedTuple):
    """A map's findings about one block of its split, for the reduce."""

    path: str
    split_offset: int  #: offset of the split in the file, in stored bytes
    number: int  #: of the block within the split
    first_key: bytes
    last_key: bytes
    checksum: int
    records: int


class TeraValidate(Job):
    """Checks that 100-byte records are sorted, and counts them; `ordered=false` only counts."""

    input = RECORDS
    ordered: bool = True

    def stages(self) -> tuple[Stage, ...]:
        return (
            Stage("m", _Inspect(self.ordered)),
            Stage("r", Reduce(self.reduce), reads=("m",), tasks=1),
        )

    def reduce(self, key: str, values: Iterable[Any]) -> Iterator[tuple[str, str]]:
        """Yield the maps' errors; compare the borders of neighbouring parts."""
        if key == _ERROR:
            for error in values:
                yield _ERROR, error
            return
        parts = sorted(Part(*value) for value in values)
        for before, after in pairwise(parts):
            if self.ordered and after.first_key < before.last_key:
                self.count("errors")
                yield (
                    _ERROR,
                    f"bad key partitioning: {before.last_key.hex()} in {before.path}"
                    f" is followed by {after.first_key.hex()} in {after.path}",
                )
        yield "checksum", f"{sum(part.checksum for part in parts) % 2**64:x}"
        yield "records", str(sum(part.records for part in parts))


@dataclass(frozen=True)
class _Inspect(PairsOperator):
    """Checks the order within the blocks of a split, and counts their records."""

    ordered: bool

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        return self.deliver(self._pairs(task, io, counters), task, counters, split_bytes(task))

    def _pairs(self, task: TaskSpec, io: TaskIO, counters: Counters) -> Iterator[tuple[str, Any]]:
        counters |= {"records": 0, "checksum": 0, "errors": 0}
        for number, (split, block) in enumerate(split_blocks(RECORDS, task, io)):
            keys, total = whole_keys(as_records(block)), checksum(block)
            counters["records"] += len(keys)
            counters["checksum"] = (counters["checksum"] + total) % 2**64
            place = (split.path, split.stored_offset, number)
            yield _PART, Part(*place, padded(keys[0]), padded(keys[-1]), total, len(keys))
            if self.ordered:
                misplaced = np.flatnonzero(keys[1:] < keys[:-1])
                counters["errors"] += len(misplaced)
                for row in misplaced[:_ERRORS_LISTED].tolist():
                    before, after = padded(keys[row]).hex(), padded(keys[row + 1]).hex()
                    yield _ERROR, f"misorder in {split.path} between {before} and {after}"
