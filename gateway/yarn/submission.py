"""Jobs come in by HTTP: streaming jobs, as ``hadoop jar`` sends them and as YARN's applications.

    POST /ws/v1/railyard/streaming                  a ``StreamingRequest``; 202 with its job's ids
    GET  /ws/v1/railyard/jobs/{id}                  how far a job is, its failed attempts, counters
    POST /ws/v1/cluster/apps/new-application        an id for an application to come
    POST /ws/v1/cluster/apps                        the application; 202 with its Location

The first two are ours: Hadoop's own way in is by Java classes.  No ApplicationMaster runs here, so
an application's command to start one is refused: its field "railyard" has a streaming job, with the
fields of ``StreamingRequest``.  Not here: what its options mean (``jobs.streaming``).
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from aiohttp import web

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import Refused, UsageError
from railyard.cluster.fileheads import PACKED_HEAD_BYTES, UNPACKED, ending_of, fault_of
from railyard.cluster.ids import JobId
from railyard.cluster.runfolder import RunFolder
from railyard.dfs.client import DfsClient, is_pattern, matching
from railyard.dfs.messages import FileStatus
from railyard.gateway.address import known_url
from railyard.gateway.http.answers import RemoteError, illegal, json_body, whole_body
from railyard.gateway.shell.generic import DEFAULT_STORE
from railyard.gateway.shell.paths import absolute, braces, check_own
from railyard.gateway.stores import Stores
from railyard.gateway.yarn.answers import answering, bad, fields, not_found
from railyard.gateway.yarn.mapreduce import hadoop_counters, state_of
from railyard.gateway.yarn.numbers import SLOT_MB, job_named
from railyard.jobs.formats import raw_lines
from railyard.jobs.package import pack_job
from railyard.jobs.streaming.job import StreamingJob, hadoop_attempt_id, hadoop_job_id
from railyard.jobs.streaming.request import (
    Streaming,
    StreamingRequest,
    job_name,
    output_replication,
    queue_name,
    reads_recursively,
    splitting,
    streaming_of,
    tags,
)
from railyard.resourcemanager.process.messages import (
    GetJobDetails,
    JobAccepted,
    JobDetails,
    JobIdReserved,
    ReserveJobId,
    SubmitJob,
)

FILES_MAX = 2**14
TASKS_MAX = 10_000  #: maps by numbers of lines
_HIDDEN = ("_", ".")
_OWN_ROOT, _APPS = "/ws/v1/railyard", "/ws/v1/cluster/apps"
#: {setting of a job: field of an application}
_FIELDS = {
    "mapreduce.job.name": "application-name",
    "mapreduce.job.queuename": "queue",
    "mapreduce.job.tags": "application-tags",
}
_TYPE = "MAPREDUCE"
_invalid = partial(RemoteError, 400, "InvalidInputException")


class Submission:
    """Takes streaming jobs and applications, and says how they are."""

    def __init__(self, stores: Stores, folder: RunFolder, config: ClusterConfig) -> None:
        self._stores = stores
        self._folder = folder
        self._scale = config.topology.scale
        self._begun_ms = int(folder.made_s * 1000)

    def add_to(self, app: web.Application) -> None:
        app.router.add_post(f"{_OWN_ROOT}/streaming", self._take_streaming)
        app.router.add_get(f"{_OWN_ROOT}/jobs/{{id}}", self._figures)
        app.router.add_post(f"{_APPS}/new-application", answering(self._new_application))
        app.router.add_post(_APPS, answering(self._take_application))

    # Streaming jobs ------------------------------------------------------------------------------
    async def _take_streaming(self, request: web.Request) -> web.Response:
        body = await whole_body(request)
        try:
            wanted = msgspec.json.decode(body, type=StreamingRequest)
        except (ValueError, RecursionError) as error:  # msgspec's errors are of the first kind
            raise bad(f"the body: {error}") from None
        return web.json_response(await self._submit(wanted, request.host), status=202)

    async def _submit(
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
            output = _checked_output(wanted, own)
        except UsageError as error:
            raise illegal(str(error)) from None
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
                output_replication=output_replication(wanted),
                tags=tags(wanted),
                output_owner=wanted.user,
                user=wanted.user,
                queue=queue_name(wanted),
                settings=wanted.settings,
                plain_names=True,
                unsplit=("",) if streaming.delimiter else UNPACKED,
                cuts=cuts,
            )
            accepted = await client.ask(submission, JobAccepted)
        return {
            "job": hadoop_job_id(self._begun_ms, accepted.job),
            "application": hadoop_job_id(self._begun_ms, accepted.job, "application"),
            "splits": len(paths),
            "output": f"{store}{output}",
            "tracking": url,
        }

    async def _figures(self, request: web.Request) -> web.Response:
        name = request.match_info["id"]
        no_job = not_found(f"job, {name[:80]}, is not found")
        job = job_named(self._begun_ms, name)
        if job is None:
            raise no_job
        try:
            figures = await self._stores.ask(GetJobDetails(job=job), JobDetails)
        except Refused:
            raise no_job from None
        status, copied = figures.status, ("name", "maps", "reduces", "waiting", "reason")
        answer = {
            "state": state_of(status),
            "mapProgress": figures.map_progress,
            "reduceProgress": figures.reduce_progress,
            **{key: getattr(status, key) for key in copied},
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
        return web.json_response(answer)

    # YARN's applications -------------------------------------------------------------------------
    async def _new_application(self, _: web.Request) -> dict[str, Any]:
        try:
            reserved = await self._stores.ask(ReserveJobId(), JobIdReserved)
        except Refused as refused:
            raise bad(str(refused)) from None
        return {
            "application-id": hadoop_job_id(self._begun_ms, reserved.job, "application"),
            "maximum-resource-capability": {"memory": SLOT_MB, "vCores": 1},
        }

    async def _take_application(self, request: web.Request) -> web.Response:
        body = fields("POST apps", await json_body(request))
        name = body.get("application-id")
        job = job_named(self._begun_ms, name) if isinstance(name, str) else None
        if job is None:
            raise bad("application-id: need one that new-application gave")
        await self._submit(_wanted(body), request.host, job)
        location = f"{request.scheme}://{request.host}{_APPS}/{name}"
        return web.Response(status=202, headers={"Location": location})


def _checked_output(wanted: StreamingRequest, own: Sequence[str]) -> str:
    """The output's path; ``UsageError`` if it, an input or a setting is of another cluster."""
    for name in DEFAULT_STORE:
        if name in wanted.settings:
            check_own(f"-D {name}", wanted.settings[name], *own)
    for typed in wanted.input:
        for each in braces(typed):
            absolute(each, wanted.user, *own)
    return absolute(wanted.output, wanted.user, *own)


