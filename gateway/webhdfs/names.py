"""WebHDFS's operations on names and attributes, and the JSON of their answers.

Not here: what moves a file's bytes (``operations``).
Source: Apache Hadoop's documentation of WebHDFS, and what its clients rely on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from railyard.cluster.errors import Refused
from railyard.cluster.ids import NodeId, rack_of
from railyard.cluster.machine import free_bytes
from railyard.cluster.topology import Topology
from railyard.dfs.client import DfsClient
from railyard.dfs.messages import (
    BlockLocation,
    Concatenate,
    FileStatus,
    SetAttributes,
    SetReplication,
)
from railyard.dfs.paths import EXISTS, IS_FOLDER, MISSING, NO_FOLDER, NOT_EMPTY
from railyard.gateway.http.answers import RemoteError, illegal, missing
from railyard.gateway.webhdfs.parameters import Call, without_colon

#: What an operation answers; None: an answer without a body.
Answer = Mapping[str, Any] | None
_ACTION = re.compile(r"[rwx-]{3}")
_REPLICAS_MAX = 2**15 - 1  #: as in HDFS
_LISTED_MAX = 1000  #: entries of a listing in parts
#: The port that clients read in names of DataNodes; nobody can connect to it.
_DATA_PORT = 9866
_POOL = "railyard"
#: HDFS's way of saying that none is set.
_NO_QUOTAS = {"quota": -1, "spaceQuota": -1}


def data_address(node: NodeId) -> str:
    """What clients read as the name of a node's DataNode."""
    return f"{node}:{_DATA_PORT}"


def file_status(status: FileStatus, topology: Topology, suffix: str = "") -> dict[str, Any]:
    """A ``FileStatus``; ``suffix``: the name in its folder."""
    block_bytes = status.stored_block_bytes or topology.stored_block_bytes
    return {
        "accessTime": int(status.accessed_s * 1000),
        "blockSize": 0 if status.folder else block_bytes,
        "childrenNum": status.entries,
        "fileId": status.number + 16385,  # where HDFS begins to count: "/" has that
        "group": status.group,
        "length": status.stored_length,
        "modificationTime": int(status.modified_s * 1000),
        "owner": status.owner,
        "pathSuffix": suffix,
        "permission": f"{status.permission:o}",
        "replication": status.replication,
        "storagePolicy": 0,
        "type": "DIRECTORY" if status.folder else "FILE",
    }


def file_statuses(entries: Iterable[FileStatus], of: str, topology: Topology) -> dict[str, Any]:
    """``FileStatuses`` of the entries of the path ``of``; of a file its own, without a name."""
    shown = [
        file_status(each, topology, "" if each.path == of else each.path.rsplit("/", 1)[1])
        for each in entries
    ]
    return {"FileStatuses": {"FileStatus": shown}}


# Looking -----------------------------------------------------------------------------------------
def _list_in_parts(call: Call, store: DfsClient) -> Answer:
    """The entries of a folder in parts, the next of which begins after a name."""
    after = call.text("startafter") or ""
    entries = [e for e in store.list(call.path) if e.path.rsplit("/", 1)[1] > after]
    shown = file_statuses(entries[:_LISTED_MAX], call.path, call.place.topology)
    left = max(0, len(entries) - _LISTED_MAX)
    return {"DirectoryListing": {"partialListing": shown, "remainingEntries": left}}


def _content_summary(call: Call, store: DfsClient) -> Answer:
    """What is below a path, itself included."""
    usage = store.usage(call.path)
    counts = {"directoryCount": usage.folders, "fileCount": usage.files}
    sizes = {"length": usage.stored_bytes, "spaceConsumed": usage.stored_disk_bytes}
    return {"ContentSummary": counts | sizes | _NO_QUOTAS}


def _quota_usage(call: Call, store: DfsClient) -> Answer:
    """The same in short; there are no quotas."""
    usage = store.usage(call.path)
    counts = {"fileAndDirectoryCount": usage.files + usage.folders, "typeQuota": {}}
    return {"QuotaUsage": counts | {"spaceConsumed": usage.stored_disk_bytes} | _NO_QUOTAS}


def _server_defaults(call: Call, _: DfsClient) -> Answer:
    return {
        "FsServerDefaults": {
            "blockSize": call.place.topology.stored_block_bytes,
            "bytesPerChecksum": 512,
            "checksumType": 2,  # CRC32C
            "defaultStoragePolicyId": 0,
            "encryptDataTransfer": False,
            "fileBufferSize": 4096,
            "keyProviderUri": "",
            "replication": call.place.topology.storage.replication,
            "trashInterval": 0,
            "writePacketSize": 65536,
        }
    }


