"""``/ws/v1/cluster``, the ResourceManager, and ``/ws/v1/node``, each node's NodeManager.

YARN's clients know a NodeManager by host and port, without a path, so nodes can't share an address.
Linux has all of 127.0.0.0/8 on the loopback: node number 0 is 127.1.0.1, the next 127.1.0.2, all
at the gateway's port.  Nodes beyond ``NODES_MAX``, and those whose address is taken, have a path of
the gateway instead: /node/r0n1/ws/v1/node.  So do all of a gateway that is not on the loopback.

Not here: what the numbers are (``numbers``), how jobs come in (``submission``).
Source: Apache Hadoop's documentation of the ResourceManager's and NodeManager's REST interfaces.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from aiohttp import web

from railyard.cluster.errors import shortened
from railyard.cluster.ids import NodeId
from railyard.cluster.messaging.wire import REASON_LETTERS_MAX, Done
from railyard.cluster.runfolder import RunFolder
from railyard.cluster.topology import Topology
from railyard.gateway.address import is_loopback, listen_at
from railyard.gateway.http.answers import json_body, whole_body
from railyard.gateway.stores import Stores
from railyard.gateway.yarn.answers import (
    answering,
    bad,
    fields,
    listed,
    not_found,
    only,
    passing,
    respond,
    several,
    texts,
    texts_of,
)
from railyard.gateway.yarn.numbers import Numbers, Row, node_id, stage_row
from railyard.resourcemanager.process.messages import (
    ClusterStatus,
    GetClusterStatus,
    GetJobDetails,
    JobDetails,
    JobStatus,
    KillJob,
    NodeStatus,
)

NODES_MAX = 250  #: with an address of their own
#: Header with the number of events that the ResourceManager had handled: answers with the same
#: number are of the same state but for the progress of attempts, so their numbers add up.
EVENTS = "Railyard-Events"
_ROOT, _NODE_ROOT = "/ws/v1/cluster", "/ws/v1/node"
_STATES = (
    *("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING"),
    *("FINISHED", "FAILED", "KILLED"),
)
_FINALS = ("UNDEFINED", "SUCCEEDED", "FAILED", "KILLED")
_NODE_STATES = ("RUNNING", "LOST", "UNHEALTHY", "REBOOTED", "DECOMMISSIONED", "DECOMMISSIONING")
#: Of an application on a node.
_APP_STATES = (
    *("NEW", "INITING", "RUNNING", "FINISHING_CONTAINERS_WAIT"),
    *("APPLICATION_RESOURCES_CLEANINGUP", "FINISHED"),
)
_TIMES = {"startedTime": "startedTime", "finishedTime": "finishedTime"}


# The ResourceManager -----------------------------------------------------------------------------
class ClusterRest:
    """Answers the requests below ``/ws/v1/cluster`` and ``/ws/v1/node``; jobs can be killed."""

    def __init__(self, stores: Stores, folder: RunFolder, addresses: NodeAddresses) -> None:
        self._stores = stores
        self._addresses = addresses
        self._begun_ms = int(folder.made_s * 1000)  # the same for each process of the gateway

    def add_to(self, app: web.Application) -> None:
        attempt = "/apps/{app}/appattempts/{attempt}"
        answers: dict[str, Callable[[Numbers, web.Request], Row]] = {
            **dict.fromkeys(("", "/", "/info"), lambda numbers, _: numbers.info()),
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
            f"{attempt}/containers": lambda n, r: listed("containers", "container", _held(n, r)),
            f"{attempt}/containers/{{container}}": lambda n, r: only(
                "container", r, _held(n, r), "containerId", "container with id: {} not found"
            ),
            "/appstatistics": _statistics,
        }
        for path, answer in answers.items():
            app.router.add_get(_ROOT + path, answering(partial(self._of_numbers, answer)))
        app.router.add_get(_ROOT + "/apps/{app}", answering(self._app))
        app.router.add_put(_ROOT + "/apps/{app}/state", answering(self._kill))
        for what in ("queue", "priority", "timeout"):
            refuse = partial(_refuse, f"PUT apps/ID/{what}")
            app.router.add_put(f"{_ROOT}/apps/{{app}}/{what}", answering(refuse))
        of_nodes: dict[str, Callable[[Numbers, NodeStatus, web.Request], Row]] = {
            **dict.fromkeys(("", "/", "/info"), lambda n, node, _: n.node_info(node)),
            "/apps": _node_apps,
            "/apps/{app}": lambda n, node, r: only(
                "app", r, n.node_apps(node), "id", "app with id {} not found"
            ),
            "/containers": lambda n, node, _: listed(
                "containers", "container", n.node_containers(node)
            ),
            "/containers/{container}": lambda n, node, r: only(
                "container", r, n.node_containers(node), "id", "container with id, {}, not found"
            ),
        }
        for path, of_node in of_nodes.items():
            for base in (_NODE_ROOT, f"/node/{{node}}{_NODE_ROOT}"):
                app.router.add_get(base + path, answering(partial(self._of_node, of_node)))

    async def _of_numbers(
        self, answer: Callable[[Numbers, web.Request], Row], request: web.Request
    ) -> web.Response:
        numbers = await self._numbers(request)
        response = respond(request, answer(numbers, request))
        response.headers[EVENTS] = str(numbers.status.events)
        return response

    async def _numbers(self, request: web.Request) -> Numbers:
        status = await self._stores.ask(GetClusterStatus(), ClusterStatus)
        url = f"{request.scheme}://{request.host}"
        return Numbers(status, self._begun_ms, url, self._addresses.of_nodes)

    async def _app(self, request: web.Request) -> Row:
        """A job, with its stages as they were a moment later."""
        numbers = await self._numbers(request)
        job = _job(numbers, request)
        app = numbers.app(job)
        details = await self._stores.ask(GetJobDetails(job=job.job), JobDetails)
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
        await self._stores.ask(KillJob(job=job.job, reason=why), Done)
        return respond(request, {"state": numbers.state(job)}, 202)

    async def _of_node(
        self, answer: Callable[[Numbers, NodeStatus, web.Request], Row], request: web.Request
    ) -> Row:
        """What the NodeManager says whose address or path it is."""
        numbers = await self._numbers(request)
        wanted = request.match_info.get("node") or self._addresses.node_of(request)
        if wanted is None:
            raise not_found("this is no node's address: need nodeHTTPAddress of one of the nodes")
        for node in numbers.status.nodes:
            if node.node == wanted:
                return answer(numbers, node, request)
        raise not_found(f"node {wanted[:80]} is not there")


async def _wanted_state(request: web.Request) -> tuple[str, str]:
    """The state that is wanted, and why."""
    as_xml = request.content_type in ("application/xml", "text/xml")
    body = texts_of(await whole_body(request)) if as_xml else await json_body(request)
    given = fields("PUT apps/ID/state", body)
    if "state" not in given:
        raise bad('the body: need JSON such as {"state": "KILLED"}, or XML')
    why = str(given.get("diagnostics") or "killed over HTTP")
    return str(given["state"]).upper(), shortened(why, REASON_LETTERS_MAX)


async def _refuse(kind: str, request: web.Request) -> Row:
    fields(kind, await json_body(request))
    raise bad(f"{kind}: a job's queue, priority and time can't be changed")


def _nodes(numbers: Numbers, request: web.Request) -> Row:
    nodes = map(numbers.node, numbers.status.nodes)
    known = {"states": ("state", (*_NODE_STATES, *_STATES))}
    return listed("nodes", "node", passing(request, nodes, known))


def _node(numbers: Numbers, request: web.Request) -> Row:
    wanted = request.match_info["node"]
    for node in numbers.status.nodes:
        if wanted in (node_id(node), node.node):
            return {"node": numbers.node(node)}
    raise not_found(f"nodeId, {wanted[:80]}, is not found")


def _apps(numbers: Numbers, request: web.Request) -> Row:
    apps = [numbers.app(job) for job in numbers.status.jobs]
    types = {each.upper() for each in texts(request, "applicationTypes")}
    tags = {each.lower() for each in texts(request, "applicationTags")}
    apps = [app for app in apps if not types or app["applicationType"] in types]
    apps = [app for app in apps if not tags or tags & set(app["applicationTags"].split(","))]
    of_state = ("state", _STATES)
    known = {"finalStatus": ("finalStatus", _FINALS), "states": of_state, "state": of_state}
    left = passing(request, apps, known, ("user", "queue", "name"), _TIMES)
    return listed("apps", "app", left)


def _statistics(numbers: Numbers, request: web.Request) -> Row:
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


def _attempts(numbers: Numbers, request: web.Request) -> Row:
    """One: the job's master lives in the ResourceManager."""
    app = numbers.app(_job(numbers, request))
    attempt = {"id": 1, "startTime": app["startedTime"], "finishedTime": app["finishedTime"]}
    attempt |= dict.fromkeys(("containerId", "nodeHttpAddress", "nodeId", "logsLink"), "")
    return {"appAttempts": {"appAttempt": [attempt | {"appAttemptId": _attempt_id(app)}]}}


