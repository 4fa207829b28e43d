"""Where attempts went and why, what they read, and how they ended: noted as a run is replayed.

Never here: what tasks waited for before they had attempts; see ``waits.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from railyard.cluster.ids import AttemptId, FlowId, NodeId, TaskId, task_of
from railyard.cluster.messages.execution import (
    AttemptFailed,
    AttemptKilled,
    AttemptSucceeded,
    BeginAttempt,
    CancelFlow,
    FlowFailed,
    FlowFinished,
    KillAttempt,
    LaunchAttempt,
    NodeLost,
    NodeRestarted,
    StartFlow,
)
from railyard.resourcemanager.core.state.cluster import ClusterState
from railyard.resourcemanager.core.state.jobs import Node, Task
from railyard.resourcemanager.driving.eventlog import Step, Success
from railyard.resourcemanager.driving.explaining.explanation import (
    AskedBefore,
    AttemptStory,
    Chosen,
    Fetched,
)
from railyard.resourcemanager.interface.decisions import Copy, Place, Proposal, Reserve, Take

_NOT_COUNTED = "did its task; its output does not count: others were first, or were chosen"


class AttemptLog:
    """Some of the attempts of a run."""

    def __init__(self, state: ClusterState, wanted: Callable[[AttemptId], bool]) -> None:
        self._state = state
        self._wanted = wanted  #: whether an attempt is one of them
        self.stories: dict[AttemptId, AttemptStory] = {}
        self.flows: dict[FlowId, Fetched] = {}
        self.done_s: dict[AttemptId, float] = {}  #: when attempts of any task succeeded
        self._chosen: dict[tuple[TaskId, NodeId], Chosen] = {}
        self._kept: dict[AttemptId, Success] = {}  #: attempts whose output was kept

    # Answers and proposals -----------------------------------------------------------------------
    def placed(self, task: Task, slot: Node, answer: Place, before: Sequence[AskedBefore]) -> None:
        """The tasks policy gave a slot to the task."""
        policies, stage = self._state.policies, task.stage
        free = self._state.free_nodes()
        levels: Counter[str] = Counter(
            stage.pending.level(task.index, node.id, node.rack) for node in free
        )
        self._chosen[task.id, answer.node or slot.id] = Chosen(
            who=f"{policies.name}/tasks",
            how="placed",
            why=answer.why,
            planned=policies.ask(policies.tasks.planned, task),
            order=policies.ask(policies.order.why, stage.job),
            asked_before=tuple(before),
            free_nodes=dict(levels),
        )

    def proposed(self, proposal: Proposal) -> None:
        """A policy proposes a copy, a reservation, or to take an output."""
        name = self._state.policies.name
        match proposal:
            case Copy(task=task, node=node, why=why):
                chosen = Chosen(who=f"{name}/copies", how="copied", why=why)
                self._chosen[task.id, node] = chosen
            case Reserve(task=task, node=node, why=why):
                planned = self._state.policies.ask(self._state.policies.tasks.planned, task)
                chosen = Chosen(who=f"{name}/tasks", how="reserved", why=why, planned=planned)
                self._chosen[task.id, node] = chosen
            case Take(attempt=attempt, why=why):
                story = self.stories.get(attempt.id)
                if story is not None:
                    story.outcome, story.taken = "succeeded", why or "its output was taken"

    # Events and commands -------------------------------------------------------------------------
    def take(self, step: Step) -> None:
        """Note what a step says."""
        self._take_event(step)
        for command in step.commands:
            match command:
                case LaunchAttempt(attempt=attempt) if self._wanted(attempt):
                    self._launched(command, step.at_s)
                case BeginAttempt(attempt=attempt, node=node) if attempt in self.stories:
                    story = self.stories[attempt]
                    story.slot_s = step.at_s
                    story.chosen = self._chosen.pop((task_of(attempt), node), None)
                case KillAttempt(attempt=attempt, reason=reason) if attempt in self.stories:
                    story = self.stories[attempt]
                    if story.ended_s is None:
                        story.outcome = f"was asked to end: {reason}"
                    if story.slot_s is None:
                        story.ended_s = step.at_s
                case StartFlow(reader=reader) if self._wanted(reader):
                    self._started(command, step.at_s)
                case CancelFlow(flow=flow):
                    self._flow_over(flow, "cancelled", step.at_s)

    def _take_event(self, step: Step) -> None:
        match step.event:
            case AttemptSucceeded() if step.success is not None:
                self._succeeded(step.event, step.success, step.at_s)
            case AttemptFailed(attempt=attempt, reason=reason):
                self._ended(attempt, f"failed: {reason}", step.at_s)
            case AttemptKilled(attempt=attempt):
                story = self.stories.get(attempt)
                self._ended(attempt, story.outcome if story else "", step.at_s)
            case NodeLost(node=node, reason=reason):
                self._all_ended(node, f"lost with {node}: {reason}", step.at_s)
            case NodeRestarted(node=node):
                self._all_ended(node, f"killed: the NodeManager of {node} died", step.at_s)
            case FlowFinished(flow=flow):
                self._flow_over(flow, "finished", step.at_s)
            case FlowFailed(flow=flow, reason=reason):
                self._flow_over(flow, f"failed: {reason}", step.at_s)

    def _launched(self, command: LaunchAttempt, now_s: float) -> None:
        attempt = self._state.attempt(command.attempt)
        chosen = self._chosen.pop((task_of(command.attempt), command.node), None)
        self.stories[command.attempt] = AttemptStory(
            attempt=command.attempt,
            node=command.node,
            level="unknown" if attempt is None else attempt.level,
            at_s=now_s,
            slot_s=now_s if command.begins else None,
            chosen=chosen if command.begins else None,
            reserved=None if command.begins else chosen,
            replicas=() if attempt is None else attempt.task.input.nodes,
            fetches=[],
            idle=[],
        )

    def _succeeded(self, event: AttemptSucceeded, success: Success, now_s: float) -> None:
        self.done_s[event.attempt] = now_s
        story = self.stories.get(event.attempt)
        if story is None or story.ended_s is not None:
            return
        story.read_bytes = event.local_bytes, event.rack_bytes, event.remote_bytes
        story.read_s, story.computed_s = event.read_s, event.computed_s
        taken = bool(story.taken)  # in the very same step
        outcome = "succeeded" if taken or success.state == "succeeded" else _NOT_COUNTED
        self._ended(event.attempt, outcome, now_s)
        if success.state == "kept":
            self._kept[event.attempt] = success

    def finish(self) -> None:
        """The record is over: of outputs that were kept it is known now whether they count."""
        for name, success in self._kept.items():
            if success.attempt.state in ("succeeded", "output lost"):
                self.stories[name].outcome = "succeeded; its output was kept, then taken"

    def _all_ended(self, node: NodeId, outcome: str, now_s: float) -> None:
        for story in self.stories.values():
            if story.node == node:
                self._ended(story.attempt, outcome, now_s)

    def _ended(self, attempt: AttemptId, outcome: str, now_s: float) -> None:
        story = self.stories.get(attempt)
        if story is not None and story.ended_s is None:
            story.ended_s, story.outcome = now_s, outcome

    # Fetches -------------------------------------------------------------------------------------
    def _started(self, order: StartFlow, now_s: float) -> None:
        ready = [(self.done_s[each], each) for each in order.outputs if each in self.done_s]
        last_s, last = max(ready, default=(None, None))
        fetched = self.flows[order.flow] = Fetched(
            flow=order.flow,
            coflow=order.coflow,
            reader=order.reader,
            src=order.src,
            dst=order.dst,
            size_bytes=order.size_bytes,
            weight=order.weight,
            priority=order.priority,
            started_s=now_s,
            outputs=len(order.outputs),
            last_output=last,
            last_output_s=last_s,
        )
        story = self.stories.get(order.reader)
        if story is not None:
            story.fetches.append(fetched)

    def _flow_over(self, flow: FlowId, how: str, now_s: float) -> None:
        fetched = self.flows.get(flow)
        if fetched is not None and fetched.ended_s is None:
            fetched.ended_s, fetched.how = now_s, how