def _check_access(call: Call, store: DfsClient) -> Answer:
    """Whether a path exists: permissions are shown, not enforced."""
    action = call.text("fsaction")
    if action is not None and not _ACTION.fullmatch(action):
        raise illegal(f'Invalid value for webhdfs parameter "fsaction": {action[:40]!r}')
    existing(store, call.path)
    return None


def _acl_status(call: Call, store: DfsClient) -> Answer:
    status = existing(store, call.path)
    return {
        "AclStatus": {
            "entries": [],  # there are no access lists
            "group": status.group,
            "owner": status.owner,
            "permission": f"{status.permission & 0o777:o}",
            "stickyBit": bool(status.permission & 0o1000),
        }
    }


def _status(call: Call, store: DfsClient) -> Answer:
    """What all replicas take, and what is free on the disk that they are on."""
    used, free = store.usage("/").stored_disk_bytes, free_bytes(call.place.disk)
    return {"FsStatus": {"capacity": used + free, "remaining": free, "used": used}}


def _block_locations(call: Call, store: DfsClient) -> Answer:
    """Where the blocks are that a range meets, as Hadoop 3 has them."""
    shown = [
        {
            "cachedHosts": [],
            "corrupt": not block.nodes,
            "hosts": list(block.nodes),
            "length": block.stored_length,
            "names": [data_address(node) for node in block.nodes],
            "offset": block.stored_offset,
            "storageIds": [],
            "storageTypes": ["DISK"] * len(block.nodes),
            "topologyPaths": [f"/{rack_of(node)}/{data_address(node)}" for node in block.nodes],
        }
        for block in _blocks(call, store)[1]
    ]
    return {"BlockLocations": {"BlockLocation": shown}}


def _located_blocks(call: Call, store: DfsClient) -> Answer:
    """The same, as older clients ask for them."""
    blocks, within = _blocks(call, store)
    return {
        "LocatedBlocks": {
            "fileLength": sum(block.stored_length for block in blocks),
            "isLastBlockComplete": True,
            "isUnderConstruction": False,
            "lastLocatedBlock": _located(blocks[-1]) if blocks else None,
            "locatedBlocks": [_located(block) for block in within],
        }
    }


def _located(block: BlockLocation) -> dict[str, Any]:
    return {
        "block": {
            "blockId": block.block,
            "blockPoolId": _POOL,
            "generationStamp": 0,
            "numBytes": block.stored_length,
        },
        "blockToken": {"urlString": "AAAAAA"},
        "cachedLocations": [],
        "isCorrupt": not block.nodes,
        "locations": [_datanode(node, node in block.draining) for node in block.nodes],
        "startOffset": block.stored_offset,
        "storageTypes": ["DISK"] * len(block.nodes),
    }


def _datanode(node: str, is_draining: bool) -> dict[str, Any]:
    return {
        "adminState": "DECOMMISSION_INPROGRESS" if is_draining else "NORMAL",
        "hostName": node,
        "infoPort": 0,
        "ipAddr": "127.0.0.1",
        "ipcPort": 0,
        "name": f"127.0.0.1:{_DATA_PORT}",
        "networkLocation": f"/{rack_of(node)}",
        "storageID": node,
        "xferPort": _DATA_PORT,
    }


def _blocks(call: Call, store: DfsClient) -> tuple[list[BlockLocation], list[BlockLocation]]:
    """All blocks of a file, and those that the range that is asked for meets."""
    begin, length = call.whole("offset", 0) or 0, call.whole("length")
    if existing(store, call.path).folder:
        raise RemoteError(404, "FileNotFoundException", f"File does not exist: {call.path}")
    blocks = list(store.locations(call.path))
    end = float("inf") if length is None else begin + length
    within = [
        b for b in blocks if b.stored_offset < end and b.stored_offset + b.stored_length > begin
    ]
    return blocks, within


# Changing ----------------------------------------------------------------------------------------
def _make_folders(call: Call, store: DfsClient) -> Answer:
    try:
        store.mkdir(call.new_path(), call.user, call.permission())
    except Refused as refused:
        if refused.kind != NO_FOLDER:
            raise
        if store.find(call.path) is not None:
            why = f"Path is not a directory: {call.path}"
            raise RemoteError(403, "FileAlreadyExistsException", why) from None
        why = f"Parent path is not a directory: {_file_above(store, call.path)}"
        raise RemoteError(403, "ParentNotDirectoryException", why) from None
    return {"boolean": True}


def _file_above(store: DfsClient, path: str) -> str:
    """The file in the way to a path and the name below it, with a space between, as in HDFS."""
    names = path[1:].split("/")
    for count in range(1, len(names)):
        above = "/" + "/".join(names[:count])
        status = store.find(above)
        if status is None or not status.folder:
            return f"{above} {names[count]}"
    return path


