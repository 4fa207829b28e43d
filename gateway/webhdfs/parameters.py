"""A WebHDFS request: its path in the block store, its operation, its parameters.

Names of operations and parameters may have any case, and unknown parameters are ignored, as
clients rely on both.
"""

from __future__ import annotations

import posixpath
import re
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode

from aiohttp import web

from railyard.gateway.http.errors import illegal
from railyard.gateway.http.tokens import Tokens

PREFIX = "/webhdfs/v1"
#: Marks the second step of a request, at which the bytes are sent.
DATA = "data"
#: The user of whom nobody says the name; as in HDFS.
NOBODY = "dr.who"
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9._-]{0,63}\$?")
_WHOLE_MAX = 2**60


class Place(NamedTuple):
    """What operations need to know of the cluster."""

    stored_block_bytes: int
    nodes: int
    replication: int  #: the default
    disk: Path  #: a folder on the disk that has the blocks
    tokens: Tokens


class Call:
    """What a request asks for; its properties raise ``RemoteError`` for what is wrong."""

    def __init__(self, request: web.Request, place: Place) -> None:
        self.request = request
        self.place = place
        url = request.rel_url
        try:
            path = unquote(url.raw_path.removeprefix(PREFIX), errors="strict")
            given = parse_qsl(url.raw_query_string, keep_blank_values=True, errors="strict")
        except UnicodeDecodeError:
            raise illegal("the URL is not UTF-8") from None
        self.path = _one_slash(path)
        self._given = {name.lower(): value for name, value in given}
        #: who asks, as he or his delegation token says; the owner of what is made
        self.user = self._user()

    @property
    def operation(self) -> str:
        return self._given.get("op", "").upper()

    @property
    def is_data(self) -> bool:
        """Whether this is the second step, at which bytes are sent."""
        return self.boolean(DATA, False)

    def location(self) -> str:
        """Where the second step is sent to; may be used again and again."""
        query = urlencode({**self._given, DATA: "true"}, quote_via=quote)
        path = quote(self.path, safe="/")
        return f"{self.request.scheme}://{self.request.host}{PREFIX}{path}?{query}"

    def text(self, name: str, default: str | None = None) -> str | None:
        """A parameter as it is; an empty one counts as absent."""
        return self._given.get(name) or default

    def boolean(self, name: str, default: bool) -> bool:
        """True or false, in any case."""
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise self._invalid(name, value)
        return value.lower() == "true"

    def whole(
        self, name: str, default: int | None = None, least: int = 0, most: int = _WHOLE_MAX
    ) -> int | None:
        """A whole number."""
        value = self.text(name)
        if value is None or value == "null":
            return default
        if not re.fullmatch(r"-?[0-9]{1,19}", value, re.ASCII):
            raise self._invalid(name, value)
        if not least <= int(value) <= most:
            raise self._invalid(name, value)
        return int(value)

    def permission(self) -> int | None:
        """The bits of chmod in octal digits; None if they are not given."""
        value = self.text("permission")
        if value is None:
            return None
        if not re.fullmatch(r"0?[01]?[0-7]{1,3}", value, re.ASCII):
            raise self._invalid("permission", value)
        return int(value, 8)

    def stored_path(self, name: str) -> str:
        """An absolute path of the block store; ``..`` never leads out of it."""
        return self._normal(name, self.text(name, ""))

    def stored_paths(self, name: str) -> tuple[str, ...]:
        """Several of them, with commas between."""
        given = (self.text(name, "") or "").split(",")
        return tuple(self._normal(name, path) for path in given)

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return int(time.time() * 1000)

    def _user(self) -> str:
        token = self.text("delegation")
        if token is not None:
            return self.place.tokens.read(token, self.now_ms).owner
        user = self._given.get("user.name", NOBODY)
        if not _USER.fullmatch(user):
            raise self._invalid("user.name", user)
        return user

    def new_path(self) -> str:
        """The request's path, of something that is to be made: a ``:`` in it is refused."""
        return without_colon(self.path)

    def _normal(self, name: str, path: str | None) -> str:
        if path is None or not path.startswith("/"):
            why = "need an absolute path"
            raise illegal(f'Invalid value for webhdfs parameter "{name}": {path!r}: {why}')
        return posixpath.normpath(_one_slash(path))

    def _invalid(self, name: str, value: str) -> Exception:
        return illegal(f'Invalid value for webhdfs parameter "{name}": {value[:100]!r}')


def without_colon(path: str) -> str:
    """The path itself; Hadoop's clients could not read a name with ``:`` in it."""
    if ":" in path:
        raise illegal(f"Invalid path name {path}: need names without :")
    return path


def _one_slash(path: str) -> str:
    """Without slashes that say nothing: several in a row, and the last one."""
    return "/" + "/".join(name for name in path.split("/") if name)