def _attempt(numbers: Numbers, request: web.Request) -> Row:
    app = _app_of_attempt(numbers, request)
    return {
        "appAttempt": {
            "appAttemptId": _attempt_id(app),
            "amContainerId": "",
            "host": "",
            "rpcPort": -1,
            "appAttemptState": "FINISHED" if app["finishedTime"] else "RUNNING",
            "diagnosticsInfo": app["diagnostics"],
            **{name: app[name] for name in ("trackingUrl", "startedTime", "finishedTime")},
        }
    }


def _held(numbers: Numbers, request: web.Request) -> list[Row]:
    _app_of_attempt(numbers, request)
    return numbers.containers(_job(numbers, request).job)


def _app_of_attempt(numbers: Numbers, request: web.Request) -> Row:
    app = numbers.app(_job(numbers, request))
    wanted = request.match_info["attempt"]
    if wanted != _attempt_id(app):
        raise not_found(f"app attempt with id: {wanted[:80]} not found")
    return app


def _attempt_id(app: Row) -> str:
    return str(app["id"]).replace("application", "appattempt", 1) + "_000001"


def _job(numbers: Numbers, request: web.Request) -> JobStatus:
    wanted = request.match_info["app"]
    for job in numbers.status.jobs:
        if wanted == numbers.app_id(job):
            return job
    raise not_found(f"app with id: {wanted[:80]} not found")


