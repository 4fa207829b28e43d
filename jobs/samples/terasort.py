"""TeraGen, TeraSort and TeraValidate: the sort benchmark, over 100-byte records.

TeraGen makes the records byte for byte as ``gensort`` and Hadoop do: a 10-byte random key, the
number of its row in hexadecimal, and filler.  Any row can be generated without those before it, so
each task generates a part.

Source: gensort 1.1 (Nyberg, sortbenchmark.org) and Hadoop's TeraGen.  The random numbers are a
linear congruential generator modulo 2**128 that advances once per row; row 0 has the first.

TeraSort sorts them by their first 10 bytes into one totally ordered output.  Reduce i gets the keys
from cut i - 1 up to but not including cut i; the cuts come from a sample of the input.  Maps only
partition; reduces sort.

Source: Hadoop's TeraSort (O'Malley, 2008).  As there, 100,000 records from up to 10 places are
sampled.  Chosen here: records with equal keys keep the order in which they arrived.

TeraValidate checks that an output is sorted, within its files and from file to file.  Each map
checks a split, and the one reduce the borders between splits in the order of the files' names.
Each "error" line of the output is a fault.  "checksum" is the sum of the records' CRC-32 values in
hexadecimal, and "records" their number; both must equal those of the unsorted input.

Source: Hadoop's TeraValidate, which has one map per file and no "records", and its TeraChecksum,
which is `ordered=false` here.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from railyard.cluster.errors import UsageError, require
from railyard.cluster.messages import JobPackage, TaskSpec
from railyard.jobs.formats import FixedRecords
from railyard.jobs.model import Job, Stage
from railyard.jobs.operators import PairsOperator, Reduce, Work, after_fetch, fetched, split_blocks
from railyard.jobs.package import pack_job
from railyard.jobs.plan import (
    Files,
    Plan,
    Request,
    Step,
    Verdict,
    lines_of,
    measured_step,
    require_params,
)
from railyard.jobs.samples.tasks import Generator, Part, generated_rows, rows_by_number
from railyard.jobs.taskio import Buffer, Counters, FileReader, TaskIO, TaskResult

RECORD_BYTES = 100
KEY_BYTES = 10
#: input format of the sort jobs; the blocks fit into a core's cache
RECORDS = FixedRecords(RECORD_BYTES, block_bytes=2**22)

Bytes = npt.NDArray[np.uint8]  #: records: one per row, 100 columns
Words = npt.NDArray[np.uint64]

# Source: rand16.c of gensort; L'Ecuyer, Mathematics of Computation 68 (1999).
_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
_INCREMENT = 0x4A696D47726179524950202020202001
_MASK = 2**128 - 1

_ROWS_AT_ONCE = 2**14
#: Distance of the first rows of two seeds: inputs below 100 TB never share a row.
_ROWS_PER_SEED = 2**40
_DIGITS = np.frombuffer(b"0123456789ABCDEF", np.uint8)
_RECORD = struct.Struct(f"{RECORD_BYTES}s")

SAMPLED_RECORDS = 100_000
SAMPLED_PLACES = 10

Keys = npt.NDArray[np.bytes_]  #: whole keys; they compare as byte strings
Rows = npt.NDArray[np.intp]

_ROWS_PER_PIECE = 40_000  #: of the output, 4 MB
_PART, _ERROR = "part", "error"
_ERRORS_LISTED = 10  #: how many unsorted places of a block; all are counted


# Generating --------------------------------------------------------------------------------------
class TeraGen(Generator):
    """Generates `rows` records in `parts` files; `seed` 1 gives those of Hadoop's TeraGen."""

    input = RECORDS
    rows: int
    parts: int = 1
    seed: int = 1
    #: printable records that end in CR LF (gensort -a), for comparing with programs for text
    ascii: bool = False

    def setup(self) -> None:
        require(1 <= self.seed < 2**23, "seed", self.seed, f"1 to {2**23 - 1}")
        super().setup()

    def pieces(self, part: Part, counters: Counters) -> Iterator[tuple[Buffer, int]]:
        origin = (self.seed - 1) * _ROWS_PER_SEED
        counters |= {"records": 0, "checksum": 0}
        for row, count in part.pieces(_ROWS_AT_ONCE):
            data = generate(origin + row, count, self.ascii).data.cast("B")
            counters["records"] += count
            counters["checksum"] = (counters["checksum"] + checksum(data)) % 2**64
            yield data, count


