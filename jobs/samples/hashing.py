"""Gives keys to partitions by a hash, many at once; equal keys always go to the same one."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt


def rows_by_partition(
    keys: Sequence[bytes], partitions: int
) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """(Partition, rows of ``keys`` that go there, in order) for each partition that gets any.

    By CRC-32.
    """
    hashes = np.fromiter(map(zlib.crc32, keys), np.uint32, len(keys))
    numbers = hashes % partitions
    numbers = numbers.astype(np.uint16 if partitions <= 2**16 else np.uint32)
    order = np.argsort(numbers, kind="stable")  # of small numbers: in linear time
    ends = np.bincount(numbers, minlength=partitions).cumsum().tolist()
    for partition, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        if end > start:
            yield partition, order[start:end]
