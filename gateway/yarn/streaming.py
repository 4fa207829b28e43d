"""``/ws/v1/railyard``: streaming jobs are submitted, and any job is followed.

    POST /ws/v1/railyard/streaming      a ``StreamingRequest``; 202 with the ids of its job
    GET  /ws/v1/railyard/jobs/{id}      how far a job is, its failed attempts, its counters

This is ours: Hadoop's own way in is by Java classes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from aiohttp import web

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import Refused, UsageError
from railyard.cluster.files.runfolder import RunFolder
from railyard.cluster.ids import JobId
from railyard.cluster.packed import UNPACKED
from railyard.dfs.client import DfsClient
from railyard.gateway.address import known_url
from railyard.gateway.http.bodies import whole_body
from railyard.gateway.http.errors import RemoteError
from railyard.gateway.inputs import check_packed, input_files, line_cuts, split_cuts
from railyard.gateway.shell.addresses import check_own
from railyard.gateway.shell.generic import DEFAULT_STORE
from railyard.gateway.shell.paths import absolute, braces
from railyard.gateway.stores import Stores
from railyard.gateway.yarn.counters import hadoop_counters
from railyard.jobs.package import pack_job
from railyard.jobs.streaming.environment import hadoop_attempt_id, hadoop_job_id
from railyard.jobs.streaming.job import StreamingJob
from railyard.jobs.streaming.request import (
    StreamingRequest,
    job_name,
    output_replication,
    queue_name,
    reads_recursively,
    splitting,
    streaming_of,
    tags,
)
from railyard.jobs.streaming.specification import Streaming
from railyard.resourcemanager.process.messages import (
    GetJobFigures,
    JobAccepted,
    JobFigures,
    SubmitJob,
)

_ROOT = "/ws/v1/railyard"
_BODY_BYTES_MAX = 2**20
_ID = re.compile(r"(?:job|application)_(\d{1,19})_(\d{4,9})")


class StreamingRest:
    """Takes streaming jobs, and says how they are."""

    def __init__(self, stores: Stores, folder: RunFolder, config: ClusterConfig) -> None:
        self._stores = stores
        self._folder = folder
        self._scale = config.topology.scale
        self._begun_ms = int(folder.made_s * 1000)

    def add_to(self, app: web.Application) -> None:
        """Route requests here."""
        app.router.add_post(f"{_ROOT}/streaming", self._submit)
        app.router.add_get(f"{_ROOT}/jobs/{{id}}", self._figures)

    async def _submit(self, request: web.Request) -> web.Response:
        told = await self.submit(await _request_of(request), request.host)
        return web.json_response(told, status=202)

    async def submit(
        self, wanted: StreamingRequest, host: str, job: JobId | None = None
    ) -> dict[str, object]:
        """Submit a job, perhaps under an id that was reserved; returns the answer to its client.

        ``host``: by which address the client knows this cluster.
        """
        url = known_url(self._folder) or ""
        own = (url.removeprefix("http://"), host)
        store = url.replace("http://", "webhdfs://", 1)
        try:
            streaming = streaming_of(wanted, self._begun_ms, store)
            code = StreamingJob(specification=msgspec.json.encode(streaming))
            package = pack_job(StreamingJob, {"specification": code.specification})
            stages = code.stage_specs()
            job_tags, replication = tags(wanted), output_replication(wanted)
            output = _checked_output(wanted, own)
        except UsageError as error:
            raise RemoteError(400, "IllegalArgumentException", str(error)) from None
        async with self._stores.one() as client:
            paths = await client.call(lambda dfs: _paths(dfs, wanted, output, own))
            cuts = await client.call(lambda dfs: map_cuts(dfs, wanted, paths, streaming))
            submission = SubmitJob(
                job=job,
                name=job_name(wanted),
                package=package,
                stages=stages,
                input_paths=tuple(paths),
                output_path=output,
                output_replication=replication,
                tags=job_tags,
                output_owner=wanted.user,
                user=wanted.user,
                queue=queue_name(wanted),
                settings=wanted.settings,
                plain_names=True,
                unsplit=("",) if streaming.delimiter else UNPACKED,
                cuts=cuts,
            )
            try:
                accepted = await client.ask(submission, JobAccepted)
            except Refused as refused:
                raise RemoteError(403, "IOException", str(refused)) from None
        job_id = hadoop_job_id(self._begun_ms, accepted.job)
        told: dict[str, object] = {
            "job": job_id,
            "application": job_id.replace("job_", "application_", 1),
        }
        told |= {"splits": len(paths), "output": f"{store}{output}", "tracking": url}
        return told

    async def _figures(self, request: web.Request) -> web.Response:
        shown = request.match_info["id"]
        match = _ID.fullmatch(shown)
        if match is None or int(match[1]) != self._begun_ms:
            raise _no_job(shown)
        async with self._stores.one() as client:
            try:
                job = JobId(f"j{int(match[2])}")
                figures = await client.ask(GetJobFigures(job=job), JobFigures)
            except Refused:
                raise _no_job(shown) from None
        return web.json_response(self._told(figures))

    def _told(self, figures: JobFigures) -> dict[str, Any]:
        status = figures.status
        state = {"succeeded": "SUCCEEDED", "failed": "KILLED" if status.stopped else "FAILED"}
        return {
            "state": state.get(status.state, "RUNNING"),
            "name": status.name,
            "maps": status.maps,
            "reduces": status.reduces,
            "mapProgress": figures.map_progress,
            "reduceProgress": figures.reduce_progress,
            "waiting": status.waiting,
            "reason": status.reason,
            "counters": hadoop_counters(figures, self._scale),
            "failures": [
                {
                    "attempt": hadoop_attempt_id(self._begun_ms, failure.attempt),
                    "node": failure.node,
                    "reason": failure.reason,
                    "stderr": failure.stderr,
                }
                for failure in figures.failures
            ],
        }


async def _request_of(request: web.Request) -> StreamingRequest:
    body = await whole_body(request, _BODY_BYTES_MAX)
    try:
        return msgspec.json.decode(body, type=StreamingRequest)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RemoteError(400, "BadRequestException", f"the body: {error}") from None


def _checked_output(wanted: StreamingRequest, own: Sequence[str]) -> str:
    """The output's path; ``UsageError`` if it, an input or a setting is of another cluster."""
    for name in DEFAULT_STORE:
        if name in wanted.settings:
            check_own(f"-D {name}", wanted.settings[name], *own)
    for typed in wanted.input:
        for each in braces(typed):
            absolute(each, wanted.user, *own)
    return absolute(wanted.output, wanted.user, *own)


