"""Errors as Hadoop's interfaces have them, and the bodies of requests and answers.

An error is JSON with an exception's name, never a stack trace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from railyard.cluster.errors import PeerLost, Refused, shortened
from railyard.dfs.paths import (
    BAD_PATH,
    BUSY,
    EXISTS,
    IS_FOLDER,
    LOCKED,
    MISSING,
    NO_FOLDER,
    NOT_EMPTY,
    SAFE_MODE,
)
from railyard.dfs.reader import BlockUnavailable

T = TypeVar("T")
#: A client that sends or takes nothing of a body for so long is disconnected.
SILENT_S = 300.0
JSON_BYTES_MAX = 2**20
#: {name of an exception: its package}; others are in java.io
_PACKAGES = {
    "HadoopIllegalArgumentException": "org.apache.hadoop",
    "FileAlreadyExistsException": "org.apache.hadoop.fs",
    "ParentNotDirectoryException": "org.apache.hadoop.fs",
    "PathIsNotEmptyDirectoryException": "org.apache.hadoop.fs",
    "AclException": "org.apache.hadoop.hdfs.protocol",
    "AlreadyBeingCreatedException": "org.apache.hadoop.hdfs.protocol",
    "SnapshotException": "org.apache.hadoop.hdfs.protocol",
    "SafeModeException": "org.apache.hadoop.hdfs.server.namenode",
    "RetriableException": "org.apache.hadoop.ipc",
    "InvalidInputException": "org.apache.hadoop.mapred",
    "AccessControlException": "org.apache.hadoop.security",
    "AuthorizationException": "org.apache.hadoop.security.authorize",
    "IllegalArgumentException": "java.lang",
    "UnsupportedOperationException": "java.lang",
    "SecurityException": "java.lang",
    "NotFoundException": "org.apache.hadoop.yarn.webapp",
    "BadRequestException": "org.apache.hadoop.yarn.webapp",
}
#: {kind of a refusal: status, exception}
_KINDS = {
    MISSING: (404, "FileNotFoundException"),
    EXISTS: (403, "FileAlreadyExistsException"),
    IS_FOLDER: (403, "FileAlreadyExistsException"),
    NO_FOLDER: (403, "ParentNotDirectoryException"),
    NOT_EMPTY: (403, "PathIsNotEmptyDirectoryException"),
    BUSY: (403, "AlreadyBeingCreatedException"),
    BAD_PATH: (400, "IllegalArgumentException"),
    SAFE_MODE: (403, "SafeModeException"),
    LOCKED: (403, "SafeModeException"),
}
#: {name of an exception within another class: its whole name}
_WITHIN = {"InvalidToken": "org.apache.hadoop.security.token.SecretManager$InvalidToken"}
_LETTERS_MAX = 2000


class RemoteError(Exception):
    """An error that a client gets: an HTTP status and the name of one of Hadoop's exceptions."""

    def __init__(self, status: int, exception: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.exception = exception

    def as_json(self) -> dict[str, dict[str, str]]:
        package = _PACKAGES.get(self.exception, "java.io")
        name = _WITHIN.get(self.exception, f"{package}.{self.exception}")
        return {
            "RemoteException": {
                "exception": self.exception,
                "javaClassName": name,
                "message": shortened(str(self), _LETTERS_MAX),
            }
        }

    def response(self) -> web.Response:
        return web.json_response(self.as_json(), status=self.status)


#: a parameter, path or operation is wrong: why
illegal = partial(RemoteError, 400, "IllegalArgumentException")


def missing(what: str) -> RemoteError:
    """There is no such file; clients look for the words "does not exist"."""
    return RemoteError(404, "FileNotFoundException", f"File does not exist: {what}")


def remote_error(error: Exception) -> RemoteError | None:
    """What a client gets for an error of ours; None for one that is a defect."""
    if isinstance(error, RemoteError):
        return error
    if isinstance(error, Refused):
        if error.kind == MISSING:
            return missing(str(error))
        status, exception = _KINDS.get(error.kind, (403, "IOException"))
        return RemoteError(status, exception, str(error))
    if isinstance(error, web.RequestPayloadError):
        return RemoteError(400, "IOException", "the body is malformed, or ends too early")
    if isinstance(error, PeerLost | BlockUnavailable):
        passes = isinstance(error, PeerLost)
        return RemoteError(403, "RetriableException" if passes else "IOException", str(error))
    return None


# Bodies: none is waited for without end, and JSON has a limit -------------------------------------
async def arriving(coming: Awaitable[T]) -> T:
    """What comes next of a request's body; ``RemoteError`` if the client is silent for too long."""
    try:
        async with asyncio.timeout(SILENT_S):
            return await coming
    except RuntimeError:  # aiohttp's word for it
        raise ConnectionResetError("the client has disconnected") from None
    except TimeoutError:
        why = f"nothing of the body came for {SILENT_S:g} s"
        raise RemoteError(408, "IOException", why) from None


async def whole_body(request: web.Request) -> bytes:
    """All that a request brings; ``RemoteError`` if it is too much, or does not come."""
    body = bytearray()
    while piece := await arriving(request.content.readany()):
        body += piece
        if len(body) > JSON_BYTES_MAX:
            why = f"the body: need at most {JSON_BYTES_MAX} bytes"
            raise RemoteError(413, "BadRequestException", why)
    return bytes(body)


async def json_body(request: web.Request) -> Any:
    """The JSON that a request brings; ``RemoteError`` for anything else, or too much.

    A half of a surrogate pair is no JSON either: no message could carry it on.
    """
    try:
        return msgspec.json.decode(await whole_body(request))
    except (ValueError, RecursionError):  # msgspec's errors are of the first kind
        raise RemoteError(400, "BadRequestException", "the body: need JSON") from None


def json_answer(answer: Any) -> web.Response:
    """An answer of JSON; msgspec writes a long listing in a tenth of json's time."""
    body = msgspec.json.encode(answer)
    return web.Response(body=body, content_type="application/json", charset="utf-8")
