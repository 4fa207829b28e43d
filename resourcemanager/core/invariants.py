"""The laws of the core's state.  Checked after every event in tests, on demand elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import AttemptId
from railyard.resourcemanager.core.shuffling.shuffle import Shuffle
from railyard.resourcemanager.core.state.cluster import ClusterState
from railyard.resourcemanager.core.state.jobs import Attempt, Job, Node, Stage, Task

#: What a law that does not hold is about (a node, job, task or flow; "" = all), and what is wrong.
Broken = tuple[str, str]
#: The last events are shown of so many of these.
_NAMED = 3


def check_invariants(state: ClusterState, shuffle: Shuffle) -> None:
    """Raise ``InvariantError`` with every law that does not hold, and what these are about."""
    broken = [
        *_of_nodes(state),
        *_of_outage(state),
        *_of_links(state),
        *_of_reservations(state),
        *(law for job in state.jobs.values() for law in _of_job(job, state, shuffle)),
        *_of_fetches(state, shuffle),
    ]
    if broken:
        about = dict.fromkeys(name for name, _ in broken if name)
        laws = "; ".join(law for _, law in broken)
        raise InvariantError(f"at {state.now_s:.3f} s: {laws}", list(about)[:_NAMED])


def _of_nodes(state: ClusterState) -> Iterator[Broken]:
    nodes = state.nodes.values()
    if state.slots != sum(node.slots for node in nodes if node.alive):
        yield "", f"slots = {state.slots} is not the sum of the nodes'"
    if state.free != sum(node.free for node in nodes):
        yield "", f"free = {state.free} is not the sum of the nodes'"
    if state.wanting != sum(job.wanting for job in state.jobs.values()):
        yield "", f"wanting = {state.wanting} is not the number of jobs that want slots"
    if {node.id for node in state.free_nodes()} != {node.id for node in nodes if node.free}:
        yield "", "the list of free nodes is not that of the nodes with free slots"
    jobs = [*state.jobs.values(), *state.draining.values()]
    stages = [stage for job in jobs for stage in job.stages.values()]
    holding = {attempt.id: attempt for stage in stages for attempt in stage.live.values()}
    if state.attempts != holding:
        yield "", f"{len(state.attempts)} attempts are known, {len(holding)} by their stages"
    for node in nodes:
        yield from _of_node(node, holding)
    held = sum(len(node.attempts) for node in nodes)
    if held != len(holding):
        yield "", f"{held} slots are held by {len(holding)} attempts"
    for job in state.draining.values():
        if not job.held:
            yield job.id, f"{job.id} has ended and has no attempts, and was not discarded"


def _of_outage(state: ClusterState) -> Iterator[Broken]:
    if (state.empty_since_s is None) != any(node.alive for node in state.nodes.values()):
        yield "", f"there is no node since {state.empty_since_s} s, which does not fit the nodes"


def _of_links(state: ClusterState) -> Iterator[Broken]:
    if bool(state.links) != (state.policies.links is not None):
        yield (
            "",
            f"{len(state.links)} links are known, and policies use them: {state.policies.links}",
        )
    for name, link in state.links.items():
        if not 0 <= link.free_bytes_per_s <= link.capacity_bytes_per_s:
            yield "", f"{name} has {link.free_bytes_per_s} of {link.capacity_bytes_per_s} bytes/s"


def _of_reservations(state: ClusterState) -> Iterator[Broken]:
    """A reservation holds no slot, is on a living node, and is of a pending task of a job."""
    stages = [stage for job in state.jobs.values() for stage in job.stages.values()]
    by_stages = {name: attempt for stage in stages for name, attempt in stage.reserved.items()}
    by_nodes = {name: a for node in state.nodes.values() for name, a in node.reserved.items()}
    of_tasks = {t.reserved.id for s in stages for t in s.tasks if t.reserved is not None}
    if not state.reserved == by_stages == by_nodes or of_tasks != set(by_stages):
        known = f"by stages {list(by_stages)}, by nodes {list(by_nodes)}, by tasks {of_tasks}"
        yield "", f"reservations are {list(state.reserved)}, {known}"
    for attempt in state.reserved.values():
        task, node = attempt.task, attempt.node
        if attempt.state != "reserved" or attempt.id in state.attempts:
            yield task.id, f"{attempt.id} is reserved, but is {attempt.state}, or holds a slot"
        if task.state != "pending" or task.stage.job.state != "running":
            yield task.id, f"{attempt.id} is reserved for {task.id}, which is {task.state}"
        if not node.alive or node.id in task.stage.job.avoid:
            yield task.id, f"{attempt.id} is reserved on {node.id}, which is lost or avoided"


def _of_node(node: Node, holding: dict[AttemptId, Attempt]) -> Iterator[Broken]:
    free = max(0, node.slots - len(node.attempts)) if node.alive else 0
    if node.free != free:
        yield node.id, f"{node.id}: free = {node.free}, not {free}"
    if node.promised and node.free:
        yield node.id, f"{node.id} has {node.free} free slots, one of which was promised to a copy"
    if node.draining and (node.slots or node.reserved):
        reserved = list(node.reserved)
        yield node.id, f"{node.id} is drained, has {node.slots} slots and reservations {reserved}"
    if not node.alive and node.attempts:
        yield node.id, f"{node.id} is lost and still has attempts"
    for attempt in node.attempts.values():
        if holding.get(attempt.id) is not attempt or attempt.node is not node:
            yield node.id, f"{attempt.id} holds a slot of {node.id} and its job does not know"


def _of_job(job: Job, state: ClusterState, shuffle: Shuffle) -> Iterator[Broken]:
    if job.state not in ("running", "committing"):
        yield job.id, f"{job.id} is listed and is {job.state}"
    if job.wanting != job.has_ready_tasks():
        yield job.id, f"{job.id}: wanting = {job.wanting}"
    if len(job.avoid) > state.avoidable() or not all(state.nodes[n].alive for n in job.avoid):
        yield job.id, f"{job.id} avoids {list(job.avoid)}: lost ones, or over a third of the nodes"
    in_stages = sum(stage.held for stage in job.stages.values())
    if in_stages != job.held:
        yield job.id, f"{job.id} holds {job.held} slots, its stages {in_stages}"
    if job.state == "running":
        if all(stage.complete for stage in job.stages.values()):
            yield job.id, f"{job.id} is done and still running"
        for stage in job.stages.values():
            yield from _of_stage(stage, state, shuffle)
            yield from _of_outputs(stage)


def _of_stage(stage: Stage, state: ClusterState, shuffle: Shuffle) -> Iterator[Broken]:
    states = [task.state for task in stage.tasks]
    counts = (stage.pending.count, stage.running, stage.kept, stage.done, stage.left)
    actual = tuple(map(states.count, ("pending", "running", "kept", "done", "left")))
    if counts != actual or sum(counts) != stage.size:
        names = "pending, running, kept, done, left"
        yield stage.job.id, f"{stage.id}: {names} = {counts}, not {actual}"
    if stage.kept and not stage.pending.count and not stage.running:
        yield stage.job.id, f"{stage.id}: {stage.kept} outputs are kept, and nothing is waited for"
    counted = sum(task.counted for task in stage.tasks)
    left = stage.size - stage.needed if counted == stage.needed else 0
    if (stage.counted, stage.left) != (counted, left):
        have = f"{stage.counted} counted, {stage.left} left"
        yield stage.job.id, f"{stage.id}: {have}, not {counted} and {left}"
    progress = sum(attempt.progress for attempt in stage.live.values())
    if abs(progress - stage.progress_sum) > 1e-6:
        yield stage.job.id, f"{stage.id}: progress_sum = {stage.progress_sum}, not {progress}"
    for task in stage.tasks:
        yield from _of_task(stage, task, shuffle)
        if task.kept:
            yield from _of_kept(task, state)
    for index in stage.pending.misplaced():
        yield stage.job.id, f"{stage.id}: task {index} is not found where its input is"
    for index in stage.reruns:
        if index not in stage.pending:
            yield stage.job.id, f"{stage.id}: rerun {index} is not pending"


def _of_outputs(stage: Stage) -> Iterator[Broken]:
    """Of each task at most one output can be fetched: its winner's."""
    for output in (output for there in stage.outputs.values() for output in there):
        if not output.output_lost and output is not output.task.winner:
            yield output.task.id, f"the output of {output.id} can be fetched, and does not count"


