"""``/ws/v1/history`` and ``/proxy/APP/ws/v1/mapreduce``: jobs with their tasks and attempts.

The first is the history server, which knows of jobs that have ended; the second stands for the
ApplicationMaster of one job, which answers here after its end, too.  What is made of all tasks of a
job is made in a thread: of 5,000 tasks that takes a tenth of a second.

Source: Apache Hadoop's documentation of the MapReduce history server's and ApplicationMaster's REST
interfaces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from aiohttp import web

from railyard.cluster.errors import Refused
from railyard.cluster.ids import JobId, NodeId
from railyard.cluster.runfolder import RunFolder
from railyard.gateway.http.answers import RemoteError
from railyard.gateway.stores import Store, Stores
from railyard.gateway.yarn.answers import (
    JOBS,
    PLAIN,
    TASKS,
    answering,
    bad,
    not_found,
    passing,
    several,
)
from railyard.gateway.yarn.counters import attempt_counters, job_counters, task_counters
from railyard.gateway.yarn.mapreduce import MapReduceJob, in_history, job_state
from railyard.gateway.yarn.numbers import VERSION, Numbers, job_id, job_named, listed
from railyard.resourcemanager.process.messages import (
    TASKS_AT_ONCE,
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
Answer = dict[str, Any]


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
        """Route requests here."""
        get = app.router.add_get
        for path in ("", "/", "/info"):
            get(_HISTORY + path, answering(self._history_info))
            get(_MASTER + path, answering(self._master_info))
        get(f"{_HISTORY}/mapreduce/jobs", answering(self._history_jobs, JOBS))
        get(f"{_MASTER}/jobs", answering(self._master_jobs))
        tasks, attempts = "/tasks/{task}", "/tasks/{task}/attempts/{attempt}"
        answers: dict[str, Callable[[web.Request], Awaitable[Answer]]] = {
            "": self._job,
            "/jobattempts": self._job_attempts,
            "/conf": self._settings,
            "/counters": self._counters,
            "/tasks": self._tasks,
            tasks: self._task,
            f"{tasks}/counters": self._task_counters,
            f"{tasks}/attempts": self._attempts,
            attempts: self._attempt,
            f"{attempts}/counters": self._attempt_counters,
            f"{attempts}/state": self._attempt_state,
        }
        for path, answer in answers.items():
            for base in (f"{_HISTORY}/mapreduce", _MASTER):
                of = TASKS if path == "/tasks" else PLAIN
                get(f"{base}/jobs/{{job}}{path}", answering(answer, of))
        get("/proxy/{app}", self._tracking)
        get("/proxy/{app}/", self._tracking)
        app.router.add_put(f"{_MASTER}/jobs/{{job}}{attempts}/state", answering(self._kill_attempt))

    # Servers -------------------------------------------------------------------------------------
    async def _history_info(self, _: web.Request) -> Answer:
        told = {"startedOn": self._begun_ms, "hadoopVersion": VERSION, "hadoopVersionBuiltOn": ""}
        return {"historyInfo": told | {"hadoopBuildVersion": f"{VERSION} by Railyard"}}

    async def _master_info(self, request: web.Request) -> Answer:
        status = await self._status()
        numbers = Numbers(status, self._begun_ms)
        for job in status.jobs:
            if numbers.app_id(job) == request.match_info["app"]:
                app = numbers.app(job)
                told = {"appId": app["id"], "name": app["name"], "user": app["user"]}
                told |= {"startedOn": app["startedTime"], "elapsedTime": app["elapsedTime"]}
                return {"info": told}
        raise _no_app(request)

    async def _history_jobs(self, request: web.Request) -> Answer:
        wanted = several(request, "state", _STATES)
        ended = [job for job in (await self._status()).jobs if job.finished_s is not None]
        rows = [
            in_history(job, self._begun_ms)
            for job in ended
            if not wanted or job_state(job) in wanted
        ]
        times = {"startedTime": "startTime", "finishedTime": "finishTime"}
        return listed("jobs", "job", passing(request, rows, ("user", "queue"), times))

    async def _tracking(self, request: web.Request) -> web.Response:
        """An application's tracking URL leads to its job."""
        job = self._of_app(request)
        app = request.match_info["app"]
        where = f"/proxy/{app}/ws/v1/mapreduce/jobs/{job_id(self._begun_ms, job)}"
        return web.Response(status=302, headers={"Location": where})

    async def _master_jobs(self, request: web.Request) -> Answer:
        async with self._stores.one() as store:
            job = await self._details(store, self._of_app(request))
        return {"jobs": {"job": [job.in_master()]}}

    # A job ---------------------------------------------------------------------------------------
    async def _job(self, request: web.Request) -> Answer:
        known = await self._with_tasks(request)
        async with self._stores.one() as store:
            steps = ((known.status.job,),)
            summary = (await store.ask(GetReport(jobs=steps), Report)).summary
        job = replace(known, network_bytes=summary["bytes"])
        of_history = "app" not in request.match_info
        return await asyncio.to_thread(job.finished if of_history else job.running)

    async def _job_attempts(self, request: web.Request) -> Answer:
        return (await self._without_tasks(request)).attempts()

    async def _settings(self, request: web.Request) -> Answer:
        return (await self._without_tasks(request)).settings()

    async def _counters(self, request: web.Request) -> Answer:
        job = await self._with_tasks(request)
        return await asyncio.to_thread(job_counters, job)

    # Tasks ---------------------------------------------------------------------------------------
    async def _tasks(self, request: web.Request) -> Answer:
        kind = request.query.get("type", "")
        if kind not in ("", "m", "r"):
            raise bad(f"type {kind[:40]!r}: need m or r")
        job = await self._with_tasks(request)
        return await asyncio.to_thread(lambda: listed("tasks", "task", job.task_rows(kind)))

    async def _task(self, request: web.Request) -> Answer:
        job, task = await self._one_task(request)
        return {"task": job.task(task)}

    async def _task_counters(self, request: web.Request) -> Answer:
        job, task = await self._one_task(request)
        return task_counters(job, task)

    async def _attempts(self, request: web.Request) -> Answer:
        job, task = await self._one_task(request)
        rows = [job.attempt(task, attempt) for attempt in task.attempts]
        return listed("taskAttempts", "taskAttempt", rows)

    async def _attempt(self, request: web.Request) -> Answer:
        job, task, attempt = await self._one_attempt(request)
        return {"taskAttempt": job.attempt(task, attempt)}

    async def _attempt_counters(self, request: web.Request) -> Answer:
        job, task, attempt = await self._one_attempt(request)
        return attempt_counters(job, task, attempt)

    async def _attempt_state(self, request: web.Request) -> Answer:
        job, task, attempt = await self._one_attempt(request)
        return {"jobTaskAttemptState": {"state": job.attempt(task, attempt)["state"]}}

    async def _kill_attempt(self, _: web.Request) -> Answer:
        why = "an attempt can't be killed by itself: need its application's state"
        raise RemoteError(403, "UnsupportedOperationException", why)

    # What the ResourceManager knows --------------------------------------------------------------
    async def _status(self) -> ClusterStatus:
        async with self._stores.one() as store:
            return await store.ask(GetClusterStatus(), ClusterStatus)

    async def _without_tasks(self, request: web.Request) -> MapReduceJob:
        async with self._stores.one() as store:
            return await self._details(store, self._wanted(request), request)

    async def _with_tasks(self, request: web.Request) -> MapReduceJob:
        """The job, with all of its tasks."""
        async with self._stores.one() as store:
            job = await self._details(store, self._wanted(request), request)
            tasks: list[TaskReport] = []
            while True:
                page = await _page(store, job, len(tasks), TASKS_AT_ONCE)
                tasks += page.tasks
                if not page.left:
                    return replace(job, tasks=tasks)

    async def _one_task(self, request: web.Request) -> tuple[MapReduceJob, TaskReport]:
        name = request.match_info["task"]
        async with self._stores.one() as store:
            job = await self._details(store, self._wanted(request), request)
            at = job.ids.position(name) if name.startswith("task_") else None
            if at is None:
                raise not_found(f"task not found with id {name[:80]}")
            page = await _page(store, job, at, 1)
        return job, page.tasks[0]

    async def _one_attempt(
        self, request: web.Request
    ) -> tuple[MapReduceJob, TaskReport, AttemptReport]:
        job, task = await self._one_task(request)
        name = request.match_info["attempt"]
        for attempt in task.attempts:
            if job.ids.attempt(attempt.attempt) == name:
                return job, task, attempt
        raise not_found(f"Error getting info on task attempt id {name[:80]}")

    async def _details(
        self, store: Store, job: JobId, request: web.Request | None = None
    ) -> MapReduceJob:
        try:
            details = await store.ask(GetJobDetails(job=job), JobDetails)
        except Refused as refused:
            raise not_found(str(refused)) from None
        found = MapReduceJob(
            details,
            self._begun_ms,
            scale=self._scale,
            addresses=self._addresses,
            gateway="" if request is None else request.host,
        )
        in_history_only = request is not None and "app" not in request.match_info
        if in_history_only and details.status.finished_s is None:
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
            raise _no_app(request)
        return job


async def _page(store: Store, job: MapReduceJob, begin: int, limit: int) -> JobTasks:
    wanted = GetJobTasks(job=job.status.job, begin=begin, limit=limit)
    try:
        return await store.ask(wanted, JobTasks)
    except Refused as refused:
        raise not_found(str(refused)) from None


def _no_app(request: web.Request) -> RemoteError:
    return not_found(f"app with id: {request.match_info['app'][:80]} not found")
