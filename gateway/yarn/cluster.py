"""``/ws/v1/node``: each node's NodeManager, with the containers that it runs.

A node is known by the address that the request was sent to (``nodeaddresses``), or by a path before
that of the request: ``/node/r0n1/ws/v1/node``.

Source: Apache Hadoop's documentation of the NodeManager's REST interface.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from aiohttp import web

from railyard.cluster.errors import Refused, shortened
from railyard.cluster.ids import AttemptId, NodeId, job_of
from railyard.cluster.messaging.wire import REASON_LETTERS_MAX, Done
from railyard.cluster.runfolder import RunFolder
from railyard.gateway.http.answers import RemoteError, json_body, whole_body
from railyard.gateway.stores import Stores
from railyard.gateway.yarn.answers import (
    APP,
    APPS,
    NODE_APPS,
    NODES,
    PLAIN,
    PRIORITY,
    QUEUE,
    STATE,
    STATISTICS,
    TIMEOUT,
    Handler,
    answering,
    bad,
    fields,
    not_found,
    passing,
    respond,
    several,
    texts,
    texts_of,
)
from railyard.gateway.yarn.numbers import (
    SLOT_MB,
    VERSION,
    NodeAddresses,
    Numbers,
    container_id,
    listed,
    node_id,
    stage_row,
)
from railyard.resourcemanager.process.messages import (
    ClusterStatus,
    GetClusterStatus,
    GetJobDetails,
    JobDetails,
    JobStatus,
    KillJob,
    NodeStatus,
)

_NODE_ROOT = "/ws/v1/node"
_APP_STATES = (
    *("NEW", "INITING", "RUNNING", "FINISHING_CONTAINERS_WAIT"),
    *("APPLICATION_RESOURCES_CLEANINGUP", "FINISHED"),
)
_STILL_RUNNING = -1000  #: the exit code of a container that runs
Row = dict[str, Any]
NodeAnswer = Callable[["NodeNumbers", web.Request], Row]


class NodeRest:
    """Answers the requests below ``/ws/v1/node``."""

    def __init__(self, stores: Stores, folder: RunFolder, addresses: NodeAddresses) -> None:
        self._stores = stores
        self._begun_ms = int(folder.made_s * 1000)
        self._addresses = addresses

    def add_to(self, app: web.Application) -> None:
        """Route requests here."""
        answers: dict[str, NodeAnswer] = {
            "": lambda node, _: node.info(),
            "/": lambda node, _: node.info(),
            "/info": lambda node, _: node.info(),
            "/apps": lambda node, r: listed("apps", "app", _wanted_apps(node, r)),
            "/apps/{app}": _node_app,
            "/containers": lambda node, _: listed("containers", "container", node.containers()),
            "/containers/{container}": _node_container,
        }
        for path, answer in answers.items():
            for base in (_NODE_ROOT, f"/node/{{node}}{_NODE_ROOT}"):
                kind = NODE_APPS if path == "/apps" else PLAIN
                app.router.add_get(base + path, answering(self._of_node(answer), kind))

    def _of_node(self, answer: NodeAnswer) -> Handler:
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


def _node_app(node: NodeNumbers, request: web.Request) -> Row:
    wanted = request.match_info["app"]
    for app in node.apps():
        if app["id"] == wanted:
            return {"app": app}
    raise not_found(f"app with id {wanted[:80]} not found")


def _node_container(node: NodeNumbers, request: web.Request) -> Row:
    wanted = request.match_info["container"]
    for container in node.containers():
        if container["id"] == wanted:
            return {"container": container}
    raise not_found(f"container with id, {wanted[:80]}, not found")


# ``/ws/v1/cluster``: the cluster, its nodes and its jobs, by HTTP; jobs can be killed.
#
# Source: Apache Hadoop's documentation of the ResourceManager's REST interface.


_ROOT = "/ws/v1/cluster"
_STATES = (
    "NEW",
    "NEW_SAVING",
    "SUBMITTED",
    "ACCEPTED",
    "RUNNING",
    "FINISHED",
    "FAILED",
    "KILLED",
)
_NODE_STATES = ("RUNNING", "LOST", "UNHEALTHY", "REBOOTED", "DECOMMISSIONED", "DECOMMISSIONING")
_FINALS = ("UNDEFINED", "SUCCEEDED", "FAILED", "KILLED")
_TIMES = {"startedTime": "startedTime", "finishedTime": "finishedTime"}
#: Header with the number of events that the ResourceManager had handled: answers with the same
#: number are of the same state but for the progress of attempts, so their numbers add up.
EVENTS = "Railyard-Events"
Answer = Callable[[Numbers, web.Request], dict[str, Any]]


class ResourceManagerRest:
    """Answers the requests below ``/ws/v1/cluster``."""

    def __init__(self, stores: Stores, folder: RunFolder, addresses: Mapping[NodeId, str]) -> None:
        self._stores = stores
        self._addresses = addresses  #: of the nodes' NodeManagers
        self._begun_ms = int(folder.made_s * 1000)  # the same for each process of the gateway

    def add_to(self, app: web.Application) -> None:
        """Route requests here."""
        attempt = "/apps/{app}/appattempts/{attempt}"
        kinds = {"/nodes": NODES, "/apps": APPS, "/appstatistics": STATISTICS}
        answers: dict[str, Answer] = {
            "": lambda numbers, _: numbers.info(),
            "/": lambda numbers, _: numbers.info(),
            "/info": lambda numbers, _: numbers.info(),
            "/metrics": lambda numbers, _: numbers.metrics(),
            "/scheduler": lambda numbers, _: numbers.scheduler(),
            "/nodes": _nodes,
            "/nodes/{node}": _node,
            "/apps": _apps,
            "/apps/{app}/state": lambda n, r: {"state": n.state(_job(n, r))},
            "/apps/{app}/queue": lambda n, r: {"queue": _job(n, r).queue},
            "/apps/{app}/priority": lambda n, r: {"priority": n.app(_job(n, r))["priority"]},
            "/apps/{app}/appattempts": _attempts,
            attempt: _attempt,
            f"{attempt}/containers": _containers,
            f"{attempt}/containers/{{container}}": _container,
            "/appstatistics": _statistics,
        }
        for path, answer in answers.items():
            handler = answering(self._of_numbers(answer), kinds.get(path, PLAIN))
            app.router.add_get(_ROOT + path, handler)
        app.router.add_get(_ROOT + "/apps/{app}", answering(self._app, APP))
        app.router.add_put(_ROOT + "/apps/{app}/state", answering(self._kill))
        for path, kind in {"queue": QUEUE, "priority": PRIORITY, "timeout": TIMEOUT}.items():
            app.router.add_put(f"{_ROOT}/apps/{{app}}/{path}", answering(partial(_refuse, kind)))

    def _of_numbers(self, answer: Answer) -> Handler:
        async def handle(request: web.Request) -> web.Response:
            numbers = await self._numbers(request)
            response = respond(request, answer(numbers, request))
            response.headers[EVENTS] = str(numbers.status.events)
            return response

        return handle

    async def _numbers(self, request: web.Request) -> Numbers:
        async with self._stores.one() as store:
            status = await store.ask(GetClusterStatus(), ClusterStatus)
        url = f"{request.scheme}://{request.host}"
        return Numbers(status, self._begun_ms, url, self._addresses)

    async def _app(self, request: web.Request) -> dict[str, Any]:
        """A job, with its stages as they were a moment later."""
        numbers = await self._numbers(request)
        job = _job(numbers, request)
        app = numbers.app(job)
        async with self._stores.one() as store:
            details = await store.ask(GetJobDetails(job=job.job), JobDetails)
        app["railyard"]["stages"] = [stage_row(stage) for stage in details.stages]
        return {"app": app}

    async def _kill(self, request: web.Request) -> web.Response:
        """202 while the job has not ended, 200 once it has, as clients expect it."""
        wanted, why = await _wanted_state(request)
        numbers = await self._numbers(request)
        job = _job(numbers, request)
        if job.finished_s is not None:
            return respond(request, {"state": numbers.state(job)})
        if wanted != "KILLED":
            raise bad(f"state {wanted!r}: need KILLED: a job can only be ended")
        async with self._stores.one() as store:
            try:
                await store.ask(KillJob(job=job.job, reason=why), Done)
            except Refused as refused:
                raise RemoteError(403, "IOException", str(refused)) from None
        return respond(request, {"state": numbers.state(job)}, 202)


async def _wanted_state(request: web.Request) -> tuple[str, str]:
    """The state that is wanted, and why."""
    as_xml = request.content_type in ("application/xml", "text/xml")
    body = texts_of(await whole_body(request)) if as_xml else await json_body(request)
    given = fields(STATE, body)
    if "state" not in given:
        raise bad('the body: need JSON such as {"state": "KILLED"}, or XML')
    why = str(given.get("diagnostics") or "killed over HTTP")
    return str(given["state"]).upper(), shortened(why, REASON_LETTERS_MAX)


async def _refuse(kind: str, request: web.Request) -> dict[str, Any]:
    """What YARN changes of an application, and nothing here does."""
    fields(kind, await json_body(request))
    raise bad(f"{kind}: a job's queue, priority and time can't be changed")


# Nodes -------------------------------------------------------------------------------------------
def _nodes(numbers: Numbers, request: web.Request) -> dict[str, Any]:
    states = several(request, "states", (*_NODE_STATES, *_STATES))
    nodes = [numbers.node(node) for node in numbers.status.nodes]
    return listed("nodes", "node", (n for n in nodes if not states or n["state"] in states))


def _node(numbers: Numbers, request: web.Request) -> dict[str, Any]:
    wanted = request.match_info["node"]
    for node in numbers.status.nodes:
        if wanted in (node_id(node), node.node):
            return {"node": numbers.node(node)}
    raise not_found(f"nodeId, {wanted[:80]}, is not found")


# Applications ------------------------------------------------------------------------------------
def _apps(numbers: Numbers, request: web.Request) -> dict[str, Any]:
    apps = [numbers.app(job) for job in numbers.status.jobs]
    finals = several(request, "finalStatus", _FINALS)
    apps = [app for app in apps if not finals or app["finalStatus"] in finals]
    for wanted in (several(request, "states", _STATES), several(request, "state", _STATES)):
        apps = [app for app in apps if not wanted or app["state"] in wanted]
    types = {each.upper() for each in texts(request, "applicationTypes")}
    tags = {each.lower() for each in texts(request, "applicationTags")}
    apps = [app for app in apps if not types or app["applicationType"] in types]
    apps = [app for app in apps if not tags or tags & set(app["applicationTags"].split(","))]
    left = passing(request, apps, ("user", "queue", "name"), _TIMES)
    return listed("apps", "app", left)


def _statistics(numbers: Numbers, request: web.Request) -> dict[str, Any]:
    wanted = several(request, "states", _STATES) or set(_STATES)
    types = {each.lower() for each in texts(request, "applicationTypes")}
    if len(types) > 1:
        raise bad("applicationTypes: need at most one")
    of_type = types <= {"mapreduce"}
    states = [numbers.state(job) for job in numbers.status.jobs]
    items = [
        {"state": state, "type": next(iter(types), "*"), "count": of_type * states.count(state)}
        for state in _STATES
        if state in wanted
    ]
    return {"appStatInfo": {"statItem": items}}


# Attempts of applications, and containers --------------------------------------------------------
def _attempts(numbers: Numbers, request: web.Request) -> dict[str, Any]:
    """One: the job's master lives in the ResourceManager."""
    app = numbers.app(_job(numbers, request))
    told = {"id": 1, "startTime": app["startedTime"], "finishedTime": app["finishedTime"]}
    told |= {"containerId": "", "nodeHttpAddress": "", "nodeId": "", "logsLink": ""}
    return {"appAttempts": {"appAttempt": [told | {"appAttemptId": _attempt_id(app)}]}}


