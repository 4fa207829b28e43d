"""What other packages add to a list of ours, which they name by entry points.

Never here: what may be added; each list checks that itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, TypeVar

from railyard.cluster.errors import UsageError


class Named(Protocol):
    """A thing that people choose by its name."""

    @property
    def name(self) -> str:
        """The name, which no other of its list has."""


T = TypeVar("T", bound=Named)


def with_plugins(
    what: str,
    group: str,
    own: Mapping[str, T],
    check: Callable[[object], T],
    points: Iterable[EntryPoint] | None = None,
) -> dict[str, T]:
    """``own`` by name, then what entry points name: a thing, or a tuple of them.

    ``what`` is what such a thing is called, as in 'scheduler "x" is there twice'.  ``check``
    returns what an entry point names as it is, and raises ``TypeError``, which says what it is
    instead, if that does not belong in this list.  ``points``: by default all of ``group`` that
    are installed.

    Raises ``UsageError`` for a name that is taken twice, for what does not belong, and for what
    can't be loaded.
    """
    found = dict(own)
    made_by = dict.fromkeys(found, "railyard")
    for point in entry_points(group=group) if points is None else points:
        for each in _loaded(what, point, check):
            if each.name in found:
                both = f"{made_by[each.name]} and {point.value}"
                raise UsageError(f'{what} "{each.name}" is there twice: in {both}')
            found[each.name] = each
            made_by[each.name] = point.value
    return found


def _loaded(what: str, point: EntryPoint, check: Callable[[object], T]) -> Iterator[T]:
    try:
        loaded = point.load()
    except Exception as error:  # third parties' code
        why = f"{type(error).__name__}: {error}"
        text = f'{what} "{point.name}" ({point.value}) cannot be loaded: {why}'
        raise UsageError(text) from error
    for each in loaded if isinstance(loaded, tuple) else (loaded,):
        try:
            yield check(each)
        except TypeError as error:
            raise UsageError(f'{what} "{point.name}" of {point.value} is {error}') from error
