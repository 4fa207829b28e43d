"""Fetches: how the output of finished tasks gets to the attempts that read it.

A reading attempt has at most one flow from each node at a time, which carries all of that node's
outputs that were ready when it started; when it has finished and more is ready, the next one
starts.  That is Hadoop's fetch by host.  All flows of a reading stage are one coflow.  Where the
fetches of a stage are merged (see ``merging.py``), a flow carries the outputs of several nodes.

Never here: running tasks again after their output is lost; see ``attempts.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from railyard.cluster.ids import CoflowId, FlowId, NodeId, StageId
from railyard.cluster.messages.execution import CancelFlow, FlowFailed, FlowFinished
from railyard.resourcemanager.core.shuffling.fetches import Fetch, StageShuffle
from railyard.resourcemanager.core.shuffling.merging import LOOK, LOOK_AFTER_S, Merging, Outputs
from railyard.resourcemanager.core.shuffling.rowshuffle import RowShuffle
from railyard.resourcemanager.core.shuffling.underway import FetchesUnderWay
from railyard.resourcemanager.core.state.cluster import ClusterState
from railyard.resourcemanager.core.state.jobs import Attempt, Job, Node, Stage
from railyard.resourcemanager.core.state.readers import Reader, RowReader, new_reader
from railyard.resourcemanager.interface.commands import CloseCoflow, SetTimer

#: A reader tries a node this often in a row before the outputs there count as lost.
TRIES_MAX = 4


class Shuffle:
    """Starts and stops the fetches of all jobs."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.rows = RowShuffle(state)  #: fetches under way that are rows
        self._fetches = FetchesUnderWay(state, self.rows)  #: those that are not
        #: those of jobs that have not ended, by their reading stages
        self._stages: dict[StageId, StageShuffle] = {}

    def job_submitted(self, job: Job) -> None:
        """Be ready for the shuffles of a job."""
        for stage in job.reduces:
            self._stages[stage.id] = shuffle = StageShuffle(stage)
            if not self._fetches.are_looked_at:
                shuffle.table = self.rows.new_table(shuffle)

    def job_stopped(self, job: Job) -> None:
        """Nothing of the job will be fetched any more: coflows that are open end unfinished."""
        for stage in job.reduces:
            shuffle = self._stages[stage.id]
            self._name_fetches(shuffle)
            if shuffle.started_s is not None:
                shuffle.started_s = None
                self._state.emit(CloseCoflow(coflow=shuffle.coflow))

    def job_ended(self, job: Job) -> None:
        """Forget the shuffles of a job."""
        for stage in job.reduces:
            shuffle = self._stages.pop(stage.id)
            if shuffle.table is not None:
                self.rows.forget(shuffle.table)

    @property
    def open_coflows(self) -> list[CoflowId]:
        """The coflows that were opened and not closed."""
        return [each.coflow for each in self._stages.values() if each.started_s is not None]

    def new_reader(self, stage: Stage) -> Reader:
        """The reader of an attempt of a reading stage, which has fetched nothing yet."""
        shuffle = self._stages[stage.id]
        return new_reader(shuffle.reads, merged=shuffle.merging is not None)

    def fetching_of(self, stage: Stage) -> tuple[bool, Merging | None]:
        """Whether the attempts of a reading stage may fetch, and how their fetches are merged."""
        shuffle = self._stages[stage.id]
        return shuffle.fetching, shuffle.merging

    def reader_launched(self, attempt: Attempt) -> None:
        """A reading attempt is there: it fetches what is ready, unless the policy says wait."""
        shuffle = self._stages[attempt.task.stage.id]
        if shuffle.table is not None and not self.rows.enroll(shuffle.table, attempt):
            self._name_fetches(shuffle)
        if shuffle.fetching:
            self._fetch_from_all(shuffle, attempt)
        else:
            self._begin_to_fetch(shuffle)

    def review(self, stage: Stage) -> None:
        """Ask the policy again whether a stage with attempts may begin to fetch."""
        shuffle = self._stages[stage.id]
        if not shuffle.fetching:
            self._begin_to_fetch(shuffle)

    def output_ready(self, attempt: Attempt) -> None:
        """A task that others read is done: they fetch its output."""
        stage, node = attempt.task.stage, attempt.node
        stage.outputs.setdefault(node.id, []).append(attempt)
        for reader_stage in stage.readers:
            shuffle = self._stages[reader_stage.id]
            merging, table = shuffle.merging, shuffle.table
            place = None if table is None else self.rows.add_output(table, attempt)
            if place is None:
                self._name_fetches(shuffle)
            if merging is not None:
                merging.ready.append(attempt)
                if attempt.number:  # some may have had it from an earlier attempt
                    for reader in reader_stage.at_work:
                        _reader_of(reader).repeats = True
            if not shuffle.fetching:
                self._begin_to_fetch(shuffle)
            elif merging is not None:
                self._look_soon(shuffle, merging)
            elif table is not None and place is not None:
                self.rows.fetch_output(table, place)
            else:
                for reader in reader_stage.at_work:
                    self._fetch(shuffle, reader, node)

    def flow_finished(self, event: FlowFinished) -> None:
        """A fetch is complete; one that is not known any more does not matter."""
        fetch = self._fetches.forget(event.flow)
        if fetch is None:
            return
        reader = fetch.progress
        if reader.tries:
            reader.tries.pop(fetch.node.id, None)
        self._fetches.record(fetch)
        reader.take(fetch.outputs.tasks)
        if fetch.bundle is None:
            if _is_any_new(fetch.shuffle.stage.reads, reader, fetch.node.id):
                self._fetch(fetch.shuffle, fetch.reader, fetch.node)
        elif not reader.fetches:
            self._fetch_merged(fetch.shuffle, fetch.reader)

    def flow_failed(self, event: FlowFailed) -> tuple[list[Attempt], bool]:
        """A fetch broke off: it is tried again.

        Returns the outputs that now count as lost, and whether those who made them are to blame:
        not when their NodeManager is gone, unless one reader says so again and again.
        """
        fetch = self._fetches.forget(event.flow)
        if fetch is None:
            return [], False
        if event.gone:  # nobody else closes the flow
            self._state.emit(CancelFlow(flow=fetch.id, dst=fetch.reader.node.id))
        reader, node = fetch.progress, fetch.node
        self._ask_again(fetch)  # for what was not lost
        outputs = fetch.outputs.attempts
        lost = [output for output in outputs if output.id in event.lost]
        if fetch.bundle is not None:  # what is on other nodes can still be had
            lost = [output for output in lost if output.node is node]
        reader.tries[node.id] = reader.tries.get(node.id, 0) + 1
        tried_enough = reader.tries[node.id] >= TRIES_MAX
        if not lost and tried_enough:
            lost = list(outputs)
            if fetch.bundle is not None:
                lost = [output for output in lost if output.node is node]
        to_blame = tried_enough or not event.gone
        if lost and to_blame:
            reader.tries.pop(node.id, None)
        return [output for output in lost if not output.output_lost], to_blame

    def try_again(self, reader: Attempt, node: Node) -> None:
        """Fetch what is left to fetch from a node, after a fetch that broke off."""
        if reader.killing:
            return  # its job may have ended, too
        shuffle = self._stages[reader.task.stage.id]
        if shuffle.merging is not None:
            self._fetch_merged(shuffle, reader)
        else:
            self._fetch(shuffle, reader, node)

    def reader_of(self, flow: FlowId) -> tuple[Attempt, Node] | None:
        """Which attempt a flow is for, and where it comes from."""
        fetch = self._fetches.by_flow.get(flow)
        return None if fetch is None else (fetch.reader, fetch.node)

    def stop(self, attempt: Attempt) -> None:
        """Cancel the fetches of an attempt."""
        if isinstance(attempt.reader, RowReader):
            shuffle = self._stages[attempt.task.stage.id]
            if shuffle.table is None or not shuffle.table.is_fetching(attempt.task.index):
                return
            self._name_fetches(shuffle)
        if attempt.reader is not None and attempt.reader.fetches:
            for flow in list(attempt.reader.fetches.values()):
                self._fetches.cancel(self._fetches.by_flow[flow])

    def source_lost(self, node: Node) -> list[Attempt]:
        """Cancel all fetches from a node; returns whose they were.  O(fetches)."""
        self.name_all()
        fetches = self._fetches.by_flow.values()
        whole = [fetch for fetch in fetches if fetch.node is node]
        merged = [fetch for fetch in fetches if fetch.bundle and node in fetch.bundle.nodes]
        cancelled = list(dict.fromkeys(whole + merged))
        for fetch in cancelled:
            self._ask_again(fetch)
            self._fetches.cancel(fetch)
        return [fetch.reader for fetch in cancelled]

    def output_lost(self, attempt: Attempt) -> None:
        """What a task made can't be fetched any more."""
        for stage in attempt.task.stage.readers:
            shuffle = self._stages.get(stage.id)  # none if its job has just failed
            if shuffle is not None:
                self._name_fetches(shuffle)
                if shuffle.merging is not None:
                    shuffle.merging.forget_bundles()

    def ask_again(self, stage: Stage, node: Node) -> None:
        """Let all readers of a stage ask again for whatever is on a node."""
        self._name_fetches(self._stages[stage.id])
        for attempt in stage.at_work:
            if isinstance(attempt.reader, Reader):
                attempt.reader.ask_again(node.id)

    def name_all(self) -> None:
        """Have no fetches as rows any more: each is dealt with by itself.  O(fetches)."""
        for shuffle in self._stages.values():
            self._name_fetches(shuffle)

    def all_fetches(self) -> dict[FlowId, Fetch]:
        """All fetches under way, in the order in which they began.  O(fetches)."""
        return self._fetches.with_rows()

    def stage_done(self, stage: Stage) -> None:
        """A reading stage has nothing left to fetch: its coflow is over."""
        shuffle = self._stages[stage.id]
        if shuffle.table is not None:
            self.rows.count(shuffle.table)
        if shuffle.started_s is None or shuffle.ended_s is None:
            return
        self._state.emit(CloseCoflow(coflow=shuffle.coflow))
        stage.job.record.cct_s.append(shuffle.ended_s - shuffle.started_s)
        shuffle.started_s = shuffle.ended_s = None

    def look(self, timer: str) -> None:
        """Let readers that wait fetch what has become ready; fine if their stage is gone."""
        shuffle = self._stages.get(StageId(timer.removesuffix(LOOK)))
        if shuffle is not None and shuffle.merging is not None:
            shuffle.merging.looking = False
            for reader in list(shuffle.stage.at_work):
                self._fetch_merged(shuffle, reader, beside=shuffle.merging.flows)

    # ---------------------------------------------------------------------------------------------
    def _begin_to_fetch(self, shuffle: StageShuffle) -> None:
        """Ask the policy whether to begin; if so, all readers of the stage do."""
        policies = self._state.policies
        if policies.ask(policies.shuffle.may_fetch, shuffle.stage):
            shuffle.fetching = True
            for reader in shuffle.stage.at_work:
                self._fetch_from_all(shuffle, reader)

    def _fetch_from_all(self, shuffle: StageShuffle, attempt: Attempt) -> None:
        if shuffle.merging is not None:
            self._fetch_merged(shuffle, attempt)
            return
        if shuffle.table is not None:
            self.rows.fetch_from_all(shuffle.table, attempt)
            return
        nodes = dict.fromkeys(n for source in shuffle.stage.reads for n in source.outputs)
        for node in nodes:
            self._fetch(shuffle, attempt, self._state.nodes[node])

    def _fetch(self, shuffle: StageShuffle, attempt: Attempt, node: Node) -> None:
        """Start the next flow from a node, if something new is ready there and none is under way.

        O(outputs that are new since the last one).
        """
        reader = _reader_of(attempt)
        if node.id in reader.fetches or attempt.killing or not node.alive:
            return
        new, size_bytes = _new_outputs(attempt, reader, node)
        if new:
            outputs = _as_asked(shuffle, node, new)
            self._fetches.start(shuffle, attempt, reader, node, outputs, size_bytes, None)

    def _fetch_merged(self, shuffle: StageShuffle, attempt: Attempt, beside: int = 0) -> None:
        """Start a reader's next flows, if something new is ready and few enough are under way."""
        reader, merging = attempt.reader, shuffle.merging
        if not isinstance(reader, Reader) or merging is None:
            return
        if reader.position == len(merging.ready):
            return  # nothing is new, as after most fetches
        if attempt.killing or len(reader.fetches) > beside:
            return
        if reader.repeats and reader.fetches:
            return  # these may bring what it would ask for again
        partition = attempt.task.index
        for bundle in merging.bundles(attempt):
            node, size_bytes = bundle.for_reader(partition)
            self._fetches.start(shuffle, attempt, reader, node, bundle.outputs, size_bytes, bundle)

    def _look_soon(self, shuffle: StageShuffle, merging: Merging) -> None:
        """Something has become ready: fetch all that is, if it is all, and otherwise a bit later.

        One by one would be a flow from each node to each reader again.
        """
        for source in shuffle.stage.reads:
            if not source.complete:
                self._look_later(shuffle, merging)
                return
        for reader in shuffle.stage.at_work:
            self._fetch_merged(shuffle, reader, beside=sys.maxsize)

    def _look_later(self, shuffle: StageShuffle, merging: Merging) -> None:
        if not merging.looking:
            merging.looking = True
            at_s = self._state.now_s + LOOK_AFTER_S
            self._state.emit(SetTimer(timer=f"{shuffle.stage.id}{LOOK}", at_s=at_s))

    def _ask_again(self, fetch: Fetch) -> None:
        """Let a reader ask again for what a fetch that broke off would have brought."""
        reader, merging = fetch.progress, fetch.shuffle.merging
        if merging is None:
            reader.ask_again(fetch.node.id)
            return
        reader.position, reader.repeats = 0, True
        merging.forget_bundles()
        self._look_later(fetch.shuffle, merging)

    def _name_fetches(self, shuffle: StageShuffle) -> None:
        """Have a stage's fetches as rows no more, if they are."""
        table, shuffle.table = shuffle.table, None
        if table is not None:
            self._fetches.take_over(table)


