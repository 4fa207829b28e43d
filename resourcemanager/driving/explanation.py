"""What an explanation is made of.  ``_s`` are seconds of the run's clock, ``_bytes`` the model's.

All of it can be written as JSON with ``msgspec.to_builtins``.  ``who`` is who decided: a policy as
"delay/tasks", or one of "core", "nodes", "network".
"""

from __future__ import annotations

import msgspec

from railyard.cluster.ids import AttemptId, FlowId, JobId, NodeId, RackId, StageId


class Waited(msgspec.Struct, kw_only=True):
    """A time for which a task was pending for one cause."""

    from_s: float
    to_s: float
    who: str
    #: "order", "tasks", "shuffle", "nodes", "sources" or "slots"; see ``core/offers.py``
    cause: str
    why: str  #: as it was at first
    why_last: str  #: as it was at last; figures in it may have changed


class Answered(msgspec.Struct, kw_only=True):
    """Offers of slots to a job that it did not take, and why; equal answers are one."""

    from_s: float
    to_s: float  #: when the last of these offers was made
    offers: int
    answer: str  #: "wait" or "pass"
    why: str
    until_s: float | None  #: when it was to be offered again, as of the last of these answers
    nodes: tuple[NodeId, ...]  #: whose slots were offered, each once
    planned: str  #: what was planned for the task then; "" = nothing


class AskedBefore(msgspec.Struct):
    """A job that was offered the same slot before, and did not take it."""

    job: JobId
    why: str


class Chosen(msgspec.Struct, kw_only=True):
    """Why an attempt went where it did."""

    who: str
    how: str  #: "placed", "copied" or "reserved"
    why: str
    planned: str = ""  #: what was planned for the task then
    order: str = ""  #: its job's place in the order then
    asked_before: tuple[AskedBefore, ...] = ()
    #: {how near to the task's input: nodes with free slots}, when it was placed
    free_nodes: dict[str, int] = {}


class Fetched(msgspec.Struct, kw_only=True):
    """A flow that brought outputs of one node to an attempt."""

    flow: FlowId
    coflow: str
    reader: AttemptId
    src: NodeId
    dst: NodeId
    size_bytes: int
    weight: float
    priority: tuple[float, ...]
    started_s: float
    ended_s: float | None = None  #: None: it was under way at the end of the record
    how: str = "under way"  #: "finished", "failed", "cancelled"
    outputs: int = 0
    #: the output that was ready last of those that it carries, and when; None: not in the record
    last_output: AttemptId | None = None
    last_output_s: float | None = None


class Idle(msgspec.Struct):
    """A time in which an attempt fetched nothing and had not everything yet."""

    from_s: float
    to_s: float
    why: str


class AttemptStory(msgspec.Struct, kw_only=True):
    """One attempt of a task."""

    attempt: AttemptId
    node: NodeId
    level: str  #: how near its node is to the task's input, see ``Level``
    at_s: float  #: when it was launched, or reserved
    slot_s: float | None  #: when it got its slot; None: it never had one
    #: why it has its slot; None: it has none, or the record does not say
    chosen: Chosen | None
    reserved: Chosen | None = None  #: why it was on its node before it had a slot; None: it was not
    replicas: tuple[NodeId, ...] = ()  #: nodes with its input then
    #: bytes of input from its node, its rack, other racks; None: it has not succeeded
    read_bytes: tuple[int, int, int] | None = None
    read_s: float | None = None  #: for how long it read from other nodes
    computed_s: float | None = None
    fetches: list[Fetched] = []
    idle: list[Idle] = []
    ended_s: float | None = None
    outcome: str = "runs at the end of the record"
    taken: str = ""  #: if its output was kept and chosen: why


class Turns(msgspec.Struct, kw_only=True):
    """What a task or stage saw of others while it waited."""

    #: {job: slots that it got meanwhile}, while this one could have had them
    slots: dict[JobId, int] = {}
    #: (time, the job's place in the order), when that has changed
    order: list[tuple[float, str]] = []


