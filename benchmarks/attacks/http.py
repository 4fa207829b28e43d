"""200,000 malformed HTTP requests to the gateway, while jobs run: it refuses them, jobs are right.

``_hostile.requests`` says what they are.  Each is sent over a connection of its own, and must be
answered with a 4xx (some may be answered as sound ones are) or closed; no answer may have a stack
trace or a file of this machine in it.  One that was not borne is sent again by

    python -m railyard.benchmarks.attacks http --seed SEED --trial NUMBER
"""

from __future__ import annotations

import asyncio
import random
import re
import sys
import threading
import time
import urllib.request
from collections import Counter

import psutil

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.benchmarks.attacks._grounds.home import Broken, Grounds, Home, require
from railyard.benchmarks.attacks._grounds.trials import SEED, again, say, tally
from railyard.benchmarks.attacks._hostile.httprequest import FOLDER, HostileRequest
from railyard.benchmarks.attacks._hostile.requests import hostile_request
from railyard.cluster.runfolder import RunFolder
from railyard.gateway.address import known_url

REQUESTS = 200_000
QUICK = 3_000
#: Connections at once; silent ones have their own, since each stays for as long as it may.
_AT_ONCE = 64
_SILENT_AT_ONCE = 200
#: An answer to a whole request comes within this; then the client closes its side.
_ANSWER_S = 10.0
#: And to one that is not whole, if there is any, mostly within this.
_LOOK_S = 0.1
#: However little was sent, the gateway has closed the connection after this.
_CLOSED_S = 120.0
_ANSWER_BYTES_MAX = 2**20
_SAID_EVERY_S = 20.0
_KEPT_BYTES = 1_000_000
#: Of the jobs beside very many requests: the cluster mostly runs tasks, rather than starts jobs.
_JOB_SIZE = "10GB"
_QUICK_JOB_SIZE = "500MB"
_JOB_TIMEOUT_S = 600.0
#: So long after the last request the gateway has closed what it needs no more.
_SETTLED_S = 25.0
#: Fewer requests would leave less than memory changes by itself.
_MEASURED_FROM = QUICK
#: What the gateway's memory may grow by after the first tenth of the requests.
_GROWTH_MB_MAX = 16.0
_CONTINUE = 100
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")
_NEVER = (b"Traceback", b'File "', b"site-packages", b"root:x:", b"RAILYARD_HOME=")


def run(
    quick: bool = False,
    seed: int = SEED,
    only: str | None = None,
    requests: int | None = None,
    silent: bool = True,
) -> list[Row]:
    """Send 200,000 requests; ``quick`` sends 3,000; ``only`` one.

    Without ``silent``, those are left out whose client falls silent, since each takes a minute.
    """
    wanted = requests or (QUICK if quick else REQUESTS)
    numbers = range(wanted) if only is None else range(int(only), int(only) + 1)
    with Grounds() as grounds:
        home = grounds.home(random.Random(seed))
        return _Attack(home, seed, numbers, silent=silent, show=only is not None).carry_out()


