"""A core rebuilt from its journal, and whether it is what it was.

Not here: files; the journal is a list (``resourcemanager.process.restart.journal`` has that of a
cluster).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from railyard.cluster.errors import InvariantError
from railyard.cluster.messaging.wire import Command, Event
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.core.state.jobs import Attempt, Job


class Journaled(msgspec.Struct, frozen=True, gc=False):
    """An event, its time and the commands that it led to."""

    at_s: float
    event: Event
    commands: list[Command]


def rebuilt(core: Core, journal: Iterable[Journaled]) -> Core:
    """Let a fresh core handle all events; ``InvariantError`` if it gives other commands."""
    for each in journal:
        commands = core.handle(each.event, each.at_s)
        if commands != each.commands:
            what = f"{each.event} at {each.at_s} s led to {each.commands}, and now to {commands}"
            raise InvariantError(f"replay: {what}")
    return core


def check_same(dead: Core, core: Core) -> None:
    """Raise ``InvariantError`` unless a rebuilt core is as the one that died."""
    for name, before, now in zip(_PARTS, _seen(dead), _seen(core), strict=True):
        if before != now:
            raise InvariantError(f"replay: {name} were {before}, and are {now}")


_PARTS = ("nodes", "jobs", "attempts", "fetches", "coflows", "moves", "random numbers")


def _seen(core: Core) -> tuple[Any, ...]:
    state = core.state
    return (
        [
            (node.id, node.alive, node.slots, node.free, list(node.attempts), list(node.reserved))
            for node in state.nodes.values()
        ],
        [_job(job) for job in (*state.jobs.values(), *state.draining.values())],
        [_attempt(each) for each in (*state.attempts.values(), *state.reserved.values())],
        [fetch.start_order for fetch in core.fetches.values()],
        core.open_coflows,
        core.moves,
        state.random.getstate(),
    )


def _job(job: Job) -> tuple[Any, ...]:
    tasks = [task.state for stage in job.stages.values() for task in stage.tasks]
    return job.id, job.state, job.held, tasks


def _attempt(attempt: Attempt) -> tuple[Any, ...]:
    missing = None if attempt.reader is None else attempt.reader.missing
    return attempt.id, attempt.state, attempt.node.id, attempt.killing, attempt.progress, missing
