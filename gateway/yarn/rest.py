"""``/ws/v1/cluster``: the cluster, its nodes and its jobs, by HTTP; jobs can be killed.

Source: Apache Hadoop's documentation of the ResourceManager's REST interface.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from aiohttp import web

from railyard.cluster.bounded import REASON_LETTERS_MAX
from railyard.cluster.errors import Refused
from railyard.cluster.files.runfolder import RunFolder
from railyard.cluster.ids import NodeId
from railyard.cluster.messaging.wire import Done
from railyard.cluster.shown import shortened
from railyard.gateway.http.bodies import json_body, whole_body
from railyard.gateway.http.errors import RemoteError
from railyard.gateway.stores import Stores
from railyard.gateway.yarn.accepted import (
    APP,
    APPS,
    NODES,
    PLAIN,
    PRIORITY,
    QUEUE,
    STATE,
    STATISTICS,
    TIMEOUT,
)
from railyard.gateway.yarn.answering import (
    Handler,
    answering,
    bad,
    fields,
    not_found,
    respond,
)
from railyard.gateway.yarn.numbers import Numbers, listed, node_id, stage_row
from railyard.gateway.yarn.parameters import passing, several, texts
from railyard.gateway.yarn.xml import texts_of
from railyard.resourcemanager.process.messages import (
    ClusterStatus,
    GetClusterStatus,
    GetJobDetails,
    JobDetails,
    JobStatus,
    KillJob,
)

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
