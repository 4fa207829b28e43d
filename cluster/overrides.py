"""Overrides of a topology's keys for a run: "oversubscription=10", "rack.r3.uplink=1Gbps".

A change names a key of the topology's file, in full or by a short name.  Changes are applied in the
given order, so "all racks except this one" is possible; a change for all racks replaces what the
file has for single racks.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from railyard.cluster.errors import UsageError, require_once, unknown_name
from railyard.cluster.units import number_or_text

#: (key, new value), both as text.
Change = tuple[str, str]

#: short name -> key
SHORT = {
    "nic": "links.nic",
    "uplink": "links.uplink",
    "downlink": "links.downlink",
    "oversubscription": "links.oversubscription",
    "background": "links.background",
    "delta": "ocs.delta_s",
    "elephant": "ocs.elephant_bytes",
    "wavelengths": "ocs.wavelengths",
}
#: {key: keys for the same quantity that it replaces}; the last one given counts.
_INSTEAD = {
    "links.uplink": ("oversubscription",),
    "links.oversubscription": ("uplink", "downlink"),
}
#: {key for all racks: keys of [rack.rN] that it replaces}
_OF_ALL = {
    "links.nic": ("nic",),
    "links.uplink": ("uplink", "downlink"),
    "links.downlink": ("downlink",),
    "links.oversubscription": ("uplink", "downlink"),
    "racks.nodes": ("nodes",),
    "racks.slots": ("slots",),
}
#: {table that a change can add: the key that adds it}; "ocs=off" removes the table.
_BEGINS = {"ocs": "ocs.port_bytes_per_s", "client": "client.uplink"}


def split_changes(text: str, lists: Sequence[str] = ()) -> tuple[str, list[Change]]:
    """Split "hybrid-8x4,delta=1ms" into name and changes; ``UsageError`` if not KEY=VALUE.

    A key is given once, but for ``lists``, whose values together are one.
    """
    base, *texts = text.split(",")
    changes = [parse_change(change, text) for change in texts]
    require_once((key for key, _ in changes if key.partition(".")[0] not in lists), f"{base}:")
    return base, changes


def parse_change(text: str, where: str) -> Change:
    """Parse "KEY=VALUE"; ``where`` starts the error."""
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise UsageError(f"{where}: need KEY=VALUE, not {text!r}")
    return key.strip(), value.strip()


def require_consistent(changes: Sequence[Change]) -> None:
    """Raise ``UsageError`` for changes of which one would silently undo another."""
    keys = [_full(key) for key, _ in changes]
    require_once(keys, "--network")
    for at, (key, (_, value)) in enumerate(zip(keys, changes, strict=True)):
        table, _, field = key.partition(".")
        for other in _INSTEAD.get(key, ()):
            if f"{table}.{other}" in keys:
                right = "both say what links carry: need one of the two"
                raise UsageError(f"--network {field} and {other}: {right}")
        removed = f"{key}." if key in _BEGINS and value == "off" else key
        replaced = _OF_ALL.get(key, ())
        for before in keys[:at]:
            is_of_one = before.startswith("rack.") and before.rpartition(".")[2] in replaced
            if is_of_one or before.startswith(removed):
                right = "which would undo it: need it after that, or not at all"
                raise UsageError(f"--network {before}: is before {key}={value}, {right}")


def _full(key: str) -> str:
    """The full name of a change's key: "links.nic", "rack.r3.uplink"."""
    place, _, way = key.rpartition(".")
    link = {"up": "uplink", "down": "downlink"}.get(way.casefold(), "")
    if link and place:
        return f"rack.{place.casefold()}.{link}"
    return SHORT.get(key, key)


def apply_changes(
    data: Mapping[str, Any],
    changes: Sequence[Change],
    tables: Mapping[str, Sequence[str]],
    source: str,
) -> dict[str, Any]:
    """Return a file's ``data`` with the changes applied; values are checked when it is built.

    ``tables`` has the keys of each table that may be changed.  Raises ``UsageError``, starting
    with ``source``, for an unknown key and for a key of a table that the topology does not have.
    """
    changed = copy.deepcopy(dict(data))
    for short, value in changes:
        key = SHORT.get(short, short)
        if key in _BEGINS and value == "off":
            changed.pop(key, None)
            continue
        table, _, rest = key.partition(".")
        where = f"{source}: {short}"
        if table == "rack":
            rack, _, field = rest.partition(".")
            _require_key(field in tables["rack"] and bool(rack), short, tables)
            changed.setdefault("rack", {}).setdefault(rack, {})[field] = number_or_text(value)
            continue
        _require_key(rest in tables.get(table, ()), short, tables)
        if table not in changed and _BEGINS.get(table) != key:
            begin = f"; {_BEGINS[table]}=RATE before it adds one" if table in _BEGINS else ""
            raise UsageError(f"{where}: this topology has no [{table}]{begin}")
        changed.setdefault(table, {})[rest] = number_or_text(value)
        for other in _INSTEAD.get(key, ()):
            changed[table].pop(other, None)
        for of_one in changed.get("rack", {}).values():
            for other in _OF_ALL.get(key, ()):
                of_one.pop(other, None)
    return changed


def _require_key(is_known: bool, key: str, tables: Mapping[str, Sequence[str]]) -> None:
    if not is_known:
        full = [
            f"{name}.r0.{key}" if name == "rack" else f"{name}.{key}"
            for name, keys in tables.items()
            for key in keys
        ]
        raise unknown_name("key of the network", key, [*SHORT, *full])