def _rename(call: Call, store: DfsClient) -> Answer:
    """False for what HDFS does not do: no source, a file in the way, no folder to go to.

    With options these are errors, and a folder in the way is no folder to move into.
    """
    target = without_colon(call.stored_path("destination", call.text("destination") or ""))
    source = call.path
    options = call.several("renameoptions", ("NONE", "OVERWRITE", "TO_TRASH"))
    if options is not None:
        _rename_strictly(store, source, target, overwrite="OVERWRITE" in options)
        return None
    there = store.find(target)
    if there is not None and there.folder and source != target:
        target = f"{target.rstrip('/')}/{source.rsplit('/', 1)[1]}"
    parent = store.find(target.rsplit("/", 1)[0] or "/")
    if parent is None or not parent.folder:
        return {"boolean": False}
    if source == target:  # onto itself: true for a file, as in HDFS
        status = store.find(source)
        return {"boolean": status is not None and not status.folder}
    if source == "/" or f"{target}/".startswith(f"{source}/"):
        return {"boolean": False}
    try:
        store.rename(source, target)
    except Refused as refused:
        if refused.kind in (MISSING, EXISTS, IS_FOLDER, NO_FOLDER):
            return {"boolean": False}
        raise
    return {"boolean": True}


def _rename_strictly(store: DfsClient, source: str, target: str, *, overwrite: bool) -> None:
    status, there = store.find(source), store.find(target)
    if status is None:
        raise RemoteError(404, "FileNotFoundException", f"rename source {source} is not found.")
    io, exists = "IOException", "FileAlreadyExistsException"
    below = f"Rename destination {target} is a directory or file under source {source}"
    for is_wrong, exception, why in (
        (source == target, exists, f"The source {source} and destination {target} are the same"),
        ("/" in (source, target), io, "rename source or destination cannot be the root"),
        (target.startswith(f"{source}/"), io, below),
    ):
        if is_wrong:
            raise RemoteError(403, exception, why)
    if there is None:
        check_parent(store, target)
    elif there.folder != status.folder:
        why = f"Source {source} Destination {target} both should be either file or directory"
        raise RemoteError(403, io, why)
    elif not overwrite:
        raise RemoteError(403, exists, f"rename destination {target} already exists")
    elif there.entries:
        raise RemoteError(403, io, f"rename destination directory is not empty: {target}")
    store.rename(source, target, overwrite=overwrite)


def _delete(call: Call, store: DfsClient) -> Answer:
    """False for what does not exist, and for / with all that is in it."""
    recursive = call.boolean("recursive", False)
    if call.path == "/":
        if not recursive and store.list("/"):
            raise _not_empty("/")
        return {"boolean": False}
    try:
        store.remove(call.path, recursive)
    except Refused as refused:
        if refused.kind == MISSING:
            return {"boolean": False}
        if refused.kind == NOT_EMPTY:
            raise _not_empty(call.path) from None
        raise
    return {"boolean": True}


def _not_empty(path: str) -> RemoteError:
    why = f"`{path} is non empty': Directory is not empty"
    return RemoteError(403, "PathIsNotEmptyDirectoryException", why)


def _set_permission(call: Call, store: DfsClient) -> Answer:
    permission = call.permission()
    permission = 0o755 if permission is None else permission
    store.change(SetAttributes(path=call.path, permission=permission))
    return None


def _set_owner(call: Call, store: DfsClient) -> Answer:
    owner, group = call.text("owner"), call.text("group")
    if owner is None and group is None:
        raise illegal("Both owner and group are empty.")
    store.change(SetAttributes(path=call.path, owner=owner, group=group))
    return None


def _set_times(call: Call, store: DfsClient) -> Answer:
    """Milliseconds; -1 leaves a time as it is."""
    times_ms = [call.whole(name, -1, least=-1) for name in ("modificationtime", "accesstime")]
    modified_s, accessed_s = (None if ms is None or ms < 0 else ms / 1000 for ms in times_ms)
    store.change(SetAttributes(path=call.path, modified_s=modified_s, accessed_s=accessed_s))
    return None


def _set_replication(call: Call, store: DfsClient) -> Answer:
    """Change how many replicas there are; false for a folder, and for what does not exist."""
    replication, status = replication_of(call), store.find(call.path)
    if status is None or status.folder:
        return {"boolean": False}
    replication = replication or call.place.topology.storage.replication
    store.change(SetReplication(path=call.path, replication=replication))
    return {"boolean": True}


def _concatenate(call: Call, store: DfsClient) -> Answer:
    sources = (call.text("sources") or "").split(",")
    paths = tuple(call.stored_path("sources", path) for path in sources)
    store.change(Concatenate(target=call.path, sources=paths))
    return None


