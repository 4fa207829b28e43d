"""For how long a pending task waited for what, what its job answered, and who had slots meanwhile.

Never here: attempts; see ``attempts.py``.
"""

from __future__ import annotations

import re

from railyard.cluster.ids import JobId
from railyard.resourcemanager.core.state.cluster import ClusterState
from railyard.resourcemanager.core.state.jobs import Node, Task
from railyard.resourcemanager.core.waiting import cause_of
from railyard.resourcemanager.driving.explaining.explanation import Answered, Turns, Waited
from railyard.resourcemanager.interface.decisions import Pass, Wait

#: Figures in a reason, which may change while it stays the same; not those of ids, such as r1.
_FIGURES = re.compile(r"(?<![a-z\d])\d[\d.,:e+-]*")
#: What a task can only wait for before it could have had a slot.
_NOT_RUNNABLE = ("shuffle", "sources")


class Waits:
    """What one task went through while it was pending."""

    def __init__(self) -> None:
        self.waits: list[Waited] = []
        self.answers: list[Answered] = []
        self._by_key: dict[tuple[str, str, str], Answered] = {}
        self.turns = Turns(slots={}, order=[])
        self.plans: list[tuple[float, str]] = []  #: what was planned for it, when that changed
        self.runnable_s: float | None = None
        self.is_waiting = False  #: whether it was pending after the event before

    def answered(self, state: ClusterState, task: Task, slot: Node, answer: Wait | Pass) -> None:
        """Its job was offered a slot and did not take it."""
        what, until_s = ("wait", answer.until_s) if isinstance(answer, Wait) else ("pass", None)
        planned = state.policies.ask(state.policies.tasks.planned, task)
        key = what, answer.reason, planned
        last = self._by_key.get(key)
        if last is None:
            last = self._by_key[key] = Answered(
                from_s=state.now_s, to_s=state.now_s, offers=0, answer=what,
                why=answer.reason, until_s=until_s, nodes=(), planned=planned,
            )  # fmt: skip
            self.answers.append(last)
        last.to_s, last.until_s, last.offers = state.now_s, until_s, last.offers + 1
        if slot.id not in last.nodes:
            last.nodes += (slot.id,)

    def launched_other(self, job: JobId) -> None:
        """An attempt of another task got a slot; no matter while this one could not have had it."""
        if self.is_waiting and self.waits and self.waits[-1].cause not in _NOT_RUNNABLE:
            self.turns.slots[job] = self.turns.slots.get(job, 0) + 1

    def launched(self, now_s: float) -> None:
        """The task got a slot."""
        if self.runnable_s is None:
            self.runnable_s = now_s

    def review(self, state: ClusterState, task: Task | None) -> None:
        """An event was handled: note what the task waits for now; None = it is not pending."""
        now_s = state.now_s
        if self.is_waiting and self.waits:
            self.waits[-1].to_s = now_s
        self.is_waiting = task is not None
        if task is None:
            return
        cause = cause_of(state, task)
        if self.runnable_s is None and cause.what not in _NOT_RUNNABLE:
            self.runnable_s = now_s
        who = _who(state, cause.what)
        last = self.waits[-1] if self.waits else None
        if last is not None and last.from_s == last.to_s == now_s and not _same(last, cause):
            self.waits.pop()  # it was so for no time
            last = self.waits[-1] if self.waits else None
        if last is not None and last.to_s == now_s and _same(last, cause):
            last.why_last = cause.why
        else:
            new = Waited(
                from_s=now_s, to_s=now_s, who=who, cause=cause.what,
                why=cause.why, why_last=cause.why,
            )  # fmt: skip
            self.waits.append(new)
        planned = state.policies.ask(state.policies.tasks.planned, task)
        if planned != (self.plans[-1][1] if self.plans else ""):
            self.plans.append((now_s, planned))
        if cause.what in ("slots", "order"):
            order = state.policies.ask(state.policies.order.why, task.stage.job)
            if not self.turns.order or self.turns.order[-1][1] != order:
                self.turns.order.append((now_s, order))

    def finish(self) -> None:
        """The record is over: drop what lasted no time, but not what still lasts."""
        last = self.waits[-1:] if self.is_waiting else []
        self.waits = [each for each in self.waits if each.to_s > each.from_s or each in last]


def _same(wait: Waited, cause: tuple[str, str]) -> bool:
    """Whether it waits for the same, but for figures."""
    what, why = cause
    return wait.cause == what and _FIGURES.sub("#", wait.why) == _FIGURES.sub("#", why)


def _who(state: ClusterState, cause: str) -> str:
    if cause in ("order", "tasks", "shuffle"):
        return f"{state.policies.name}/{cause}"
    return "nodes" if cause == "nodes" else "core"
