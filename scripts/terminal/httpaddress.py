"""The option --http: where the gateway answers."""

from __future__ import annotations

from typing import NamedTuple

import click

from railyard.cluster.errors import UsageError
from railyard.gateway.address import LOOPBACK


class HttpAddress(NamedTuple):
    """Where to answer HTTP; port 0 is any that is free."""

    host: str
    port: int


def http_address(_: click.Context, option: click.Parameter, value: str) -> HttpAddress | None:
    """An address: of this machine alone unless a host is named; None for "none"."""
    if value in ("auto", "none"):
        return HttpAddress(LOOPBACK, 0) if value == "auto" else None
    host, _colon, port = value.rpartition(":")
    if not (port.isdecimal() and port.isascii() and 0 < int(port) < 2**16):
        right = "auto, none, or a port from 1 to 65535, as in 8088 or 192.168.1.5:8088"
        raise UsageError(f"{option.opts[0]} {value}: need {right}")
    return HttpAddress(host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port))
