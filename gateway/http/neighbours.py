"""Whose process is at the other end of a connection on this machine.

Linux says it of each TCP socket (sock_diag); other users of the machine are told nothing.
Source: linux/inet_diag.h, linux/sock_diag.h, man 7 sock_diag.
"""

from __future__ import annotations

import errno
import os
import socket
import struct

_SOCK_DIAG = 4  #: the netlink family
_BY_FAMILY = 20  #: the kind of a request for one socket
_REQUEST = 1
_ERROR = 2
_ANY_STATE = 0xFFFFFFFF
_NO_COOKIE = 0xFFFFFFFF
_HEADER = struct.Struct("=IHHII")
_OWNER = struct.Struct("=II")  #: user, inode
_OWNER_AT = _HEADER.size + 64
_BYTES_MAX = 4096


class Unknown(Exception):
    """This system does not say whose a connection is."""


def is_of_this_user(connection: socket.socket) -> bool:
    """Whether the other end is a process of this user's, or root's, that still has it open.

    ``Unknown`` if the system does not say.
    """
    user, inode = _owner(connection)
    return bool(inode) and user in (os.geteuid(), 0)


def _owner(connection: socket.socket) -> tuple[int, int]:
    """User and inode of the other end; zeros if no process has it."""
    family, peer, own = connection.family, connection.getpeername(), connection.getsockname()
    wanted = (
        struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, _ANY_STATE)
        + struct.pack("!HH", peer[1], own[1])
        + b"".join(socket.inet_pton(family, end[0]).ljust(16, b"\0") for end in (peer, own))
        + struct.pack("=III", 0, _NO_COOKIE, _NO_COOKIE)
    )
    header = _HEADER.pack(_HEADER.size + len(wanted), _BY_FAMILY, _REQUEST, 1, 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as netlink:
            netlink.send(header + wanted)
            answer = netlink.recv(_BYTES_MAX)
    except OSError as error:
        raise Unknown(str(error)) from None
    if _HEADER.unpack_from(answer)[1] == _ERROR:
        number = -struct.unpack_from("=i", answer, _HEADER.size)[0]
        if number == errno.ENOENT:
            return 0, 0
        raise Unknown(os.strerror(number))
    user, inode = _OWNER.unpack_from(answer, _OWNER_AT)
    return int(user), int(inode)
