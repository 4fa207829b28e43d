"""Where a cluster's gateway is: noted in the run folder, for commands and for its next process."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import socket
from typing import NamedTuple

from railyard.cluster.errors import UsageError
from railyard.cluster.runfolder import RunFolder

LOOPBACK = "127.0.0.1"
_BACKLOG = 128
_EVERYWHERE = ("0.0.0.0", "::")
#: An origin as browsers write it: no path, no slash at the end.
_ORIGIN = re.compile(r"https?://[a-z0-9.\-]+(:\d{1,5})?|https?://\[[0-9a-f:.]+\](:\d{1,5})?")


class Known(NamedTuple):
    """Where a gateway is, and what its clients have to show ("": nothing)."""

    url: str
    token: str = ""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket (port 0: any); ``UsageError`` if it is taken, or not this machine's."""
    try:
        return listen_at(host, port)
    except OSError as error:
        is_name = isinstance(error, socket.gaierror)
        why = error.strerror if is_name else os.strerror(error.errno or 0)
        right = "need auto, or an address of this machine with a port that is free"
        raise UsageError(f"--http {in_url(host)}:{port}: {why}: {right}") from None


def listen_at(host: str, port: int) -> socket.socket:
    """A socket that listens there; raises ``OSError`` if it is taken, or not this machine's."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return socket.create_server(found[0][4][:2], family=found[0][0], backlog=_BACKLOG)


def is_loopback(listening: socket.socket) -> bool:
    """Whether nobody but this machine's processes can connect."""
    return ipaddress.ip_address(listening.getsockname()[0]).is_loopback


def url_of(listening: socket.socket) -> str:
    """The URL of what listens; from this machine, if it listens at all addresses."""
    host, port = listening.getsockname()[:2]
    return f"http://{in_url(LOOPBACK if host in _EVERYWHERE else host)}:{port}"


def in_url(host: str) -> str:
    """A host as it is written before a port."""
    return f"[{host}]" if ":" in host else host


def origins_of(option: str, typed: str) -> tuple[str, ...]:
    """The origins that an option names, with commas; ``UsageError`` for what is none."""
    origins = tuple(each.strip() for each in typed.split(",") if each.strip())
    for origin in origins:
        if not _ORIGIN.fullmatch(origin):
            right = "origins as browsers send them, such as http://localhost:3000"
            raise UsageError(f"{option} {origin[:80]}: need {right}")
    return origins


def publish(folder: RunFolder, known: Known) -> None:
    """Note in the run folder where the gateway is; only its owner can read it."""
    new = folder.gateway.with_suffix(".new")
    new.touch(mode=0o600)
    new.write_text(json.dumps(known._asdict()), encoding="utf-8")
    new.rename(folder.gateway)


def known(folder: RunFolder) -> Known | None:
    """Where the cluster's gateway is, or was; None if it has none."""
    try:
        return Known(**json.loads(folder.gateway.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def known_url(folder: RunFolder) -> str | None:
    """Where the cluster's gateway is; None if it has none."""
    gateway = known(folder)
    return None if gateway is None else gateway.url


def gateway_lines(folder: RunFolder) -> list[str]:
    """Lines that say where a cluster's gateway is; none if it has no gateway."""
    gateway = known(folder)
    if gateway is None:
        return []
    lines = [
        f"gateway    {gateway.url}  (WebHDFS: {gateway.url}/webhdfs/v1)",
        f"           HADOOP_CONF_DIR={folder.client_files}",
    ]
    if gateway.token:
        lines += [
            f"           every request needs the header Authorization: Bearer {gateway.token}",
            f"           the page in a browser: {gateway.url}/#token={gateway.token}",
        ]
    return lines
