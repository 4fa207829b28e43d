"""``-reducer aggregate``: the mapper writes TYPE:KEY<tab>VALUE, and values are added up by type.

Source: Apache Hadoop's package ``mapred.lib.aggregate``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple, TypeVar

from railyard.jobs.taskio import JobError

N = TypeVar("N", int, float)


class _Type(NamedTuple):
    """How values of a type are added up."""

    result: Callable[[Iterable[bytes]], bytes]
    combined: Callable[[Iterable[bytes]], list[bytes]]  #: fewer values that stand for these


def combined(key: bytes, values: Iterable[bytes | None]) -> Iterator[tuple[bytes, bytes]]:
    """Pairs that stand for those of a key: fewer, if there are several."""
    for value in _type_of(key).combined(value or b"" for value in values):
        yield key, value


def reduced(key: bytes, values: Iterable[bytes | None]) -> tuple[bytes, bytes]:
    """The pair that a reduce writes: the key without its type, and the result."""
    return key.partition(b":")[2], _type_of(key).result(value or b"" for value in values)


def _type_of(key: bytes) -> _Type:
    kind, colon, _ = key.partition(b":")
    if not colon or kind not in _TYPES:
        types = ", ".join(sorted(name.decode() for name in _TYPES))
        raise JobError(f"aggregate: key {key!r:.60}: need TYPE:KEY, with one of {types}")
    return _TYPES[kind]


def _folding(fold: Callable[[Iterable[bytes]], bytes]) -> _Type:
    return _Type(fold, lambda values: [fold(values)])


def _counts(values: Iterable[bytes]) -> Counter[bytes]:
    """How often each value occurs; a value may be "VALUE<tab>times" already."""
    counts: Counter[bytes] = Counter()
    for value in values:
        item, tab, count = value.rpartition(b"\t")
        counts[item if tab else value] += _whole(count) if tab else 1
    return counts


def _histogram(values: Iterable[bytes]) -> bytes:
    """Of how often each value occurs: number, least, median, most, mean and deviation."""
    counts = sorted(_counts(values).values())
    mean = sum(counts) / len(counts)
    deviation = math.sqrt(sum((count - mean) ** 2 for count in counts) / len(counts))
    shown = (len(counts), counts[0], counts[len(counts) // 2], counts[-1], mean, deviation)
    return "\t".join(map(str, shown)).encode()


def _read(kind: Callable[[bytes], N], what: str, text: bytes) -> N:
    try:
        return kind(text)
    except ValueError:
        raise JobError(f"aggregate: {text!r:.60} is no {what}") from None


_whole, _real = partial(_read, int, "whole number"), partial(_read, float, "number")


_TYPES = {
    b"DoubleValueSum": _folding(lambda values: repr(math.fsum(map(_real, values))).encode()),
    b"LongValueMax": _folding(lambda values: b"%d" % max(map(_whole, values))),
    b"LongValueMin": _folding(lambda values: b"%d" % min(map(_whole, values))),
    b"LongValueSum": _folding(lambda values: b"%d" % sum(map(_whole, values))),
    b"StringValueMax": _folding(max),
    b"StringValueMin": _folding(min),
    b"UniqValueCount": _Type(
        lambda values: b"%d" % len(set(values)), lambda v: [*dict.fromkeys(v)]
    ),
    b"ValueHistogram": _Type(
        _histogram, lambda values: [b"%b\t%d" % pair for pair in _counts(values).items()]
    ),
}
