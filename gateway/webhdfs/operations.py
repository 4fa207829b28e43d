"""WebHDFS: which operation a request asks for, and those that move a file's bytes.

A write has two steps, as clients expect: the first is answered with where to send the bytes, which
is here again.  A file exists once all of it has come; of two who create it, one does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial

from aiohttp import web

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import Refused
from railyard.cluster.files.runfolder import RunFolder
from railyard.dfs.client import DfsClient, DfsFile
from railyard.dfs.messages.files import FileStatus
from railyard.dfs.paths import IS_FOLDER, MISSING
from railyard.gateway.http.bodies import json_answer
from railyard.gateway.http.errors import RemoteError, illegal, missing
from railyard.gateway.http.tokens import Tokens
from railyard.gateway.stores import Store, Stores
from railyard.gateway.webhdfs import names
from railyard.gateway.webhdfs.checksum import FileChecksum
from railyard.gateway.webhdfs.names import Answer, existing, replication_of
from railyard.gateway.webhdfs.parameters import PREFIX, Call, Place
from railyard.gateway.webhdfs.refused import refusal

_OnNames = Callable[[Call, DfsClient], Answer]
_OnBytes = Callable[[Call, Store], Awaitable[web.StreamResponse]]
#: {(verb, operation): what carries it out}
_NAMES: dict[tuple[str, str], _OnNames] = {
    ("GET", "GETFILESTATUS"): names.get_file_status,
    ("GET", "LISTSTATUS"): names.list_status,
    ("GET", "LISTSTATUS_BATCH"): names.list_status_batch,
    ("GET", "GETCONTENTSUMMARY"): names.get_content_summary,
    ("GET", "GETHOMEDIRECTORY"): names.get_home_directory,
    ("GET", "GETTRASHROOT"): names.get_trash_root,
    ("GET", "GETSERVERDEFAULTS"): names.get_server_defaults,
    ("GET", "CHECKACCESS"): names.check_access,
    ("GET", "GETACLSTATUS"): names.get_acl_status,
    ("GET", "GETSTATUS"): names.get_status,
    ("GET", "GETQUOTAUSAGE"): names.get_quota_usage,
    ("GET", "GETDELEGATIONTOKEN"): names.get_delegation_token,
    ("PUT", "RENEWDELEGATIONTOKEN"): names.renew_delegation_token,
    ("PUT", "CANCELDELEGATIONTOKEN"): names.cancel_delegation_token,
    ("GET", "GET_BLOCK_LOCATIONS"): names.get_block_locations,
    ("GET", "GETFILEBLOCKLOCATIONS"): names.get_file_block_locations,
    ("PUT", "MKDIRS"): names.make_directories,
    ("PUT", "RENAME"): names.rename,
    ("PUT", "SETPERMISSION"): names.set_permission,
    ("PUT", "SETOWNER"): names.set_owner,
    ("PUT", "SETTIMES"): names.set_times,
    ("PUT", "SETREPLICATION"): names.set_replication,
    ("POST", "CONCAT"): names.concatenate,
    ("POST", "TRUNCATE"): names.truncate,
    ("DELETE", "DELETE"): names.delete,
}


async def _open(call: Call, store: Store) -> web.StreamResponse:
    offset, length = call.whole("offset", 0) or 0, call.whole("length")
    if not call.is_data:
        status = await store.call(lambda client: _file(client, call.path))
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
        await store.call(lambda client: names.check_parent(client, path))
    if "CREATE" not in flags:
        await store.call(lambda client: existing(client, path))
    if not call.is_data:
        return _elsewhere(call)

    def write(client: DfsClient, pieces: Iterator[memoryview]) -> object:
        created = client.create(
            path,
            replication,
            "OVERWRITE" in flags,
            owner=call.user,
            permission=permission,
            stored_block_bytes=block_bytes,
        )
        return client.fill(path, created, pieces)

    await store.take(call.request.content, write)
    location = f"hdfs://{call.request.host}{call.path}"
    return web.Response(status=201, headers={"Location": location})


#: Flags by which Java programs say how and where a file is written, which are the store's affair.
_IDLE_FLAGS = {
    "SYNC_BLOCK",
    "LAZY_PERSIST",
    "NO_LOCAL_WRITE",
    "NO_LOCAL_RACK",
    "SHOULD_REPLICATE",
    "IGNORE_CLIENT_LOCALITY",
}


def _create_flags(call: Call) -> set[str]:
    """CREATE: a new file is made; OVERWRITE: a file in the way is replaced."""
    overwrite = call.boolean("overwrite", False)
    flags = call.several("createflag", {"CREATE", "OVERWRITE", *_IDLE_FLAGS})
    if flags is None:
        return {"CREATE", "OVERWRITE"} if overwrite else {"CREATE"}
    flags -= _IDLE_FLAGS
    if not flags or (overwrite and "OVERWRITE" not in flags):
        right = "need create, overwrite or both" + ", as overwrite=true" * overwrite
        raise call.invalid("createflag", call.text("createflag", "") or "", right)
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
        checksum = FileChecksum(call.block_bytes_of(_file(client, call.path)))
        checksum.take(_opened(client, call.path).stream())
        return checksum.told()

    if call.boolean("noredirect", False) and not call.is_data:
        return _elsewhere(call)
    return json_answer(await store.call(read))


_BYTES: dict[tuple[str, str], _OnBytes] = {
    ("GET", "OPEN"): _open,
    ("GET", "GETFILECHECKSUM"): _get_file_checksum,
    ("PUT", "CREATE"): _create,
    ("POST", "APPEND"): _append,
}


def _file(client: DfsClient, path: str) -> FileStatus:
    status = existing(client, path)
    if status.folder:
        raise _not_a_file(path)
    return status


def _opened(client: DfsClient, path: str) -> DfsFile:
    try:
        return client.open(path)
    except Refused as refused:
        if refused.kind == IS_FOLDER:
            raise _not_a_file(path) from None
        raise missing(path) if refused.kind == MISSING else refused from None


def _not_a_file(path: str) -> RemoteError:
    return RemoteError(404, "FileNotFoundException", f"Path is not a file: {path}")


class WebHdfs:
    """Answers all requests below ``PREFIX``."""

    def __init__(
        self, stores: Stores, folder: RunFolder, config: ClusterConfig, tokens: Tokens
    ) -> None:
        topology = config.topology
        self._stores = stores
        self._place = Place(
            stored_block_bytes=topology.stored_block_bytes,
            nodes=len(topology.nodes()),
            replication=topology.storage.replication,
            disk=folder.path,
            tokens=tokens,
        )

    def add_to(self, app: web.Application) -> None:
        """Route requests here."""
        handle, expect = self._handle, self._expect
        app.router.add_route("*", PREFIX, handle, expect_handler=expect)
        app.router.add_route("*", PREFIX + r"/{path:[\s\S]*}", handle, expect_handler=expect)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        call = Call(request, self._place)
        verb, operation = request.method, call.operation
        if not operation:
            why = "no operation is given: need op="
            raise RemoteError(400, "UnsupportedOperationException", why)
        refused = refusal(verb, operation, call.path)
        if refused is not None:
            raise refused
        on_bytes, on_names = _BYTES.get((verb, operation)), _NAMES.get((verb, operation))
        if on_bytes is None and on_names is None:
            known = sorted(name for each, name in (*_NAMES, *_BYTES) if each == verb)
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
        """A client that asks before it sends a body is told to where bytes are taken only."""
        try:
            is_data = Call(request, self._place).is_data
        except RemoteError as error:  # no middleware is around this
            return error.response()
        if is_data and request.version >= (1, 1):
            assert request.transport is not None
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return None


def _elsewhere(call: Call) -> web.Response:
    """The answer to a first step: where the second one is sent to."""
    location = call.location()
    if call.boolean("noredirect", False):
        return json_answer({"Location": location})
    return web.Response(status=307, headers={"Location": location})
