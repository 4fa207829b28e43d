"""WebHDFS: which operation a request asks for, and those that move a file's bytes.

A write has two steps, as clients expect: the first is answered with where to send the bytes, which
is here again.  A file exists once all of it has come; of two who create it, one does.  Not here:
operations on names (``names``), how bytes travel (``stores``).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import Any

import crc32c
from aiohttp import web

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import Refused
from railyard.cluster.ids import rack_of
from railyard.cluster.machine import free_bytes
from railyard.cluster.runfolder import RunFolder
from railyard.dfs.client import DfsClient
from railyard.dfs.messages import CreateFile, NodeStorage, StorageReport
from railyard.dfs.paths import IS_FOLDER, MISSING
from railyard.dfs.reader import DfsFile
from railyard.gateway.http.answers import RemoteError, illegal, json_answer, json_body, missing
from railyard.gateway.http.guard import Tokens
from railyard.gateway.stores import Store, Stores
from railyard.gateway.webhdfs.names import (
    OPERATIONS,
    check_parent,
    data_address,
    existing,
    existing_file,
    not_a_file,
    replication_of,
)
from railyard.gateway.webhdfs.parameters import PREFIX, Call, Place

_ACLS = (
    "AclException",
    "The ACL operation has been rejected.  Support for ACLs has been disabled by setting "
    "dfs.namenode.acls.enabled to false.",
)
_XATTRS = (
    "IOException",
    "The XAttr operation has been rejected.  Support for XAttrs has been disabled by setting "
    "dfs.namenode.xattrs.enabled to false.",
)
_SNAPSHOTS = ("SnapshotException", "Directory is not a snapshottable directory: {path}")
_LINKS = ("UnsupportedOperationException", "Symlinks not supported")
#: {(verb, operation) that the block store has not got: as an HDFS without it refuses it}
REFUSED: dict[tuple[str, str], tuple[str, str]] = {
    (verb, operation): refusal
    for verb, operations, refusal in (
        ("PUT", "MODIFYACLENTRIES REMOVEACLENTRIES REMOVEDEFAULTACL REMOVEACL SETACL", _ACLS),
        ("GET", "GETXATTRS LISTXATTRS", _XATTRS),
        ("PUT", "SETXATTR REMOVEXATTR", _XATTRS),
        ("PUT", "ALLOWSNAPSHOT DISALLOWSNAPSHOT CREATESNAPSHOT RENAMESNAPSHOT", _SNAPSHOTS),
        ("GET", "GETSNAPSHOTDIFF GETSNAPSHOTDIFFLISTING GETSNAPSHOTLIST", _SNAPSHOTS),
        ("DELETE", "DELETESNAPSHOT", _SNAPSHOTS),
        ("PUT", "CREATESYMLINK", _LINKS),
    )
    for operation in operations.split()
}
BYTES_PER_CRC = 512
_MD5_BYTES = 16
_md5 = partial(hashlib.md5, usedforsecurity=False)
#: Flags by which Java programs say how and where a file is written, which are the store's affair.
_IDLE_FLAGS = {
    "SYNC_BLOCK",
    "LAZY_PERSIST",
    "NO_LOCAL_WRITE",
    "NO_LOCAL_RACK",
    "SHOULD_REPLICATE",
    "IGNORE_CLIENT_LOCALITY",
}
#: Of requests about the whole block store.
_ROOT = "/ws/v1/railyard/storage"


class WebHdfs:
    """Answers all requests below ``PREFIX``, and what ``hdfs dfsadmin`` asks.

    HDFS's clients ask the latter, safe mode and a report on the nodes, of the NameNode by RPC, so
    WebHDFS has no words for them: these requests are Railyard's own.
    """

    def __init__(
        self, stores: Stores, folder: RunFolder, config: ClusterConfig, tokens: Tokens
    ) -> None:
        self._stores = stores
        self._place = Place(config.topology, folder.path, tokens)

    def add_to(self, app: web.Application) -> None:
        for path in (PREFIX, PREFIX + r"/{path:[\s\S]*}"):
            app.router.add_route("*", path, self._handle, expect_handler=self._expect)
        app.router.add_get(_ROOT, self._report)
        app.router.add_get(f"{_ROOT}/safemode", self._safe_mode)
        app.router.add_put(f"{_ROOT}/safemode", self._set_safe_mode)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        call = Call(request, self._place)
        verb, operation = request.method, call.operation
        if not operation:
            why = "no operation is given: need op="
            raise RemoteError(400, "UnsupportedOperationException", why)
        if (verb, operation) in REFUSED:
            exception, why = REFUSED[verb, operation]
            status = 400 if exception == "UnsupportedOperationException" else 403
            raise RemoteError(status, exception, why.format(path=call.path))
        on_bytes, on_names = _BYTES.get((verb, operation)), OPERATIONS.get((verb, operation))
        if on_bytes is None and on_names is None:
            known = sorted(name for each, name in (*OPERATIONS, *_BYTES) if each == verb)
            why = f'Invalid value for webhdfs parameter "op": {operation[:40]!r} with {verb}'
            raise illegal(f"{why}: need one of {', '.join(known) or 'none'}")
        call.check_names()
        async with self._stores.one() as store:
            if on_bytes is not None:
                return await on_bytes(call, store)
            assert on_names is not None, "one of the two is there"
            answer = await store.call(partial(on_names, call))
        if answer is None:
            return web.Response(content_type="application/octet-stream")
        return json_answer(answer)

    async def _expect(self, request: web.Request) -> web.StreamResponse | None:
        """A client that asks before it sends a body gets its leave only where bytes are taken."""
        try:
            is_data = Call(request, self._place).is_data
        except RemoteError as error:  # no middleware is around this
            return error.response()
        if is_data and request.version >= (1, 1):
            assert request.transport is not None
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return None

    # The whole block store -----------------------------------------------------------------------
    async def _report(self, _: web.Request) -> web.Response:
        report = await self._stores.call(lambda client: client.storage())
        return json_answer(storage_report(report, free_bytes(self._place.disk)))

    async def _safe_mode(self, _: web.Request) -> web.Response:
        is_on = await self._stores.call(lambda client: client.is_in_safe_mode())
        return json_answer({"safeMode": is_on})

    async def _set_safe_mode(self, request: web.Request) -> web.Response:
        body = await json_body(request)
        wanted = body.get("safeMode") if isinstance(body, dict) and len(body) == 1 else None
        if not isinstance(wanted, bool):
            raise illegal('the body: need JSON such as {"safeMode": true}')
        is_on = await self._stores.call(lambda client: client.set_safe_mode(wanted))
        return json_answer({"safeMode": is_on})


def _elsewhere(call: Call) -> web.Response:
    """The answer to a first step: where the second one is sent to."""
    location = call.location()
    if call.boolean("noredirect", False):
        return json_answer({"Location": location})
    return web.Response(status=307, headers={"Location": location})


# Files' bytes ------------------------------------------------------------------------------------
async def _open(call: Call, store: Store) -> web.StreamResponse:
    offset, length = call.whole("offset", 0) or 0, call.whole("length")
    if not call.is_data:
        status = await store.call(lambda client: existing_file(client, call.path))
        _check_offset(call, offset, status.stored_length)
        return _elsewhere(call)
    file = await store.call(lambda client: _opened(client, call.path))
    _check_offset(call, offset, file.stored_bytes)
    left = file.stored_bytes - offset
    length = left if length is None else min(length, left)
    response = web.StreamResponse()
    response.content_type = "application/octet-stream"
    response.content_length = length
    await response.prepare(call.request)
    if length:
        await store.send(file.stream(offset, length), call.request)
    await response.write_eof()
    return response


def _check_offset(call: Call, offset: int, stored_length: int) -> None:
    if offset > stored_length:
        why = f"Offset={offset} out of the range [0, {stored_length})"
        raise RemoteError(403, "IOException", f"{why}; OPEN, path={call.path}")


async def _create(call: Call, store: Store) -> web.StreamResponse:
    flags, in_any = _create_flags(call), call.boolean("createparent", True)
    path, replication, permission = call.new_path(), replication_of(call), call.permission()
    block_bytes = call.block_bytes()

    if not in_any:
        await store.call(lambda client: check_parent(client, path))
    if "CREATE" not in flags:
        await store.call(lambda client: existing(client, path))
    if not call.is_data:
        return _elsewhere(call)

    def write(client: DfsClient, pieces: Iterator[memoryview]) -> object:
        how = CreateFile(
            path=path,
            replication=replication,
            overwrite="OVERWRITE" in flags,
            owner=call.user,
            permission=permission,
            stored_block_bytes=block_bytes,
        )
        return client.fill(path, client.create(how), pieces)

    await store.take(call.request.content, write)
    location = f"hdfs://{call.request.host}{call.path}"
    return web.Response(status=201, headers={"Location": location})


def _create_flags(call: Call) -> set[str]:
    """CREATE: a new file is made; OVERWRITE: a file in the way is replaced."""
    overwrite = call.boolean("overwrite", False)
    flags = call.several("createflag", {"CREATE", "OVERWRITE", *_IDLE_FLAGS})
    if flags is None:
        return {"CREATE", "OVERWRITE"} if overwrite else {"CREATE"}
    flags -= _IDLE_FLAGS
    if not flags or (overwrite and "OVERWRITE" not in flags):
        right = "need create, overwrite or both" + ", as overwrite=true" * overwrite
        raise call.invalid("createflag", call.text("createflag") or "", right)
    return flags


async def _append(call: Call, store: Store) -> web.StreamResponse:
    status = await store.call(lambda client: existing(client, call.path))
    if status.folder:
        why = f"Cannot append to directory {call.path}; already exists as a directory."
        raise RemoteError(403, "FileAlreadyExistsException", why)
    if not call.is_data:
        return _elsewhere(call)
    await store.take(call.request.content, lambda client, pieces: client.append(call.path, pieces))
    return web.Response()


async def _get_file_checksum(call: Call, store: Store) -> web.StreamResponse:
    def read(client: DfsClient) -> dict[str, object]:
        block_bytes = existing_file(client, call.path).stored_block_bytes
        pieces = _opened(client, call.path).stream()
        return file_checksum(pieces, block_bytes or call.place.topology.stored_block_bytes)

    if call.boolean("noredirect", False) and not call.is_data:
        return _elsewhere(call)
    return json_answer(await store.call(read))


_BYTES: dict[tuple[str, str], Callable[[Call, Store], Awaitable[web.StreamResponse]]] = {
    ("GET", "OPEN"): _open,
    ("GET", "GETFILECHECKSUM"): _get_file_checksum,
    ("PUT", "CREATE"): _create,
    ("POST", "APPEND"): _append,
}


def _opened(client: DfsClient, path: str) -> DfsFile:
    try:
        return client.open(path)
    except Refused as refused:
        if refused.kind == IS_FOLDER:
            raise not_a_file(path) from None
        raise missing(path) if refused.kind == MISSING else refused from None


def file_checksum(pieces: Iterable[memoryview], block_bytes: int) -> dict[str, Any]:
    """The checksum of a file as HDFS has it: MD5-of-MD5s-of-CRC32Cs.

    A CRC32C for each 512 bytes, an MD5 over those of each block, and an MD5 over these, for which
    HDFS takes a buffer of 32, 64, 128 ... bytes with zeros at its end.  Clusters with blocks of one
    length agree on the checksum of a file.  ``bytes`` are in hex, with 4 zero bytes at the end.
    """
    blocks: list[bytes] = []  # the MD5 of each
    block, missing = _md5(), block_bytes  # of this block: bytes until it ends
    waiting = bytearray()  # until there are 512, or the block ends
    for piece in pieces:
        while len(piece):
            now, piece = piece[:missing], piece[missing:]
            missing -= len(now)
            waiting += now
            count = len(waiting) - (len(waiting) % BYTES_PER_CRC if missing else 0)
            block.update(_crcs(waiting[:count]))
            del waiting[:count]
            if not missing:
                blocks.append(block.digest())
                block, missing = _md5(), block_bytes
    if missing < block_bytes:
        block.update(_crcs(waiting))
        blocks.append(block.digest())
    per_crc, kind = (BYTES_PER_CRC, "CRC32C") if blocks else (0, "CRC32")  # as HDFS does
    per_block = block_bytes // BYTES_PER_CRC if len(blocks) > 1 else 0
    together = b"".join(blocks)
    buffer = max(2 * _MD5_BYTES, 1 << (len(together) - 1).bit_length())
    packed = per_crc.to_bytes(4, "big") + per_block.to_bytes(8, "big")
    packed += _md5(together.ljust(buffer, b"\0")).digest()
    return {
        "FileChecksum": {
            "algorithm": f"MD5-of-{per_block}MD5-of-{per_crc}{kind}",
            "bytes": packed.hex() + "00000000",
            "length": len(packed),
        }
    }


def _crcs(data: bytearray) -> bytes:
    """The CRC32C of each 512 bytes."""
    view = memoryview(data)
    sums = (
        crc32c.crc32c(view[at : at + BYTES_PER_CRC]) for at in range(0, len(view), BYTES_PER_CRC)
    )
    return b"".join(each.to_bytes(4, "big") for each in sums)


def storage_report(report: StorageReport, free: int) -> dict[str, Any]:
    """What is answered about a report; ``free``: bytes of the disk.

    The nodes' disks are one in truth: each living node has an equal share of what is free.  As in
    HDFS, the sums are those of the nodes in service: what is on others is to be found elsewhere.
    """
    alive = [node for node in report.nodes if node.alive]
    in_service = [node for node in alive if not node.draining]
    used = sum(node.stored_bytes for node in in_service)
    share = free // max(1, len(alive))
    remaining = share * len(in_service)
    return {
        "safeMode": report.safe_mode,
        "capacity": used + remaining,
        "used": used,
        "remaining": remaining,
        "underReplicated": report.under_replicated,
        "urgent": report.urgent,
        "corrupt": report.corrupt,
        "missing": report.missing,
        "missingWithOneReplica": report.missing_single,
        "pendingDeletion": report.leaving,
        "nodes": [_node(node, share if node.alive else 0) for node in report.nodes],
    }


def _node(node: NodeStorage, free: int) -> dict[str, Any]:
    contact_s = None if node.silent_s is None else time.time() - node.silent_s
    drained = "draining" if node.replicas else "drained"
    return {
        "name": data_address(node.node),
        "host": node.node,
        "rack": f"/{rack_of(node.node)}",
        "alive": node.alive,
        "drain": drained if node.draining else "",
        "capacity": node.stored_bytes + free,
        "used": node.stored_bytes,
        "remaining": free,
        "blocks": node.replicas,
        "lastContactSeconds": contact_s,
    }
