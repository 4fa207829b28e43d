"""The laws of the core's state, checked after every event in tests.

Hundreds of thousands of schedules of faults check them after each of their events, so these are
plain loops; ``jobs`` leaves out those that an event can't have touched.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator

from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import AttemptId, JobId, NodeId, RackId, rack_of
from railyard.resourcemanager.core.cluster import ClusterState
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.core.jobs import Attempt, Job, Node, Stage, Task
from railyard.resourcemanager.core.pending import PendingTasks
from railyard.resourcemanager.core.shuffling.fetches import StageShuffle
from railyard.resourcemanager.core.shuffling.loops import READERS
from railyard.resourcemanager.core.shuffling.shuffle import Shuffle

#: Takes what a law that does not hold is about (a node, job or task; "" = all), and the law.
Wrong = Callable[[str, str], None]
#: The last events are shown of so many of these.
_NAMED = 3
_TASK_STATES = ("pending", "running", "kept", "done", "left")
_NO_TASKS = dict.fromkeys(_TASK_STATES, 0)


def check_core(core: Core, jobs: Container[JobId] | None = None) -> None:
    """Raise ``InvariantError`` with every law that does not hold, and what these are about.

    ``jobs``: check the laws of these alone, and of all nodes; None: of all jobs.  O(everything).
    """
    state, shuffle = core.state, core.shuffle
    broken: list[tuple[str, str]] = []

    def wrong(about: str, law: str) -> None:
        broken.append((about, law))

    _of_nodes(state, wrong)
    _of_jobs(state, wrong)
    if state.links or state.policies.links is not None:
        _of_links(state, wrong)
    if state.reserved or jobs is None:
        _of_reservations(state, wrong)
    for name, job in state.jobs.items():
        if jobs is None or name in jobs:
            _of_job(job, state, shuffle, wrong)
    _of_fetches(shuffle, wrong)
    if broken:
        about = dict.fromkeys(name for name, _ in broken if name)
        laws = "; ".join(law for _, law in broken)
        error = InvariantError(f"at {state.now_s:.3f} s: {laws}", list(about)[:_NAMED])
        error.add_events(core.history.about(error.about))
        raise error


def _of_nodes(state: ClusterState, wrong: Wrong) -> None:
    slots = free = held = 0
    alive = False
    with_free: list[Node] = []
    for node in state.nodes.values():
        if node.alive:
            alive = True
            slots += node.slots
        if node.free:
            free += node.free
            with_free.append(node)
        if node.attempts or node.reserved:
            held += len(node.attempts)
            _of_attempts(node, state, wrong)
        _of_node(node, wrong)
    if state.slots != slots or state.free != free:
        sums = f"{slots} and {free} of the nodes"
        wrong("", f"slots = {state.slots} and free = {state.free} are not the sums, {sums}")
    if held != len(state.attempts):
        wrong("", f"{held} slots are held by {len(state.attempts)} attempts")
    if (state.empty_since_s is None) != alive:
        wrong("", f"there is no node since {state.empty_since_s} s, which does not fit the nodes")
    listed = state.with_free
    if listed != with_free and (len(listed) != len(with_free) or {*listed} != {*with_free}):
        wrong("", "the list of free nodes is not that of the nodes with free slots")


def _of_attempts(node: Node, state: ClusterState, wrong: Wrong) -> None:
    """What is on a node is known to be there."""
    for name, attempt in node.attempts.items():
        if state.attempts.get(name) is not attempt or attempt.node is not node:
            wrong(node.id, f"{name} holds a slot of {node.id} and its job does not know")


def _of_jobs(state: ClusterState, wrong: Wrong) -> None:
    """What is counted of all jobs, and the attempts with slots as jobs know them."""
    wanting = holding = 0
    for job in state.jobs.values():
        wanting += job.wanting
        holding += _of_live(job, state, wrong)
    for job in state.draining.values():
        holding += _of_live(job, state, wrong)
        if not job.held:
            wrong(job.id, f"{job.id} has ended and has no attempts, and was not discarded")
    if holding != len(state.attempts):
        wrong("", f"{len(state.attempts)} attempts are known, {holding} by their stages")
    if state.wanting != wanting:
        wrong("", f"wanting = {state.wanting} is not the number of jobs that want slots")


def _of_live(job: Job, state: ClusterState, wrong: Wrong) -> int:
    """The attempts of a job that hold slots are known; returns how many these are."""
    holding = 0
    for stage in job.stages.values():
        for name, attempt in stage.live.items():
            holding += 1
            if state.attempts.get(name) is not attempt or attempt.task.stage is not stage:
                wrong(job.id, f"{name} holds a slot of {stage.id}, and is not known")
    if holding != job.held:
        wrong(job.id, f"{job.id} holds {job.held} slots, its stages {holding}")
    return holding


def _of_links(state: ClusterState, wrong: Wrong) -> None:
    if bool(state.links) != (state.policies.links is not None):
        wrong(
            "", f"{len(state.links)} links are known, and policies use them: {state.policies.links}"
        )
    for name, link in state.links.items():
        if not 0 <= link.free_bytes_per_s <= link.capacity_bytes_per_s:
            wrong("", f"{name} has {link.free_bytes_per_s} of {link.capacity_bytes_per_s} bytes/s")


def _of_reservations(state: ClusterState, wrong: Wrong) -> None:
    """Nodes, stages and tasks have the same."""
    by_stages: dict[AttemptId, Attempt] = {}
    of_tasks: set[AttemptId] = set()
    for job in state.jobs.values():
        for stage in job.stages.values():
            by_stages |= stage.reserved
            of_tasks |= {task.reserved.id for task in stage.tasks if task.reserved is not None}
    by_nodes: dict[AttemptId, Attempt] = {}
    for node in state.nodes.values():
        by_nodes |= node.reserved
    if not state.reserved == by_stages == by_nodes or of_tasks != by_stages.keys():
        known = f"by stages {list(by_stages)}, by nodes {list(by_nodes)}, by tasks {of_tasks}"
        wrong("", f"reservations are {list(state.reserved)}, {known}")
    for attempt in state.reserved.values():
        _of_reservation(attempt, state, wrong)


def _of_reservation(attempt: Attempt, state: ClusterState, wrong: Wrong) -> None:
    """It holds no slot, is on a living node, and is of a pending task of a job."""
    task, node = attempt.task, attempt.node
    if attempt.state != "reserved" or attempt.id in state.attempts:
        wrong(task.id, f"{attempt.id} is reserved, but is {attempt.state}, or holds a slot")
    if task.state != "pending" or task.stage.job.state != "running":
        wrong(task.id, f"{attempt.id} is reserved for {task.id}, which is {task.state}")
    if not node.alive or node.id in task.stage.job.avoid:
        wrong(task.id, f"{attempt.id} is reserved on {node.id}, which is lost or avoided")


def _of_node(node: Node, wrong: Wrong) -> None:
    free = node.slots - len(node.attempts)
    if free < 0 or not node.alive:
        free = 0
    if node.free != free:
        wrong(node.id, f"{node.id}: free = {node.free}, not {free}")
    if node.promised and node.free:
        wrong(node.id, f"{node.id} has {node.free} free slots, one of which was promised to a copy")
    if node.draining and (node.slots or node.reserved):
        reserved = list(node.reserved)
        wrong(node.id, f"{node.id} is drained, has {node.slots} slots and reservations {reserved}")
    if not node.alive and node.attempts:
        wrong(node.id, f"{node.id} is lost and still has attempts")


def _of_job(job: Job, state: ClusterState, shuffle: Shuffle, wrong: Wrong) -> None:
    if job.state not in ("running", "committing"):
        wrong(job.id, f"{job.id} is listed and is {job.state}")
    if job.wanting != job.has_ready_tasks():
        wrong(job.id, f"{job.id}: wanting = {job.wanting}")
    if job.avoid and (
        len(job.avoid) > state.avoidable() or not all(state.nodes[n].alive for n in job.avoid)
    ):
        wrong(job.id, f"{job.id} avoids {list(job.avoid)}: lost ones, or over a third of the nodes")
    if job.state == "running":
        complete = True
        for stage in job.stages.values():
            complete = complete and stage.complete
            _of_stage(stage, state, shuffle, wrong)
        if complete:
            wrong(job.id, f"{job.id} is done and still running")


def _of_stage(stage: Stage, state: ClusterState, shuffle: Shuffle, wrong: Wrong) -> None:
    progress = 0.0
    for attempt in stage.live.values():
        progress += attempt.progress
    if abs(progress - stage.progress_sum) > 1e-6:
        wrong(stage.job.id, f"{stage.id}: progress_sum = {stage.progress_sum}, not {progress}")
    seen, counted = _NO_TASKS.copy(), 0
    for task in stage.tasks:
        seen[task.state] += 1
        counted += task.counted
        _of_task(stage, task, wrong)
        if task.winner is not None and stage.readers:
            _of_winner(stage, task, task.winner, wrong)
        if task.kept:
            _of_kept(task, state, wrong)
        if stage.reads:
            for attempt in task.live if task.reserved is None else (task.reserved,):
                _of_reader(attempt, shuffle, wrong)
    _of_counts(stage, tuple(seen.values()), counted, wrong)
    if stage.pending.count or stage.reruns or stage.outputs:
        _of_places(stage, wrong)


def _of_places(stage: Stage, wrong: Wrong) -> None:
    """Pending tasks are found where their input is; of outputs, winners' alone."""
    for index in misplaced(stage.pending):
        wrong(stage.job.id, f"{stage.id}: task {index} is not found where its input is")
    for index in stage.reruns:
        if index not in stage.pending:
            wrong(stage.job.id, f"{stage.id}: rerun {index} is not pending")
    for there in stage.outputs.values():
        for output in there:
            if output is not output.task.winner and not output.output_lost:
                task, name = output.task.id, output.id
                wrong(task, f"the output of {name} can be fetched, and does not count")


