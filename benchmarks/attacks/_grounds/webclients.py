"""Clients of the gateway that put files and get them back while something happens to it.

A request that breaks off is sent again, as clients of HDFS do.  Meanwhile a file that is put is
either not there or whole.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from types import TracebackType

from railyard.benchmarks.attacks._grounds.home import Broken, Home, require
from railyard.cluster.runfolder import RunFolder
from railyard.gateway.address import known_url

_CLIENTS = 3
_BYTES_MAX = 4_000_000
_TIMEOUT_S = 60.0
#: For so long a request is sent again; a gateway that died is back in a second or two.
_AWAY_S_MAX = 30.0
_PAUSE_S = 0.05


class WebClients:
    """Threads that put and get, one file after the other, until the block ends.

    At its end ``Broken`` tells what was not borne, if anything.
    """

    def __init__(self, home: Home) -> None:
        self._folder = RunFolder(home.run_folder())
        self._url = known_url(self._folder)
        require(self._url is not None, "the cluster has no gateway")
        self._over = threading.Event()
        self._broken: list[str] = []
        self.retried = 0  #: requests that had to be sent again
        seeds = [home.dice.random() for _ in range(_CLIENTS)]
        self._threads = [
            threading.Thread(target=self._work, args=(number, random.Random(seed)))
            for number, seed in enumerate(seeds)
        ]

    def __enter__(self) -> WebClients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        if error is None:
            require(not self._broken, "; ".join(self._broken))
            moved = known_url(self._folder) != self._url
            require(not moved, "the gateway is not where it was")

    def _work(self, number: int, dice: random.Random) -> None:
        done, last = 0, False
        try:
            while not last:
                last = self._over.is_set()  # one more, after all that has happened
                self._one(f"/web/{number}-{done}", dice.randbytes(dice.randrange(_BYTES_MAX)))
                done += 1
        except (Broken, OSError, ValueError) as error:
            self._broken.append(f"client {number}, file {done}: {error or type(error).__name__}")

    def _one(self, path: str, data: bytes) -> None:
        """Put a file and get it back."""
        begun_s = time.monotonic()
        while (status := self._ask("PUT", path, "CREATE&overwrite=true", data)[0]) != 201:
            require(status == 0, f"CREATE: {status}")
            self._again(begun_s)
            self._require_none_or_whole(path, len(data))
        begun_s = time.monotonic()
        while (answer := self._ask("GET", path, "OPEN"))[0] != 200:
            require(answer[0] == 0, f"OPEN: {answer}")
            self._again(begun_s)
        require(answer[1] == data, "WRONG BYTES")

    def _require_none_or_whole(self, path: str, size: int) -> None:
        status, body = self._ask("GET", path, "GETFILESTATUS")
        if status == 200:
            length = json.loads(body)["FileStatus"]["length"]
            require(length == size, f"{length} of {size} bytes are visible")
        else:
            require(status in (0, 404), f"GETFILESTATUS: {status} {body[:200]!r}")

    def _again(self, begun_s: float) -> None:
        self.retried += 1
        require(time.monotonic() - begun_s < _AWAY_S_MAX, f"away for {_AWAY_S_MAX:g} s")
        time.sleep(_PAUSE_S)

    def _ask(self, verb: str, path: str, op: str, data: bytes | None = None) -> tuple[int, bytes]:
        """Status and body of the answer; status 0 if there is none, or not all of it."""
        assert self._url is not None
        address = self._url.removeprefix("http://")
        connection = http.client.HTTPConnection(address, timeout=_TIMEOUT_S)
        try:
            connection.request(verb, f"/webhdfs/v1{path}?op={op}&data=true", body=data)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (ConnectionError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()
