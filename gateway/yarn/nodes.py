"""``/ws/v1/node``: each node's NodeManager, with the containers that it runs.

A node is known by the address that the request was sent to (``nodeaddresses``), or by a path before
that of the request: ``/node/r0n1/ws/v1/node``.

Source: Apache Hadoop's documentation of the NodeManager's REST interface.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web

from railyard.cluster.files.runfolder import RunFolder
from railyard.cluster.ids import AttemptId, job_of
from railyard.gateway.stores import Stores
from railyard.gateway.yarn.accepted import NODE_APPS, PLAIN
from railyard.gateway.yarn.answering import Handler, answering, not_found
from railyard.gateway.yarn.ids import container_id
from railyard.gateway.yarn.nodeaddresses import NodeAddresses
from railyard.gateway.yarn.numbers import SLOT_MB, VERSION, Numbers, listed, node_id
from railyard.gateway.yarn.parameters import several, texts
from railyard.resourcemanager.process.messages import ClusterStatus, GetClusterStatus, NodeStatus

_ROOT = "/ws/v1/node"
_APP_STATES = (
    *("NEW", "INITING", "RUNNING", "FINISHING_CONTAINERS_WAIT"),
    *("APPLICATION_RESOURCES_CLEANINGUP", "FINISHED"),
)
_STILL_RUNNING = -1000  #: the exit code of a container that runs
Row = dict[str, Any]
Answer = Callable[["NodeNumbers", web.Request], Row]


class NodeRest:
    """Answers the requests below ``/ws/v1/node``."""

    def __init__(self, stores: Stores, folder: RunFolder, addresses: NodeAddresses) -> None:
        self._stores = stores
        self._begun_ms = int(folder.made_s * 1000)
        self._addresses = addresses

    def add_to(self, app: web.Application) -> None:
        """Route requests here."""
        answers: dict[str, Answer] = {
            "": lambda node, _: node.info(),
            "/": lambda node, _: node.info(),
            "/info": lambda node, _: node.info(),
            "/apps": lambda node, r: listed("apps", "app", _wanted_apps(node, r)),
            "/apps/{app}": _app,
            "/containers": lambda node, _: listed("containers", "container", node.containers()),
            "/containers/{container}": _container,
        }
        for path, answer in answers.items():
            for base in (_ROOT, f"/node/{{node}}{_ROOT}"):
                kind = NODE_APPS if path == "/apps" else PLAIN
                app.router.add_get(base + path, answering(self._of_node(answer), kind))

    def _of_node(self, answer: Answer) -> Handler:
        async def handle(request: web.Request) -> Row:
            async with self._stores.one() as store:
                status = await store.ask(GetClusterStatus(), ClusterStatus)
            numbers = Numbers(status, self._begun_ms)
            return answer(NodeNumbers(numbers, self._node(status, request)), request)

        return handle

    def _node(self, status: ClusterStatus, request: web.Request) -> NodeStatus:
        wanted = request.match_info.get("node") or self._addresses.node_of(request)
        if wanted is None:
            raise not_found("this is no node's address: need nodeHTTPAddress of one of the nodes")
        for node in status.nodes:
            if node.node == wanted:
                return node
        raise not_found(f"node {wanted[:80]} is not there")


class NodeNumbers:
    """What a NodeManager would say."""

    def __init__(self, numbers: Numbers, node: NodeStatus) -> None:
        self._numbers = numbers
        self._node = node

    def info(self) -> Row:
        """``nodeInfo``."""
        node = self._numbers.node(self._node)
        total = node["usedVirtualCores"] + node["availableVirtualCores"]
        return {
            "nodeInfo": {
                "id": node["id"],
                "nodeHostName": node["nodeHostName"],
                "nodeHealthy": self._node.alive,
                "healthReport": node["healthReport"],
                "lastNodeUpdateTime": node["lastHealthUpdate"],
                "totalVmemAllocatedContainersMB": total * SLOT_MB,
                "totalPmemAllocatedContainersMB": total * SLOT_MB,
                "totalVCoresAllocatedContainers": total,
                "vmemCheckEnabled": False,
                "pmemCheckEnabled": True,
                "nodeManagerVersion": VERSION,
                "nodeManagerBuildVersion": f"{VERSION} by Railyard",
                "nodeManagerVersionBuiltOn": "",
                "hadoopVersion": VERSION,
                "hadoopBuildVersion": f"{VERSION} by Railyard",
                "hadoopVersionBuiltOn": "",
                "railyard": node["railyard"] | {"rack": node["rack"]},
            }
        }

    def apps(self) -> list[Row]:
        """The applications with containers on this node."""
        mine = [(job_of(attempt), attempt) for attempt in self._held()]
        return [
            {
                "id": self._numbers.app_id(job),
                "state": "RUNNING",
                "user": job.user,
                "containerids": [self._container(attempt) for of, attempt in mine if of == job.job],
            }
            for job in self._numbers.status.jobs
            if any(of == job.job for of, _ in mine)
        ]

    def containers(self) -> list[Row]:
        """The containers of this node: attempts that hold its slots."""
        users = {job.job: job.user for job in self._numbers.status.jobs}
        return [
            {
                "id": self._container(attempt),
                "state": "RUNNING",
                "exitCode": _STILL_RUNNING,
                "diagnostics": "",
                "user": users.get(job_of(attempt), ""),
                "totalMemoryNeededMB": SLOT_MB,
                "totalVCoresNeeded": 1,
                "nodeId": node_id(self._node),
                "containerLogsLink": "",
                "railyard": {"attempt": attempt},
            }
            for attempt in self._held()
        ]

    def _held(self) -> tuple[AttemptId, ...]:
        return self._node.attempts if self._node.alive else ()

    def _container(self, attempt: AttemptId) -> str:
        return container_id(self._numbers.begun_ms, attempt)


def _wanted_apps(node: NodeNumbers, request: web.Request) -> list[Row]:
    states, users = several(request, "state", _APP_STATES), set(texts(request, "user"))
    return [
        app
        for app in node.apps()
        if (not states or app["state"] in states) and (not users or app["user"] in users)
    ]


def _app(node: NodeNumbers, request: web.Request) -> Row:
    wanted = request.match_info["app"]
    for app in node.apps():
        if app["id"] == wanted:
            return {"app": app}
    raise not_found(f"app with id {wanted[:80]} not found")


def _container(node: NodeNumbers, request: web.Request) -> Row:
    wanted = request.match_info["container"]
    for container in node.containers():
        if container["id"] == wanted:
            return {"container": container}
    raise not_found(f"container with id, {wanted[:80]}, not found")
