"""TeraSort: sorts 100-byte records by their first 10 bytes into one totally ordered output.

Reduce i gets the keys from cut i - 1 up to but not including cut i; the cuts come from a sample of
the input.  Maps only partition; reduces sort.

Source: Hadoop's TeraSort (O'Malley, 2008).  As there, 100,000 records from up to 10 places are
sampled.  Chosen here: records with equal keys keep the order in which they arrived.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from railyard.cluster.errors import UsageError, require
from railyard.cluster.messages.execution import TaskSpec
from railyard.jobs.model import Job, Stage
from railyard.jobs.operators import FETCHED_SHARE, fetch, split_blocks, split_bytes
from railyard.jobs.samples.tera.teragen import KEY_BYTES, RECORD_BYTES, RECORDS, Bytes, Words
from railyard.jobs.taskio import Buffer, Counters, FileReader, TaskIO, TaskResult

SAMPLED_RECORDS = 100_000
SAMPLED_PLACES = 10

Keys = npt.NDArray[np.bytes_]  #: whole keys; they compare as byte strings
Rows = npt.NDArray[np.intp]

#: Records per piece of the output, 4 MB.
_ROWS_PER_PIECE = 40_000


class TeraSort(Job):
    """Sorts 100-byte records by their 10-byte keys; `cuts` are the first keys of the reduces."""

    input = RECORDS
    cuts: list[bytes]

    def setup(self) -> None:
        right = f"keys of {KEY_BYTES} bytes"
        require(all(len(cut) == KEY_BYTES for cut in self.cuts), "cuts", self.cuts, right)
        require(self.cuts == sorted(self.cuts), "cuts", self.cuts, "keys in order")

    def stages(self) -> tuple[Stage, ...]:
        return (
            Stage("m", _Distribute(self.cuts)),
            Stage("r", _Sort(), reads=("m",), tasks=len(self.cuts) + 1),
        )


def require_enough(sizes: Sequence[int], partitions: int) -> None:
    """Raise ``UsageError`` if files of these sizes in bytes have fewer records than partitions."""
    total = sum(size // RECORD_BYTES for size in sizes)
    if total < partitions:
        raise UsageError(
            f"reduces = {partitions}: the input has {total} records: need at most as many"
        )


def sample_cuts(readers: Sequence[FileReader], partitions: int) -> list[bytes]:
    """The keys that cut the records of these files into ``partitions`` of about equal size.

    Reads up to ``SAMPLED_RECORDS`` records from up to ``SAMPLED_PLACES`` evenly spread places.
    Raises ``UsageError`` if there are fewer records than partitions.
    """
    sizes = [reader.stored_bytes for reader in readers]
    require_enough(sizes, partitions)
    rows = [size // RECORD_BYTES for size in sizes]
    keys = np.sort(np.concatenate([whole_keys(part) for part in _sample(readers, rows)]))
    # As in Hadoop: even steps through the sorted sample; each cut is the first key of a partition.
    return [padded(keys[round(len(keys) * i / partitions)]) for i in range(1, partitions)]


def whole_keys(records: Bytes) -> Keys:
    """The records' keys."""
    return np.ndarray((len(records),), f"S{KEY_BYTES}", records, 0, (RECORD_BYTES,))


def key_prefixes(records: Bytes) -> Words:
    """The first 8 bytes of each key as a number, which sorts like the key except for ties."""
    return np.ndarray((len(records),), ">u8", records, 0, (RECORD_BYTES,)).astype(np.uint64)


def as_records(data: Buffer) -> Bytes:
    """Whole records as rows of an array, without copying."""
    return np.frombuffer(data, np.uint8).reshape(-1, RECORD_BYTES)