def _paths(
    client: DfsClient, wanted: StreamingRequest, output: str, own: Sequence[str]
) -> list[str]:
    """All input files; the output must not exist."""
    if client.exists(output):
        why = f"Output directory {wanted.output} already exists"
        raise RemoteError(403, "FileAlreadyExistsException", why)
    recursive = reads_recursively(wanted)
    found = [
        path
        for typed in wanted.input
        for path in input_files(client, typed, wanted.user, own, recursive=recursive)
    ]
    if not found:
        why = f"{', '.join(wanted.input)}: no file in it: need at least one"
        raise RemoteError(400, "InvalidInputException", why)
    for path in found:
        check_packed(client, path)
    return found


def map_cuts(
    client: DfsClient, wanted: StreamingRequest, paths: list[str], streaming: Streaming
) -> dict[str, tuple[int, ...]]:
    """Where the tasks of each file begin, unless there is one for each block."""
    lines, sizes = streaming.lines_per_map, splitting(wanted)
    whole = [path for path in dict.fromkeys(paths) if not path.endswith(UNPACKED)]
    if lines:
        return {path: line_cuts(client, path, lines) for path in whole}
    return split_cuts(client, whole, *sizes) if sizes else {}


def _no_job(shown: str) -> RemoteError:
    return RemoteError(404, "NotFoundException", f"job, {shown[:80]}, is not found")