class Explanation(msgspec.Struct, kw_only=True, tag_field="kind"):
    """Base of all explanations."""

    what: str
    scheduler: str
    flow_scheduler: str
    recorded_s: float  #: the time of the last event of the record
    unknown: list[str] = []  #: what the record does not say


class TaskExplanation(Explanation, tag="task", kw_only=True):
    """Why a task, or one attempt of it, ran where and when it did."""

    job: JobId
    job_name: str
    stage: StageId
    submitted_s: float
    #: from when on it could have had a slot; None: it never could
    runnable_s: float | None
    waits: list[Waited]
    answers: list[Answered]
    turns: Turns
    #: (time, what was planned for it while it was pending), when that has changed
    plans: list[tuple[float, str]]
    attempts: list[AttemptStory]
    state: str  #: at the end of the record


class StageStory(msgspec.Struct, kw_only=True):
    """A stage of an explained job."""

    stage: StageId
    tasks: int
    needed: int
    reads: tuple[str, ...]
    runnable_s: float | None
    first_launch_s: float | None
    done_s: float | None
    waits: list[Waited]  #: of its first pending task
    answers: list[Answered]
    turns: Turns
    attempts: int = 0
    copies: int = 0
    levels: dict[str, int] = {}  #: {level: attempts}
    racks: dict[RackId, int] = {}  #: {rack: attempts}
    whys: dict[str, int] = {}  #: {why an attempt went where it did: attempts}
    planned: list[str] = []  #: what was planned, whenever that had changed


class JobExplanation(Explanation, tag="job", kw_only=True):
    """Why a job took its time."""

    job_name: str
    user: str
    queue: str
    submitted_s: float
    ended_s: float | None
    outcome: str
    stages: list[StageStory]


class CircuitUsed(msgspec.Struct, kw_only=True):
    """A time for which a coflow had a circuit."""

    src: RackId
    dst: RackId
    coflow: str
    begin_s: float
    lit_s: float | None
    end_s: float


class PairStory(msgspec.Struct, kw_only=True):
    """What a coflow sent from one rack to another."""

    coflow: str
    src: RackId
    dst: RackId
    flows: int
    size_bytes: int
    first_s: float
    last_s: float | None  #: when the last of its flows ended; None: one was under way
    #: most bytes that were left to send at any time, as orders and ends of flows tell
    most_left_bytes: int
    circuits: list[CircuitUsed]


class FlowExplanation(Explanation, tag="flow", kw_only=True):
    """Why a flow began when it did, and what it went by."""

    flow: Fetched
    reader_since_s: float | None  #: when its reader was launched
    before: FlowId | None  #: the flow from the same node to the same reader before it
    before_ended_s: float | None
    why: str  #: why it began when it did
    pair: PairStory | None  #: its coflow's bytes between the same racks; None: within a rack
    elephant_bytes: float | None  #: from which a pair gets circuits; None: there are none


class CoflowExplanation(Explanation, tag="coflow", kw_only=True):
    """A coflow: the fetches of one stage; or a circuit, with the coflows that had it."""

    opened_s: float | None
    closed_s: float | None
    pairs: list[PairStory]
    elephant_bytes: float | None


class BlockMove(msgspec.Struct, kw_only=True):
    """A block that was moved."""

    path: str
    block: int  #: its number in the file
    node: NodeId
    source: NodeId | None
    why: str
    asked_s: float
    ended_s: float | None = None
    outcome: str = "under way"


class FileReader(msgspec.Struct, kw_only=True):
    """A job that reads a file."""

    job: JobId
    job_name: str
    at_s: float
    splits: int
    racks: dict[RackId, int]  #: {rack: splits with a replica there}


class FileExplanation(Explanation, tag="file", kw_only=True):
    """Why a file's replicas are where they are."""

    announced_s: float | None
    for_job: str
    #: of each replica, the racks that the data policy named; () = the block store's own rule
    racks: tuple[tuple[RackId, ...], ...]
    who: str
    blocks: list[tuple[NodeId, ...]]  #: nodes of each block, as last recorded
    moves: list[BlockMove]
    readers: list[FileReader]


AnyExplanation = (
    TaskExplanation | JobExplanation | FlowExplanation | CoflowExplanation | FileExplanation
)
