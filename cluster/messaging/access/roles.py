"""Who is at the other end of a connection: a daemon of this cluster, an attempt, or a client.

Over Unix-domain sockets the kernel says which process has connected, and no process can say
otherwise.  Daemons are children of the supervisor, as this process is, and bear their names
(``take_role``); what else descends from the supervisor is user code, or helps it; all others are
clients.  Over TCP it is the key that tells, see ``cluster.security``.

What this keeps apart are mistakes and simple messages, not a user's processes from one another:
SECURITY.md says why that cannot be.
"""

from __future__ import annotations

import ctypes
import os
from typing import NamedTuple

CLIENT = "client"
ATTEMPT = "attempt"  #: or whatever else user code has started
RESOURCE_MANAGER = "resourcemanager"
NAME_NODE = "namenode"
NETWORK = "network"
NODE_MANAGER = "nodemanager"
DATA_NODE = "datanode"
DAEMONS = (RESOURCE_MANAGER, NAME_NODE, NETWORK, NODE_MANAGER, DATA_NODE)
ROLES = (CLIENT, ATTEMPT, *DAEMONS)
#: This process itself, or the one that it was forked of.
OWN = "own"

_PR_SET_NAME = 15
_GENERATIONS_MAX = 64  #: nobody's forefathers are more, and a chain that changes must end


class Sender(NamedTuple):
    """Who sent a message."""

    role: str
    pid: int | None  #: as the kernel says; None over TCP
    key: str  #: stays the same over all connections of a process, or over TCP of a role

    def may(self, roles: frozenset[str]) -> bool:
        """Whether it may say what only these roles may."""
        return self.role == OWN or self.role in roles


def role_of(daemon_name: str) -> str:
    """The role of the daemon of that name: "datanode" of "datanode-r0"."""
    return daemon_name.split("-", 1)[0]


def take_role(daemon_name: str) -> None:
    """Bear a daemon's name, which others (and ``ps``) see; 15 letters of it are kept."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, daemon_name.encode()[:15], 0, 0, 0)


def role_of_process(pid: int) -> str:
    """The role of a process of this machine; one that is gone meanwhile is taken for user code."""
    supervisor = os.getppid()
    if pid in (os.getpid(), supervisor):
        return OWN
    try:
        name, parent = _stat(pid)
        if parent == supervisor:
            return role_of(name)
        for _ in range(_GENERATIONS_MAX):
            if parent in (supervisor, os.getpid()):
                return ATTEMPT
            if parent <= 1:
                return CLIENT
            _, parent = _stat(parent)
    except (OSError, ValueError):
        return ATTEMPT
    return ATTEMPT


def process_at(address: str) -> int | None:
    """The process at a peer's address, as ZeroMQ has it ("localhost:UID:GID:PID"); None if none."""
    parts = address.split(":")
    if len(parts) != 4 or not all(part.isdigit() for part in parts[1:]):
        return None
    return int(parts[3])


def _stat(pid: int) -> tuple[str, int]:
    """Name and parent of a process; ``OSError`` if it is gone."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        text = file.read()
    begin, end = text.index("("), text.rindex(")")  # the name may have both in it
    return text[begin + 1 : end], int(text[end + 1 :].split()[1])
