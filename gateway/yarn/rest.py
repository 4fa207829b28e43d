"""``/ws/v1/cluster``: the cluster, its nodes and its jobs, by HTTP; jobs can be killed.

Source: Apache Hadoop's documentation of the ResourceManager's REST interface.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from railyard.cluster.errors import Refused
from railyard.cluster.files.runfolder import RunFolder
from railyard.cluster.messaging.wire import Done
from railyard.gateway.bodies import json_body
from railyard.gateway.errors import RemoteError
from railyard.gateway.stores import Stores
from railyard.gateway.yarn.numbers import Numbers, listed, node_id
from railyard.resourcemanager.process.messages import (
    ClusterStatus,
    GetClusterStatus,
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
_FINALS = ("UNDEFINED", "SUCCEEDED", "FAILED", "KILLED")
Answer = Callable[[Numbers, web.Request], dict[str, Any]]


class ResourceManagerRest:
    """Answers the requests below ``/ws/v1/cluster``."""

    def __init__(self, stores: Stores, folder: RunFolder) -> None:
        self._stores = stores
        self._begun_ms = int(folder.made_s * 1000)  # the same for each process of the gateway

    def add_to(self, app: web.Application) -> None:
        """Route requests here."""
        answers: dict[str, Answer] = {
            "": lambda numbers, _: numbers.info(),
            "/": lambda numbers, _: numbers.info(),
            "/info": lambda numbers, _: numbers.info(),
            "/metrics": lambda numbers, _: numbers.metrics(),
            "/scheduler": lambda numbers, _: numbers.scheduler(),
            "/nodes": _nodes,
            "/nodes/{node}": _node,
            "/apps": _apps,
            "/apps/{app}": lambda n, r: {"app": n.app(_job(n, r))},
            "/apps/{app}/state": lambda n, r: {"state": n.state(_job(n, r))},
            "/apps/{app}/appattempts": _attempts,
            "/apps/{app}/queue": lambda n, r: {"queue": _job(n, r).queue},
            "/appstatistics": _statistics,
        }
        for path, answer in answers.items():
            app.router.add_get(_ROOT + path, self._answering(answer))
        app.router.add_put(_ROOT + "/apps/{app}/state", self._kill)

    def _answering(self, answer: Answer) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            return web.json_response(answer(await self._numbers(), request))

        return handle

    async def _numbers(self) -> Numbers:
        async with self._stores.one() as store:
            status = await store.ask(GetClusterStatus(), ClusterStatus)
        return Numbers(status, self._begun_ms)

    async def _kill(self, request: web.Request) -> web.Response:
        """202 while the job has not ended, 200 once it has, as clients expect it."""
        wanted = await _wanted_state(request)
        numbers = await self._numbers()
        job = _job(numbers, request)
        if job.finished_s is not None:
            return web.json_response({"state": numbers.state(job)})
        if wanted != "KILLED":
            raise _bad(f"state {wanted!r}: need KILLED: a job can only be ended")
        async with self._stores.one() as store:
            try:
                await store.ask(KillJob(job=job.job, reason="killed over HTTP"), Done)
            except Refused as refused:
                raise RemoteError(403, "IOException", str(refused)) from None
        return web.json_response({"state": numbers.state(job)}, status=202)


async def _wanted_state(request: web.Request) -> str:
    body = await json_body(request)
    try:
        return str(body["state"]).upper()
    except (KeyError, TypeError):
        raise _bad('the body: need JSON such as {"state": "KILLED"}') from None


# Nodes -------------------------------------------------------------------------------------------
def _nodes(numbers: Numbers, request: web.Request) -> dict[str, Any]:
    states = _several(request, "states", ("RUNNING", "LOST", *_STATES, "UNHEALTHY", "REBOOTED"))
    nodes = [numbers.node(node) for node in numbers.status.nodes]
    return listed("nodes", "node", (n for n in nodes if not states or n["state"] in states))


def _node(numbers: Numbers, request: web.Request) -> dict[str, Any]:
    wanted = request.match_info["node"]
    for node in numbers.status.nodes:
        if wanted in (node_id(node), node.node):
            return {"node": numbers.node(node)}
    raise RemoteError(404, "NotFoundException", f"nodeId, {wanted[:80]}, is not found")


# Applications ------------------------------------------------------------------------------------
def _apps(numbers: Numbers, request: web.Request) -> dict[str, Any]:
    apps = [numbers.app(job) for job in numbers.status.jobs]
    for wanted in (_several(request, "states", _STATES), _several(request, "state", _STATES)):
        apps = [app for app in apps if not wanted or app["state"] in wanted]
    final = _several(request, "finalStatus", _FINALS)
    types = {each.upper() for each in _texts(request, "applicationTypes")}
    for name, values in (
        ("finalStatus", final),
        ("applicationType", types),
        ("user", set(_texts(request, "user"))),
        ("queue", set(_texts(request, "queue"))),
        ("name", set(_texts(request, "name"))),
    ):
        apps = [app for app in apps if not values or app[name] in values]
    for name, key in (("startedTime", "startedTime"), ("finishedTime", "finishedTime")):
        begin, end = _whole(request, f"{name}Begin"), _whole(request, f"{name}End")
        apps = [app for app in apps if begin is None or app[key] >= begin]
        apps = [app for app in apps if end is None or app[key] <= end]
    limit = _whole(request, "limit")
    if limit == 0:
        raise _bad("limit value must be greater then 0")
    return listed("apps", "app", apps[:limit])


def _statistics(numbers: Numbers, request: web.Request) -> dict[str, Any]:
    wanted = _several(request, "states", _STATES) or set(_STATES)
    states = [numbers.state(job) for job in numbers.status.jobs]
    items = [
        {"state": state, "type": "*", "count": states.count(state)}
        for state in _STATES
        if state in wanted
    ]
    return {"appStatInfo": {"statItem": items}}


def _attempts(numbers: Numbers, request: web.Request) -> dict[str, Any]:
    """One: the job's master lives in the ResourceManager."""
    job = _job(numbers, request)
    attempt = numbers.app_id(job).replace("application", "appattempt") + "_000001"
    app = numbers.app(job)
    told = {"id": 1, "startTime": app["startedTime"], "finishedTime": app["finishedTime"]}
    told |= {"containerId": "", "nodeHttpAddress": "", "nodeId": "", "logsLink": ""}
    return {"appAttempts": {"appAttempt": [told | {"appAttemptId": attempt}]}}


def _job(numbers: Numbers, request: web.Request) -> JobStatus:
    wanted = request.match_info["app"]
    for job in numbers.status.jobs:
        if wanted == numbers.app_id(job):
            return job
    raise RemoteError(404, "NotFoundException", f"app with id: {wanted[:80]} not found")


# Parameters --------------------------------------------------------------------------------------
def _texts(request: web.Request, name: str) -> list[str]:
    given = request.query.getall(name, [])
    return [each for text in given for each in text.split(",") if each]


def _several(request: web.Request, name: str, known: tuple[str, ...]) -> set[str]:
    wanted = {each.upper() for each in _texts(request, name)}
    for each in wanted:
        if each not in known:
            raise _bad(f"Invalid {name} {each[:40]!r}: need one of {', '.join(known)}")
    return wanted


def _whole(request: web.Request, name: str) -> int | None:
    text = request.query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise _bad(f"{name} {text[:40]!r}: need a whole number, 0 or more")
    return int(text)


def _bad(why: str) -> RemoteError:
    return RemoteError(400, "BadRequestException", why)