def _of_task(stage: Stage, task: Task, shuffle: Shuffle) -> Iterator[Broken]:
    state = _seen_state(stage, task)
    if task.state != state:
        yield task.id, f"{task.id} is {task.state}, but looks {state}"
    if (task.index in stage.pending) != (task.state == "pending"):
        yield task.id, f"{task.id} is {task.state}; pending: {task.index in stage.pending}"
    if task.failures >= stage.max_attempts:
        yield task.id, f"{task.id} failed {task.failures} times and its job goes on"
    winner = task.winner
    if winner is not None and stage.readers:
        lost = winner.output_lost or not winner.node.alive
        if lost != (task.index in stage.unreadable):
            yield task.id, f"{task.id}: output lost: {lost}; known as unreadable: {not lost}"
        if lost and any(reader.pending.count for reader in stage.readers):
            yield task.id, f"{task.id}: its output is lost, readers are pending"
    for attempt in task.live if task.reserved is None else (task.reserved,):
        if attempt.reader is not None:
            fetched = sum(here.bit_count() for here in attempt.reader.fetched.values())
            missing = attempt.task.stage.inputs - fetched
            if missing != attempt.reader.missing:
                yield task.id, f"{attempt.id}: missing = {attempt.reader.missing}, not {missing}"
            yield from _of_reader(attempt, shuffle)