def _truncate(call: Call, store: DfsClient) -> Answer:
    length = call.whole("newlength")
    if length is None:
        raise illegal('Invalid value for webhdfs parameter "newlength": need bytes')
    now = existing_file(store, call.path).stored_length
    if length > now:
        sizes = f"Current size: {now}, truncate size: {length}."
        why = f"Cannot truncate to a larger file size. {sizes}"
        raise RemoteError(400, "HadoopIllegalArgumentException", why)
    store.truncate(call.path, length)
    return {"boolean": True}


# Delegation tokens -------------------------------------------------------------------------------
def _issue_token(call: Call, _: DfsClient) -> Answer:
    renewer = call.text("renewer") or call.user
    return {"Token": {"urlString": call.place.tokens.issue(call.user, renewer, call.now_ms)}}


def _cancel_token(call: Call, _: DfsClient) -> Answer:
    call.place.tokens.cancel(_token(call), call.user, call.now_ms)
    return None


def _token(call: Call) -> str:
    token = call.text("token")
    if token is None:
        raise illegal('Invalid value for webhdfs parameter "token": need a delegation token')
    return token


# Helpers -----------------------------------------------------------------------------------------
def replication_of(call: Call) -> int:
    """The replicas that are asked for, as far as there are nodes; 0: the cluster's default."""
    asked = call.whole("replication", least=1, most=_REPLICAS_MAX)
    return 0 if asked is None else min(asked, len(call.place.topology.nodes()))


def check_parent(store: DfsClient, path: str) -> None:
    """Raise ``RemoteError`` unless the folder of a path exists."""
    parent = path.rsplit("/", 1)[0] or "/"
    if not existing(store, parent).folder:
        why = f"Parent path is not a directory: {parent}"
        raise RemoteError(403, "ParentNotDirectoryException", why)


def existing(store: DfsClient, path: str) -> FileStatus:
    """The status of a path; ``RemoteError`` if there is none."""
    status = store.find(path)
    if status is None:
        raise missing(path)
    return status


def existing_file(store: DfsClient, path: str) -> FileStatus:
    """The same of a path that must not be a folder's."""
    status = existing(store, path)
    if status.folder:
        raise not_a_file(path)
    return status


def not_a_file(path: str) -> RemoteError:
    """A folder is there."""
    return RemoteError(404, "FileNotFoundException", f"Path is not a file: {path}")


#: {(verb, operation): what carries it out}
OPERATIONS: dict[tuple[str, str], Callable[[Call, DfsClient], Answer]] = {
    ("GET", "GETFILESTATUS"): lambda call, store: {
        "FileStatus": file_status(existing(store, call.path), call.place.topology)
    },
    ("GET", "LISTSTATUS"): lambda call, store: file_statuses(
        store.list(call.path), call.path, call.place.topology
    ),
    ("GET", "LISTSTATUS_BATCH"): _list_in_parts,
    ("GET", "GETCONTENTSUMMARY"): _content_summary,
    ("GET", "GETQUOTAUSAGE"): _quota_usage,
    ("GET", "GETHOMEDIRECTORY"): lambda call, _: {"Path": f"/user/{call.user}"},
    # where clients would move what they delete; nothing else uses it
    ("GET", "GETTRASHROOT"): lambda call, _: {"Path": f"/user/{call.user}/.Trash"},
    ("GET", "GETSERVERDEFAULTS"): _server_defaults,
    ("GET", "CHECKACCESS"): _check_access,
    ("GET", "GETACLSTATUS"): _acl_status,
    ("GET", "GETSTATUS"): _status,
    ("GET", "GET_BLOCK_LOCATIONS"): _located_blocks,
    ("GET", "GETFILEBLOCKLOCATIONS"): _block_locations,
    ("PUT", "MKDIRS"): _make_folders,
    ("PUT", "RENAME"): _rename,
    ("PUT", "SETPERMISSION"): _set_permission,
    ("PUT", "SETOWNER"): _set_owner,
    ("PUT", "SETTIMES"): _set_times,
    ("PUT", "SETREPLICATION"): _set_replication,
    ("POST", "CONCAT"): _concatenate,
    ("POST", "TRUNCATE"): _truncate,
    ("DELETE", "DELETE"): _delete,
    ("GET", "GETDELEGATIONTOKEN"): _issue_token,
    # until when it holds at least, in milliseconds since 1970
    ("PUT", "RENEWDELEGATIONTOKEN"): lambda call, _: {
        "long": call.place.tokens.renew(_token(call), call.user, call.now_ms)
    },
    ("PUT", "CANCELDELEGATIONTOKEN"): _cancel_token,
}
