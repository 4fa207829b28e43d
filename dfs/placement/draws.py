"""Random numbers that are a pure function of a key, such as (seed, file, block).

So the draws for one block do not depend on which others were placed before it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T")
_WORDS = struct.Struct("<8Q")


class Draws:
    """An endless sequence of uniform draws.  Equal keys give equal sequences."""

    __slots__ = ("_words",)

    def __init__(self, *key: object) -> None:
        self._words = _words(repr(key).encode())

    def one_of(self, items: Sequence[T]) -> T:
        """Draw one of some items, uniformly (to within 2**-64 times their number)."""
        return items[next(self._words) % len(items)]


def _words(key: bytes) -> Iterator[int]:
    """Yield 64-bit words, eight per step of a keyed hash."""
    step = 0
    while True:
        yield from _WORDS.unpack(blake2b(key, salt=step.to_bytes(16, "little")).digest())
        step += 1