def _attempt(numbers: Numbers, request: web.Request) -> dict[str, Any]:
    app = _app_of_attempt(numbers, request)
    told = {"appAttemptId": _attempt_id(app), "amContainerId": "", "host": "", "rpcPort": -1}
    state = "FINISHED" if app["finishedTime"] else "RUNNING"
    told |= {"appAttemptState": state, "trackingUrl": app["trackingUrl"]}
    times = {"startedTime": app["startedTime"], "finishedTime": app["finishedTime"]}
    return {"appAttempt": told | times | {"diagnosticsInfo": app["diagnostics"]}}


def _containers(numbers: Numbers, request: web.Request) -> dict[str, Any]:
    _app_of_attempt(numbers, request)
    return listed("containers", "container", numbers.containers(_job(numbers, request).job))


def _container(numbers: Numbers, request: web.Request) -> dict[str, Any]:
    _app_of_attempt(numbers, request)
    wanted = request.match_info["container"]
    for container in numbers.containers(_job(numbers, request).job):
        if container["containerId"] == wanted:
            return {"container": container}
    raise not_found(f"container with id: {wanted[:80]} not found")


def _app_of_attempt(numbers: Numbers, request: web.Request) -> dict[str, Any]:
    app = numbers.app(_job(numbers, request))
    wanted = request.match_info["attempt"]
    if wanted != _attempt_id(app):
        raise not_found(f"app attempt with id: {wanted[:80]} not found")
    return app


def _attempt_id(app: dict[str, Any]) -> str:
    return str(app["id"]).replace("application", "appattempt", 1) + "_000001"


def _job(numbers: Numbers, request: web.Request) -> JobStatus:
    wanted = request.match_info["app"]
    for job in numbers.status.jobs:
        if wanted == numbers.app_id(job):
            return job
    raise not_found(f"app with id: {wanted[:80]} not found")
