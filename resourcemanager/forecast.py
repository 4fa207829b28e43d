"""What is foretold of a job before it runs, from earlier runs of the same recurring job.

All ``_bytes`` are the model's.  A job of which nothing is known has no forecast.
"""

from __future__ import annotations

import msgspec


class StageForecast(msgspec.Struct, frozen=True, kw_only=True):
    """A stage as it is expected to be."""

    name: str  #: as the job's stage is called
    reads: tuple[str, ...] = ()  #: the stages whose output it fetches; none: it reads files
    tasks: int
    input_bytes: int  #: what all its tasks read or fetch
    output_bytes: int  #: what each of its readers fetches, or what is stored if nobody reads it
    #: a task takes ``task_s`` and besides its input / ``rate``; None = the topology's compute rate
    task_s: float = 0.0
    rate_bytes_per_s: float | None = None


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it is expected to be."""

    name: str  #: of the recurring job; its instances share it
    stages: tuple[StageForecast, ...]  #: each after those that it reads
    submit_s: float | None = None  #: when it is expected to come, by the core's clock

    def stage(self, name: str) -> StageForecast | None:
        """The stage of that name, if it is foretold."""
        return next((stage for stage in self.stages if stage.name == name), None)
