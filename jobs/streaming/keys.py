"""Keys: where a line's key ends, in which order keys come, and which reduce gets them.

Source: Hadoop's KeyFieldBasedPartitioner and KeyFieldBasedComparator, whose options are those of
``sort``: -k1,2 is fields 1 to 2; -k2.3,2.5nr is letters 3 to 5 of field 2, as numbers, descending;
-n or -r alone hold for each -k that has no letters of its own, wherever they stand.

Left open there, chosen here: blanks before a number are skipped, as ``sort`` does; keys that both
lack a field are equal there.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from railyard.cluster.errors import UsageError
from railyard.jobs.formats import whole_lines
from railyard.jobs.taskio import Buffer

_KEY = re.compile(r"(\d+)(?:\.(\d+))?([nr]*)(?:,(\d+)(?:\.(\d+))?([nr]*))?")
#: Sign, digits before the point, digits after it; there may be none at all.
_NUMBER = re.compile(rb"\s*(-?)0*(\d*)(?:\.(\d*))?")
#: Digits in the other order; what ends such a text sorts behind them.
_DOWN = bytes.maketrans(b"0123456789", b"9876543210")
_DOWN_END = b"~"


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

    def of(self, key: bytes, separator: bytes) -> bytes | None:
        """The bytes of that part; None if the key ends before it begins."""
        fields = key.split(separator)
        if self.field > len(fields):
            return None
        begin = _offset(fields, self.field, separator) + self.byte - 1
        if begin >= len(key):
            return None
        if not self.end_field or self.end_field > len(fields):
            return key[begin:]
        end = _offset(fields, self.end_field, separator)
        return key[begin : end + (self.end_byte or len(fields[self.end_field - 1]))]

    def order(self, key: bytes, separator: bytes) -> tuple[Any, ...]:
        """What sorts as that part does; a key without it comes first, or last if descending."""
        part = self.of(key, separator)
        if part is None:
            return (self.reverse,)
        if self.numeric:
            return (not self.reverse, *_number(part, self.reverse))
        return (not self.reverse, (*(-byte for byte in part), 1) if self.reverse else part)


def parts_of(options: str, name: str) -> tuple[KeyPart, ...]:
    """The parts that options such as "-k1,1 -k2nr" name; ``UsageError`` for others."""
    everywhere, parts = "", []
    for word in re.sub(r"-k\s+", "-k", options).split():
        match = _KEY.fullmatch(word[2:])
        if re.fullmatch(r"-[nr]+", word):
            everywhere += word[1:]
        elif word.startswith("-k") and match and all(int(n or 1) for n in match.group(1, 4)):
            field, byte, how, end, end_byte, end_how = match.groups("")
            part = KeyPart(
                field=int(field),
                byte=max(1, int(byte or 1)),
                end_field=int(end or 0),
                end_byte=int(end_byte or 0),
            )
            parts.append((part, how + end_how))
        else:
            right = "parts such as -k1,1 or -k2.3,2.5nr"
            raise UsageError(f"-D {name}={options[:80]}: {word[:40]}: need {right}")
    if everywhere and not parts:
        parts = [(KeyPart(), "")]
    return tuple(
        replace(part, numeric="n" in letters, reverse="r" in letters)
        for part, own in parts
        for letters in (own or everywhere,)
    )


def partitioner(parts: Sequence[KeyPart], separator: bytes) -> Callable[[bytes, int], int]:
    """Which reduce gets a key: all keys that are equal in these parts come to the same one."""
    if not parts:
        return lambda key, partitions: zlib.crc32(key) % partitions

    def number(key: bytes, partitions: int) -> int:
        chosen = b"\0".join([part.of(key, separator) or b"" for part in parts])
        return zlib.crc32(chosen) % partitions

    return number


def pairs_of(
    pieces: Iterable[Buffer], separator: bytes, fields: int
) -> Iterator[tuple[bytes, bytes | None]]:
    """The lines that a program wrote as keys and values: a key has so many ``fields``.

    A line with fewer separators is all key: its value is None.
    """
    for block in whole_lines(pieces):
        for line in block.split(b"\n")[:-1]:
            if fields == 1:
                key, found, value = line.partition(separator)
                yield key, value if found else None
                continue
            head = line.split(separator, fields)
            if len(head) <= fields:
                yield line, None
            else:
                yield separator.join(head[:fields]), head[fields]


def _offset(fields: Sequence[bytes], field: int, separator: bytes) -> int:
    """Where a field begins in a key; the first is 1."""
    return sum(map(len, fields[: field - 1])) + (field - 1) * len(separator)


def _number(text: bytes, reverse: bool) -> tuple[int, int, bytes, bytes]:
    """What sorts as the number does with which a text begins, of any length; without one, as 0.

    Of two numbers above 0 that one is greater which has more digits before its point, and of as
    many, whose digits come later as text.  Below 0 it is the other way round.
    """
    match = _NUMBER.match(text)
    sign, whole, fraction = match.groups(b"") if match else (b"", b"", b"")
    fraction = fraction.rstrip(b"0")
    if not (whole or fraction):
        return (0, 0, b"", b"")
    if bool(sign) == reverse:
        return (1, len(whole), whole, fraction)
    return (-1, -len(whole), whole.translate(_DOWN), fraction.translate(_DOWN) + _DOWN_END)
