"""Explanations of runs of the tiny cluster, through a log of events as a run leaves it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from railyard.cluster.config import ClusterConfig
from railyard.resourcemanager.driving.eventlog import EventLog
from railyard.resourcemanager.driving.explain import explain
from railyard.resourcemanager.driving.explanation import (
    AnyExplanation,
    AttemptStory,
    Chosen,
    JobExplanation,
    StageStory,
    TaskExplanation,
)
from railyard.resourcemanager.interface.recipe import Option
from tests.harness import TinyCluster, tiny_cluster

E = TypeVar("E", bound=AnyExplanation)


def write_log(c: TinyCluster, path: Path, options: dict[str, Option]) -> Path:
    """Write the events of a tiny cluster that was made with these options."""
    name = c.core.state.policies.name
    config = ClusterConfig(topology=c.topology, scheduler=name, scheduler_options=options)
    log = EventLog(path, config)
    for (at_s, event), commands in zip(c.events, c.led_to, strict=True):
        log.write(at_s, event, commands)
    log.close()
    return path


class Recorded:
    """A tiny cluster, and explanations of what has happened on it so far.

    ``options`` are those of its scheduler by their whole names, such as "delay.node_wait_s".
    """

    def __init__(
        self, folder: Path, scheduler: str, options: dict[str, Option] | None = None, **shape: Any
    ) -> None:
        self._log = folder / "events.jsonl"
        self._options = options or {}
        self.c = tiny_cluster(scheduler=scheduler, options=options, **shape)

    def log(self) -> Path:
        """The events so far, in a file."""
        return write_log(self.c, self._log, self._options)

    def of(self, what: str, kind: type[E]) -> E:
        """The explanation of ``what``."""
        found = explain(self.log(), what)
        assert isinstance(found, kind)
        return found

    def task(self, task: str) -> TaskExplanation:
        """The explanation of a task."""
        return self.of(task, TaskExplanation)

    def stage(self, stage: str) -> StageStory:
        """A stage, as the explanation of its job has it."""
        stages = {each.stage: each for each in self.of(stage.split(".")[0], JobExplanation).stages}
        return next(story for name, story in stages.items() if name == stage)

    def attempt(self, task: str) -> AttemptStory:
        """The first attempt of a task."""
        return self.task(task).attempts[0]

    def chosen(self, task: str, number: int = 0) -> Chosen:
        """Why an attempt of a task went where it did."""
        chosen = self.task(task).attempts[number].chosen
        assert chosen is not None, f"{task}.{number} has a reason"
        return chosen
