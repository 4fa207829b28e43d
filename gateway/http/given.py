"""Names that a request gives, looked up in the table of what its interface accepts.

An interface has several kinds of requests: operations, lists, bodies.  Its table has a row
"apps limit" for what one kind accepts, and a row "user.name" for what each of them does.
"""

from __future__ import annotations

from collections.abc import Iterable

from railyard.cluster.accepted import Accepted, Effect, Entry
from railyard.cluster.errors import UsageError, unknown_name
from railyard.cluster.shown import printable

_LETTERS_MAX = 80


def check_given(table: Accepted, kind: str, names: Iterable[str]) -> None:
    """Raise ``UsageError``, a line with the name, unless requests of a kind accept all of them."""
    accepted = of_kind(table, kind)
    for name in names:
        entry = accepted.get(name)
        if entry is None:
            known = [each for each, row in accepted.items() if row.effect is not Effect.REFUSED]
            raise UsageError(f"{kind}: {unknown_name(table.noun, name, known)}")
        if entry.effect is Effect.REFUSED:
            shown = printable(name, _LETTERS_MAX)
            raise UsageError(f"{kind}: {table.noun} {shown}: not supported: {entry.note}")


def of_kind(table: Accepted, kind: str) -> dict[str, Entry]:
    """What requests of a kind accept: {name: row}, with what all of them do."""
    begins = f"{kind} "
    common = {name: entry for name, entry in table.entries.items() if " " not in name}
    own = {
        name.removeprefix(begins): entry
        for name, entry in table.entries.items()
        if name.startswith(begins)
    }
    return common | own
