"""HTTP to the gateway, and where it is."""

from __future__ import annotations

import http.client
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlencode, urlsplit

PIECE_BYTES = 2**20
_DEFAULT_FS = re.compile(r"<name>\s*fs\.defaultFS\s*</name>\s*<value>\s*webhdfs://([^<\s]+)")
_NAMES = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")


class Failed(Exception):
    """What the gateway refused: its status, exception and message."""

    def __init__(self, status: int, exception: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.exception = exception


class NoGateway(Exception):
    """No gateway is known, or it does not answer."""


def token_of(address: str) -> str:
    """What the gateway at an address wants to be shown; "" if nothing is known of it."""
    for folder in _folders():
        try:
            site = (folder / "core-site.xml").read_text(encoding="utf-8")
            if f"webhdfs://{address}<" in site:
                return (folder / "token").read_text(encoding="utf-8").strip()
        except OSError:
            continue
    return ""


def _folders() -> Iterator[Path]:
    """Where client files may be."""
    for name in _NAMES:
        if os.environ.get(name):
            yield Path(os.environ[name])
    yield _current() / "client-files"


def _current() -> Path:
    """The folder of the cluster that is up."""
    own = f"railyard-{os.geteuid()}"
    home = Path(os.environ.get("RAILYARD_HOME") or Path(tempfile.gettempdir()) / own)
    return home / "clusters" / "current"


def find_gateway() -> str:
    """Host and port: of ``core-site.xml`` in HADOOP_CONF_DIR, or of the cluster that is up."""
    for name in _NAMES:
        folder = os.environ.get(name)
        if folder:
            try:
                text = (Path(folder) / "core-site.xml").read_text(encoding="utf-8")
            except OSError:
                continue
            found = _DEFAULT_FS.search(text)
            if found:
                return found.group(1).rstrip("/")
    try:
        told = json.loads((_current() / "gateway.json").read_bytes())
        return str(told["url"]).removeprefix("http://")
    except OSError:
        right = "railyard up starts a cluster; HADOOP_CONF_DIR names one that is elsewhere"
        raise NoGateway(f"no gateway is known: {right}") from None


class Readable(Protocol):
    """What a file is written from: an open file, or pieces that come from elsewhere."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes, or the next piece; none at the end."""
        ...


class Web:
    """A connection to the gateway, kept for all requests of a command."""

    def __init__(self, address: str, user: str) -> None:
        self.address = address
        self.user = user
        token = token_of(address)
        self._shown = {"Authorization": f"Bearer {token}"} if token else {}
        self._connection = http.client.HTTPConnection(address, timeout=600)

    def ask(self, verb: str, path: str, op: str, **parameters: object) -> dict[str, Any]:
        """A WebHDFS request that moves no bytes; ``{}`` for an answer without a body."""
        response = self._request(verb, self._target(path, op, parameters))
        body = response.read()
        return json.loads(body) if body else {}

    def rest(self, verb: str, path: str, body: object = None) -> dict[str, Any]:
        """A request of the ResourceManager's REST interface."""
        return self._json(verb, f"/ws/v1/cluster{path}", body)

    def own(self, verb: str, path: str, body: object = None) -> dict[str, Any]:
        """A request of Railyard's own interface."""
        return self._json(verb, f"/ws/v1/railyard{path}", body)

    def _json(self, verb: str, path: str, body: object) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        return dict(json.loads(self._request(verb, path, data).read()))

    def read(self, path: str, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """The bytes of a file as they arrive."""
        parameters = {"offset": offset} | ({} if length is None else {"length": length})
        target = self._target(path, "OPEN", parameters)
        response = self._request("GET", self._second(self._request("GET", target)))
        while piece := response.read(PIECE_BYTES):
            yield piece

    def write(
        self, path: str, data: Readable, *, append: bool = False, **parameters: object
    ) -> None:
        """Create a file, or append to it."""
        verb, op = ("POST", "APPEND") if append else ("PUT", "CREATE")
        first = self._request(verb, self._target(path, op, parameters))
        self._request(verb, self._second(first), _pieces(data)).read()

    def close(self) -> None:
        """Close the connection; the next request opens one anew."""
        self._connection.close()

    def _target(self, path: str, op: str, parameters: dict[str, Any]) -> str:
        query = urlencode({"op": op, "user.name": self.user, **parameters})
        return f"/webhdfs/v1{quote(path)}?{query}"

    def _second(self, first: http.client.HTTPResponse) -> str:
        first.read()
        url = urlsplit(first.headers["Location"])
        return f"{url.path}?{url.query}"

    def _request(
        self, verb: str, target: str, body: bytes | Iterable[bytes] | None = None
    ) -> http.client.HTTPResponse:
        headers = dict(self._shown)
        if body is not None:
            headers["Content-Type"] = "application/octet-stream"
        chunked = body is not None and not isinstance(body, bytes)
        if chunked:
            headers["Transfer-Encoding"] = "chunked"
        try:
            self._connection.request(verb, target, body, headers, encode_chunked=chunked)
            response = self._connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()  # the next request begins anew
            raise NoGateway(f"the gateway at {self.address} does not answer: {error}") from None
        if response.status >= 400:
            raise _failed(response)
        return response


def _pieces(data: Readable) -> Iterator[bytes]:
    while piece := data.read(PIECE_BYTES):
        yield piece


def _failed(response: http.client.HTTPResponse) -> Failed:
    try:
        told = json.loads(response.read())["RemoteException"]
        return Failed(response.status, told["exception"], told["message"])
    except (ValueError, KeyError, TypeError):
        return Failed(response.status, "IOException", f"HTTP {response.status}")