def misplaced(pending: PendingTasks) -> Iterator[int]:
    """Pending tasks that are not found where their input is, or that are found elsewhere."""
    if not pending._inputs or not pending.count:
        return
    on_nodes: dict[int, set[NodeId]] = {index: set() for index in pending}
    in_racks: dict[int, set[RackId]] = {index: set() for index in pending}
    for node, heap in pending._by_node.items():
        for index in filter(on_nodes.__contains__, heap):
            on_nodes[index].add(node)
    for rack, heap in pending._by_rack.items():
        for index in filter(in_racks.__contains__, heap):
            in_racks[index].add(rack)
    for index, nodes in on_nodes.items():
        place = pending.input(index).nodes
        if nodes != set(place) or in_racks[index] != set(map(rack_of, place)):
            yield index


def _of_counts(stage: Stage, actual: tuple[int, ...], counted: int, wrong: Wrong) -> None:
    """The tasks in each of ``_TASK_STATES``, and those that count, are as many as there are."""
    counts = (stage.pending.count, stage.running, stage.kept, stage.done, stage.left)
    if counts != actual or sum(counts) != stage.size:
        names = ", ".join(_TASK_STATES)
        wrong(stage.job.id, f"{stage.id}: {names} = {counts}, not {actual}")
    if stage.kept and not stage.pending.count and not stage.running:
        wrong(stage.job.id, f"{stage.id}: {stage.kept} outputs are kept, and nothing is waited for")
    left = stage.size - stage.needed if counted == stage.needed else 0
    if stage.counted != counted or stage.left != left:
        have = f"{stage.counted} counted, {stage.left} left"
        wrong(stage.job.id, f"{stage.id}: {have}, not {counted} and {left}")