def _wanted(body: Mapping[str, Any]) -> StreamingRequest:
    if str(body.get("application-type") or _TYPE).upper() != _TYPE:
        raise bad(f"application-type: need {_TYPE}")
    own = body.get("railyard")
    if own is None:
        raise bad(
            'no command of an ApplicationMaster can run here: need the field "railyard" with a'
            " streaming job: input, output, mapper, reducer"
        )
    try:
        wanted = msgspec.convert(own, StreamingRequest)
    except msgspec.ValidationError as error:
        raise bad(f"railyard: {error}") from None
    named = {}
    for setting, field in _FIELDS.items():
        text = _tags(body) if field == "application-tags" else body.get(field)
        if text is not None and not isinstance(text, str):
            raise bad(f"{field}: need a text")
        if text:
            named[setting] = text
    return msgspec.structs.replace(wanted, settings=named | wanted.settings)


def _tags(body: Mapping[str, Any]) -> str:
    """Its tags, with commas, as a job's setting has them."""
    given = body.get("application-tags")
    tags = given.get("tag", []) if isinstance(given, Mapping) else given or []
    tags = [tags] if isinstance(tags, str) else tags
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise bad('application-tags: need {"tag": ["a", "b"]}')
    if any("," in tag for tag in tags):
        raise bad("application-tags: need tags without commas")
    return ",".join(tags)


