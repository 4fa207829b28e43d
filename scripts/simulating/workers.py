"""The option ``--on``: where to simulate, if not on this machine's cores."""

from __future__ import annotations

from typing import NamedTuple

from railyard.cluster.errors import UsageError, unknown_name
from railyard.scripts.terminal.request import option

_KINDS = ("dask", "ray")


class Workers(NamedTuple):
    """Where to simulate, if not on this machine: a cluster of Dask's or Ray's."""

    kind: str
    address: str


def parse_on(text: str) -> Workers:
    """Take "dask:tcp://host:8786" apart; raises ``UsageError``."""
    kind, _, address = text.partition(":")
    if kind not in _KINDS:
        raise unknown_name("place for --on", kind, _KINDS)
    if not address:
        raise UsageError(f"--on {text}: need an address, as in dask:tcp://10.0.0.1:8786")
    return Workers(kind, address)


def on_option() -> Workers | None:
    """The option that says where to simulate."""
    on: Workers | None = option(
        "--on",
        metavar="dask:ADDRESS|ray:ADDRESS",
        callback=lambda _context, _option, text: None if text is None else parse_on(text),
        help="Simulate there, rather than on this machine's cores.  With --out, it must share "
        "this machine's files.",
    )
    return on
