"""YARN's REST interfaces: each filter and field does what its table says, others are refused."""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from urllib.parse import urlencode

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from railyard.cluster.acceptance import Effect
from railyard.cluster.config import ClusterConfig
from railyard.cluster.messaging.wire import Done
from railyard.cluster.runfolder import RunFolder
from railyard.dfs.messages import FileStatus
from railyard.gateway.http.guard import Access, Tokens, guard
from railyard.gateway.yarn.answers import FIELDS, FILTERS
from railyard.gateway.yarn.cluster import ClusterRest
from railyard.gateway.yarn.history import HistoryRest
from railyard.gateway.yarn.submission import Submission
from railyard.resourcemanager.process.messages import (
    AttemptReport,
    ClusterStatus,
    JobAccepted,
    JobDetails,
    JobStatus,
    JobTasks,
    KillJob,
    NodeStatus,
    StageStatus,
    SubmitJob,
    TaskReport,
)
from tests.dfs.conftest import small_topology

_NAMED = {"scheduler": "fair", "flow_scheduler": "maxmin", "topology": "t", "now_s": 99.0}


def _job(number: int, state: str, **given: Any) -> JobStatus:
    over = state in ("succeeded", "failed")
    named = {"name": f"n{number}", "user": "ann", "queue": "default", "progress": 0.5} | given
    times = {"submitted_s": 10.0 * number, "finished_s": 10.0 * number + 5 if over else None}
    return JobStatus(job=f"j{number}", state=state, **times, **named)


JOBS = (
    _job(1, "succeeded", user="bob", maps=1, reduces=1),
    _job(2, "failed", queue="etl"),
    _job(3, "running"),
    _job(4, "failed", stopped=True),
)
NODES = (
    NodeStatus(node="r0n0", rack="r0", slots=2, attempts=("j3.m0.0",), alive=True),
    NodeStatus(node="r0n1", rack="r0", slots=2, attempts=(), alive=False, lost_because="silent"),
)
STAGES = (
    StageStatus(name="m", reads=(), tasks=1, done=1),
    StageStatus(name="r", reads=("m",), tasks=1, done=1),
)


def _task(name: str) -> TaskReport:
    attempt = AttemptReport(
        attempt=f"{name}.0",
        node="r0n0",
        level="node-local",
        copy=False,
        state="succeeded",
        launched_s=11.0,
        ended_s=12.0,
    )
    return TaskReport(task=name, state="done", attempts=(attempt,))


class Manager:
    """A ResourceManager and a block store that have always the same jobs, and note orders."""

    def __init__(self) -> None:
        self.orders: list[SubmitJob | KillJob] = []

    @asynccontextmanager
    async def one(self):
        yield self

    async def ask(self, message: Any, answer: type) -> Any:
        kind = type(message).__name__
        if isinstance(message, SubmitJob | KillJob):
            self.orders.append(message)
            return Done() if isinstance(message, KillJob) else JobAccepted(job=message.job)
        if kind == "GetClusterStatus":
            return ClusterStatus(nodes=NODES, jobs=JOBS, **_NAMED)
        if kind == "GetJobDetails":
            [job] = [each for each in JOBS if each.job == message.job]
            return JobDetails(now_s=99.0, status=job, stages=STAGES, settings={"given.my.key": "v"})
        assert kind == "GetJobTasks", kind
        tasks = (_task("j1.m0"), _task("j1.r0"))
        return JobTasks(now_s=99.0, tasks=tasks[message.begin :][: message.limit], left=0)

    async def call(self, act: Callable[[Any], Any]) -> Any:
        return act(self)

    # What is asked of the block store
    def exists(self, _: str) -> bool:
        return False

    def find(self, path: str) -> FileStatus:
        return FileStatus(path=path)

    status = find


class NoAddresses:
    """Nodes are found by a path of the gateway's."""

    of_nodes: ClassVar[dict[str, str]] = {}

    def node_of(self, _: web.Request) -> None:
        return None


class Answered(NamedTuple):
    status: int
    told: Any
    orders: list[SubmitJob | KillJob]


