"""``/ws/v1/history`` and ``/proxy/APP/ws/v1/mapreduce``: jobs with their tasks and attempts.

The first is the history server, which knows of jobs that have ended; the second stands for the
ApplicationMaster of one job, which answers here after its end, too.  Answers are made in a thread:
of 5,000 tasks that takes a tenth of a second.  Not here: what they say (``mapreduce``).

Source: Apache Hadoop's documentation of the history server's and ApplicationMaster's interfaces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from aiohttp import web

from railyard.cluster.errors import Refused
from railyard.cluster.ids import JobId, NodeId
from railyard.cluster.messaging.wire import Message
from railyard.cluster.runfolder import RunFolder
from railyard.gateway.http.answers import RemoteError
from railyard.gateway.stores import M, Store, Stores
from railyard.gateway.yarn.answers import answering, bad, listed, not_found, only, passing
from railyard.gateway.yarn.mapreduce import MapReduceJob, in_history
from railyard.gateway.yarn.numbers import Numbers, Row, job_named, versions
from railyard.jobs.streaming.job import hadoop_job_id
from railyard.resourcemanager.process.messages import (
    AttemptReport,
    ClusterStatus,
    GetClusterStatus,
    GetJobDetails,
    GetJobTasks,
    GetReport,
    JobDetails,
    JobTasks,
    Report,
    TaskReport,
)

_HISTORY = "/ws/v1/history"
_MASTER = "/proxy/{app}/ws/v1/mapreduce"
_STATES = (
    *("NEW", "SETUP", "INITED", "RUNNING", "COMMITTING", "SUCCEEDED", "FAIL_WAIT", "FAIL_ABORT"),
    *("FAILED", "KILL_WAIT", "KILL_ABORT", "KILLED", "ERROR", "REBOOT"),
)
_TIMES = {"startedTime": "startTime", "finishedTime": "finishTime"}
_TASK = "/tasks/{task}"
_ATTEMPT = f"{_TASK}/attempts/{{attempt}}"
_ALL_TASKS = "/tasks"
#: {address below a job's: what answers of the job with all of its tasks, or with none, and of the
#: kind of tasks, the task, or the task and the attempt that the address names}
_ANSWERS: dict[str, Callable[..., Row]] = {
    "/jobattempts": MapReduceJob.attempts,
    "/conf": MapReduceJob.settings,
    "/counters": MapReduceJob.counters,
    _ALL_TASKS: lambda job, kind: listed("tasks", "task", map(job.task, job.of_kind(kind))),
    _TASK: lambda job, task: {"task": job.task(task)},
    f"{_TASK}/counters": MapReduceJob.task_counters,
    f"{_TASK}/attempts": lambda job, task: listed(
        "taskAttempts", "taskAttempt", [job.attempt(task, each) for each in task.attempts]
    ),
    _ATTEMPT: lambda job, task, attempt: {"taskAttempt": job.attempt(task, attempt)},
    f"{_ATTEMPT}/counters": MapReduceJob.attempt_counters,
    f"{_ATTEMPT}/state": lambda job, task, attempt: {
        "jobTaskAttemptState": {"state": job.attempt(task, attempt)["state"]}
    },
}


class HistoryRest:
    """Answers about jobs, their tasks and attempts."""

    def __init__(
        self, stores: Stores, folder: RunFolder, scale: int, addresses: Mapping[NodeId, str]
    ) -> None:
        """``scale``: the topology's; ``addresses``: of the nodes that have their own."""
        self._addresses = addresses
        self._stores = stores
        self._begun_ms = int(folder.made_s * 1000)
        self._scale = scale

    def add_to(self, app: web.Application) -> None:
        get = app.router.add_get
        for path in ("", "/", "/info"):
            get(_HISTORY + path, answering(self._history_info))
            get(_MASTER + path, answering(self._master_info))
        get(f"{_HISTORY}/mapreduce/jobs", answering(self._history_jobs))
        get(f"{_MASTER}/jobs", answering(self._master_jobs))
        servers = {f"{_HISTORY}/mapreduce": MapReduceJob.finished, _MASTER: MapReduceJob.running}
        for server, whole in servers.items():
            for path, make in {"": whole, **_ANSWERS}.items():
                answer = answering(partial(self._of_job, path, make))
                get(f"{server}/jobs/{{job}}{path}", answer)
        get("/proxy/{app}", self._tracking)
        get("/proxy/{app}/", self._tracking)
        kill = answering(self._kill_attempt)
        app.router.add_put(f"{_MASTER}/jobs/{{job}}{_ATTEMPT}/state", kill)

    # Servers -------------------------------------------------------------------------------------
    async def _history_info(self, _: web.Request) -> Row:
        return {"historyInfo": {"startedOn": self._begun_ms, **versions("hadoop")}}

    async def _master_info(self, request: web.Request) -> Row:
        status = await self._stores.ask(GetClusterStatus(), ClusterStatus)
        apps = map(Numbers(status, self._begun_ms).app, status.jobs)
        app = only("app", request, apps, "id", "app with id: {} not found")["app"]
        info = {"appId": app["id"], "startedOn": app["startedTime"]}
        return {"info": info | {name: app[name] for name in ("name", "user", "elapsedTime")}}

    async def _history_jobs(self, request: web.Request) -> Row:
        jobs = (await self._stores.ask(GetClusterStatus(), ClusterStatus)).jobs
        rows = [in_history(job, self._begun_ms) for job in jobs if job.finished_s is not None]
        known = {"state": ("state", _STATES)}
        return listed("jobs", "job", passing(request, rows, known, ("user", "queue"), _TIMES))

    async def _master_jobs(self, request: web.Request) -> Row:
        async with self._stores.one() as store:
            job = await self._details(store, self._of_app(request), request)
        return {"jobs": {"job": [job.in_master()]}}

    async def _tracking(self, request: web.Request) -> web.Response:
        """An application's tracking URL leads to its job."""
        job = hadoop_job_id(self._begun_ms, self._of_app(request))
        where = f"/proxy/{request.match_info['app']}/ws/v1/mapreduce/jobs/{job}"
        return web.Response(status=302, headers={"Location": where})

    async def _kill_attempt(self, _: web.Request) -> Row:
        why = "an attempt can't be killed by itself: need its application's state"
        raise RemoteError(403, "UnsupportedOperationException", why)

    # A job ---------------------------------------------------------------------------------------
    async def _of_job(self, path: str, make: Callable[..., Row], request: web.Request) -> Row:
        named: list[object] = []  # in the address: a kind of tasks, a task, an attempt
        if path == _ALL_TASKS:
            kind = request.query.get("type", "")
            if kind not in ("", "m", "r"):
                raise bad(f"type {kind[:40]!r}: need m or r")
            named.append(kind)
        async with self._stores.one() as store:
            job = await self._details(store, self._wanted(request), request)
            if path in ("", "/counters", _ALL_TASKS):
                tasks: list[TaskReport] = []
                more = True
                while more:
                    wanted = GetJobTasks(job=job.status.job, begin=len(tasks))
                    page = await _found(store, wanted, JobTasks)
                    tasks += page.tasks
                    more = page.left > 0
                job = replace(job, tasks=tasks)
            elif path.startswith(_TASK):
                task = await _task(store, job, request.match_info["task"])
                named.append(task)
                if path.startswith(_ATTEMPT):
                    named.append(_attempt(job, task, request.match_info["attempt"]))
            if not path:
                steps = ((job.status.job,),)
                summary = (await store.ask(GetReport(jobs=steps), Report)).summary
                job = replace(job, network_bytes=summary["bytes"])
        return await asyncio.to_thread(make, job, *named)

    async def _details(self, store: Store, job: JobId, request: web.Request) -> MapReduceJob:
        details = await _found(store, GetJobDetails(job=job), JobDetails)
        found = MapReduceJob(
            details,
            self._begun_ms,
            scale=self._scale,
            addresses=self._addresses,
            gateway=request.host,
        )
        if "app" not in request.match_info and details.status.finished_s is None:
            raise not_found(f"job, {found.id}, is not found: it runs still")
        return found

    def _wanted(self, request: web.Request) -> JobId:
        """The job that a request names; below an application it must be that one's."""
        name = request.match_info["job"]
        job = job_named(self._begun_ms, name) if name.startswith("job_") else None
        if job is None or ("app" in request.match_info and job != self._of_app(request)):
            raise not_found(f"job, {name[:80]}, is not found")
        return job

    def _of_app(self, request: web.Request) -> JobId:
        name = request.match_info["app"]
        job = job_named(self._begun_ms, name) if name.startswith("application_") else None
        if job is None:
            raise not_found(f"app with id: {name[:80]} not found")
        return job


async def _task(store: Store, job: MapReduceJob, name: str) -> TaskReport:
    at = job.ids.position(name) if name.startswith("task_") else None
    if at is None:
        raise not_found(f"task not found with id {name[:80]}")
    wanted = GetJobTasks(job=job.status.job, begin=at, limit=1)
    return (await _found(store, wanted, JobTasks)).tasks[0]


def _attempt(job: MapReduceJob, task: TaskReport, name: str) -> AttemptReport:
    for attempt in task.attempts:
        if job.ids.attempt(attempt.attempt) == name:
            return attempt
    raise not_found(f"Error getting info on task attempt id {name[:80]}")


async def _found(store: Store, question: Message, answer: type[M]) -> M:
    try:
        return await store.ask(question, answer)
    except Refused as refused:
        raise not_found(str(refused)) from None
