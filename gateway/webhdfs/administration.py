"""What ``hdfs dfsadmin`` asks: safe mode, and a report on the nodes.

HDFS's clients ask these of the NameNode by RPC, so WebHDFS has no words for them: these requests
are Railyard's own.
"""

from __future__ import annotations

import time
from typing import Any

from aiohttp import web

from railyard.cluster.files.resources import free_bytes
from railyard.cluster.files.runfolder import RunFolder
from railyard.cluster.ids import rack_of
from railyard.dfs.messages.administering import NodeStorage, StorageReport
from railyard.gateway.http.bodies import json_answer, json_body
from railyard.gateway.http.errors import illegal
from railyard.gateway.stores import Stores
from railyard.gateway.webhdfs.shapes import data_address

_ROOT = "/ws/v1/railyard/storage"


class Administration:
    """Answers the requests at ``_ROOT``."""

    def __init__(self, stores: Stores, folder: RunFolder) -> None:
        self._stores = stores
        self._folder = folder

    def add_to(self, app: web.Application) -> None:
        """Route requests here."""
        app.router.add_get(_ROOT, self._report)
        app.router.add_get(f"{_ROOT}/safemode", self._safe_mode)
        app.router.add_put(f"{_ROOT}/safemode", self._set_safe_mode)

    async def _report(self, _: web.Request) -> web.Response:
        async with self._stores.one() as store:
            report = await store.call(lambda client: client.storage())
        return json_answer(told(report, free_bytes(self._folder.path)))

    async def _safe_mode(self, _: web.Request) -> web.Response:
        async with self._stores.one() as store:
            is_on = await store.call(lambda client: client.is_in_safe_mode())
        return json_answer({"safeMode": is_on})

    async def _set_safe_mode(self, request: web.Request) -> web.Response:
        body = await json_body(request)
        wanted = body.get("safeMode") if isinstance(body, dict) and len(body) == 1 else None
        if not isinstance(wanted, bool):
            raise illegal('the body: need JSON such as {"safeMode": true}')
        async with self._stores.one() as store:
            is_on = await store.call(lambda client: client.set_safe_mode(wanted))
        return json_answer({"safeMode": is_on})


def told(report: StorageReport, free: int) -> dict[str, Any]:
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
    heard_s = None if node.silent_s is None else time.time() - node.silent_s
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
        "lastContactSeconds": heard_s,
    }
