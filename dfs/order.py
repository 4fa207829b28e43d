"""Places in the order of a number that each of them has, and of those that are equal their own.

A place's number and the place are one key, so that one sorted list has it all: those with the
smallest number are side by side in it, and those of them that are in one span of places too.
Places may be out of the list; one that was taken is, until it is put in again.

Never here: what the places and their numbers are, and which of several is taken.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")
#: From a place up to another, which is not one of them.
Span = tuple[int, int]
#: So many bits by chance, as ``random.Random.getrandbits`` has them.
Roll = Callable[[int], int]
#: The key of a place that is out: more than any other.
_OUT = 1 << 300
#: Up to so many keys are put into the line one by one.
_FEW = 50


class Order(Generic[T]):
    """See the module.  Numbers are whole; a place without one is out.

    Places have names.  The name of one that is taken becomes a key of ``taken``.
    """

    def __init__(
        self, names: Sequence[T], values: Sequence[int | None], taken: dict[T, int]
    ) -> None:
        self._names = names
        self._taken = taken
        self._bits = bits = len(values).bit_length()
        self._mask = (1 << bits) - 1  #: what of a key is the place
        self._keys = [
            _OUT if value is None else value << bits | place for place, value in enumerate(values)
        ]
        self._line = sorted(self._keys)
        del self._line[bisect_left(self._line, _OUT) :]

    def __len__(self) -> int:
        """How many places are in."""
        return len(self._line)

    def put(
        self, names: Collection[T], places: Mapping[T, int], values: Mapping[T, int | None]
    ) -> None:
        """Give the places of names their numbers, or none: for each, O(places) steps of a move."""
        line, keys, bits = self._line, self._keys, self._bits
        are_few = len(names) <= _FEW
        new: list[int] = []
        for name in names:
            place, value = places[name], values[name]
            key = keys[place]
            if key != _OUT:
                del line[bisect_left(line, key)]
            if value is None:
                keys[place] = _OUT
                continue
            keys[place] = key = value << bits | place
            if are_few:
                insort(line, key)
            else:
                new.append(key)
        if new:
            line += new
            line.sort()  # which finds that most are in order

    # One of the smallest -------------------------------------------------------------------------
    def take(self, roll: Roll) -> int | None:
        """One of the places with the smallest number, if any is in."""
        line = self._line
        return self._take(0, bisect_right(line, line[0] | self._mask), roll) if line else None

    def take_outside(self, span: Span, roll: Roll) -> int | None:
        """One of the places outside of a span with the smallest number that is there, if any is."""
        line, mask, (begin, end) = self._line, self._mask, span
        at, size = 0, len(line)
        while at < size:
            key, after = line[at], at + 1
            last = key | mask  # no place with the same number has a larger key
            if after == size or line[after] > last:  # it is the only one: usual where they differ
                if not begin <= key & mask < end:
                    return self._take(at, 1, roll)
            else:
                base, after = last - mask, bisect_right(line, last, after)
                first = bisect_left(line, base + begin, at, after)
                hidden = bisect_left(line, base + end, first, after) - first
                if after - at > hidden:
                    return self._take(at, after - at - hidden, roll, first, hidden)
            at = after
        return None

    def take_inside(self, span: Span, roll: Roll) -> int | None:
        """One of the places inside of a span with the smallest number that is there, if any is."""
        line, mask, (begin, end) = self._line, self._mask, span
        if len(line) > 1:
            last = line[0] | mask
            if line[1] <= last:  # of many with the least number, some are there
                base = last - mask
                first = bisect_left(line, base + begin)
                count = bisect_left(line, base + end, first) - first
                if count:
                    return self._take(first, count, roll)
        least = min(self._keys[begin:end])
        if least == _OUT:
            return None
        first, last = bisect_left(line, least), least | mask
        after = first + 1
        if after < len(line) and line[after] <= last:  # there may be others in the span
            after = bisect_left(line, last - mask + end, after)
        return self._take(first, after - first, roll)

    def _take(self, first: int, count: int, roll: Roll, gap: int = 0, hidden: int = 0) -> int:
        """Take one of so many from there on in the line, but for those that a gap hides.

        By the same chance as ``random.Random.choice`` takes one of them.
        """
        bits = count.bit_length()
        drawn = roll(bits)
        while drawn >= count:
            drawn = roll(bits)
        at = first + drawn
        place = self._line.pop(at if at < gap else at + hidden) & self._mask
        self._keys[place] = _OUT
        self._taken[self._names[place]] = 0
        return place

    # All of the smallest -------------------------------------------------------------------------
    def smallest(self, hidden: Sequence[Span], barred: Iterable[int]) -> Sequence[T]:
        """Those with the smallest number, but for hidden spans and barred places, each given once.

        To be looked at before anything changes.
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
                return _Found(self._names, line, start, gaps, left)
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
