"""Explanations of runs of the tiny cluster, through a log of events as a run leaves it."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from railyard.cluster.config import ClusterConfig
from railyard.resourcemanager.driving.eventlog import EventLog
from railyard.resourcemanager.driving.explaining.explain import explain
from railyard.resourcemanager.driving.explaining.explanation import (
    AnyExplanation,
    AttemptStory,
    TaskExplanation,
)
from tests.harness import TinyCluster

E = TypeVar("E", bound=AnyExplanation)


def write_log(c: TinyCluster, path: Path, options: dict[str, str | int | float | bool]) -> Path:
    """Write the events of a tiny cluster, made with these scheduler options."""
    name = c.core.state.policies.name
    log = EventLog(
        path, ClusterConfig(topology=c.topology, scheduler=name, scheduler_options=options)
    )
    for (at_s, event), commands in zip(c.events, c.led_to, strict=True):
        log.write(at_s, event, commands)
    log.close()
    return path


def explained(
    c: TinyCluster, tmp_path: Path, what: str, kind: type[E], **options: str | float | bool
) -> E:
    """The explanation of ``what``; ``options`` have "__" for "."."""
    named = {name.replace("__", "."): value for name, value in options.items()}
    found = explain(write_log(c, tmp_path / "events.jsonl", named), what)
    assert isinstance(found, kind)
    return found


def the_attempt(
    c: TinyCluster, tmp_path: Path, task: str, **options: str | float | bool
) -> AttemptStory:
    """The only attempt of a task, as explained."""
    [story] = explained(c, tmp_path, task, TaskExplanation, **options).attempts
    assert story.chosen is not None, f"{story.attempt} has a reason"
    return story
