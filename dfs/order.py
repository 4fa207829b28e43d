"""Places in the order of a number that each of them has, and of those that are equal their own.

A place's number and the place are one key, so that one sorted list has it all: those with the
smallest number are side by side in it, and those of them that are in one span of places too.

Never here: what the places and their numbers are, and which of several is taken.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

#: From a place up to another, which is not one of them.
Span = tuple[int, int]
#: Of so many numbers, it is cheaper to sort them all than to move one.
_SORT_SHARE = 8


class Order:
    """See the module.  Numbers are whole, and may be of any size."""

    def __init__(self, values: Sequence[int]) -> None:
        self._bits = len(values).bit_length()
        self._keys = [value << self._bits | place for place, value in enumerate(values)]
        self._line = sorted(self._keys)

    def copy(self) -> Order:
        """Another that is the same for now."""
        other = Order(())
        other._bits, other._keys, other._line = self._bits, self._keys.copy(), self._line.copy()
        return other

    def change(self, changes: Sequence[tuple[int, int]]) -> None:
        """Give places, each once, other numbers: O(places) steps of a memory move for each."""
        keys, line, bits = self._keys, self._line, self._bits
        if len(changes) * _SORT_SHARE < len(keys):
            for place, value in changes:
                del line[bisect_left(line, keys[place])]
                keys[place] = key = value << bits | place
                insort(line, key)
        else:
            for place, value in changes:
                keys[place] = value << bits | place
            self._line = sorted(keys)

    # One of the smallest -------------------------------------------------------------------------
    def draw_outside(self, span: Span, draw: Callable[[int], int]) -> int:
        """One of the places outside of a span with the smallest number that is there.

        ``draw`` gets how many they are, and says which it is.  There must be one.
        """
        line, bits, (begin, end) = self._line, self._bits, span
        stop = 0
        while True:
            start, base = stop, line[stop] >> bits << bits
            stop = bisect_left(line, base + len(line), start)
            first = bisect_left(line, base + begin, start, stop)
            hidden = bisect_left(line, base + end, first, stop) - first
            if stop - start > hidden:
                at = start + draw(stop - start - hidden)
                return line[at if at < first else at + hidden] - base

    def draw_inside(self, span: Span, barred: int, draw: Callable[[int], int]) -> int:
        """The same inside of a span, for one of its places that is not the barred one of them."""
        begin, end = span
        keys = self._keys[begin:end]
        known = keys.pop(barred - begin)
        least = min(keys)
        line, base = self._line, least >> self._bits << self._bits
        first = bisect_left(line, least)
        found = line[first : bisect_left(line, base + end, first)]
        if known in found:
            found.remove(known)
        return found[draw(len(found))] - base

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
            stop = bisect_left(line, base + len(line), start)
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

    def smallest_inside(self, spans: Iterable[Span], more: Mapping[int, int]) -> list[int]:
        """The places inside of spans that have the smallest number, some of them so much more."""
        best: list[int] = []
        least = None
        for begin, end in sorted(spans):
            values = [key >> self._bits for key in self._keys[begin:end]]
            for place in range(begin, end) if more else ():
                values[place - begin] += more.get(place, 0)
            lowest = min(values)
            if least is None or lowest < least:
                best, least = [], lowest
            if lowest == least:
                best += [at for at, value in enumerate(values, begin) if value == least]
        return best


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
