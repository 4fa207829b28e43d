"""Where maps were launched, by a run's ``events.jsonl``, and where their input was by then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from railyard.cluster.ids import AttemptId, JobId, NodeId, job_of, task_place
from railyard.cluster.messages import LaunchAttempt
from railyard.resourcemanager.driving.eventlog import replay
from railyard.resourcemanager.interface.events import JobSubmitted


@dataclass(frozen=True, kw_only=True)
class MapLaunch:
    """A map attempt was launched."""

    at_s: float
    attempt: AttemptId
    job_name: str
    node: NodeId
    input_nodes: tuple[NodeId, ...]  #: that held its input when its job was submitted

    @property
    def away(self) -> bool:
        """Whether it had to read from another node."""
        return self.node not in self.input_nodes


def map_launches(events: Path) -> Iterator[MapLaunch]:
    """In order; only of tasks that read files."""
    jobs: dict[JobId, JobSubmitted] = {}
    for step in replay(events):
        if isinstance(step.event, JobSubmitted):
            jobs[step.event.job] = step.event
        for command in step.commands:
            if isinstance(command, LaunchAttempt):
                job = jobs[job_of(command.attempt)]
                name, index = task_place(command.attempt)
                [inputs] = [stage.inputs for stage in job.stages if stage.name == name]
                if inputs:
                    yield MapLaunch(
                        at_s=step.at_s,
                        attempt=command.attempt,
                        job_name=job.name,
                        node=command.node,
                        input_nodes=inputs[index].nodes,
                    )
