"""HTTP to the gateway."""

from __future__ import annotations

import http.client
import io
import json
from collections.abc import Iterable, Iterator
from functools import partial
from typing import IO, Any
from urllib.parse import quote, urlencode, urlsplit

PIECE_BYTES = 2**20


class Failed(Exception):
    """What the gateway refused: its status, exception and message."""

    def __init__(self, status: int, exception: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.exception = exception


class NoGateway(Exception):
    """No gateway is known, or what is there does not answer as one."""


class Web:
    """A connection to the gateway for all requests of a command; ``token``: what it has to show."""

    def __init__(self, address: str, user: str, token: str = "") -> None:
        self.address = address
        self.user = user
        self.of_new_files: dict[str, object] = {}  #: parameters, such as their replication
        self._token = token
        self._shown = {"Authorization": f"Bearer {token}"} if token else {}
        self._connection = http.client.HTTPConnection(address, timeout=600)

    def ask(self, verb: str, path: str, op: str, **parameters: object) -> dict[str, Any]:
        """A WebHDFS request that moves no bytes; ``{}`` for an answer without a body."""
        response = self._request(verb, self._target(path, op, parameters))
        body = response.read()
        return json.loads(body) if body else {}

    def rest(self, verb: str, path: str, body: object = None) -> dict[str, Any]:
        """A request of the ResourceManager's REST interface, or of Railyard's own."""
        data = None if body is None else json.dumps(body).encode()
        return dict(json.loads(self._request(verb, f"/ws/v1{path}", data).read()))

    def read(self, path: str, offset: int = 0, length: int | None = None) -> io.BufferedReader:
        """The bytes of a file as they arrive."""
        parameters = {"offset": offset} | ({} if length is None else {"length": length})
        first = self._request("GET", self._target(path, "OPEN", parameters))
        return io.BufferedReader(self._request("GET", self._second(first)), PIECE_BYTES)

    def write(
        self, path: str, data: IO[bytes], *, append: bool = False, **parameters: object
    ) -> None:
        """Create a file, or append to it."""
        verb, op = ("POST", "APPEND") if append else ("PUT", "CREATE")
        if not append:
            parameters = self.of_new_files | parameters
        first = self._request(verb, self._target(path, op, parameters))
        self._request(verb, self._second(first), pieces(data)).read()

    def another(self) -> Web:
        """A second connection to the same gateway."""
        return Web(self.address, self.user, self._token)

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
            raise self._failed(response)
        return response

    def _failed(self, response: http.client.HTTPResponse) -> Exception:
        try:
            error = json.loads(response.read())["RemoteException"]
            return Failed(response.status, error["exception"], error["message"])
        except (ValueError, KeyError, TypeError):
            what = f"HTTP {response.status} without a RemoteException: is no WebHDFS"
            return NoGateway(f"what is at {self.address} answers {what}")


def pieces(file: IO[bytes]) -> Iterator[bytes]:
    """What is in a file, as it is sent and copied."""
    return iter(partial(file.read, PIECE_BYTES), b"")
