"""Lists of things that people choose by name: ours, and what other packages add by entry points.

Never here: what may be added; each list checks that itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, Protocol, TypeVar

from railyard.cluster.errors import UsageError, unknown_name


class Named(Protocol):
    """A thing that people choose by its name, which no other of its list has."""

    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


@dataclass(frozen=True)
class Registry(Generic[T]):
    """A list.  Its methods raise ``UsageError``."""

    what: str  #: what such a thing is called, as in 'scheduler "x" is there twice'
    group: str  #: of entry points, each of which names a thing, or a tuple of them
    own: Callable[[], Mapping[str, T]]  #: those that come with Railyard, by name
    #: returns what an entry point names as it is; raises ``TypeError``, which says what it is
    #: instead, if that does not belong in this list
    check: Callable[[object], T]

    def all(self, points: Iterable[EntryPoint] | None = None) -> dict[str, T]:
        """All by name; ``points`` are other packages', by default all that are installed.

        Raises for a name that is taken twice, for what does not belong, and for what can't be
        loaded.
        """
        found = dict(self.own())
        made_by = dict.fromkeys(found, "railyard")
        for point in entry_points(group=self.group) if points is None else points:
            for each in self._loaded(point):
                if each.name in found:
                    both = f"{made_by[each.name]} and {point.value}"
                    raise UsageError(f'{self.what} "{each.name}" is there twice: in {both}')
                found[each.name] = each
                made_by[each.name] = point.value
        return found

    def named(self, name: str, own: Mapping[str, T] | None = None) -> T:
        """The one of that name; other packages are looked at if it is none of ours.

        ``own``: those of ours that it may be, where it takes long to load all.
        """
        known = self.own() if own is None else own
        if name not in known:
            known = self.all()
        if name not in known:
            raise unknown_name(self.what, name, known)
        return known[name]

    def _loaded(self, point: EntryPoint) -> Iterator[T]:
        try:
            loaded = point.load()
        except Exception as error:  # third parties' code
            why = f"{type(error).__name__}: {error}"
            text = f'{self.what} "{point.name}" ({point.value}) cannot be loaded: {why}'
            raise UsageError(text) from error
        for each in loaded if isinstance(loaded, tuple) else (loaded,):
            try:
                yield self.check(each)
            except TypeError as error:
                text = f'{self.what} "{point.name}" of {point.value} is {error}'
                raise UsageError(text) from error
