"""Places in the order of a number that each of them has, and of those that are equal their own.

A place's number and the place are one key, so that one sorted list has it all: those with the
smallest number are side by side in it, and those of them that are in one span of places too.
Places may be out of the list; one that was taken is, until it is put in again.

Never here: what the places and their numbers are, and which of several is taken.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
#: From a place up to another, which is not one of them.
Span = tuple[int, int]
#: The key of a place that is out: more than any other.
_OUT = 1 << 300


class Order:
    """See the module.  Numbers are whole; a place without one is out.

    What draws one of ``count`` equal places gets that count, and returns a number below it.
    """

    def __init__(self, values: Sequence[int | None]) -> None:
        self._bits = bits = len(values).bit_length()
        self._keys = [
            _OUT if value is None else value << bits | place for place, value in enumerate(values)
        ]
        self._line = sorted(self._keys)
        del self._line[bisect_left(self._line, _OUT) :]
        self.taken: list[int] = []  #: places, since whoever looks at it has cleared it

    def __len__(self) -> int:
        """How many places are in."""
        return len(self._line)

    def put(self, place: int, value: int | None) -> None:
        """Give a place a number, or none: O(places) steps of a memory move."""
        line, key = self._line, self._keys[place]
        if key != _OUT:
            del line[bisect_left(line, key)]
        if value is None:
            self._keys[place] = _OUT
        else:
            self._keys[place] = key = value << self._bits | place
            insort(line, key)

    # One of the smallest -------------------------------------------------------------------------
    def take_outside(self, span: Span, draw: Callable[[int], int]) -> int | None:
        """One of the places outside of a span with the smallest number that is there, if any is."""
        line, bits, (begin, end) = self._line, self._bits, span
        size, stop = len(self._keys), 0
        while stop < len(line):
            start, base = stop, line[stop] >> bits << bits
            stop = start + 1
            if stop < len(line) and line[stop] < base + size:
                stop = bisect_left(line, base + size, stop)
                first = bisect_left(line, base + begin, start, stop)
                hidden = bisect_left(line, base + end, first, stop) - first
            else:  # one of that number: usual where numbers differ
                first, hidden = start, int(begin <= line[start] - base < end)
            if stop - start > hidden:
                at = start + draw(stop - start - hidden)
                return self._take(at if at < first else at + hidden, base)
        return None

    def take_inside(self, span: Span, draw: Callable[[int], int]) -> int | None:
        """One of the places inside of a span with the smallest number that is there, if any is."""
        line, bits, (begin, end) = self._line, self._bits, span
        if len(line) > 1:
            base = line[0] >> bits << bits
            if line[1] < base + len(self._keys):  # of many with the least number, some are there
                first = bisect_left(line, base + begin)
                count = bisect_left(line, base + end, first) - first
                if count:
                    return self._take(first + draw(count), base)
        least = min(self._keys[begin:end])
        if least == _OUT:
            return None
        base, first = least >> bits << bits, bisect_left(line, least)
        return self._take(first + draw(bisect_left(line, base + end, first) - first), base)

    def _take(self, at: int, base: int) -> int:
        place = self._line.pop(at) - base
        self._keys[place] = _OUT
        self.taken.append(place)
        return place

    # All of the smallest -------------------------------------------------------------------------
    def smallest(
        self, names: Sequence[T], hidden: Sequence[Span], barred: Iterable[int]
    ) -> Sequence[T]:
        """Those with the smallest number, but for hidden spans and barred places, each given once.

        ``names`` are of the places.  To be looked at before anything changes.
        """
        keys, line, bits = self._keys, self._line, self._bits
        stop = 0
        while stop < len(line):
            start, base = stop, line[stop] >> bits << bits
            stop = bisect_left(line, base + len(keys), start)
            gaps, left = [], stop - start
            for begin, end in hidden:
                first = bisect_left(line, base + begin, start, stop)
                last = bisect_left(line, base + end, first, stop)
                if first < last:
                    gaps.append((first, last))
                    left -= last - first
            for place in barred:
                if keys[place] == base + place and not any(b <= place < e for b, e in hidden):
                    first = bisect_left(line, keys[place], start, stop)
                    gaps.append((first, first + 1))
                    left -= 1
            if left:
                gaps.sort()
                return _Found(names, line, start, gaps, left)
        return ()


class _Found(Sequence[T]):
    """What is at places that have the same number: they may be thousands, and one is asked for."""

    __slots__ = ("_count", "_gaps", "_line", "_mask", "_names", "_start")

    def __init__(
        self, names: Sequence[T], line: list[int], start: int, gaps: list[Span], count: int
    ) -> None:
        self._names = names
        self._line = line
        self._mask = (1 << len(names).bit_length()) - 1
        self._start = start  #: where in the line they begin
        self._gaps = gaps  #: what of the line from there on does not count, ascending
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: Any) -> Any:
        if at >= self._count:
            raise IndexError(f"{at} of {self._count} places")
        at += self._start
        for first, last in self._gaps:
            if at < first:
                break
            at += last - first
        return self._names[self._line[at] & self._mask]
