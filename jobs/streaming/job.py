"""The job that runs a streaming job's programs: ``StreamingJob``, of which each one is a case."""

from __future__ import annotations

import msgspec

from railyard.jobs.formats import Lines
from railyard.jobs.model import Job, Stage, StageSpec
from railyard.jobs.streaming.operators import StreamingMap, StreamingReduce
from railyard.jobs.streaming.specification import Streaming


class StreamingJob(Job):
    """A mapper over lines, and a reducer if there are reduces; both are programs."""

    input = Lines()
    specification: bytes  #: a ``Streaming`` as JSON

    def setup(self) -> None:
        """Read the specification."""
        try:
            self._streaming = msgspec.json.decode(self.specification, type=Streaming)
        except msgspec.MsgspecError as error:
            raise ValueError(f"its specification is none: {error}") from None

    def stage_specs(self, reduces: int = 1) -> tuple[StageSpec, ...]:
        """The stages, each with the failures of one task and the copies that it allows."""
        job = self._streaming
        allowed = {
            "m": {"max_attempts": job.map_attempts, "may_copy": job.map_copies},
            "r": {"max_attempts": job.reduce_attempts, "may_copy": job.reduce_copies},
        }
        return tuple(
            msgspec.structs.replace(spec, **allowed[spec.name])
            for spec in super().stage_specs(reduces)
        )

    def stages(self) -> tuple[Stage, ...]:
        """Maps, and as many reduces as the specification says."""
        job = self._streaming
        mapper = Stage("m", StreamingMap(job))
        if not job.reduces:
            return (mapper,)
        reducer = Stage("r", StreamingReduce(job), reads=("m",), tasks=job.reduces)
        return (mapper, reducer)
