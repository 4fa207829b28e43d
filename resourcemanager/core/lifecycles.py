"""The states of jobs, tasks and attempts, and what leads from one to another: the one table.

Whatever changes such a state asks ``Lifecycle.after`` what comes next; what is not in the table is
refused.  ``scripts/state-diagrams`` draws it in ``docs/states.md``.

Never here: what else a transition entails; see ``joblife.py`` and ``attempts.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from railyard.cluster.errors import InvariantError


@dataclass(eq=False)
class Lifecycle:
    """The states of one kind of thing."""

    kind: str
    states: Mapping[str, str]  #: {state: what it means}
    transitions: Sequence[tuple[str, str, str]]  #: (state before, what happens, state after)
    ends: Sequence[str]  #: states in which a thing may stay for good
    begins: Sequence[str] = ()  #: states in which a thing begins; (): in the first

    def __post_init__(self) -> None:
        self.begins = self.begins or (next(iter(self.states)),)
        self._after = {(before, event): after for before, event, after in self.transitions}

    def after(self, state: str, event: str, name: str) -> str:
        """The state of ``name`` after an event; ``InvariantError`` if that can't happen now."""
        after = self._after.get((state, event))
        if after is None:
            raise InvariantError(f"{self.kind} {name} is {state}: it can't be {event}", [name])
        return after


JOB = Lifecycle(
    "job",
    {
        "running": "it has tasks to do",
        "committing": "its tasks are done; the NameNode puts its output in place",
        "succeeded": "its output is in place",
        "failed": "it ended without its output",
    },
    [
        ("running", "done", "committing"),
        ("running", "given up", "failed"),
        ("committing", "committed", "succeeded"),
        ("committing", "not committed", "failed"),
    ],
    ends=("succeeded", "failed"),
)

TASK = Lifecycle(
    "task",
    {
        "pending": "it needs a slot, once its stage may have one; it may have a reservation",
        "running": "it has attempts that hold slots",
        "kept": "its attempts have ended, and what they made waits to be taken",
        "done": "it has a winner: the attempt that succeeded",
        "left": "it is not needed, as enough others of its stage were done",
    },
    [
        ("pending", "launched", "running"),
        ("running", "launched again as a copy", "running"),
        ("running", "won by an attempt", "done"),
        ("running", "left by its last attempt", "pending"),
        ("running", "kept", "kept"),
        ("kept", "launched again as a copy", "running"),
        ("kept", "won by an attempt", "done"),
        ("kept", "missed, as its output is lost", "pending"),
        ("done", "missed, as its output is lost", "pending"),
        ("done", "missed before its other attempts have ended", "running"),
        ("pending", "not needed", "left"),
        ("running", "not needed", "left"),
        ("kept", "not needed", "left"),
    ],
    ends=("done", "left"),
)

ATTEMPT = Lifecycle(
    "attempt",
    {
        "reserved": "it reads what its task needs, and has no slot yet",
        "running": "it holds a slot",
        "ending": "it was asked to end, and holds its slot until it has",
        "kept": "it did its task, and its output waits to be taken",
        "succeeded": "it did its task, and its output counts",
        "failed": "it ended by itself, without its output",
        "killed": "it was asked to end, or lost with its node, or its output does not count",
        "output lost": "it did its task, and what it made for readers can't be read any more",
    },
    [
        ("reserved", "given a slot", "running"),
        ("reserved", "failed", "failed"),
        ("reserved", "killed", "killed"),
        ("reserved", "withdrawn", "killed"),
        ("reserved", "lost with its node", "killed"),
        ("running", "asked to end", "ending"),
        ("running", "successful", "succeeded"),
        ("running", "failed", "failed"),
        ("running", "killed", "killed"),
        ("running", "lost with its node", "killed"),
        ("running", "successful too late", "killed"),
        ("ending", "successful", "succeeded"),
        ("ending", "killed", "killed"),
        ("ending", "lost with its node", "killed"),
        ("ending", "successful too late", "killed"),
        ("running", "successful and kept", "kept"),
        ("ending", "successful and kept", "kept"),
        ("kept", "taken", "succeeded"),
        ("kept", "not taken", "killed"),
        ("kept", "lost with its node", "killed"),
        ("succeeded", "without its output", "output lost"),
    ],
    ends=("succeeded", "failed", "killed", "output lost"),
    begins=("reserved", "running"),
)

LIFECYCLES = (JOB, TASK, ATTEMPT)