def generate(first_row: int, rows: int, ascii_only: bool = False) -> Bytes:
    """The records of ``rows`` rows from ``first_row`` on."""
    parts = []
    for row in range(first_row, first_row + rows, _ROWS_AT_ONCE):
        count = min(_ROWS_AT_ONCE, first_row + rows - row)
        numbers = np.arange(row, row + count, dtype=np.uint64)
        high, low = _random_numbers(row, count)
        parts.append((_ascii_records if ascii_only else _records)(numbers, high, low))
    return np.concatenate(parts) if parts else np.empty((0, RECORD_BYTES), np.uint8)


def checksum(records: Buffer) -> int:
    """The sum of the records' CRC-32 values modulo 2**64, as in TeraGen and TeraValidate."""
    return sum(zlib.crc32(record) for (record,) in _RECORD.iter_unpack(records)) % 2**64


def _records(numbers: Words, high: Words, low: Words) -> Bytes:
    out = np.empty((len(numbers), RECORD_BYTES), np.uint8)
    out[:, 0:8] = high.astype(">u8").view(np.uint8).reshape(-1, 8)
    out[:, 8:10] = (low >> np.uint64(48)).astype(">u2").view(np.uint8).reshape(-1, 2)
    out[:, 10:12] = (0x00, 0x11)
    out[:, 12:28] = ord("0")
    out[:, 28:44] = _hexadecimal(numbers, 16)
    out[:, 44:48] = (0x88, 0x99, 0xAA, 0xBB)
    out[:, 48:96] = np.repeat(_hexadecimal(low, 12), 4, axis=1)
    out[:, 96:100] = (0xCC, 0xDD, 0xEE, 0xFF)
    return out


def _ascii_records(numbers: Words, high: Words, low: Words) -> Bytes:
    out = np.full((len(numbers), RECORD_BYTES), ord(" "), np.uint8)
    for columns, rest in ((range(8), high), (range(8, 10), low)):
        for column in columns:
            out[:, column] += (rest % np.uint64(95)).astype(np.uint8)
            rest = rest // np.uint64(95)
    out[:, 12:28] = ord("0")
    out[:, 28:44] = _hexadecimal(numbers, 16)
    out[:, 46:98] = np.repeat(_hexadecimal(low, 13), 4, axis=1)
    out[:, 98:100] = (ord("\r"), ord("\n"))
    return out


def _hexadecimal(numbers: Words, digits: int) -> Bytes:
    """The last ``digits`` hexadecimal digits of each number, one per column."""
    shifts = np.arange(4 * (digits - 1), -1, -4, dtype=np.uint64)
    nibbles: npt.NDArray[Any] = (numbers[:, None] >> shifts) & np.uint64(15)
    return _DIGITS[nibbles.astype(np.intp)]


# The generator: x -> multiplier * x + increment, modulo 2**128, as pairs (high, low) of words ---
def _random_numbers(first_row: int, rows: int) -> tuple[Words, Words]:
    """High and low words of the random numbers of ``rows`` rows, at most ``_ROWS_AT_ONCE``."""
    multipliers, increments = _jumps()
    before = _skip_ahead(first_row)
    return _add(_times((multipliers[0][:rows], multipliers[1][:rows]), before), increments)


def _skip_ahead(steps: int) -> int:
    """The generator's number after ``steps`` steps from 0."""
    number, multiplier, increment = 0, _MULTIPLIER, _INCREMENT
    while steps:
        if steps & 1:
            number = (multiplier * number + increment) & _MASK
        increment = (multiplier * increment + increment) & _MASK
        multiplier = multiplier * multiplier & _MASK
        steps >>= 1
    return number


