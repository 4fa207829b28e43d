"""Arrays of numbers, and sets of small numbers (of links, of racks) as the bits of an int."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Numbers = NDArray[np.signedinteger[Any]]
Bools = NDArray[np.bool_]


def bits(members: Bools) -> int:
    """A set as the bits of an int, 1 << member: quick to compare with others."""
    return int.from_bytes(np.packbits(members, bitorder="little"), "little")


def places(number: int) -> list[int]:
    """The members of a set that is the bits of an int, ascending."""
    if not number & (number - 1):
        return [number.bit_length() - 1] if number else []
    found = []
    while number:
        lowest = number & -number
        found.append(lowest.bit_length() - 1)
        number ^= lowest
    return found
