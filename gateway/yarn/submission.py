"""``POST /ws/v1/cluster/apps``: jobs are submitted as YARN's clients submit applications.

    POST .../apps/new-application     an id for an application to come
    POST .../apps                     the application; 202 with its Location

No ApplicationMaster runs here, so a command to start one is refused: what is to be done is in the
field "railyard", a streaming job with the fields of ``StreamingRequest``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web

from railyard.cluster.errors import Refused
from railyard.cluster.files.runfolder import RunFolder
from railyard.gateway.http.bodies import json_body
from railyard.gateway.stores import Stores
from railyard.gateway.yarn.accepted import SUBMIT
from railyard.gateway.yarn.answering import answering, bad, fields
from railyard.gateway.yarn.ids import job_id, job_named
from railyard.gateway.yarn.numbers import SLOT_MB
from railyard.gateway.yarn.streaming import StreamingRest
from railyard.jobs.streaming.request import StreamingRequest
from railyard.resourcemanager.process.messages import JobIdReserved, ReserveJobId

_APPS = "/ws/v1/cluster/apps"
_NAME, _QUEUE, _TAGS = "mapreduce.job.name", "mapreduce.job.queuename", "mapreduce.job.tags"
_FIELDS = {_NAME: "application-name", _QUEUE: "queue", _TAGS: "application-tags"}
_TYPE = "MAPREDUCE"


class Submission:
    """Takes applications."""

    def __init__(self, stores: Stores, folder: RunFolder, streaming: StreamingRest) -> None:
        self._stores = stores
        self._begun_ms = int(folder.made_s * 1000)
        self._streaming = streaming

    def add_to(self, app: web.Application) -> None:
        """Route requests here."""
        app.router.add_post(f"{_APPS}/new-application", answering(self._new))
        app.router.add_post(_APPS, answering(self._submit))

    async def _new(self, _: web.Request) -> dict[str, Any]:
        async with self._stores.one() as store:
            try:
                reserved = await store.ask(ReserveJobId(), JobIdReserved)
            except Refused as refused:
                raise bad(str(refused)) from None
        return {
            "application-id": job_id(self._begun_ms, reserved.job, "application"),
            "maximum-resource-capability": {"memory": SLOT_MB, "vCores": 1},
        }

    async def _submit(self, request: web.Request) -> web.Response:
        body = fields(SUBMIT, await json_body(request))
        name = body.get("application-id")
        job = job_named(self._begun_ms, name) if isinstance(name, str) else None
        if not isinstance(name, str) or job is None:
            raise bad("application-id: need one that new-application gave")
        await self._streaming.submit(_wanted(body), request.host, job)
        location = f"{request.scheme}://{request.host}{_APPS}/{name}"
        return web.Response(status=202, headers={"Location": location})


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
    given = {_NAME: body.get("application-name"), _QUEUE: body.get("queue"), _TAGS: _tags(body)}
    for name, text in given.items():
        if text is not None and not isinstance(text, str):
            raise bad(f"{_FIELDS[name]}: need a text")
    named = {name: str(text) for name, text in given.items() if text}
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