def _reader_of(attempt: Attempt) -> Reader:
    assert isinstance(attempt.reader, Reader), f"{attempt.id} reads no stage, or fetches by rows"
    return attempt.reader


def _is_any_new(reads: Sequence[Stage], reader: Reader, node: NodeId) -> bool:
    """Whether there are outputs on a node that a reader has not asked for: seldom after a fetch."""
    for at, stage in enumerate(reads):
        if len(stage.outputs.get(node, ())) != reader.seen[at].get(node, 0):
            return True
    return False


def _new_outputs(attempt: Attempt, reader: Reader, node: Node) -> tuple[list[Attempt], int]:
    """The outputs on ``node`` that were not asked for yet, and their bytes for this reader."""
    task, outputs, size_bytes = attempt.task, list[Attempt](), 0
    partition, name, repeats = task.index, node.id, reader.repeats
    for at, stage in enumerate(task.stage.reads):
        log = stage.outputs.get(name, ())
        seen = reader.seen[at]
        first = seen.get(name, 0)
        for output in log[first:] if first else log:
            if output.state != "succeeded":
                continue
            # it may have the task's output from an earlier attempt
            if (repeats or output.number) and reader.has(stage.name, output.task.index):
                continue
            outputs.append(output)
            size_bytes += output.partition_bytes[partition]
        seen[name] = len(log)
    return outputs, size_bytes


def _as_asked(shuffle: StageShuffle, node: Node, new: list[Attempt]) -> Outputs:
    """Outputs on ``node`` that a reader fetches: as the reader before it did, if it is the same."""
    attempts, last = tuple(new), shuffle.asked.get(node.id)
    if last is None or last.attempts != attempts:
        last = Outputs.of(attempts)
        shuffle.asked[node.id] = last
    return last