class Rest:
    """The interfaces, with a loop of their own in which requests are answered."""

    def __init__(self) -> None:
        self._parent = tempfile.TemporaryDirectory(prefix="ry-")
        folder = RunFolder.create(Path(self._parent.name))
        self.begun_ms = int(folder.made_s * 1000)
        self.manager, config = Manager(), ClusterConfig(topology=small_topology())
        self.tokens = Tokens("here")
        self._loop = asyncio.new_event_loop()
        self._clients = {}
        for token in ("", "secret"):
            app = web.Application(middlewares=[guard(Access(token, self.tokens))])
            Submission(self.manager, folder, config).add_to(app)
            ClusterRest(self.manager, folder, NoAddresses()).add_to(app)
            HistoryRest(self.manager, folder, 1, {}).add_to(app)
            self._clients[token] = TestClient(TestServer(app), loop=self._loop)
            self._run(self._clients[token].start_server())

    def _run(self, coming: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(coming)

    def close(self) -> None:
        for client in self._clients.values():
            self._run(client.close())
        self._loop.close()
        self._parent.cleanup()

    def ask(
        self, method: str, path: str, query: Any = (), body: Any = None, **given: Any
    ) -> Answered:
        """A request of an address after /ws/v1/, or after /."""
        return self._run(self._ask(method, path, query, body, **given))

    async def _ask(self, method, path, query, body, token="", headers=None):
        self.manager.orders = []
        data = json.dumps(body).encode() if not isinstance(body, bytes | None) else body
        url = f"/{path}?{urlencode(query)}"
        async with self._clients[token].request(method, url, data=data, headers=headers) as got:
            text = await got.text()
            return Answered(got.status, json.loads(text) if text else None, self.manager.orders)

    def app(self, number: int) -> str:
        return f"application_{self.begun_ms}_{number:04d}"


_rest: list[Rest] = []


def rest() -> Rest:
    return _rest[0]


@pytest.fixture(scope="module", autouse=True)
def _interfaces() -> Iterator[None]:
    with Interfaces():
        yield


class Interfaces:
    """Starts what ``check_random`` needs, and ends it."""

    def __enter__(self) -> None:
        _rest.append(Rest())

    def __exit__(self, *_: object) -> None:
        _rest.pop().close()


# Filters -----------------------------------------------------------------------------------------
def _job_path() -> str:
    return f"ws/v1/history/mapreduce/jobs/job_{rest().begun_ms}_0001"


#: {whose filters: the address}
ADDRESSES: dict[str, Callable[[], str]] = {
    "/cluster/apps": lambda: "ws/v1/cluster/apps",
    "/cluster/apps/ID": lambda: f"ws/v1/cluster/apps/{rest().app(1)}",
    "/cluster/appstatistics": lambda: "ws/v1/cluster/appstatistics",
    "/cluster/nodes": lambda: "ws/v1/cluster/nodes",
    "/node/apps": lambda: "node/r0n0/ws/v1/node/apps",
    "/history/mapreduce/jobs": lambda: "ws/v1/history/mapreduce/jobs",
    "/mapreduce/jobs/ID/tasks": lambda: f"{_job_path()}/tasks",
    "": lambda: "ws/v1/cluster/metrics",
}
#: {filter: a value that leaves something out}
LEAVES_OUT: dict[str, Callable[[], object]] = {
    "states": lambda: "RUNNING",
    "state": lambda: "FAILED",
    "finalStatus": lambda: "KILLED",
    "user": lambda: "zoe",
    "queue": lambda: "root.etl",
    "name": lambda: "n2",
    "limit": lambda: 1,
    "startedTimeBegin": lambda: rest().begun_ms + 25_000,
    "startedTimeEnd": lambda: rest().begun_ms + 15_000,
    "finishedTimeBegin": lambda: rest().begun_ms + 20_000,
    "finishedTimeEnd": lambda: rest().begun_ms + 20_000,
    "applicationTypes": lambda: "SPARK",
    "applicationTags": lambda: "nosuch",
    "type": lambda: "r",
}


def _parts(row: str) -> tuple[str, str]:
    of, space, name = row.rpartition(" ")
    return (of, name) if space else ("", row)


def _filtered(row: str) -> tuple[object, object]:
    of, name = _parts(row)
    path, value = ADDRESSES[of](), LEAVES_OUT[name]()
    if row == "/node/apps state":
        value = "FINISHED"
    return rest().ask("GET", path).told, rest().ask("GET", path, {name: value}).told


def _delegated() -> tuple[object, object]:
    shown = {"delegation": rest().tokens.issue("ann", "ann", 2**41)}
    path = ADDRESSES[""]()
    asked = [rest().ask("GET", path, query, token="secret") for query in ({}, shown)]
    return tuple(answer.status for answer in asked)


FILTER_PROBES: dict[str, Callable[[], tuple[object, object]]] = {
    "delegation": _delegated,
    **{
        row: lambda row=row: _filtered(row)
        for row in FILTERS.entries
        if _parts(row)[1] in LEAVES_OUT and _parts(row)[0] in ADDRESSES
    },
}


def test_each_filter_that_is_used_has_a_probe():
    assert sorted(FILTER_PROBES) == FILTERS.named(Effect.USED)


@pytest.mark.parametrize("row", FILTERS.named(Effect.USED))
def test_a_used_filter_leaves_something_out(row):
    without, given = FILTER_PROBES[row]()
    assert without != given
    assert "RemoteException" not in str(given)


@pytest.mark.parametrize("row", FILTERS.named(Effect.IDLE))
def test_an_idle_filter_changes_nothing(row):
    of, name = _parts(row)
    without = rest().ask("GET", ADDRESSES[of]())
    assert rest().ask("GET", ADDRESSES[of](), {name: "x"}) == without
    assert without.status == 200


def _why(answer: Answered, status: int = 400) -> str:
    assert answer.status == status, answer
    message = answer.told["RemoteException"]["message"]
    assert "\n" not in message
    return str(message)


@pytest.mark.parametrize("row", FILTERS.named(Effect.REFUSED))
def test_a_refused_filter_is_named(row):
    of, name = _parts(row)
    assert name in _why(rest().ask("GET", ADDRESSES[of](), {name: "x"}))


@pytest.mark.parametrize("of", sorted(ADDRESSES))
def test_a_filter_of_nobody_is_refused_at_each_address(of):
    assert 'unknown filter "stat"' in _why(rest().ask("GET", ADDRESSES[of](), {"stat": "x"}))


def test_the_nearest_filter_is_named():
    why = _why(rest().ask("GET", ADDRESSES["/cluster/apps"](), {"startTimeBegin": 1}))
    assert 'did you mean "startedTimeBegin"?' in why


# Values of filters -------------------------------------------------------------------------------
LISTS = ["/cluster/apps", "/history/mapreduce/jobs"]


@pytest.mark.parametrize("of", LISTS)
def test_an_empty_filter_counts_as_absent(of):
    names = [name for each, name in map(_parts, FILTERS.entries) if each == of]
    without = rest().ask("GET", ADDRESSES[of]())
    assert rest().ask("GET", ADDRESSES[of](), dict.fromkeys(names, "")) == without


@pytest.mark.parametrize("of", LISTS)
@pytest.mark.parametrize("time", ["startedTime", "finishedTime"])
def test_a_time_that_ends_before_it_begins_is_refused(of, time):
    swapped = {f"{time}Begin": 2000, f"{time}End": 1000}
    assert f"{time}End" in _why(rest().ask("GET", ADDRESSES[of](), swapped))
    assert rest().ask("GET", ADDRESSES[of](), dict.fromkeys(swapped, 1000)).status == 200


@pytest.mark.parametrize("of", LISTS)
def test_all_queues_are_below_root(of):
    for queue in ("default", "etl"):
        short, long = (
            rest().ask("GET", ADDRESSES[of](), {"queue": name}) for name in (queue, f"root.{queue}")
        )
        assert short == long
        assert short.told != {of.rpartition("/")[2]: None}


def test_a_number_given_twice_with_two_values_is_refused():
    path = ADDRESSES["/cluster/apps"]()
    assert "limit" in _why(rest().ask("GET", path, [("limit", 1), ("limit", 2)]))
    assert rest().ask("GET", path, [("limit", 1), ("limit", 1)]).status == 200


def test_attempts_of_ended_jobs_have_their_nodes_address():
    path = f"{_job_path()}/tasks/task_{rest().begun_ms}_0001_m_000000/attempts"
    [attempt] = rest().ask("GET", path).told["taskAttempts"]["taskAttempt"]
    assert attempt["nodeHttpAddress"].endswith("/node/r0n0")


def test_a_jobs_own_settings_are_in_its_conf():
    rows = rest().ask("GET", f"{_job_path()}/conf").told["conf"]["property"]
    assert {"name": "my.key", "value": "v", "source": ["job"]} in rows


# Fields ------------------------------------------------------------------------------------------
WORK = {"user": "ann", "input": ["/in"], "output": "/out", "mapper": "cat"}


def submitted(**fields: object) -> Answered:
    body = {"application-id": rest().app(7), "railyard": WORK} | fields
    return rest().ask("POST", "ws/v1/cluster/apps", body=body)


def put(what: str, body: object, headers: object = None) -> Answered:
    path = f"ws/v1/cluster/apps/{rest().app(3)}/{what}"
    return rest().ask("PUT", path, body=body, headers=headers)


def _order(answer: Answered) -> SubmitJob:
    [order] = answer.orders
    assert isinstance(order, SubmitJob)
    return order


FIELD_PROBES: dict[str, Callable[[], tuple[object, object]]] = {
    "POST apps application-id": lambda: (
        submitted(**{"application-id": None}).status,
        submitted().status,
    ),
    "POST apps application-name": lambda: (
        _order(submitted()).name,
        _order(submitted(**{"application-name": "mine"})).name,
    ),
    "POST apps application-tags": lambda: (
        _order(submitted()).settings.get("mapreduce.job.tags"),
        _order(submitted(**{"application-tags": {"tag": ["run-18"]}})).settings[
            "mapreduce.job.tags"
        ],
    ),
    "POST apps application-type": lambda: (
        submitted().status,
        submitted(**{"application-type": "SPARK"}).status,
    ),
    "POST apps queue": lambda: (
        _order(submitted()).queue,
        _order(submitted(queue="root.etl")).queue,
    ),
    "POST apps railyard": lambda: (submitted(railyard=None).status, submitted().status),
    "PUT apps/ID/state state": lambda: (
        put("state", {}).status,
        put("state", {"state": "KILLED"}).status,
    ),
    "PUT apps/ID/state diagnostics": lambda: (
        put("state", {"state": "KILLED"}).orders,
        put("state", {"state": "KILLED", "diagnostics": "too slow"}).orders,
    ),
}


def test_each_field_that_is_used_has_a_probe():
    assert sorted(FIELD_PROBES) == FIELDS.named(Effect.USED)


@pytest.mark.parametrize("row", sorted(FIELD_PROBES))
def test_a_used_field_changes_what_is_ordered(row):
    without, given = FIELD_PROBES[row]()
    assert without != given


def _with_field(row: str, value: object) -> Answered:
    of, name = _parts(row)
    if of == "POST apps":
        return submitted(**{name: value})
    body = {"state": "KILLED"} if of.endswith("state") else {}
    return put(of.rpartition("/")[2], body | {name: value})


@pytest.mark.parametrize("row", FIELDS.named(Effect.REFUSED))
def test_a_refused_field_is_named(row):
    answer = _with_field(row, "x")
    assert f"field {_parts(row)[1]}: not supported" in _why(answer)
    assert not answer.orders


@pytest.mark.parametrize("row", FIELDS.named(Effect.IDLE))
def test_an_idle_field_changes_nothing(row):
    without, given = _order(submitted()), _order(_with_field(row, {"any": 1}))
    assert given.settings == without.settings
    assert (given.name, given.queue, given.user) == (without.name, without.queue, without.user)


@pytest.mark.parametrize("of", sorted({_parts(row)[0] for row in FIELDS.entries}))
def test_a_field_of_nobody_is_refused(of):
    assert 'unknown field "qeue"' in _why(_with_field(f"{of} qeue", "x"))


def test_the_tags_of_a_submission_have_the_shape_of_yarns():
    for wrong in ({"tag": 5}, 7, {"tag": [1]}, {"tag": ["a,b"]}):
        assert "application-tags" in _why(submitted(**{"application-tags": wrong}))


@pytest.mark.parametrize("field", ["application-name", "queue", "user"])
def test_half_a_letter_is_no_json(field):
    body = {"application-id": rest().app(7), "railyard": WORK | {"user": "\ud800"}}
    body = body if field == "user" else body | {"railyard": WORK, field: "\ud800"}
    answer = rest().ask("POST", "ws/v1/cluster/apps", body=body)
    assert "need JSON" in _why(answer)
    assert "need JSON" in _why(put("state", {"state": "KILLED", "diagnostics": "\ud800"}))


XML = {"Content-Type": "application/xml"}


def test_a_state_may_come_as_xml():
    body = b"<appstate><diagnostics>why</diagnostics><state>KILLED</state></appstate>"
    answer = put("state", body, XML)
    assert (answer.status, answer.orders) == (202, [KillJob(job="j3", reason="why")])


@pytest.mark.parametrize(
    "body", [b"", b"<a", b"<a><state><b/></state></a>", b"<a/>", b"<a><stat>KILLED</stat></a>"]
)
def test_xml_that_says_nothing_is_refused(body):
    answer = put("state", body, XML)
    assert _why(answer)
    assert not answer.orders


# Any mixture -------------------------------------------------------------------------------------
_SILLY = ["", "-1", "maybe", "\u6771", "a\nb", "1e9", "9" * 25, "RUNNING", "0", "null", "%", ","]
_NOBODYS = ["stat", "limits", "User", "\u6771", "", "foo"]


def check_random(dice: random.Random) -> None:
    """A random mixture of names and values: refused by name, or all that is used has its effect."""
    (_random_filters if dice.random() < 0.6 else _random_fields)(dice)


def _random_filters(dice: random.Random) -> None:
    of = dice.choice(sorted(ADDRESSES))
    names = [name for each, name in map(_parts, FILTERS.entries) if each in (of, "")]
    names = [name for name in names if name != "delegation"]
    chosen = dice.sample(names, dice.randint(0, min(4, len(names))))
    if dice.random() < 0.2:
        chosen.append(dice.choice(_NOBODYS))
    query = {
        name: dice.choice(_SILLY)
        if dice.random() < 0.3 or name not in LEAVES_OUT
        else str(LEAVES_OUT[name]())
        for name in chosen
    }
    answer = rest().ask("GET", ADDRESSES[of](), query)
    known = set(names) - {"healthy"}
    if answer.status == 400:
        why = _why(answer)
        assert any(name in why or f"{name}:" in why for name in query), (of, query, why)
        return
    assert answer.status == 200, (of, query, answer)
    assert query.keys() <= known, (of, query)
    _check_filtered(of, query, answer.told)


def _check_filtered(of: str, query: dict[str, str], told: Any) -> None:
    if of not in (*LISTS, "/cluster/nodes"):
        return
    ((_, inner),) = told.items()
    rows = [] if inner is None else next(iter(inner.values()))
    for name, text in query.items():
        values = {value for value in text.split(",") if value}
        if not values:
            continue
        if name in ("states", "state"):
            assert {row["state"] for row in rows} <= {value.upper() for value in values}
        elif name in ("user", "name", "finalStatus"):
            assert {row[name] for row in rows} <= values
        elif name == "queue":
            assert {row[name] for row in rows} <= {v.removeprefix("root.") for v in values}
        elif name == "limit":
            assert len(rows) <= int(text)
        elif name == "applicationTags":
            assert rows == []
        elif name.startswith("startedTime"):
            shown = [row.get("startedTime", row.get("startTime")) for row in rows]
            begins = name.endswith("Begin")
            assert all(each >= int(text) if begins else each <= int(text) for each in shown)


def _random_fields(dice: random.Random) -> None:
    ofs = sorted({_parts(row)[0] for row in FIELDS.entries})
    of = dice.choice([*ofs, "POST apps", "POST apps"])
    names = [name for each, name in map(_parts, FIELDS.entries) if each == of]
    own = {"application-id": rest().app(7), "railyard": WORK} if of == "POST apps" else {}
    sensible = {
        "state": "KILLED",
        "diagnostics": "why",
        "queue": "etl",
        "application-name": "mine",
        "application-tags": {"tag": ["a", "b"]},
        "application-type": "mapreduce",
    }
    chosen = dice.sample(names, dice.randint(0, min(4, len(names))))
    if dice.random() < 0.2:
        chosen.append(dice.choice(_NOBODYS))
    silly: list[object] = [None, 5, "x", [], {}, "", "\u6771", [1], {"tag": 3}, True, -1.5]
    body = own | {
        name: dice.choice(silly) if dice.random() < 0.3 else sensible.get(name, own.get(name, "x"))
        for name in chosen
    }
    if of == "POST apps":
        answer = rest().ask("POST", "ws/v1/cluster/apps", body=body)
    else:
        answer = put(of.rpartition("/")[2], body)
    if answer.status == 400:
        why = _why(answer)
        needs = ("state", "railyard", "application-id", of)
        assert any(name in why for name in (*filter(None, body), *needs)), (of, body, why)
        assert not answer.orders
        return
    assert answer.status == 202, (of, body, answer)
    accepted = {name for name in names if FIELDS.entries[f"{of} {name}"].effect != Effect.REFUSED}
    assert body.keys() <= accepted
    [order] = answer.orders
    if isinstance(order, KillJob):
        assert order.reason == str(body.get("diagnostics") or "killed over HTTP")
    else:
        assert order.name == (body.get("application-name") or "streamjob")
        assert order.queue == (body.get("queue") or "default")


def test_any_mixture_is_refused_by_name_or_has_its_effect(seed):
    check_random(random.Random(seed))