class _Attack:
    """One cluster, its jobs, and the requests."""

    def __init__(self, home: Home, seed: int, numbers: range, *, silent: bool, show: bool) -> None:
        self._home = home
        self._seed = seed
        self._numbers = numbers
        self._silent = silent
        self._show = show
        self._tried: Counter[str] = Counter()  #: {kind: requests}
        self._broken: dict[str, list[str]] = {}  #: {kind: what was not borne}
        self._job_size = _JOB_SIZE if len(numbers) > QUICK else _QUICK_JOB_SIZE
        self._over = threading.Event()
        self._jobs = 0
        self._broken_jobs: list[str] = []

    def carry_out(self) -> list[Row]:
        """Attack; the rows of what held."""
        home = self._home
        home.up()
        kept = home.random_file("kept", _KEPT_BYTES)
        home.run("fs", "put", kept, "/kept").require_ok()
        url = known_url(RunFolder(home.run_folder()))
        assert url is not None, "railyard up starts a gateway"
        gateway = psutil.Process(home.rows("Gateway")[0]["pid"])
        jobs = threading.Thread(target=self._run_jobs)
        jobs.start()
        try:
            first, rest = self._numbers[: len(self._numbers) // 10], self._numbers
            rest = rest[len(first) :]
            self._send(url, first)
            memory_mb = [self._settled_mb(gateway)]
            self._send(url, rest)
            memory_mb.append(self._settled_mb(gateway))
        finally:
            self._over.set()
            jobs.join()
        after = self._broken_afterwards(url, kept.read_bytes(), gateway)
        return [
            *(self._row_of_kind(kind) for kind in sorted(self._tried)),
            tally("all requests", sum(self._tried.values()), self._held(), []),
            tally(
                "jobs beside them",
                self._jobs,
                self._jobs - len(self._broken_jobs),
                self._broken_jobs,
            ),
            tally("the gateway and the store afterwards", 1, 0 if after else 1, after),
            *self._memory_rows(*memory_mb),
        ]

    def _held(self) -> int:
        return sum(self._tried.values()) - sum(map(len, self._broken.values()))

    def _row_of_kind(self, kind: str) -> Row:
        broken = self._broken.get(kind, [])
        return tally(kind, self._tried[kind], self._tried[kind] - len(broken), broken)

    def _settled_mb(self, gateway: psutil.Process) -> float:
        """Its memory once nobody has asked it for a while; 0 if that is not measured."""
        if len(self._numbers) < _MEASURED_FROM:
            return 0.0
        time.sleep(_SETTLED_S)
        return float(gateway.memory_info().rss) / 1e6

    def _memory_rows(self, before_mb: float, after_mb: float) -> list[Row]:
        if not after_mb:
            return []
        grown_mb = after_mb - before_mb
        return [bench_row("memory that the gateway kept", grown_mb, "MB", bound=_GROWTH_MB_MAX)]

    # Sending -------------------------------------------------------------------------------------
    def _send(self, url: str, numbers: range) -> None:
        host, port = url.removeprefix("http://").split(":")
        asyncio.run(self._send_all(host, int(port), numbers))

    async def _send_all(self, host: str, port: int, numbers: range) -> None:
        turns, silent_turns = asyncio.Semaphore(_AT_ONCE), asyncio.Semaphore(_SILENT_AT_ONCE)
        said_s = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for number in numbers:
                request = hostile_request(self._seed, number)
                if request.waits and not self._silent:
                    continue
                turn = silent_turns if request.waits else turns
                await turn.acquire()
                tasks.create_task(self._send_one(host, port, number, request, turn))
                if time.monotonic() - said_s > _SAID_EVERY_S:
                    said_s = time.monotonic()
                    say("http", f"{number} requests, {self._jobs} jobs")
                if number % 1000 == 0 and not self._home.lives:
                    raise Broken("the cluster has ended")

    async def _send_one(
        self, host: str, port: int, number: int, request: HostileRequest, turn: asyncio.Semaphore
    ) -> None:
        self._tried[request.kind] += 1
        try:
            answer = await _exchange(host, port, request)
            if self._show:
                print(f"{request}\n{answer!r}", file=sys.stderr)
            _judge(request, answer)
        except (Broken, OSError, TimeoutError) as error:
            words = f"{error or type(error).__name__}; {again('http', self._seed, str(number))}"
            self._broken.setdefault(request.kind, []).append(words)
            say("http", f"{request.kind}: {words}")
        finally:
            turn.release()

    # Beside and after ----------------------------------------------------------------------------
    def _run_jobs(self) -> None:
        """Run jobs as long as requests are sent."""
        while self._home.lives and not self._over.is_set():
            self._jobs += 1
            try:
                ran = self._home.start_job(self._job_size).end(_JOB_TIMEOUT_S)
                ran.require_ok()
                ran.require(b"verified" in ran.stdout, "was not verified")
            except Broken as broken:
                self._broken_jobs.append(str(broken))
                say("http", str(broken))

    def _broken_afterwards(self, url: str, kept: bytes, gateway: psutil.Process) -> list[str]:
        """What is wrong once all is over."""
        home, base = self._home, f"{url}/webhdfs/v1"
        try:
            require(gateway.is_running(), "the gateway has died")
            log = (home.run_folder() / "logs" / "gateway.log").read_text()
            trace = log.find("Traceback")
            require(trace < 0, f"the gateway's log has a stack trace: {log[trace:][:1500]}")
            with urllib.request.urlopen(f"{base}/kept?op=OPEN") as answer:
                require(answer.read() == kept, "WRONG BYTES")
            listed = home.run("fs", "ls", "/")
            require(FOLDER.encode() not in listed.stdout, "an upload that was refused is there")
            home.wait_for("its connections to be closed", lambda: not _connections(gateway))
            home.run("down").require_ok()
            home.require_nothing_left()
        except (Broken, OSError) as broken:
            return [str(broken)]
        return []


def _connections(gateway: psutil.Process) -> int:
    """Clients that are connected to it."""
    all_of_it = gateway.net_connections(kind="tcp")
    return sum(each.status == psutil.CONN_ESTABLISHED for each in all_of_it)


async def _exchange(host: str, port: int, request: HostileRequest) -> bytes:
    """Send a request as it says; what comes back until the connection is closed.

    ``Broken`` if it stays open after the client has closed its side.
    """
    reader, writer = await asyncio.open_connection(host, port)
    answer = bytearray()
    try:
        await _send_parts(writer, request)
        if request.reset:
            return b""
        if not request.waits:
            patience_s = _ANSWER_S if request.whole else _LOOK_S
            if await _closed(reader, answer, patience_s):
                return bytes(answer)
            writer.write_eof()
        if not await _closed(reader, answer, _CLOSED_S):
            raise Broken(f"stays open for {_CLOSED_S:g} s")
    except ConnectionError:  # closed before all was sent, or read
        return bytes(answer)
    finally:
        writer.transport.abort()
    return bytes(answer)


async def _send_parts(writer: asyncio.StreamWriter, request: HostileRequest) -> None:
    for part in request.parts:
        writer.write(part)
        await writer.drain()
        if request.pause_s:
            await asyncio.sleep(request.pause_s)


async def _closed(reader: asyncio.StreamReader, answer: bytearray, patience_s: float) -> bool:
    """Add what comes to the answer; whether the connection was closed within that time."""
    try:
        async with asyncio.timeout(patience_s):
            while piece := await reader.read(_ANSWER_BYTES_MAX):
                answer += piece
                require(len(answer) <= _ANSWER_BYTES_MAX, "an answer without end")
        return True
    except TimeoutError:
        return False


def _judge(request: HostileRequest, answer: bytes) -> None:
    """``Broken`` unless the answers are what they may be."""
    for never in _NEVER:
        require(never not in answer, f"{never.decode()!r} in the answer {answer[:300]!r}")
    statuses = [int(each) for each in _STATUS.findall(answer)]
    require(statuses or not answer, f"no HTTP: {answer[:100]!r}")
    allowed = range(200 if request.may_succeed else 400, 500)
    for status in statuses:
        require(status in allowed or status == _CONTINUE, f"{status}: {answer[:300]!r}")
