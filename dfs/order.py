"""Places in the order of a number that each of them has, and of those that are equal their own.

A place's number and the place are one key.  Places are in spans, each of which has a short sorted
line of its keys; of those lines' first keys there is another.  So a place is moved within one
span, however many there are, and the smallest of all and those of a span are found at once.
The places with the smallest number are kept while they are, since there may be thousands of them,
of which one after the other is taken.

Places may be out of the lines; one that was taken is, until it is put in again.

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
#: Up to so many keys are put into the lines one by one.
_FEW = 50


class _Part:
    """The places of a span."""

    __slots__ = ("begin", "end", "least", "line")

    def __init__(self, span: Span) -> None:
        self.begin, self.end = span
        self.line: list[int] = []  #: keys of those that are in, ascending
        self.least: int | None = None  #: the first of them, as the order knows it


class Order(Generic[T]):
    """See the module.  Numbers are whole; a place without one is out.

    ``spans``: by place, the one that it is in.  Places have names: that of one that is taken
    becomes a key of ``taken``.
    """

    def __init__(
        self,
        names: Sequence[T],
        values: Sequence[int | None],
        spans: Sequence[Span],
        taken: dict[T, int],
    ) -> None:
        self._names = names
        self._taken = taken
        self._bits = bits = len(values).bit_length()
        self._mask = (1 << bits) - 1  #: what of a key is the place
        self._keys = [
            _OUT if value is None else value << bits | place for place, value in enumerate(values)
        ]
        #: by span, ascending
        self._spans = {span: _Part(span) for span in dict.fromkeys(spans)}
        self._parts = [self._spans[span] for span in spans]  #: by place
        self._leasts: list[int] = []  #: the first key of each line, ascending
        #: those whose line may begin with another key than is known
        self._changed = dict.fromkeys(self._spans.values())
        #: the places with the smallest number, ascending; none if they are to be found
        self._first: list[int] = []
        self._last = -1  #: no key of those is larger, and no other key is smaller
        self._line_up()

    @property
    def is_empty(self) -> bool:
        """Whether all places are out."""
        return not (self._first or self._find_first())

    def put(
        self, names: Collection[T], places: Mapping[T, int], values: Mapping[T, int | None]
    ) -> None:
        """Give the places of names their numbers, or none: for each, O(places of a span) steps."""
        keys, bits, parts, changed = self._keys, self._bits, self._parts, self._changed
        if len(names) > _FEW:
            for name in names:
                place, value = places[name], values[name]
                keys[place] = _OUT if value is None else value << bits | place
                changed[parts[place]] = None
            self._line_up()
            return
        for name in names:
            place, value = places[name], values[name]
            old, part = keys[place], parts[place]
            line = part.line
            if old != _OUT:
                at = bisect_left(line, old)
                del line[at]
                if not at:
                    changed[part] = None
                if self._first and old <= self._last:
                    del self._first[bisect_left(self._first, place)]
            if value is None:
                keys[place] = _OUT
                continue
            keys[place] = new = value << bits | place
            insort(line, new)
            if line[0] is new:
                changed[part] = None
            if self._first and new <= self._last:
                self._first = []

    # One of the smallest -------------------------------------------------------------------------
    def take(self, roll: Roll) -> int | None:
        """One of the places with the smallest number, if any is in."""
        first = self._first or self._find_first()
        return self._take(first.pop(_one_of(len(first), roll))) if first else None

    def take_elsewhere(self, place: int, roll: Roll) -> int | None:
        """One of those with the smallest number outside of a place's span, if any is in there."""
        first, part = self._first or self._find_first(), self._parts[place]
        if len(first) == 1 and self._parts[first[0]] is not part:  # usual where numbers differ
            while roll(1):  # as for the choice of one among one
                pass
            return self._take(first.pop())
        hidden = bisect_left(first, part.begin)
        gap = bisect_left(first, part.end, hidden) - hidden
        if gap < len(first):
            at = _one_of(len(first) - gap, roll)
            return self._take(first.pop(at if at < hidden else at + gap))
        others, _ = self._find(part)
        return self._take(others[_one_of(len(others), roll)]) if others else None

    def take_beside(self, place: int, roll: Roll) -> int | None:
        """One of those with the smallest number in a place's span, if any is in there."""
        line, mask = self._parts[place].line, self._mask
        if not line:
            return None
        found = line[0] & mask
        last = line[0] + mask - found  # no place with the same number has a larger key
        count = bisect_right(line, last) if len(line) > 1 and line[1] <= last else 1
        at = _one_of(count, roll)
        if at:
            found = line[at] & mask
        if self._first and last == self._last:
            del self._first[bisect_left(self._first, found)]
        return self._take(found)

    def _take(self, place: int) -> int:
        """Take a place, which is one of the first no longer, or never was."""
        part, keys = self._parts[place], self._keys
        line, key = part.line, keys[place]
        at = 0 if line[0] is key else bisect_left(line, key)
        del line[at]
        if not at:
            self._changed[part] = None
        keys[place] = _OUT
        self._taken[self._names[place]] = 0
        return place

    # All of the smallest -------------------------------------------------------------------------
    def smallest(self, hidden: Collection[Span], barred: Collection[int]) -> Sequence[T]:
        """Those with the smallest number, but for hidden spans and barred places.

        To be looked at before anything changes.
        """
        mask, last, found = self._mask, _OUT, list[int]()
        for span, part in self._spans.items():
            if span in hidden:
                continue
            at, line = 0, part.line
            while at < len(line) and line[at] & mask in barred:
                at += 1
            if at < len(line) and line[at] <= last:
                if line[at] | mask < last:
                    last, found = line[at] | mask, []
                found += line[at : bisect_right(line, last, at)]
        return _Named(self._names, mask, _without(found, [last - mask + at for at in barred]))

    # Inside --------------------------------------------------------------------------------------
    def _line_up(self) -> None:
        """Have the lines that the keys make."""
        for part in self._changed:
            part.line = sorted(self._keys[part.begin : part.end])
            del part.line[bisect_left(part.line, _OUT) :]
        self._first = []

    def _find_first(self) -> list[int]:
        self._first, self._last = self._find(None)
        return self._first

    def _find(self, hidden: _Part | None) -> tuple[list[int], int]:
        """The places with the smallest number but for a span, and what no key of them is beyond."""
        mask, leasts = self._mask, self._leasts
        for part in self._changed:
            least = part.line[0] if part.line else None
            if least != part.least:
                if part.least is not None:
                    del leasts[bisect_left(leasts, part.least)]
                if least is not None:
                    insort(leasts, least)
                part.least = least
        self._changed.clear()
        found, last = list[int](), _OUT
        for key in leasts:
            if key > last:
                break
            place = key & mask
            part = self._parts[place]
            if part is not hidden:
                line, last = part.line, key + mask - place
                if len(line) == 1 or line[1] > last:
                    found.append(place)
                else:
                    found += [each & mask for each in line[: bisect_right(line, last)]]
        return found, last


class _Named(Sequence[T]):
    """The names of the places of keys: they may be thousands, and one is asked for."""

    __slots__ = ("_keys", "_mask", "_names")

    def __init__(self, names: Sequence[T], mask: int, keys: list[int]) -> None:
        self._names = names
        self._mask = mask
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, at: Any) -> Any:
        return self._names[self._keys[at] & self._mask]


def _without(keys: list[int], barred: Iterable[int]) -> list[int]:
    """Sorted keys but for some others, which are given once."""
    for key in barred:
        at = bisect_left(keys, key)
        if at < len(keys) and keys[at] == key:
            del keys[at]
    return keys


def _one_of(count: int, roll: Roll) -> int:
    """A number below a count, by the same chance as ``random.Random.choice`` takes one of many."""
    bits = count.bit_length()
    drawn = roll(bits)
    while drawn >= count:
        drawn = roll(bits)
    return drawn
