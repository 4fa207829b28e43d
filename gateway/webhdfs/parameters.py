"""A WebHDFS request: its path in the block store, its operation, its parameters.

Names of operations and parameters may have any case, as clients rely on it.  Unknown parameters,
which an HDFS ignores, are refused as slips of the pen, but for what clients send by themselves.

Source: Hadoop 3.4.1's documentation of WebHDFS; what its Java client, HdfsCLI 2.7 and fsspec send.
"""

from __future__ import annotations

import posixpath
import re
import time
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode

from aiohttp import web

from railyard.cluster.acceptance import Accepted, Entry, idle, refused, used
from railyard.cluster.errors import PeerError, UsageError, shortened
from railyard.cluster.topology import Topology
from railyard.dfs.paths import parse_path
from railyard.gateway.http.answers import RemoteError, illegal
from railyard.gateway.http.guard import Tokens

_RANGES = "OPEN GET_BLOCK_LOCATIONS GETFILEBLOCKLOCATIONS"
_REDIRECT = used("true: the address of the second step comes as JSON instead of a redirect")
#: (parameters, the operations that have them besides those of all, what becomes of them)
_ROWS: tuple[tuple[str, str, Entry], ...] = (
    ("offset", _RANGES, used("bytes to skip")),
    ("length", _RANGES, used("bytes at most")),
    ("noredirect", "OPEN CREATE APPEND GETFILECHECKSUM", _REDIRECT),
    ("buffersize", "OPEN CREATE APPEND", idle("bytes move in pieces of the gateway's own size")),
    (
        "excludedatanodes",
        "OPEN CREATE APPEND",
        idle("another replica is read, or written to, where a node fails"),
    ),
    ("overwrite", "CREATE", used("true: a file in the way is replaced")),
    ("createflag", "CREATE", used("create, overwrite or both, instead of overwrite")),
    ("createparent", "CREATE", used("false: the folder must exist")),
    ("blocksize", "CREATE", used("bytes of its blocks: a multiple of 512, at most the topology's")),
    ("replication", "CREATE SETREPLICATION", used("replicas; above the number of nodes, so many")),
    ("permission", "CREATE MKDIRS SETPERMISSION", used("octal digits, as of chmod")),
    (
        "unmaskedpermission",
        "CREATE MKDIRS",
        idle("permission has the umask applied; the other is for access lists"),
    ),
    ("tempdir", "CREATE APPEND", idle("fsspec's own setting, which it sends along")),
    ("permissions", "CREATE", refused("need permission, in octal digits")),
    ("storagepolicy", "CREATE", refused("all disks are of one kind")),
    ("ecpolicy", "CREATE", refused("blocks have replicas")),
    ("overwrite", "APPEND", idle("fsspec sends those of its CREATE again")),
    ("replication", "APPEND", idle("the file has its own; fsspec sends those of its CREATE again")),
    ("sources", "CONCAT", used("the files whose blocks are moved, with commas")),
    ("newlength", "TRUNCATE", used("bytes that stay")),
    ("destination", "RENAME", used("the new path")),
    ("renameoptions", "RENAME", used("NONE or OVERWRITE: errors instead of false")),
    ("recursive", "DELETE", used("true: also a folder that is not empty")),
    ("startafter", "LISTSTATUS_BATCH", used("the name after which the part begins")),
    ("owner", "SETOWNER", used("the new owner")),
    ("group", "SETOWNER", used("the new group")),
    ("modificationtime accesstime", "SETTIMES", used("milliseconds since 1970; -1 leaves it")),
    ("fsaction", "CHECKACCESS", idle("permissions are shown, not enforced")),
    ("renewer", "GETDELEGATIONTOKEN", used("who may renew and cancel it")),
    ("service kind", "GETDELEGATIONTOKEN", refused("tokens are of this gateway, and of its kind")),
    ("token", "RENEWDELEGATIONTOKEN CANCELDELEGATIONTOKEN", used("the token")),
)
PARAMETERS = Accepted(
    "WebHDFS: operations and their parameters",
    "parameter",
    {
        "op": used("the operation"),
        "user.name": used("who asks, and owns what is made"),
        "doas": used("the user in whose place he asks: that one owns what is made"),
        "delegation": used("a delegation token, of the user who asks"),
        "data": used("true: the second step, of which the first one's answer has the address"),
        "namenoderpcaddress": idle("an HDFS's own, in addresses of second steps"),
        **{
            f"{operation} {name}": entry
            for names, operations, entry in _ROWS
            for operation in operations.split()
            for name in names.split()
        },
    },
)


