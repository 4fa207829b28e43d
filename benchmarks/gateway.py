"""How fast the gateway is: files up and down by curl, and small requests.

The yardsticks for a file are aiohttp, which the gateway is made with, and Python's http.server:
both serve the same file from the disk, in turns with the gateway, in this run.  What is uploaded
to aiohttp is written to one plain file; the block store keeps the topology's two replicas.
Neither syncs (durability "fast").
"""

from __future__ import annotations

import contextlib
import http.client
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.cluster.config import ClusterConfig
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Done
from railyard.cluster.runfolder import RunFolder
from railyard.cluster.topology import load_topology
from railyard.dfs.messages import MoveFiles
from railyard.gateway.address import known_url
from railyard.runs.clusters import own_cluster

FILE_BYTES = 256_000_000
#: At least half of aiohttp's throughput.
TIME_RATIO_BOUND = 2.0
MEMORY_BYTES_BOUND = 100e6
ENTRIES = 10_000
LISTING_S_BOUND = 0.1
REQUESTS = 1000
REQUESTS_S_BOUND = 1.0
VERSION_S_BOUND = 0.2
_PEERS = Path(__file__).parent / "peers" / "served_file.py"
_HADOOP = Path(__file__).resolve().parent.parent / "scripts" / "hadoop-commands" / "hadoop"
_TOPOLOGY = "unlimited-2x2"
_LOOK_S = 0.02


def run(quick: bool = False) -> list[Row]:
    """Measure; ``quick`` takes 2 turns rather than 7."""
    turns = 2 if quick else 7
    topology = load_topology(_TOPOLOGY)
    config = ClusterConfig(topology=topology, http=0, durability="fast")
    with tempfile.TemporaryDirectory(prefix="ry-bench-") as folder, own_cluster(config) as cluster:
        file = Path(folder) / "file"
        _fill(file)
        cluster.wait_until_ready()
        url = _url(cluster.folder)
        rows = _transfers(cluster.folder, file, url, turns)
        transport = Transport(cluster.folder)
        entries = tuple(f"/many/entry-{number:05}" for number in range(ENTRIES))
        transport.link("namenode").call(MoveFiles(markers=entries), Done)
        transport.close()
        rows += [_listing(url, turns), _small_requests(url, turns)]
    return [*rows, _version(turns)]


# Files -------------------------------------------------------------------------------------------
def _transfers(folder: RunFolder, file: Path, url: str, turns: int) -> list[Row]:
    size = file.stat().st_size
    stored = f"{url}/webhdfs/v1/file"
    ways: dict[str, Callable[[], float]] = {}
    with _peer("aiohttp", file) as aiohttp, _peer("http.server", file) as plain:
        put = ("-T", str(file))
        ways["up"] = lambda: _curl(*put, "-L", f"{stored}?op=CREATE&overwrite=true")
        ways["up to aiohttp"] = lambda: _curl(*put, aiohttp)
        ways["down"] = lambda: _curl("-L", f"{stored}?op=OPEN")
        ways["down from aiohttp"] = lambda: _curl(aiohttp)
        ways["down from http.server"] = lambda: _curl(plain)
        with _Memory(folder) as memory:
            taken_s: dict[str, list[float]] = {name: [] for name in ways}
            for _ in range(turns):
                for name, way in ways.items():
                    taken_s[name].append(way())
            twice = Path(f"{file}-2")
            with twice.open("wb") as larger:
                for _ in range(2):
                    larger.write(file.read_bytes())
            _curl("-T", str(twice), "-L", f"{url}/webhdfs/v1/twice?op=CREATE")
            _curl("-L", f"{url}/webhdfs/v1/twice?op=OPEN")
    median_s = {name: statistics.median(all_s) for name, all_s in taken_s.items()}
    speeds = {name: f"{size / seconds / 1e6:.0f} MB/s" for name, seconds in median_s.items()}
    rows = [
        bench_row(
            f"{size / 1e6:.0f} MB {way} over WebHDFS, against aiohttp",
            median_s[way],
            "s",
            reference=median_s[peer],
            ratio_bound=TIME_RATIO_BOUND,
            note=f"{speeds[way]}; aiohttp {speeds[peer]}",
        )
        for way, peer in (("up", "up to aiohttp"), ("down", "down from aiohttp"))
    ]
    return [
        *rows,
        bench_row(
            f"{size / 1e6:.0f} MB down over WebHDFS, against http.server",
            median_s["down"],
            "s",
            reference=median_s["down from http.server"],
            note=f"http.server {speeds['down from http.server']}",
        ),
        memory.row(),
    ]


