"""Counts the words of a block of text with numpy, over three times as fast as a ``Counter``.

Words are separated as by ``bytes.split()``.  A word of at most 15 bytes becomes two 64-bit numbers
that hold its bytes and its length.  Equal pairs are found by a hash table, and every hit is
compared, so that counts are exact.  Longer words, which are rare, are counted one by one.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt

from railyard.jobs.taskio import Buffer

Words = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]

_SHORT_BYTES = 15
#: Masks that keep the first n bytes of a word loaded as a little-endian number.
_FIRST = np.array([(1 << (8 * n)) - 1 for n in range(9)], np.uint64)
_LENGTH_SHIFT = np.uint64(56)
# Odd constants with well mixed bits: 2**64 / golden ratio (Knuth), and a prime of xxHash.
_MIX_LOW, _MIX_HIGH = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_SLOT_BITS = 17
_TO_SLOT = np.uint64(64 - _SLOT_BITS)


class WordTable:
    """A count for each word."""

    def __init__(self) -> None:
        self.words = 0  #: occurrences of all words
        self.letters = 0  #: bytes of all these occurrences
        self._tallies: list[tuple[Words, Words, Numbers]] = []
        self._long: Counter[bytes] = Counter()

    def add(self, block: Buffer) -> None:
        """Count the words of a block, which must not begin or end within a word."""
        text = b"".join((b" ", block, b" " * 17))  # padded, so that 16 bytes can be loaded anywhere
        starts, lengths = _words(np.frombuffer(text, np.uint8))
        self.words += len(starts)
        self.letters += int(lengths.sum())
        long = lengths > _SHORT_BYTES
        if long.any():
            spans = zip(starts[long].tolist(), lengths[long].tolist(), strict=True)
            self._long.update([text[start : start + length] for start, length in spans])
            starts, lengths = starts[~long], lengths[~long]
        low, high = _numbers(text, starts, lengths)
        self._tallies.append(_tally(low, high))

    def counts(self) -> tuple[list[bytes], list[int]]:
        """The distinct words, and the count of each."""
        if not self._tallies:
            return [], []
        low, high, counts = (np.concatenate(column) for column in zip(*self._tallies, strict=True))
        low, high, counts = _tally(low, high, counts)
        lengths = (high >> _LENGTH_SHIFT).tolist()
        data = np.stack((low, high), axis=1).astype("<u8").tobytes()
        words = [data[16 * i : 16 * i + length] for i, length in enumerate(lengths)]
        return [*words, *self._long], [*counts.tolist(), *self._long.values()]


def _words(text: npt.NDArray[np.uint8]) -> tuple[Numbers, Numbers]:
    """Offset and length of each word; the text must begin and end with white space."""
    space = (text == ord(" ")) | (text - np.uint8(ord("\t")) <= ord("\r") - ord("\t"))
    edges = np.flatnonzero(space[1:] != space[:-1]) + 1
    return edges[0::2], edges[1::2] - edges[0::2]


def _numbers(text: bytes, starts: Numbers, lengths: Numbers) -> tuple[Words, Words]:
    """The first 8 bytes of each word, and its next 7 with its length in the highest byte."""
    anywhere: Words = np.ndarray((len(text) - 7,), "<u8", text, 0, (1,))
    low = anywhere[starts] & _FIRST[np.minimum(lengths, 8)]
    high = lengths.astype(np.uint64) << _LENGTH_SHIFT
    more = np.flatnonzero(lengths > 8)
    high[more] |= anywhere[starts[more] + 8] & _FIRST[lengths[more] - 8]
    return low, high


def _tally(low: Words, high: Words, counts: Numbers | None = None) -> tuple[Words, Words, Numbers]:
    """The distinct pairs of numbers, and the sum of the counts of each; by default 1 per row."""
    hashes = ((low * _MIX_LOW) ^ (high * _MIX_HIGH)) * _MIX_LOW
    slots = (hashes >> _TO_SLOT).astype(np.int64)
    rows = np.arange(len(low))
    owner = np.empty(1 << _SLOT_BITS, np.int64)
    sums = np.zeros(len(low), np.int64)
    while len(rows):
        owner[slots] = rows  # the last word gets the slot; the others wait for the next round
        mine = owner[slots]
        same = (low[mine] == low[rows]) & (high[mine] == high[rows])
        weights = None if counts is None else counts[rows[same]]
        sums += np.bincount(mine[same], weights, len(low)).astype(np.int64)
        slots, rows = slots[~same], rows[~same]
    found = np.flatnonzero(sums)
    return low[found], high[found], sums[found]
