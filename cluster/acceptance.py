"""What an interface accepts: each name that people may give it, and what the name does here.

Every option, setting, parameter or field of an interface stands in one table.  It is used, or it
changes no result here, or it is refused by name; nothing is taken and then forgotten.  The
interface itself looks names up here, the site's page ``docs/reference/accepted.md`` is written from
the tables, and tests walk them: each entry that is used has a probe that shows what it changes.

Where names are the fields of a class (options of workloads, keys of a topology), the class is the
table: ``declared`` writes it down, and ``cluster.inputfile`` looks names up in the fields.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from railyard.cluster.errors import UsageError, printable, unknown_name

if TYPE_CHECKING:
    import msgspec  # Hadoop's commands look names up without it

_LETTERS_MAX = 80  #: of a name that an error shows
#: A field of a class, and what is said of it after "#:" on its line.
_FIELD = re.compile(r"    (\w+): [^#]*?(?:#: (.*))?$")
_COMMENT = re.compile(r"    #: (.*)$")


class Effect(StrEnum):
    """What becomes of a name that is given."""

    USED = "used"
    IDLE = "changes no result here"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Entry:
    """A row: the effect, and in a few words what it does, why it changes nothing, or why not."""

    effect: Effect
    note: str


used = partial(Entry, Effect.USED)  #: a name that changes what happens: how
idle = partial(Entry, Effect.IDLE)  #: one that can be given and changes no result here: why
refused = partial(Entry, Effect.REFUSED)  #: one that is refused: why, or what to give instead


@dataclass(frozen=True, slots=True)
class Accepted:
    """The table of one interface.

    ``begins``: how names begin that belong to the interface although they may not stand in the
    table, such as ``mapreduce.``; an unknown one is refused.  Names that begin otherwise are the
    user's own, and nobody here looks at them; with ``begins`` empty every unknown name is refused.
    """

    interface: str  #: its heading in the documents: "hadoop jar: settings (-D)"
    noun: str  #: of a single name, in errors: "setting"
    entries: Mapping[str, Entry]
    begins: tuple[str, ...] = ()

    def check(self, name: str, where: str = "") -> Entry | None:
        """The row of a name; None for a user's own.  ``UsageError`` for one that is refused.

        ``where`` is the name as it was typed, for the error: "-D mapreduce.x=1".
        """
        shown = printable(where or name, _LETTERS_MAX)
        entry = self.entries.get(name)
        if entry is None:
            if self.begins and not name.startswith(self.begins):
                return None
            error = unknown_name(self.noun, name, self.named(Effect.USED))
            raise UsageError(f"{shown}: {error}" if where else str(error))
        if entry.effect is Effect.REFUSED:
            raise UsageError(f"{shown}: not supported: {entry.note}")
        return entry

    def check_request(self, kind: str, names: Iterable[str]) -> None:
        """Raise ``UsageError``, a line with the name, unless requests of a kind take all of them.

        Where an interface has several kinds of requests (operations, lists, bodies), a row "apps
        limit" is of one of them, and a row without a space of all.
        """
        begins = f"{kind} "
        rows = {name: entry for name, entry in self.entries.items() if " " not in name} | {
            name.removeprefix(begins): entry
            for name, entry in self.entries.items()
            if name.startswith(begins)
        }
        for name in names:
            entry = rows.get(name)
            if entry is None:
                known = [each for each, row in rows.items() if row.effect is not Effect.REFUSED]
                raise UsageError(f"{kind}: {unknown_name(self.noun, name, known)}")
            if entry.effect is Effect.REFUSED:
                shown = printable(name, _LETTERS_MAX)
                raise UsageError(f"{kind}: {self.noun} {shown}: not supported: {entry.note}")

    def named(self, effect: Effect) -> list[str]:
        return sorted(name for name, entry in self.entries.items() if entry.effect is effect)


def declared(
    interface: str, noun: str, kind: type[msgspec.Struct], without: tuple[str, ...] = ()
) -> Accepted:
    """The table of an interface whose names are the fields of a class, ``without`` some.

    What is said of a name is its comment in the class; the names in ``REFUSED`` of the class are
    refused, and those in ``IDLE`` change no result, with the reasons there.
    """
    reasons: Mapping[str, str] = getattr(kind, "REFUSED", {})
    why_idle: Mapping[str, str] = getattr(kind, "IDLE", {})
    said = meanings(kind)
    entries = {
        key: used(said.get(name, ""))
        for name, key in zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
        if name not in without
    }
    entries |= {key: idle(why) for key, why in why_idle.items()}
    return Accepted(interface, noun, entries | {key: refused(why) for key, why in reasons.items()})


def meanings(kind: type) -> dict[str, str]:
    """{field: the comments before it and on its line}, of a class and those that it is made of."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        try:
            source = inspect.getsource(base)
        except (OSError, TypeError):  # built in, or without its source
            continue
        before: list[str] = []
        for line in source.splitlines():
            field, comment = _FIELD.match(line), _COMMENT.match(line)
            if comment:
                before.append(comment[1].strip())
                continue
            if field:
                said = " ".join([*before, *([field[2]] if field[2] else [])])
                found[field[1]] = said or found.get(field[1], "")
            before = []
    return found
