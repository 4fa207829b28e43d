"""``-reducer aggregate``: the mapper writes TYPE:KEY<tab>VALUE, and values are added up by type.

Source: Apache Hadoop's package ``mapred.lib.aggregate``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from railyard.jobs.taskio import JobError

Values = Iterable[bytes | None]


def combined(key: bytes, values: Values) -> Iterator[tuple[bytes, bytes]]:
    """Pairs that stand for those of a key: fewer, if there are several."""
    for value in _aggregator(key).combined(value or b"" for value in values):
        yield key, value


def reduced(key: bytes, values: Values) -> tuple[bytes, bytes]:
    """The pair that a reduce writes: the key without its type, and the result."""
    result = _aggregator(key).result(value or b"" for value in values)
    return key.partition(b":")[2], result


class _Folding:
    """Two values become one of the same kind."""

    def __init__(self, fold: Callable[[Iterable[bytes]], bytes]) -> None:
        self.result = fold

    def combined(self, values: Iterable[bytes]) -> list[bytes]:
        return [self.result(values)]


class _UniqValueCount:
    """How many different values there are."""

    def combined(self, values: Iterable[bytes]) -> list[bytes]:
        return list(dict.fromkeys(values))

    def result(self, values: Iterable[bytes]) -> bytes:
        return b"%d" % len(set(values))


class _ValueHistogram:
    """Of how often each value occurs: number, least, median, most, mean and deviation."""

    def combined(self, values: Iterable[bytes]) -> list[bytes]:
        return [b"%b\t%d" % (value, count) for value, count in self._counts(values).items()]

    def result(self, values: Iterable[bytes]) -> bytes:
        counts = sorted(self._counts(values).values())
        mean = sum(counts) / len(counts)
        deviation = math.sqrt(sum((count - mean) ** 2 for count in counts) / len(counts))
        shown = (len(counts), counts[0], counts[len(counts) // 2], counts[-1], mean, deviation)
        return "\t".join(map(str, shown)).encode()

    def _counts(self, values: Iterable[bytes]) -> Counter[bytes]:
        counts: Counter[bytes] = Counter()
        for value in values:
            item, tab, count = value.rpartition(b"\t")
            counts[item if tab else value] += _whole(count) if tab else 1
        return counts


def _whole(text: bytes) -> int:
    try:
        return int(text)
    except ValueError:
        raise JobError(f"aggregate: {text!r:.60} is no whole number") from None


def _real(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        raise JobError(f"aggregate: {text!r:.60} is no number") from None


_TYPES: dict[bytes, _Folding | _UniqValueCount | _ValueHistogram] = {
    b"DoubleValueSum": _Folding(lambda values: repr(math.fsum(map(_real, values))).encode()),
    b"LongValueMax": _Folding(lambda values: b"%d" % max(map(_whole, values))),
    b"LongValueMin": _Folding(lambda values: b"%d" % min(map(_whole, values))),
    b"LongValueSum": _Folding(lambda values: b"%d" % sum(map(_whole, values))),
    b"StringValueMax": _Folding(max),
    b"StringValueMin": _Folding(min),
    b"UniqValueCount": _UniqValueCount(),
    b"ValueHistogram": _ValueHistogram(),
}


def _aggregator(key: bytes) -> _Folding | _UniqValueCount | _ValueHistogram:
    kind, colon, _ = key.partition(b":")
    if not colon or kind not in _TYPES:
        types = ", ".join(sorted(name.decode() for name in _TYPES))
        raise JobError(f"aggregate: key {key!r:.60}: need TYPE:KEY, with one of {types}")
    return _TYPES[kind]