# NodeManagers ------------------------------------------------------------------------------------
class NodeAddresses:
    """The addresses of the nodes' NodeManagers, and the sockets that listen there."""

    def __init__(self, topology: Topology, gateway: socket.socket) -> None:
        """``gateway``: the socket at which the gateway listens."""
        self.sockets: list[socket.socket] = []
        self.of_nodes: dict[NodeId, str] = {}
        self._hosts: dict[str, NodeId] = {}
        if not is_loopback(gateway):
            return
        port = gateway.getsockname()[1]
        for number, node in enumerate(topology.nodes()[:NODES_MAX]):
            host = f"127.1.0.{number + 1}"
            with suppress(OSError):  # somebody else has it
                self.sockets.append(listen_at(host, port))
                self._hosts[host] = node.id
                self.of_nodes[node.id] = f"{host}:{port}"

    def node_of(self, request: web.Request) -> NodeId | None:
        """The node that a request was sent to; None if it was sent to the gateway's own address."""
        transport = request.transport
        host = transport.get_extra_info("sockname", ("",))[0] if transport is not None else ""
        return self._hosts.get(host)


def _node_apps(numbers: Numbers, node: NodeStatus, request: web.Request) -> Row:
    known = {"state": ("state", _APP_STATES)}
    apps = passing(request, numbers.node_apps(node), known, ("user",))
    return listed("apps", "app", apps)
