"""TeraGen: the records of the sort benchmark, byte for byte those of ``gensort`` and Hadoop.

A record has 100 bytes: a 10-byte random key, the number of its row in hexadecimal, and filler.
Any row can be generated without those before it, so each task generates a part.

Source: gensort 1.1 (Nyberg, sortbenchmark.org) and Hadoop's TeraGen.  The random numbers are a
linear congruential generator modulo 2**128 that advances once per row; row 0 has the first.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from railyard.cluster.errors import require
from railyard.jobs.formats import FixedRecords
from railyard.jobs.samples.tasks import Generator, Part
from railyard.jobs.taskio import Buffer, Counters

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
