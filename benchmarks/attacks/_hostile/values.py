"""Values for the fields of messages: sound ones and hostile ones, from the fields' own types.

All values are plain, as MessagePack has them.  The same seed gives the same values.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

from msgspec import inspect

from railyard.benchmarks.attacks._hostile.ids import Ids

#: What MessagePack can carry, and where machines' whole numbers end.
_WHOLE = (0, 1, -1, 2, 255, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**62, 2**62 + 1)
_WHOLE_EDGES = (2**63 - 1, 2**63, 2**64 - 1, -(2**31), -(2**63))
_LEAST, _MOST = -(2**63), 2**64 - 1
_REAL = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-310, 5e-324, 1e308, 1.7e308, -1e308, 1e18, 1e-9)
_NOT_FINITE = (math.nan, math.inf, -math.inf)
_TEXTS = (
    "",
    " ",
    ".",
    "..",
    "/",
    "//",
    "../../../../etc/passwd",
    "/" + "d/" * 600,
    "\0",
    "a\0b",
    "\n",
    "\x1b[2J\x1b]0;owned\x07",
    "\u202etxt.exe",
    "\u2028",
    "\ufffe\U0010ffff",
    "ÿ" * 300,
    "%s%n{0}{}",
    "-1",
    "None",
    "r" + "9" * 400 + "n0",
    "j1." + "m" * 400 + "0.0",
)
#: Values of which few are enough, since it takes long to make and send one.
_LARGE_TEXTS = ("9" * 5000, "j" * 70_000, "\0" * 2_000_000)
_LARGE_SHARE = 0.04
#: Of most of them a field is not.
_OF_ANY_TYPE: tuple[Any, ...] = (None, True, 7, 1.5, "text", b"bytes", [], {}, [[]], {"": {}})
_MANY = 3_000
_HUGE = 200_000
_DEPTH_MAX = 4


class Values:
    """Sound and hostile values; names in them are of ``ids``."""

    def __init__(self, dice: random.Random, ids: Ids) -> None:
        self._dice = dice
        self._ids = ids

    # Sound ones: what a well-behaved sender might send --------------------------------------------
    def sound(self, kind: inspect.Type, name: str, depth: int = 0) -> Any:  # noqa: C901  a case a type
        """A value that the type allows, of a usual size."""
        dice = self._dice
        match kind:
            case inspect.BoolType():
                return dice.random() < 0.5
            case inspect.IntType():
                return self._sound_whole(kind, name)
            case inspect.FloatType():
                return self._within(kind, dice.choice((0.0, 0.5, 1.0, dice.uniform(0, 100))))
            case inspect.StrType():
                return self._ids.pick(dice, name)
            case inspect.BytesType():
                return dice.randbytes(dice.choice((0, 1, 30)))
            case inspect.NoneType():
                return None
            case inspect.LiteralType():
                return dice.choice(kind.values)
            case inspect.UnionType():
                return self.sound(dice.choice(kind.types), name, depth)
            case inspect.StructType():
                return self._struct(kind, lambda field: self._sound_field(field, depth))
            case inspect.TupleType():
                return [self.sound(item, name, depth + 1) for item in kind.item_types]
            case inspect.NamedTupleType():
                return [self.sound(field.type, field.name, depth + 1) for field in kind.fields]
            case inspect.DictType():
                return {
                    self.sound(kind.key_type, name): self.sound(kind.value_type, name, depth + 1)
                    for _ in range(self._few(depth))
                }
            case inspect.AnyType() | inspect.RawType():
                return self._anything(depth)
            case _ if hasattr(kind, "item_type"):
                return [
                    self.sound(kind.item_type, name, depth + 1) for _ in range(self._few(depth))
                ]
        return self._anything(depth)

    def _sound_field(self, field: inspect.Field, depth: int) -> Any:
        return self.sound(field.type, field.encode_name, depth + 1)

    def _sound_whole(self, kind: inspect.IntType, name: str) -> int:
        usual = self._ids.number(self._dice, name)
        if usual is None:
            usual = self._dice.choice((0, 1, 2, 7, self._dice.randrange(10_000), 10**9))
        return int(self._within(kind, usual))

    def _within(self, kind: inspect.IntType | inspect.FloatType, value: Any) -> Any:
        """``value``, or the bound that it is beyond."""
        low, high = _bounds(kind)
        return min(max(value, low), high)

    def _few(self, depth: int) -> int:
        return 0 if depth >= _DEPTH_MAX else self._dice.choice((0, 1, 1, 2, 3))

    def _anything(self, depth: int) -> Any:
        dice = self._dice
        sort = dice.randrange(8 if depth < _DEPTH_MAX else 6)
        if sort < 6:
            return (None, True, dice.choice(_WHOLE), 0.5, "text", b"bytes")[sort]
        if sort == 6:
            return [self._anything(depth + 1) for _ in range(dice.randrange(4))]
        return {dice.choice(_TEXTS[:3]): self._anything(depth + 1)}

    def _struct(
        self, kind: inspect.StructType, value: Callable[[inspect.Field], Any]
    ) -> dict[str, Any] | list[Any]:
        if kind.array_like:
            return [value(field) for field in kind.fields]
        filled = {field.encode_name: value(field) for field in kind.fields}
        return filled if kind.tag_field is None else {kind.tag_field: kind.tag, **filled}

    # Hostile ones --------------------------------------------------------------------------------
    def hostile(self, kind: inspect.Type, name: str) -> Any:
        """A value at an edge of the type or beyond it."""
        return self._dice.choice(self.edges(kind, name))()

    def edges(self, kind: inspect.Type, name: str, depth: int = 0) -> list[Callable[[], Any]]:
        """What makes each of the values at the edges of a type, and one beyond it."""
        found = self._edges_within(kind, name, depth)
        found.append(lambda: self._dice.choice(_OF_ANY_TYPE))
        return found

    def _edges_within(  # noqa: C901  a case a type
        self, kind: inspect.Type, name: str, depth: int
    ) -> list[Callable[[], Any]]:
        match kind:
            case inspect.IntType():
                return _constants(*_edges_of(kind), *_WHOLE, *_WHOLE_EDGES)
            case inspect.FloatType():
                return _constants(*_edges_of(kind), *_REAL, *_NOT_FINITE)
            case inspect.StrType():
                pool = lambda: self._ids.pick(self._dice, "")  # noqa: E731
                return [*_constants(*_TEXTS, *self._rarely(*_LARGE_TEXTS)), pool, pool]
            case inspect.BytesType():
                return _constants(b"", b"\0", b"\xff" * 300, *self._rarely(b"x" * 70_000))
            case inspect.BoolType():
                return _constants(True, False)
            case inspect.NoneType():
                return _constants(None)
            case inspect.LiteralType():
                return _constants(*kind.values, "none of these")
            case inspect.UnionType():
                return [
                    edge for each in kind.types for edge in self._edges_within(each, name, depth)
                ]
            case inspect.StructType():
                return self._edges_of_struct(kind, depth)
            case inspect.AnyType() | inspect.RawType():
                return [lambda: self._anything(0), lambda: _nested(400), *_constants(*_WHOLE_EDGES)]
            case inspect.DictType():
                return self._edges_of_dict(kind, name)
            case inspect.TupleType() | inspect.NamedTupleType():
                return [lambda: self.sound(kind, name), list, lambda: [0] * 50]
            case _ if hasattr(kind, "item_type"):
                return self._edges_of_list(kind.item_type, name, depth)
        return [lambda: self._anything(0)]

    def _edges_of_struct(self, kind: inspect.StructType, depth: int) -> list[Callable[[], Any]]:
        """All of its fields sound but one, which is at an edge."""
        if depth >= _DEPTH_MAX or not kind.fields:
            return [lambda: self.sound(kind, "")]

        def one_bad() -> Any:
            bad = self._dice.choice(kind.fields)
            return self._struct(
                kind,
                lambda field: (
                    self.hostile(field.type, field.encode_name)
                    if field is bad
                    else self.sound(field.type, field.encode_name, depth + 1)
                ),
            )

        return [one_bad] * 2 * len(kind.fields)

    def _edges_of_list(self, item: inspect.Type, name: str, depth: int) -> list[Callable[[], Any]]:
        def repeated(times: int) -> Callable[[], Any]:
            return lambda: [self.sound(item, name, depth + 1)] * times

        def hostile() -> Any:
            return [self.hostile(item, name) for _ in range(self._dice.choice((1, 2, 5)))]

        rare = self._rarely(repeated(_MANY), repeated(_HUGE))
        return [list, repeated(1), repeated(2), *[hostile] * 4, *rare]

    def _edges_of_dict(self, kind: inspect.DictType, name: str) -> list[Callable[[], Any]]:
        def of(count: int, value: Callable[[], Any]) -> Callable[[], Any]:
            return lambda: {
                self.sound(kind.key_type, name) if count < 9 else f"k{i}": value()
                for i in range(count)
            }

        def hostile() -> Any:
            return self.hostile(kind.value_type, name)

        def sound() -> Any:
            return self.sound(kind.value_type, name, _DEPTH_MAX)

        def odd_key() -> Any:
            return {self._dice.choice((0, -1, "", "\0", b"k", 1.5, True)): sound()}

        rare = self._rarely(of(_MANY, sound))
        return [dict, of(1, hostile), of(3, hostile), odd_key, *rare]

    def _rarely(self, *values: Any) -> tuple[Any, ...]:
        return values if self._dice.random() < _LARGE_SHARE else ()


def _bounds(kind: inspect.IntType | inspect.FloatType) -> tuple[float, float]:
    """The least and the most that a number's type allows, as far as it says so."""
    step: Any = 1 if isinstance(kind, inspect.IntType) else 1e-9
    low = kind.ge if kind.ge is not None else -math.inf if kind.gt is None else kind.gt + step
    high = kind.le if kind.le is not None else math.inf if kind.lt is None else kind.lt - step
    return low, high


def _edges_of(kind: inspect.IntType | inspect.FloatType) -> list[Any]:
    """The bounds that a number's type has, and what is next to them."""
    found: list[Any] = []
    for bound in (kind.ge, kind.gt, kind.le, kind.lt):
        if bound is None:
            continue
        if isinstance(kind, inspect.IntType):
            near = (bound - 1, bound, bound + 1)
            found += [whole for whole in near if _LEAST <= whole <= _MOST]
        else:
            found += [math.nextafter(bound, -math.inf), bound, math.nextafter(bound, math.inf)]
    return found


def _constants(*values: Any) -> list[Callable[[], Any]]:
    return [lambda value=value: value for value in values]  # type: ignore[misc]


def _nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value