class Partitioner:
    """Finds the partition of each record: the number of cuts at or below its key."""

    def __init__(self, cuts: Sequence[bytes]) -> None:
        self._cuts = np.array(list(cuts), f"S{KEY_BYTES}")
        self._prefixes = np.array([int.from_bytes(cut[:8], "big") for cut in cuts], np.uint64)
        # numpy sorts small integers in linear time.
        self._kind = np.uint8 if len(cuts) < 256 else np.uint16 if len(cuts) < 2**16 else np.uint32

    def numbers(self, records: Bytes) -> npt.NDArray[np.unsignedinteger]:
        """The partition of each record."""
        prefixes = key_prefixes(records)
        numbers = np.searchsorted(self._prefixes, prefixes, side="right")
        # If a prefix equals that of a cut, the last two bytes decide.
        open_rows = np.flatnonzero(np.searchsorted(self._prefixes, prefixes) != numbers)
        if open_rows.size:
            keys = whole_keys(records)[open_rows]
            numbers[open_rows] = np.searchsorted(self._cuts, keys, side="right")
        return numbers.astype(self._kind)


def key_order(records: Bytes) -> Rows:
    """The rows sorted by their whole keys; rows with equal keys keep their order."""
    prefixes = key_prefixes(records)
    order = np.argsort(prefixes)
    ordered = prefixes[order]
    tied = np.zeros(len(order) + 1, bool)
    np.equal(ordered[1:], ordered[:-1], out=tied[1:-1])
    tied_rows = np.flatnonzero(tied[1:] | tied[:-1])
    if tied_rows.size:
        suffixes = np.ndarray((len(records),), ">u2", records, 8, (RECORD_BYTES,))
        rows = order[tied_rows]
        order[tied_rows] = rows[np.lexsort((rows, suffixes[rows], ordered[tied_rows]))]
    return order


class _Distribute:
    """Partitions the records of its splits by the cuts."""

    def __init__(self, cuts: Sequence[bytes]) -> None:
        self._partitioner = Partitioner(cuts)

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        partitions: list[list[Buffer]] = [[] for _ in range(task.partitions)]
        counters["records"] = 0
        for _, block in split_blocks(RECORDS, task, io):
            records = as_records(block)
            numbers = self._partitioner.numbers(records)
            grouped = records.take(np.argsort(numbers, kind="stable"), axis=0)
            ends = np.bincount(numbers, minlength=task.partitions).cumsum().tolist()
            for pieces, start, end in zip(partitions, [0, *ends], ends, strict=False):
                if end > start:
                    pieces.append(grouped[start:end].data.cast("B"))
            counters["records"] += len(records)
        for counted in ("records_in", "pairs_out"):
            counters[f"{task.stage}.{counted}"] = counters["records"]
        return TaskResult(partitions=partitions, input_bytes=split_bytes(task), counters=counters)


class _Sort:
    """Sorts the fetched records; they are reordered while the output is read."""

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        parts = [as_records(output) for _, output in fetch(task, io)]
        records = np.concatenate(parts) if parts else np.empty((0, RECORD_BYTES), np.uint8)
        counters["records_out"] = len(records)
        for counted in ("records_in", "pairs_out"):
            counters[f"{task.stage}.{counted}"] = len(records)
        return TaskResult(
            output=_in_order(records, io), input_bytes=records.nbytes, counters=counters
        )


def _in_order(records: Bytes, io: TaskIO) -> Iterator[Buffer]:
    order = key_order(records)
    for start in range(0, len(order), _ROWS_PER_PIECE):
        io.progress(FETCHED_SHARE + (1 - FETCHED_SHARE) * start / len(order))
        yield records.take(order[start : start + _ROWS_PER_PIECE], axis=0).data.cast("B")


def _sample(readers: Sequence[FileReader], rows: Sequence[int]) -> Iterator[Bytes]:
    """Records from places that are spread evenly over the rows of all files."""
    total = sum(rows)
    places = min(SAMPLED_PLACES, total)
    wanted = SAMPLED_RECORDS // places
    for place in range(places):
        row, stop = total * place // places, total * (place + 1) // places
        count = min(wanted, stop - row)
        for reader, held in zip(readers, rows, strict=True):
            if row < held and count:
                here = min(count, held - row)
                data = reader.read(row * RECORD_BYTES, here * RECORD_BYTES)
                yield as_records(data)
                count -= here
                row = held
            row -= held


def padded(key: bytes) -> bytes:
    """One of ``whole_keys`` with its trailing zero bytes, which numpy removes."""
    return bytes(key).ljust(KEY_BYTES, b"\0")