@cache
def _jumps() -> tuple[tuple[Words, Words], tuple[Words, Words]]:
    """Multipliers and increments of 1, 2, ... ``_ROWS_AT_ONCE`` steps at once."""
    multipliers, increments = [_MULTIPLIER], [_INCREMENT]
    for _ in range(1, _ROWS_AT_ONCE):
        multipliers.append(multipliers[-1] * _MULTIPLIER & _MASK)
        increments.append((increments[-1] * _MULTIPLIER + _INCREMENT) & _MASK)
    return _words(multipliers), _words(increments)


def _times(numbers: tuple[Words, Words], factor: int) -> tuple[Words, Words]:
    high, low = numbers
    factor_high, factor_low = np.uint64(factor >> 64), np.uint64(factor & (2**64 - 1))
    return _high_product(low, factor_low) + high * factor_low + low * factor_high, low * factor_low


def _high_product(numbers: Words, factor: np.uint64) -> Words:
    """The upper 64 of the 128 bits of each product, by 32-bit halves."""
    half, mask = np.uint64(32), np.uint64(2**32 - 1)
    upper, lower = numbers >> half, numbers & mask
    factor_upper, factor_lower = factor >> half, factor & mask
    middle = upper * factor_lower + (lower * factor_lower >> half)
    other = lower * factor_upper + (middle & mask)
    product: Words = upper * factor_upper + (middle >> half) + (other >> half)
    return product


def _add(left: tuple[Words, Words], right: tuple[Words, Words]) -> tuple[Words, Words]:
    """Sums of ``left`` and the first numbers of ``right``, which may be longer."""
    rows = len(left[0])
    low = left[1] + right[1][:rows]
    return left[0] + right[0][:rows] + (low < left[1]), low


def _words(numbers: list[int]) -> tuple[Words, Words]:
    words = np.frombuffer(b"".join([number.to_bytes(16, "big") for number in numbers]), ">u8")
    high, low = words.astype(np.uint64).reshape(-1, 2).T
    return high, low