def _of_task(stage: Stage, task: Task, wrong: Wrong) -> None:
    state = task.state
    if task.winner is not None:  # the state by its attempts and its stage's other tasks
        looks = "done"
    elif stage.counted == stage.needed and not task.counted:
        looks = "left"
    else:
        looks = "running" if task.live else "kept" if task.kept else "pending"
    if state != looks:
        wrong(task.id, f"{task.id} is {state}, but looks {looks}")
    is_pending = stage.pending.is_pending[task.index]
    if is_pending != (state == "pending"):
        wrong(task.id, f"{task.id} is {state}; pending: {is_pending}")
    if task.failures >= stage.max_attempts:
        wrong(task.id, f"{task.id} failed {task.failures} times and its job goes on")


def _of_winner(stage: Stage, task: Task, winner: Attempt, wrong: Wrong) -> None:
    """Output for readers is there, or known as unreadable, and then nobody needs it."""
    lost = winner.output_lost or not winner.node.alive
    if lost != (task.index in stage.unreadable):
        wrong(task.id, f"{task.id}: output lost: {lost}; known as unreadable: {not lost}")
    if lost and any(reader.pending.count for reader in stage.readers):
        wrong(task.id, f"{task.id}: its output is lost, readers are pending")


def _of_kept(task: Task, state: ClusterState, wrong: Wrong) -> None:
    """A kept output holds no slot, is readable, can be found and is not its task's."""
    stage = task.stage
    if task.kept and (task.state in ("done", "left") or stage.id not in state.keeping):
        wrong(task.id, f"{task.id} is {task.state} and keeps {len(task.kept)} outputs")
    for attempt in task.kept:
        if attempt.state != "kept" or attempt.id in state.attempts or attempt.success is None:
            wrong(task.id, f"{attempt.id} is kept, but is {attempt.state}")
        if stage.readers and not attempt.node.alive:
            wrong(
                task.id, f"the output of {attempt.id} is kept on {attempt.node.id}, which is lost"
            )


