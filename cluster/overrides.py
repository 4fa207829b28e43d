"""Figures of a topology that are changed for a run: "oversubscription=10", "rack.r3.uplink=1Gbps".

A change names a key of the topology's file, in full or by a short name.  Changes are made in the
order in which they are told, so that "all racks, but this one" can be said; what is said of all
racks replaces what the file says of single ones.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from railyard.cluster.errors import UsageError, unknown_name
from railyard.cluster.units import number_or_text

#: A key and its new value, as text.
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
#: Keys that say the same thing in another way: the last that is told counts.
_INSTEAD = {
    "links.uplink": ("oversubscription",),
    "links.oversubscription": ("uplink", "downlink"),
}
#: What else a rack of its own may say about what is now said of all.
_OF_ALL = {
    "links.nic": ("nic",),
    "links.uplink": ("uplink", "downlink"),
    "links.downlink": ("downlink",),
    "links.oversubscription": ("uplink", "downlink"),
    "racks.nodes": ("nodes",),
    "racks.slots": ("slots",),
}
#: Tables that a change can bring in, and the key that does it; "ocs=off" takes one away.
_BEGINS = {"ocs": "ocs.port_bytes_per_s"}


def split_changes(text: str) -> tuple[str, list[Change]]:
    """Take "hybrid-8x4,delta=1ms" apart; raises ``UsageError`` for what is no KEY=VALUE."""
    base, *changes = text.split(",")
    return base, [parse_change(change, text) for change in changes]


def parse_change(text: str, where: str) -> Change:
    """Read "KEY=VALUE"."""
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise UsageError(f"{where}: need KEY=VALUE, not {text!r}")
    return key.strip(), value.strip()


def apply_changes(
    data: Mapping[str, Any],
    changes: Sequence[Change],
    tables: Mapping[str, Sequence[str]],
    source: str,
) -> dict[str, Any]:
    """A file's ``data`` with the changes made; values are left for whoever builds it to check.

    ``tables`` has the keys of each table that may be changed.  Raises ``UsageError``, starting
    with ``source``, for a key that does not exist and for one of a table that is not there.
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
