"""Where an emulated run's blocks were, for a simulation of the same jobs.

Which node holds a block decides which maps are local; in a real run it depends on which generating
task ran where.  A simulation that is to be compared with it begins with the same blocks.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec

from railyard.cluster.ids import NodeId
from railyard.cluster.messages.execution import BeginAttempt, LaunchAttempt
from railyard.jobs.workloads.model import InputFile, Workload, WorkloadJob
from railyard.resourcemanager.driving.eventlog import read_log, replay
from railyard.resourcemanager.interface.events import JobSubmitted

_Nodes = tuple[NodeId, ...]


def placed_as_in(workload: Workload, events: Path) -> Workload:
    """A workload whose blocks are on the nodes that a run's ``events.jsonl`` names.

    Jobs are known by their names; one that did not run there stays as it is.
    """
    _, rows = read_log(events)
    runs = {
        job.name: [one.nodes for stage in job.stages for one in stage.inputs]
        for noted in rows
        if isinstance(job := noted.event, JobSubmitted)
    }
    jobs = tuple(_placed(job, runs.get(job.name, [])) for job in workload.jobs)
    return dataclasses.replace(workload, jobs=jobs)


def last_node(workload: Workload, events: Path) -> NodeId | None:
    """The node that a run's ResourceManager gave a task last, before the first of these jobs came.

    That is where it goes on with its offers.  None if it had given none.
    """
    names = {job.name for job in workload.jobs}
    node: NodeId | None = None
    for step in replay(events):
        if isinstance(step.event, JobSubmitted) and step.event.name in names:
            break
        for command in step.commands:
            if isinstance(command, BeginAttempt) or (
                isinstance(command, LaunchAttempt) and command.begins
            ):
                node = command.node
    return node


def _placed(job: WorkloadJob, nodes: list[_Nodes]) -> WorkloadJob:
    if len(nodes) != sum(file.blocks for file in job.files):
        return job
    files: list[InputFile] = []
    for file in job.files:
        own, nodes = nodes[: file.blocks], nodes[file.blocks :]
        files.append(msgspec.structs.replace(file, nodes=tuple(own)))
    return msgspec.structs.replace(job, files=tuple(files))