def _of_reader(attempt: Attempt, shuffle: Shuffle, wrong: Wrong) -> None:
    """Whatever is missing is being fetched, or will be done, unless the attempt is on its way out.

    That is what makes sure that no reader waits forever.
    """
    reader, stage = attempt.reader, attempt.task.stage
    if reader is None:
        return
    of_stage = shuffle.stages[stage.id]
    has, missing = of_stage.fetched(reader), stage.inputs
    for here in has.values():
        missing -= here.bit_count()
    if missing != of_stage.missing(reader):
        lacks = of_stage.missing(reader)
        wrong(attempt.task.id, f"{attempt.id}: missing = {lacks}, not {missing}")
    if attempt.killing or not of_stage.fetching:
        return
    sources: Collection[NodeId] | None = None
    for source in stage.reads:
        for task in source.tasks:
            if task.winner is not None and not has[source.name] >> task.index & 1:
                if sources is None:
                    under_way = of_stage.under_way(reader)
                    sources = {of_stage.node_of(fetch).id for fetch in under_way}
                _of_lacking(attempt, sources, task, task.winner, wrong)


def _of_lacking(
    attempt: Attempt, sources: Collection[NodeId], task: Task, winner: Attempt, wrong: Wrong
) -> None:
    """An attempt that lacks the output of a task is fetching it, or will be."""
    if winner.output_lost:
        wrong(task.id, f"{attempt.id} lacks the lost output of {task.id}")
    elif winner.node.id not in sources:
        wrong(task.id, f"{attempt.id} lacks {winner.id} and does not fetch it")


def _of_fetches(shuffle: Shuffle, wrong: Wrong) -> None:
    for of_stage in shuffle.stages.values():
        for fetch in of_stage.under_way():
            _of_fetch(of_stage, fetch, wrong)


def _of_fetch(of_stage: StageShuffle, fetch: int, wrong: Wrong) -> None:
    reader, node = of_stage.reader_of(fetch), of_stage.node_of(fetch)
    if reader.ended_s is not None or reader.killing:
        wrong(reader.id, f"a flow from {node.id} is for {reader.id}, which does not fetch")
    elif reader.reader != fetch & READERS:
        wrong(reader.id, f"a flow from {node.id} is unknown to {reader.id}")
    if any(o.state not in ("succeeded", "output lost") for o in of_stage.outputs(fetch)):
        wrong(reader.id, f"a flow from {node.id} to {reader.id} has outputs that do not count")
    if not node.alive:
        wrong(reader.id, f"a flow to {reader.id} comes from {node.id}, which is lost")