# Sorting -----------------------------------------------------------------------------------------
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
            Stage("m", Work(self._distribute)),
            Stage("r", Work(_sort), reads=("m",), tasks=len(self.cuts) + 1),
        )

    def _distribute(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        partitioner = Partitioner(self.cuts)
        partitions: list[list[Buffer]] = [[] for _ in range(task.partitions)]
        counters["records"] = 0
        for _, block in split_blocks(RECORDS, task, io):
            records = as_records(block)
            for number, rows in rows_by_number(partitioner.numbers(records), task.partitions):
                partitions[number].append(records.take(rows, axis=0).data.cast("B"))
            counters["records"] += len(records)
        _count_all(counters, task, counters["records"])
        return TaskResult(partitions=partitions)


def require_enough(sizes: Sequence[int], partitions: int) -> None:
    """Raise ``UsageError`` if files of these sizes in bytes have fewer records than partitions."""
    total = sum(size // RECORD_BYTES for size in sizes)
    if total < partitions:
        has = f"the input has {total} records"
        raise UsageError(f"reduces = {partitions}: {has}: need at most as many")


def sample_cuts(readers: Sequence[FileReader], partitions: int) -> list[bytes]:
    """The keys that cut the records of these files into ``partitions`` of about equal size.

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

    def numbers(self, records: Bytes) -> npt.NDArray[np.integer]:
        prefixes = key_prefixes(records)
        numbers = np.searchsorted(self._prefixes, prefixes, side="right")
        # If a prefix equals that of a cut, the last two bytes decide.
        open_rows = np.flatnonzero(np.searchsorted(self._prefixes, prefixes) != numbers)
        if open_rows.size:
            keys = whole_keys(records)[open_rows]
            numbers[open_rows] = np.searchsorted(self._cuts, keys, side="right")
        return numbers


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


def _sort(task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
    """Sorts the fetched records; they are reordered while the output is read."""
    parts = [as_records(output) for _, output in fetched(task, io)]
    records = np.concatenate(parts) if parts else np.empty((0, RECORD_BYTES), np.uint8)
    counters["records_out"] = len(records)
    _count_all(counters, task, len(records))
    return TaskResult(output=_in_order(records, io))


def _count_all(counters: Counters, task: TaskSpec, records: int) -> None:
    """Count as stages do that work record by record: each record that is read is passed on."""
    counters |= {f"{task.stage}.records_in": records, f"{task.stage}.pairs_out": records}


def _in_order(records: Bytes, io: TaskIO) -> Iterator[Buffer]:
    order = key_order(records)
    for start in range(0, len(order), _ROWS_PER_PIECE):
        io.progress(after_fetch(start / len(order)))
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
                yield as_records(reader.read(row * RECORD_BYTES, here * RECORD_BYTES))
                count -= here
                row = held
            row -= held


def padded(key: bytes) -> bytes:
    """One of ``whole_keys`` with its trailing zero bytes, which numpy removes."""
    return bytes(key).ljust(KEY_BYTES, b"\0")


class Inspected(NamedTuple):
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
        parts = sorted(Inspected(*value) for value in values)
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
        return self.deliver(self._pairs(task, io, counters), task, counters)

    def _pairs(self, task: TaskSpec, io: TaskIO, counters: Counters) -> Iterator[tuple[str, Any]]:
        counters |= {"records": 0, "checksum": 0, "errors": 0}
        for number, (split, block) in enumerate(split_blocks(RECORDS, task, io)):
            keys, total = whole_keys(as_records(block)), checksum(block)
            counters["records"] += len(keys)
            counters["checksum"] = (counters["checksum"] + total) % 2**64
            place = (split.path, split.stored_offset, number)
            yield _PART, Inspected(*place, padded(keys[0]), padded(keys[-1]), total, len(keys))
            if self.ordered:
                misplaced = np.flatnonzero(keys[1:] < keys[:-1])
                counters["errors"] += len(misplaced)
                for row in misplaced[:_ERRORS_LISTED].tolist():
                    before, after = padded(keys[row]).hex(), padded(keys[row + 1]).hex()
                    yield _ERROR, f"misorder in {split.path} between {before} and {after}"


def plan_terasort(request: Request) -> Plan:
    """Sort generated or given records."""
    require_params(request, "terasort", ["ascii"], "records")
    before = () if request.input else (_generate(request),)
    source = before[0].output if before else request.input

    def pack_sort(files: Files) -> JobPackage:
        readers = [files.open(path) for path in files.list(source)]
        return pack_job(TeraSort, {"cuts": sample_cuts(readers, request.reduces)})

    def verify(files: Files) -> Verdict:
        before, after = _findings(files, check.output), _findings(files, validate.output)
        errors = after.pop(b"error", [])
        if errors:
            return Verdict(False, f"{len(errors)} faults or more, such as: {errors[0]}")
        for name, value in before.items():
            if after.get(name) != value:
                return Verdict(False, f"{name.decode()}: {after.get(name)} now, {value} before")
        (records,), (checksum,) = after[b"records"], after[b"checksum"]
        return Verdict(True, f"{records} records in order, checksum {checksum}")

    below = f"{source}-checksum" if before and request.shared else f"{request.folder}/checksum"
    count = pack_job(TeraValidate, {"ordered": False})
    check = Step(name="terachecksum", input=source, output=below, pack=lambda _: count)
    sort = measured_step("terasort", source, request, pack_sort)
    validate = Step(
        name="teravalidate",
        input=sort.output,
        output=f"{request.folder}/validate",
        pack=lambda _: pack_job(TeraValidate),
    )
    return Plan(
        steps=(*before, sort, check, validate),  # the job is the first to read its input
        input=RECORDS,
        check_sizes=lambda sizes: require_enough(sizes, request.reduces),
        verify=verify,
    )


def _generate(request: Request) -> Step:
    (step,) = generated_rows(TeraGen, RECORD_BYTES, "one record", request, **request.params)
    require_enough([request.stored_bytes], request.reduces)
    return step


def _findings(files: Files, folder: str) -> dict[bytes, list[str]]:
    """TeraValidate's output: {first word of a line: the rests of these lines}."""
    found: dict[bytes, list[str]] = {}
    for line in lines_of(files, folder):
        name, _, value = line.partition(b"\t")
        found.setdefault(name, []).append(value.decode(errors="replace"))
    return found
