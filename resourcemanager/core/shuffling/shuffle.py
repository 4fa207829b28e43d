"""Fetches: how the output of finished tasks gets to the attempts that read it.

A reading attempt has at most one flow from each node at a time, which carries all of that node's
outputs that were ready when it started; when it has finished and more is ready, the next one
starts.  That is Hadoop's fetch by host.  All flows of a reading stage are one coflow.

Never here: running tasks again after their output is lost; see ``attempts.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import numpy as np

from railyard.cluster.ids import AttemptId, CoflowId, FlowId, NodeId, StageId
from railyard.cluster.messages import CancelFlow, FlowFailed, FlowFinished
from railyard.cluster.messaging.wire import Priority, Weight
from railyard.resourcemanager.core.cluster import ClusterState
from railyard.resourcemanager.core.jobs import Attempt, Job, Node, Stage, Task
from railyard.resourcemanager.core.shuffling import loops
from railyard.resourcemanager.core.shuffling.fetches import (
    Arriving,
    CancelFetch,
    Fetch,
    FetchesEnded,
    StageShuffle,
    StartFetches,
)
from railyard.resourcemanager.core.shuffling.loops import Numbers
from railyard.resourcemanager.interface.commands import CloseCoflow, OpenCoflow
from railyard.resourcemanager.interface.policies import FlowPolicy

#: A reader tries a node this often in a row before the outputs there count as lost.
TRIES_MAX = 4


class Shuffle:
    """Starts and stops the fetches of all jobs."""

    def __init__(self, state: ClusterState, *, compile_loops: bool = False) -> None:
        self._state = state
        #: those of jobs that have not ended, by their reading stages; to be read only
        self.stages: dict[StageId, StageShuffle] = {}
        self._by_number: dict[int, StageShuffle] = {}
        self._numbered = 0  #: stages so far
        self._begun = 0  #: fetches so far
        self._loop = loops.compiled() if compile_loops else loops.go_on
        nodes = list(state.topology.nodes())
        self._node_number = {node.id: number for number, node in enumerate(nodes)}
        self._racks = list(dict.fromkeys(node.rack for node in nodes))
        self._rack_of = np.array([self._racks.index(node.rack) for node in nodes], np.int64)
        flows, hooks = state.policies.flows, state.policies.hooks
        #: whether policies look at each fetch, which so has to end by itself
        self.looks_at_each = bool(
            hooks["fetch_started"]
            or hooks["fetch_ended"]
            or type(flows).weight is not FlowPolicy.weight
            or type(flows).priority is not FlowPolicy.priority
        )
        #: whether orders about fetches are given one by one, with names, as on a cluster
        self.by_name = True
        #: {fetch under way: as policies see it}, if they look at each
        self._seen: dict[int, Fetch] = {}

    # Jobs and stages -----------------------------------------------------------------------------
    def job_submitted(self, job: Job) -> None:
        for stage in job.reduces:
            self._numbered += 1
            shuffle = StageShuffle(stage, self._numbered, len(self._racks))
            self.stages[stage.id] = self._by_number[self._numbered] = shuffle

    def job_stopped(self, job: Job) -> None:
        """Nothing of the job will be fetched any more: coflows that are open end unfinished."""
        for stage in job.reduces:
            shuffle = self.stages[stage.id]
            if shuffle.started_s is not None:
                shuffle.started_s = None
                self._state.emit(CloseCoflow(coflow=shuffle.coflow))

    def job_ended(self, job: Job) -> None:
        for stage in job.reduces:
            shuffle = self.stages.pop(stage.id)
            shuffle.count(self._racks)
            del self._by_number[shuffle.number]

    def stage_done(self, stage: Stage) -> None:
        """A reading stage has nothing left to fetch: its coflow is over."""
        shuffle = self.stages[stage.id]
        shuffle.count(self._racks)
        if shuffle.started_s is None or shuffle.ended_s is None:
            return
        self._state.emit(CloseCoflow(coflow=shuffle.coflow))
        stage.job.record.cct_s.append(shuffle.ended_s - shuffle.started_s)
        shuffle.started_s = shuffle.ended_s = None

    def begin_to_fetch(self, stage: Stage) -> None:
        """Ask the policy whether the readers of a stage may begin to fetch; if so, all do."""
        policies, shuffle = self._state.policies, self.stages[stage.id]
        if not shuffle.fetching and policies.ask(policies.shuffle.may_fetch, stage):
            shuffle.fetching = True
            self._fetch(shuffle, shuffle.place_of.values(), stage.at_work)

    # Readers and outputs -------------------------------------------------------------------------
    def reader_launched(self, attempt: Attempt) -> None:
        """A reading attempt is there: it fetches what is ready, unless the policy says wait."""
        stage = attempt.task.stage
        shuffle = self.stages[stage.id]
        if attempt.reader is None:  # else it was a reservation
            attempt.reader = shuffle.add_reader(attempt, self._node_number[attempt.node.id])
        if shuffle.fetching:
            self._fetch(shuffle, shuffle.place_of.values(), [attempt])
        else:
            self.begin_to_fetch(stage)

    def is_missing_any(self, attempt: Attempt) -> bool:
        """Whether an attempt reads stages and has yet to fetch some of their outputs."""
        if attempt.reader is None:
            return False
        return self.stages[attempt.task.stage.id].missing(attempt.reader) > 0

    def is_to_fetch(self, stage: Stage, task: Task) -> bool:
        """Whether an attempt of a reading stage has yet to fetch ``task``'s output.

        Whatever a pending task has reserved and fetched may be withdrawn.  O(slots that it holds).
        """
        if stage.pending.count:
            return True
        source, fetched = task.stage.name, self.stages[stage.id].fetched
        readers = [each.reader for each in stage.live.values() if not each.killing]
        return any(
            not fetched(each)[source] >> task.index & 1 for each in readers if each is not None
        )

    def output_ready(self, attempt: Attempt) -> None:
        """A task that others read is done: they fetch its output."""
        stage, node = attempt.task.stage, attempt.node
        stage.outputs.setdefault(node.id, []).append(attempt)
        for reader_stage in stage.readers:
            shuffle = self.stages[reader_stage.id]
            place = shuffle.add_output(attempt, self._node_number[node.id])
            if shuffle.fetching:
                self._fetch(shuffle, (place,), reader_stage.at_work)
            else:
                self.begin_to_fetch(reader_stage)

    def try_again(self, attempt: Attempt, node: Node) -> None:
        """Fetch what is left to fetch from a node, after a fetch that broke off."""
        shuffle = self.stages.get(attempt.task.stage.id)  # none if its job has just failed
        place = None if shuffle is None else shuffle.place_of.get(node.id)
        if shuffle is not None and place is not None:
            self._fetch(shuffle, (place,), [attempt])

    def stop(self, attempt: Attempt) -> None:
        shuffle = self.stages.get(attempt.task.stage.id)
        if attempt.reader is not None and shuffle is not None:
            for fetch in shuffle.under_way(reader=attempt.reader):
                self._cancel(shuffle, fetch)

    def source_lost(self, node: Node) -> list[Attempt]:
        """Cancel all fetches from a node; returns whose they were.  O(stages)."""
        readers: list[Attempt] = []
        for shuffle in self.stages.values():
            place = shuffle.place_of.get(node.id)
            for fetch in [] if place is None else shuffle.under_way(place=place):
                readers.append(shuffle.reader_of(fetch))
                self._cancel(shuffle, fetch)
        return readers

    def output_lost(self, attempt: Attempt) -> None:
        """What a task made can't be fetched any more."""
        for stage in attempt.task.stage.readers:
            shuffle = self.stages.get(stage.id)  # none if its job has just failed
            if shuffle is not None:
                shuffle.be_careful()

    # Ends of fetches -----------------------------------------------------------------------------
    def finished(self, event: FlowFinished) -> None:
        if (fetch := self._found(event.flow)) is not None:
            self._go_on(np.array([fetch]), ended=True)

    def ended(self, event: FetchesEnded) -> None:
        """Fetches are complete, one after the other."""
        self._go_on(event.fetches, ended=True)

    def failed(self, event: FlowFailed) -> tuple[Attempt, Node, list[Attempt], bool] | None:
        """A fetch broke off: it is to be tried again.

        Returns its reader, where it came from, the outputs that now count as lost, and whether
        those who made them are to blame: not when their NodeManager is gone, unless one reader says
        so again and again.  None if it is not known any more.
        """
        fetch = self._found(event.flow)
        if fetch is None:
            return None
        shuffle = self.stage_of(fetch)
        shuffle.be_careful()
        outputs = shuffle.outputs(fetch)
        if event.gone:  # nobody else closes the flow
            self._cancel(shuffle, fetch)
        else:
            self._break_off(shuffle, fetch)
        lost = [output for output in outputs if output.id in event.lost]
        tries = shuffle.tries[fetch] = shuffle.tries.get(fetch, 0) + 1
        tried_enough = tries >= TRIES_MAX
        if not lost and tried_enough:
            lost = list(outputs)
        to_blame = tried_enough or not event.gone
        if lost and to_blame:
            del shuffle.tries[fetch]
        lost = [output for output in lost if not output.output_lost]
        return shuffle.reader_of(fetch), shuffle.node_of(fetch), lost, to_blame

    # What can be seen ----------------------------------------------------------------------------
    @property
    def open_coflows(self) -> list[CoflowId]:
        """The coflows that were opened and not closed."""
        return [each.coflow for each in self.stages.values() if each.started_s is not None]

    @property
    def fetches(self) -> dict[FlowId, Fetch]:
        """All fetches under way, in the order in which they began.  O(fetches)."""
        fetches = [
            self._as_fetch(shuffle, fetch)
            for shuffle in self.stages.values()
            for fetch in shuffle.under_way()
        ]
        return {fetch.id: fetch for fetch in sorted(fetches, key=lambda each: each.order)}

    def arriving(self, fetches: Numbers) -> Iterator[Arriving]:
        """What fetches are about to bring, in this order; see ``StageShuffle``."""
        parts: list[Arriving] = [(AttemptId(""), 0, 0, 0.0)] * len(fetches)
        for shuffle, at in self._by_stage(fetches):
            if at is None:
                return shuffle.arriving(fetches)
            for place, each in zip(at.tolist(), shuffle.arriving(fetches[at]), strict=True):
                parts[place] = each
        return iter(parts)

    def stage_of(self, fetch: int) -> StageShuffle:
        return self._by_number[fetch >> loops.STAGE_SHIFT]

    def count_all(self) -> None:
        for shuffle in self.stages.values():
            shuffle.count(self._racks)

    # Inside --------------------------------------------------------------------------------------
    def _fetch(
        self, shuffle: StageShuffle, places: Iterable[int], readers: Iterable[Attempt]
    ) -> None:
        """Start flows where something new is ready and none is under way."""
        alive = [place for place in places if shuffle.nodes[place].alive]
        numbers = [a.reader for a in readers if a.reader is not None and not a.killing]
        if fetches := shuffle.fetches(alive, numbers):
            self._go_on(np.array(fetches), ended=False)

    def _go_on(self, fetches: Numbers, *, ended: bool) -> None:
        """Let fetches end, if they have, and begin those that may."""
        parts, stages = list[Numbers](), dict[int, StageShuffle]()
        for shuffle, at in self._by_stage(fetches):
            part = shuffle.go_on(fetches if at is None else fetches[at], ended, self._run_loop)
            if part.shape[1]:
                if at is not None:
                    part[loops.AFTER] = at[part[loops.AFTER]]
                parts, stages[shuffle.number] = [*parts, part], shuffle
        if self.looks_at_each and ended:
            for number in fetches.tolist():
                self._notify_ended(number)
        if len(parts) > 1:
            together = np.concatenate(parts, axis=1)
            parts = [together[:, together[loops.AFTER].argsort(kind="stable")]]
        for found in parts:
            self._start(found, stages)

    def _run_loop(self, arrays: loops.Arrays, fetches: Numbers, ended: bool) -> Numbers:
        loop = self._loop if len(fetches) > 1 else loops.go_on  # it is called the faster
        now_s = self._state.now_s
        found: Numbers = loop(arrays, self._rack_of, fetches, ended, now_s, self._begun)
        self._begun += found.shape[1]
        return found

    def _start(self, found: Numbers, stages: dict[int, StageShuffle]) -> None:
        """Start the flows of fetches of ``stages`` that begin; the first opens its coflow."""
        fetches, src, dst = found[loops.FETCH], found[loops.SRC], found[loops.DST]
        crossing = fetches[src != dst] >> loops.STAGE_SHIFT
        for number, shuffle in stages.items():
            if shuffle.started_s is None and number in crossing:
                shuffle.started_s = self._state.now_s
                self._state.emit(OpenCoflow(coflow=shuffle.coflow, job=shuffle.stage.job.id))
        seen = [self._see(number) for number in fetches.tolist()] if self.looks_at_each else []
        if self.by_name:
            for fetch in fetches.tolist():
                shuffle = stages[fetch >> loops.STAGE_SHIFT]
                self._state.emit(self._as_fetch(shuffle, fetch).start_order)
        else:
            self._state.emit(
                StartFetches(
                    fetches=fetches,
                    src=src,
                    dst=dst,
                    size_bytes=found[loops.SIZE],
                    stages=stages,
                    asks=[(fetch.weight, fetch.priority) for fetch in seen],
                )
            )
        for each in seen:
            self._state.policies.notify("fetch_started", each)

    def _see(self, number: int) -> Fetch:
        fetch = self._seen[number] = self.stage_of(number).as_fetch(number)
        policies, attempt = self._state.policies, fetch.reader
        flows = policies.flows
        asked = {
            "weight": (Weight, policies.ask(flows.weight, attempt)),
            "priority": (Priority, policies.ask(flows.priority, attempt, fetch.size_bytes)),
        }
        for what, (kind, answer) in asked.items():
            try:
                setattr(fetch, what, msgspec.convert(answer, kind))
            except msgspec.ValidationError as error:  # the network would not take it
                gave = f"gave {answer} as a {what}"
                raise policies.invalid("flows", gave, str(error), attempt) from None
        return fetch

    def _notify_ended(self, number: int) -> None:
        if (fetch := self._seen.pop(number, None)) is not None:
            self._state.policies.notify("fetch_ended", fetch)

    def _break_off(self, shuffle: StageShuffle, fetch: int) -> None:
        shuffle.break_off(fetch)
        self._notify_ended(fetch)

    def _cancel(self, shuffle: StageShuffle, number: int) -> None:
        started = self._as_fetch(shuffle, number).start_order
        if self.by_name:
            self._state.emit(CancelFlow(flow=started.flow, dst=started.dst))
        else:
            self._state.emit(CancelFetch(fetch=number, started=started))
        self._break_off(shuffle, number)

    def _as_fetch(self, shuffle: StageShuffle, fetch: int) -> Fetch:
        return self._seen[fetch] if self.looks_at_each else shuffle.as_fetch(fetch)

    def _found(self, flow: FlowId) -> int | None:
        """The number of a fetch under way that has this flow."""
        parts = flow.split(":")
        attempt = self._state.attempt(AttemptId(parts[0]))
        if len(parts) != 3 or attempt is None or attempt.reader is None:
            return None
        shuffle = self.stages.get(attempt.task.stage.id)
        place = None if shuffle is None else shuffle.place_of.get(NodeId(parts[1]))
        if shuffle is None or place is None:
            return None
        [fetch] = shuffle.fetches((place,), (attempt.reader,))
        return fetch if shuffle.is_open(fetch) and shuffle.name(fetch) == flow else None

    def _by_stage(self, fetches: Numbers) -> Iterator[tuple[StageShuffle, Numbers | None]]:
        """Each stage that these are of, and where among them; None: all are of one stage.

        Those of jobs that have ended are left out.
        """
        first = int(fetches[0]) >> loops.STAGE_SHIFT
        numbers = fetches >> loops.STAGE_SHIFT
        is_one = len(fetches) == 1 or not np.count_nonzero(numbers != first)
        for number in (first,) if is_one else dict.fromkeys(numbers.tolist()):
            if (shuffle := self._by_number.get(number)) is not None:
                yield shuffle, None if is_one else (numbers == number).nonzero()[0]