# Inputs: folders, patterns, what is hidden in them, and where the tasks of each file begin --------
def _paths(dfs: DfsClient, wanted: StreamingRequest, output: str, own: Sequence[str]) -> list[str]:
    """All input files; the output must not exist."""
    if dfs.exists(output):
        why = f"Output directory {wanted.output} already exists"
        raise RemoteError(403, "FileAlreadyExistsException", why)
    recursive = reads_recursively(wanted)
    found = [
        path
        for typed in wanted.input
        for path in input_files(dfs, typed, wanted.user, own, recursive=recursive)
    ]
    if not found:
        raise _invalid(f"{', '.join(wanted.input)}: no file in it: need at least one")
    for path in found:
        head = b""
        if ending_of(path):
            head = b"".join(map(bytes, dfs.read(path, 0, PACKED_HEAD_BYTES)))
        if fault := fault_of(path, head):
            raise _invalid(fault)  # no task could read it
    return found


def input_files(
    client: DfsClient, typed: str, user: str, own: Sequence[str] = (), *, recursive: bool
) -> list[str]:
    """The paths of all files of an input, in order; raises ``RemoteError`` if there is none.

    ``own``: the block store's addresses; ``UsageError`` for an input of another.  As in Hadoop,
    names that begin with _ or . are no input, and inner folders are refused unless ``recursive``.
    """
    paths = [absolute(each, user, *own) for each in braces(typed)]
    found = [status for path in paths for status in matching(client, path)]
    if not found:
        magic = is_pattern(typed) or len(paths) > 1
        why = "Input Pattern {} matches 0 files" if magic else "Input path does not exist: {}"
        raise _invalid(why.format(typed))
    files = [path for status in found for path in _files(client, status, recursive)]
    if len(files) > FILES_MAX:
        raise _invalid(f"{typed}: {len(files)} files: need at most {FILES_MAX}")
    return files


def _files(client: DfsClient, status: FileStatus, recursive: bool) -> Iterator[str]:
    if not status.folder:
        yield status.path
        return
    for entry in client.list(status.path):
        if posixpath.basename(entry.path).startswith(_HIDDEN):
            continue
        if entry.folder and not recursive:
            right = "-D mapreduce.input.fileinputformat.input.dir.recursive=true reads it"
            raise _invalid(f"Not a file: {entry.path} ({right})")
        yield from _files(client, entry, recursive)


def map_cuts(
    client: DfsClient, wanted: StreamingRequest, paths: list[str], streaming: Streaming
) -> dict[str, tuple[int, ...]]:
    """Where the tasks of each file begin, unless there is one for each block."""
    whole = [path for path in dict.fromkeys(paths) if not path.endswith(UNPACKED)]
    if lines := streaming.lines_per_map:
        return {path: line_cuts(client, path, lines) for path in whole}
    sizes = splitting(wanted)
    return _split_cuts(client, whole, *sizes) if sizes else {}


def line_cuts(client: DfsClient, path: str, lines: int) -> tuple[int, ...]:
    """The offsets at which every so many lines of a file begin; none of an empty file."""
    begins: list[int] = []
    offset = number = 0
    for block in raw_lines(client.read(path)):
        for line in block.splitlines(keepends=True):
            if number % lines == 0:
                begins.append(offset)
                if len(begins) > TASKS_MAX:
                    raise _invalid(f"{path}: more than {TASKS_MAX} maps of {lines} lines")
            number += 1
            offset += len(line)
    return tuple(begins)


def _split_cuts(
    client: DfsClient, paths: Sequence[str], maps: int, bytes_min: int
) -> dict[str, tuple[int, ...]]:
    """Where the tasks of each file begin if there should be about so many; {} for empty files.

    As in Hadoop, a task gets at most a block and at most its share of all bytes, but at least
    ``bytes_min``; the last one of a file up to a tenth more.
    """
    lengths = {path: client.status(path).stored_length for path in paths}
    share = sum(lengths.values()) // max(1, maps)
    cuts = {}
    for path, length in lengths.items():
        if not length:
            continue
        block = client.locations(path)[0].stored_length
        step = max(1, bytes_min, min(share, block))
        count = max(1, -(-(10 * length - 11 * step) // (10 * step)) + 1)
        if count > TASKS_MAX:
            raise _invalid(f"{path}: {count} maps of {step} bytes: need at most {TASKS_MAX}")
        cuts[path] = tuple(range(0, count * step, step))
    return cuts