PREFIX = "/webhdfs/v1"
#: Marks the second step of a request, at which the bytes are sent.
DATA = "data"
#: The user of whom nobody says the name; as in HDFS.
NOBODY = "dr.who"
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9._-]{0,63}\$?")
_WHOLE_MAX = 2**60
#: Bytes of which a block has a whole number, as in HDFS: those of a checksum.
_BLOCK_STEP_BYTES = 512
#: Clients that were given no block size send Hadoop's own: it says nothing.
_NO_BLOCK_BYTES = 128 * 2**20


class Place(NamedTuple):
    """What operations need to know of the cluster."""

    topology: Topology
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
        self._given = _by_name(given)
        #: who asks, as he or his delegation token says; the owner of what is made
        self.user = self._user()

    def check_names(self) -> None:
        """Refuse a parameter that the operation has not got."""
        try:
            PARAMETERS.check_request(self.operation, self._given)
        except UsageError as error:
            raise illegal(str(error)) from None

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

    def text(self, name: str) -> str | None:
        """A parameter as it is; an empty one counts as absent."""
        return self._given.get(name) or None

    def boolean(self, name: str, default: bool) -> bool:
        """True or false, in any case."""
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise self.invalid(name, value)
        return value.lower() == "true"

    def whole(
        self, name: str, default: int | None = None, least: int = 0, most: int = _WHOLE_MAX
    ) -> int | None:
        value = self.text(name)
        if value is None or value == "null":
            return default
        if not re.fullmatch(r"-?[0-9]{1,19}", value) or not least <= int(value) <= most:
            raise self.invalid(name, value)
        return int(value)

    def permission(self) -> int | None:
        """The bits of chmod in octal digits; None if they are not given."""
        value = self.text("permission")
        if value is None:
            return None
        if not re.fullmatch(r"0?[01]?[0-7]{1,3}", value):
            raise self.invalid("permission", value)
        return int(value, 8)

    def several(self, name: str, known: Collection[str]) -> set[str] | None:
        """Words with commas between, in any case; None if it is not given."""
        value = self.text(name)
        if value is None:
            return None
        words = {word.strip().upper() for word in value.split(",")}
        if not words <= set(known):
            raise self.invalid(name, value, f"need {', '.join(sorted(known))}")
        return words

    def block_bytes(self) -> int:
        """Bytes of a new file's blocks; 0: the topology's."""
        most, wanted = self.place.topology.stored_block_bytes, self.whole("blocksize", least=1)
        if wanted is None or wanted == _NO_BLOCK_BYTES > most or wanted == most:
            return 0
        if wanted > most or wanted % _BLOCK_STEP_BYTES:
            right = f"a multiple of {_BLOCK_STEP_BYTES}, at most {most}, the topology's block"
            raise self.invalid("blocksize", str(wanted), f"need {right}")
        return wanted

    def stored_path(self, name: str, path: str) -> str:
        """A parameter's absolute path of the block store; ``..`` never leads out of it."""
        if not path.startswith("/"):
            why = "need an absolute path"
            raise illegal(f'Invalid value for webhdfs parameter "{name}": {path!r}: {why}')
        return posixpath.normpath(_one_slash(path))

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return int(time.time() * 1000)

    def _user(self) -> str:
        token = self.text("delegation")
        other = self.text("doas")
        if token is not None:
            owner = self.place.tokens.read(token, self.now_ms).owner
            if other not in (None, owner):
                why = f"User: {owner} is not allowed to impersonate {other}"
                raise RemoteError(403, "AuthorizationException", shortened(why, 200))
            return owner
        user = self._given.get("user.name", NOBODY)
        for name, given in (("user.name", user), ("doas", other or user)):
            if not _USER.fullmatch(given):
                raise self.invalid(name, given)
        return other or user

    def new_path(self) -> str:
        """The request's path, of something that is to be made; refused if it can't be a name."""
        try:
            parse_path(self.path)
        except PeerError as error:
            raise illegal(str(error)) from None
        return without_colon(self.path)

    def invalid(self, name: str, value: str, right: str = "") -> RemoteError:
        """The error for a parameter's value; ``right``: what it should be."""
        shown = f'Invalid value for webhdfs parameter "{name}": {value[:100]!r}'
        return illegal(f"{shown}: {right}" if right else shown)


def _by_name(given: Iterable[tuple[str, str]]) -> dict[str, str]:
    """{name in small letters: value}; a name may come twice, but not with two values."""
    values: dict[str, str] = {}
    for name, value in given:
        if values.setdefault(name.lower(), value) != value:
            raise illegal(f"{name[:40]}: given twice: need one value")
    return values


def without_colon(path: str) -> str:
    """The path itself; Hadoop's clients could not read a name with ``:`` in it."""
    if ":" in path:
        raise illegal(f"Invalid path name {path}: need names without :")
    return path


def _one_slash(path: str) -> str:
    """Without slashes that say nothing: several in a row, and the last one."""
    return "/" + "/".join(name for name in path.split("/") if name)