def _seen_state(stage: Stage, task: Task) -> str:
    """The state that a task has by its attempts and its stage's others."""
    if task.winner is not None:
        return "done"
    if stage.counted == stage.needed and not task.counted:
        return "left"
    return "running" if task.live else "kept" if task.kept else "pending"


def _of_kept(task: Task, state: ClusterState) -> Iterator[Broken]:
    """A kept output holds no slot, is readable, can be found and is not its task's."""
    stage = task.stage
    if task.kept and (task.state in ("done", "left") or stage.id not in state.keeping):
        yield task.id, f"{task.id} is {task.state} and keeps {len(task.kept)} outputs"
    for attempt in task.kept:
        if attempt.state != "kept" or attempt.id in state.attempts or attempt.success is None:
            yield task.id, f"{attempt.id} is kept, but is {attempt.state}"
        if stage.readers and not attempt.node.alive:
            yield task.id, f"the output of {attempt.id} is kept on {attempt.node.id}, which is lost"


def _of_reader(attempt: Attempt, shuffle: Shuffle) -> Iterator[Broken]:
    """Whatever is missing is being fetched, or will be done, unless the attempt is on its way out.

    That is what makes sure that no reader waits forever.
    """
    reader, stage = attempt.reader, attempt.task.stage
    fetching, merging = shuffle.fetching_of(stage)
    if reader is None or attempt.killing or not fetching:
        return
    for source in stage.reads:
        for task in source.tasks:
            if reader.has(source.name, task.index) or task.winner is None:
                continue
            if task.winner.output_lost:
                yield task.id, f"{attempt.id} lacks the lost output of {task.id}"
            elif merging is not None:
                if not reader.fetches and not merging.looking:
                    yield task.id, f"{attempt.id} lacks {task.winner.id} and does not fetch"
            elif task.winner.node.id not in reader.fetches:
                yield task.id, f"{attempt.id} lacks {task.winner.id} and does not fetch it"


def _of_fetches(state: ClusterState, shuffle: Shuffle) -> Iterator[Broken]:
    fetches = shuffle.all_fetches()
    for flow, fetch in fetches.items():
        if fetch.reader.ended_s is not None or fetch.reader.killing:
            yield flow, f"flow {flow} is for {fetch.reader.id}, which does not fetch"
        if any(
            output.state not in ("succeeded", "output lost") for output in fetch.outputs.attempts
        ):
            yield flow, f"flow {flow} carries outputs that do not count"
        if not fetch.node.alive:
            yield flow, f"flow {flow} comes from {fetch.node.id}, which is lost"
        if fetch.reader.reader is None or fetch.reader.reader.fetches.get(fetch.key) != flow:
            yield flow, f"flow {flow} is unknown to {fetch.reader.id}"
    known = sum(
        len(attempt.reader.fetches)
        for node in state.nodes.values()
        for attempt in (*node.attempts.values(), *node.reserved.values())
        if attempt.reader is not None
    )
    if known != len(fetches):
        yield "", f"{len(fetches)} flows, but readers know of {known}"