class _Memory:
    """The most memory that the gateway has had within the block."""

    def __init__(self, folder: RunFolder) -> None:
        pids = {row["name"]: row["pid"] for row in folder.processes()}
        self._gateway = psutil.Process(pids["gateway"])
        self._most = self._most_resident = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> _Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_S):
            memory = self._gateway.memory_full_info()
            self._most = max(self._most, memory.uss)
            self._most_resident = max(self._most_resident, memory.rss)

    def row(self) -> Row:
        """What it was, without what it shares with the other daemons."""
        return bench_row(
            "unshared memory of the gateway meanwhile, and with a file twice as large",
            self._most / 1e6,
            "MB",
            reference=MEMORY_BYTES_BOUND / 1e6,
            ratio_bound=1,
            note=f"{self._most_resident / 1e6:.0f} MB with what it shares with other daemons",
        )


def _fill(file: Path) -> None:
    block = bytes(range(256)) * 3907  # about a million bytes
    with file.open("wb") as filled:
        for start in range(0, FILE_BYTES, len(block)):
            filled.write(block[: FILE_BYTES - start])


@contextlib.contextmanager
def _peer(kind: str, file: Path) -> Iterator[str]:
    """The URL of a peer that serves the file."""
    peer = subprocess.Popen(
        [sys.executable, str(_PEERS), kind, str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert peer.stdout is not None
        yield peer.stdout.readline().strip()
    finally:
        peer.kill()
        peer.communicate()


def _curl(*arguments: str) -> float:
    """Seconds that curl takes."""
    if shutil.which("curl") is None:
        raise RuntimeError("curl is not installed: apt-get install curl")
    begun_s = time.monotonic()
    subprocess.run(["curl", "-sSf", "-o", "/dev/null", *arguments], check=True)
    return time.monotonic() - begun_s


# Small requests ----------------------------------------------------------------------------------
def _listing(url: str, turns: int) -> Row:
    with _connection(url) as connection:
        taken_s = []
        for _ in range(turns):
            begun_s = time.monotonic()
            body = _get(connection, "/webhdfs/v1/many?op=LISTSTATUS")
            taken_s.append(time.monotonic() - begun_s)
    if body.count(b"pathSuffix") != ENTRIES:
        raise RuntimeError(f"the listing has {body.count(b'pathSuffix')} entries: need {ENTRIES}")
    return bench_row(
        f"LISTSTATUS of {ENTRIES} entries",
        statistics.median(taken_s) * 1000,
        "ms",
        reference=LISTING_S_BOUND * 1000,
        ratio_bound=1,
    )


def _small_requests(url: str, turns: int) -> Row:
    with _connection(url) as connection:
        taken_s = []
        for _ in range(turns):
            begun_s = time.monotonic()
            for _ in range(REQUESTS):
                _get(connection, "/webhdfs/v1/file?op=GETFILESTATUS")
            taken_s.append(time.monotonic() - begun_s)
    seconds = statistics.median(taken_s)
    return bench_row(
        f"{REQUESTS} requests for a file's status over one connection",
        seconds,
        "s",
        reference=REQUESTS_S_BOUND,
        ratio_bound=1,
        note=f"{REQUESTS / seconds:.0f} a second",
    )


def _version(turns: int) -> Row:
    taken_s = []
    for _ in range(turns):
        begun_s = time.monotonic()
        subprocess.run([_HADOOP, "version"], check=True, stdout=subprocess.DEVNULL)
        taken_s.append(time.monotonic() - begun_s)
    return bench_row(
        "hadoop version",
        statistics.median(taken_s),
        "s",
        reference=VERSION_S_BOUND,
        ratio_bound=1,
    )


def _url(folder: RunFolder) -> str:
    url = known_url(folder)
    assert url is not None, "the cluster has a gateway"
    return url


@contextlib.contextmanager
def _connection(url: str) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection(url.removeprefix("http://"))
    try:
        yield connection
    finally:
        connection.close()


def _get(connection: http.client.HTTPConnection, target: str) -> bytes:
    connection.request("GET", target)
    response = connection.getresponse()
    body = response.read()
    if response.status != 200:
        raise RuntimeError(f"{target}: {response.status} {body[:200]!r}")
    return body
