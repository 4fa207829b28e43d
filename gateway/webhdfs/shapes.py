"""The JSON of WebHDFS's answers, made from the block store's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from railyard.cluster.ids import NodeId, rack_of
from railyard.dfs.messages.files import BlockLocation, FileStatus, Usage

#: The port that clients read in names of DataNodes; nobody can connect to it.
_DATA_PORT = 9866
_POOL = "railyard"
#: None is set: HDFS's way of saying so.
_NO_QUOTA = -1


def data_address(node: NodeId) -> str:
    """What clients read as the name of a node's DataNode."""
    return f"{node}:{_DATA_PORT}"


def file_status(status: FileStatus, block_bytes: int, suffix: str = "") -> dict[str, Any]:
    """A ``FileStatus``; ``suffix``: the name in its folder, ``block_bytes``: the topology's."""
    return {
        "accessTime": int(status.accessed_s * 1000),
        "blockSize": 0 if status.folder else status.stored_block_bytes or block_bytes,
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


def file_statuses(entries: Iterable[FileStatus], of: str, block_bytes: int) -> dict[str, Any]:
    """``FileStatuses`` of the entries of the path ``of``; of a file its own, without a name."""
    shown = [
        file_status(each, block_bytes, "" if each.path == of else each.path.rsplit("/", 1)[1])
        for each in entries
    ]
    return {"FileStatuses": {"FileStatus": shown}}


def content_summary(usage: Usage) -> dict[str, Any]:
    """``ContentSummary``: what is below a path, itself included."""
    return {
        "ContentSummary": {
            "directoryCount": usage.folders,
            "fileCount": usage.files,
            "length": usage.stored_bytes,
            "quota": _NO_QUOTA,
            "spaceConsumed": usage.stored_disk_bytes,
            "spaceQuota": _NO_QUOTA,
        }
    }


def quota_usage(usage: Usage) -> dict[str, Any]:
    """``QuotaUsage``: the same in short, as no quota is set."""
    return {
        "QuotaUsage": {
            "fileAndDirectoryCount": usage.files + usage.folders,
            "quota": _NO_QUOTA,
            "spaceConsumed": usage.stored_disk_bytes,
            "spaceQuota": _NO_QUOTA,
            "typeQuota": {},
        }
    }


def block_locations(blocks: Iterable[BlockLocation]) -> dict[str, Any]:
    """``BlockLocations``, as Hadoop 3 has them."""
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
        for block in blocks
    ]
    return {"BlockLocations": {"BlockLocation": shown}}


def located_blocks(
    shown: Iterable[BlockLocation], last: BlockLocation | None, stored_length: int
) -> dict[str, Any]:
    """``LocatedBlocks``, as older clients ask for them."""
    return {
        "LocatedBlocks": {
            "fileLength": stored_length,
            "isLastBlockComplete": True,
            "isUnderConstruction": False,
            "lastLocatedBlock": None if last is None else _located(last),
            "locatedBlocks": [_located(block) for block in shown],
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
