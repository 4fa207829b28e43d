"""Keys: where a line's key ends, in which order keys come, and which reduce gets them.

Source: Hadoop's KeyFieldBasedPartitioner and KeyFieldBasedComparator, whose options are those of
``sort``: -k1,2 is fields 1 to 2; -k2.3,2.5nr is letters 3 to 5 of field 2, as numbers, descending.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from railyard.cluster.errors import UsageError
from railyard.jobs.streaming.lines import whole_lines
from railyard.jobs.taskio import Buffer

_KEY = re.compile(r"(\d+)(?:\.(\d+))?([nr]*)(?:,(\d+)(?:\.(\d+))?([nr]*))?")
_NUMBER = re.compile(rb"\s*(-?\d*\.?\d*)")


@dataclass(frozen=True, kw_only=True)
class KeyPart:
    """A part of a key: a range of its fields and their bytes, and how it is compared.

    Fields and bytes count from 1; ``end_field`` 0 is the last, ``end_byte`` 0 a field's last byte.
    """

    field: int = 1
    byte: int = 1
    end_field: int = 0
    end_byte: int = 0
    numeric: bool = False
    reverse: bool = False

    def of(self, key: bytes, separator: bytes) -> bytes:
        """The bytes of that part; none if the key has not so many fields."""
        fields = key.split(separator)
        last = min(self.end_field or len(fields), len(fields))
        if self.field > last:
            return b""
        chosen = fields[self.field - 1 : last]
        if self.end_byte and self.end_field <= len(fields):
            chosen[-1] = chosen[-1][: self.end_byte]
        return separator.join(chosen)[self.byte - 1 :]

    def order(self, key: bytes, separator: bytes) -> Any:
        """What sorts as that part does."""
        part = self.of(key, separator)
        if self.numeric:
            number = _number(part)
            return -number if self.reverse else number
        return (*(-byte for byte in part), 1) if self.reverse else part


def parts_of(options: str, name: str) -> tuple[KeyPart, ...]:
    """The parts that options such as "-k1,1 -k2nr" name; ``UsageError`` for others."""
    words = re.sub(r"-k\s+", "-k", options).split()
    everywhere, parts = "", []
    for word in words:
        match = _KEY.fullmatch(word[2:])
        if re.fullmatch(r"-[nr]+", word):
            everywhere += word[1:]
        elif word.startswith("-k") and match and "0" not in match.group(1, 4):
            field, byte, how, end, end_byte, end_how = match.groups()
            how += end_how or ""
            part = KeyPart(
                field=int(field),
                byte=max(1, int(byte or 1)),
                end_field=int(end or 0),
                end_byte=int(end_byte or 0),
                numeric="n" in how,
                reverse="r" in how,
            )
            parts.append(part)
        else:
            right = "parts such as -k1,1 or -k2.3,2.5nr"
            raise UsageError(f"-D {name}={options[:80]}: {word[:40]}: need {right}")
    if not parts and everywhere:
        parts = [KeyPart(numeric="n" in everywhere, reverse="r" in everywhere)]
    return tuple(parts)


def partitioner(parts: Sequence[KeyPart], separator: bytes) -> Callable[[bytes, int], int]:
    """Which reduce gets a key: all keys that are equal in these parts come to the same one."""
    if not parts:
        return lambda key, partitions: zlib.crc32(key) % partitions

    def number(key: bytes, partitions: int) -> int:
        chosen = b"\0".join([part.of(key, separator) for part in parts])
        return zlib.crc32(chosen) % partitions

    return number


def pairs_of(
    pieces: Iterator[Buffer] | Sequence[Buffer], separator: bytes, fields: int
) -> Iterator[tuple[bytes, bytes | None]]:
    """The lines that a program wrote as keys and values: a key has so many ``fields``.

    A line with fewer separators is all key: its value is None.
    """
    for block in whole_lines(pieces):
        lines = block.split(b"\n")
        if not lines[-1]:
            lines.pop()
        for line in lines:
            if fields == 1:
                key, found, value = line.partition(separator)
                yield key, value if found else None
                continue
            head = line.split(separator, fields)
            if len(head) <= fields:
                yield line, None
            else:
                yield separator.join(head[:fields]), head[fields]


def _number(text: bytes) -> float:
    match = _NUMBER.match(text)
    digits = match.group(1) if match else b""
    return float(digits) if digits.strip(b"-.") else 0.0
