"""WebHDFS's parameters: each does what its table says, and what stands in none is refused."""

from __future__ import annotations

import itertools
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
import requests

import railyard.gateway.process
from railyard.cluster.acceptance import Effect
from railyard.gateway.webhdfs.parameters import PARAMETERS
from tests.dfs.conftest import Dfs, small_topology
from tests.gateway.conftest import Web

_number = itertools.count()
_web: list[Web] = []  #: one for all of this module's tests, and for ``check_random``


def web() -> Web:
    """A block store with a gateway, which is started when it is first asked for."""
    assert _web, "the fixture is used by all tests"
    return _web[0]


@pytest.fixture(scope="module", autouse=True)
def _store() -> Iterator[None]:
    with Store():
        yield


class Store:
    """Starts what ``check_random`` needs, and ends it."""

    def __enter__(self) -> None:
        self._parent = tempfile.TemporaryDirectory(prefix="ry-")
        mains = {"gateway": railyard.gateway.process.main}
        self._dfs = Dfs(Path(self._parent.name), small_topology(), "fast", **mains)
        self._dfs.__enter__()
        _web.append(Web(self._dfs))

    def __exit__(self, *exc: object) -> None:
        _web.clear()
        self._dfs.__exit__(*exc)
        self._parent.cleanup()


# Requests ----------------------------------------------------------------------------------------
#: {operation: its verb}
VERBS = {
    **dict.fromkeys(("CREATE", "MKDIRS", "RENAME", "SETPERMISSION", "SETOWNER"), "PUT"),
    **dict.fromkeys(("SETTIMES", "SETREPLICATION"), "PUT"),
    **dict.fromkeys(("RENEWDELEGATIONTOKEN", "CANCELDELEGATIONTOKEN"), "PUT"),
    **dict.fromkeys(("APPEND", "CONCAT", "TRUNCATE"), "POST"),
    "DELETE": "DELETE",
}
_SESSION = requests.Session()


def fresh() -> str:
    """A folder of which nothing is there yet."""
    return f"/t{next(_number)}"


def ask(op: str, path: str, data: bytes | None = None, **given: object) -> requests.Response:
    """A request; with ``data`` its second step, too."""
    names = {name.replace("__", "."): value for name, value in given.items()}
    url = f"{web().url}/webhdfs/v1{path}?{urlencode({'op': op, **names})}"
    verb = VERBS.get(op, "GET")
    answer = _SESSION.request(verb, url, allow_redirects=False)
    if data is not None and answer.status_code == 307:
        return _SESSION.request(verb, answer.headers["Location"], data=data)
    return answer


def made(path: str, data: bytes = b"0123456789", **given: object) -> str:
    answer = ask("CREATE", path, data, **given)
    assert answer.status_code == 201, answer.text
    return path


def status(path: str) -> dict[str, object]:
    answer = ask("GETFILESTATUS", path)
    return answer.json()["FileStatus"] if answer.ok else {}


def opened(path: str, **given: object) -> bytes:
    return ask("OPEN", path, b"", **given).content


# Probes ------------------------------------------------------------------------------------------
def _of_status(field: str, **given: object) -> Callable[[], tuple[object, object]]:
    """A field of a file that was created without and with a parameter."""

    def probe() -> tuple[object, object]:
        bare, other = made(fresh()), made(fresh(), **given)
        return status(bare)[field], status(other)[field]

    return probe


def _of_attributes(op: str, field: str, **given: object) -> Callable[[], tuple[object, object]]:
    """A field of a file before and after its attributes were changed."""

    def probe() -> tuple[object, object]:
        path = made(fresh())
        before = status(path)[field]
        assert ask(op, path, **given).ok
        return before, status(path)[field]

    return probe


def _of_answers(op: str, **given: object) -> Callable[[], tuple[object, object]]:
    """What is answered about a file without and with a parameter."""

    def probe() -> tuple[object, object]:
        path = made(fresh(), b"x" * 250_000)
        return [
            (answer.status_code, sorted(answer.headers), answer.content)
            for answer in (ask(op, path), ask(op, path, **given))
        ]

    return probe


def _overwritten() -> tuple[object, object]:
    path = made(fresh())
    refused = ask("CREATE", path, b"new").status_code
    return refused, ask("CREATE", path, b"new", overwrite="true").status_code


def _flags() -> tuple[object, object]:
    path = made(fresh())
    refused = ask("CREATE", path, b"new").status_code
    return refused, ask("CREATE", path, b"new", createflag="create,overwrite").status_code


def _parent() -> tuple[object, object]:
    made_it = ask("CREATE", f"{fresh()}/f", b"").status_code
    return made_it, ask("CREATE", f"{fresh()}/f", b"", createparent="false").status_code


def _opened_range() -> tuple[object, object]:
    path = made(fresh())
    return opened(path), opened(path, offset=3)


def _opened_length() -> tuple[object, object]:
    path = made(fresh())
    return opened(path), opened(path, length=3)


def _concatenated() -> tuple[object, object]:
    target, source = made(f"{fresh()}/a"), made(f"{fresh()}/b")
    before = status(target)["length"]
    assert ask("CONCAT", target, sources=source).ok
    return before, status(target)["length"]


def _truncated() -> tuple[object, object]:
    path = made(fresh())
    refused = ask("TRUNCATE", path).status_code
    assert ask("TRUNCATE", path, newlength=4).json() == {"boolean": True}
    return refused, status(path)["length"]


def _folder_permission() -> tuple[object, object]:
    bare, other = fresh(), fresh()
    assert ask("MKDIRS", bare).ok
    assert ask("MKDIRS", other, permission="700").ok
    return status(bare)["permission"], status(other)["permission"]


def _renamed() -> tuple[object, object]:
    path, target = made(fresh()), fresh()
    refused = ask("RENAME", path).status_code
    assert ask("RENAME", path, destination=target).ok
    return refused, status(target)["length"]


def _renamed_over() -> tuple[object, object]:
    path, target = made(fresh(), b"new"), made(fresh(), b"old")
    left = ask("RENAME", path, destination=target).json(), opened(target)
    done = ask("RENAME", path, destination=target, renameoptions="OVERWRITE")
    assert done.content == b""
    return left, opened(target)


def _removed() -> tuple[object, object]:
    folder = fresh()
    made(f"{folder}/f")
    refused = ask("DELETE", folder).status_code
    return refused, ask("DELETE", folder, recursive="true").json()


def _listed() -> tuple[object, object]:
    folder = fresh()
    for name in "ab":
        made(f"{folder}/{name}")
    asked = ask("LISTSTATUS_BATCH", folder), ask("LISTSTATUS_BATCH", folder, startAfter="a")
    return tuple(answer.text for answer in asked)


def _token(**given: object) -> str:
    told = ask("GETDELEGATIONTOKEN", "/", user__name="ann", **given).json()
    return str(told["Token"]["urlString"])


def _renewer() -> tuple[object, object]:
    asked = [_token(), _token(renewer="rita")]
    return tuple(
        ask("RENEWDELEGATIONTOKEN", "/", token=token, user__name="rita").status_code
        for token in asked
    )


def _with_token(op: str) -> Callable[[], tuple[object, object]]:
    def probe() -> tuple[object, object]:
        bare = ask(op, "/", user__name="ann").status_code
        return bare, ask(op, "/", user__name="ann", token=_token()).status_code

    return probe


def _delegated() -> tuple[object, object]:
    return status(made(fresh()))["owner"], status(made(fresh(), delegation=_token()))["owner"]


def _operation() -> tuple[object, object]:
    return ask("", "/").status_code, ask("LISTSTATUS", "/").status_code


#: {a row that is used: what is seen without it, and with it}
PROBES: dict[str, Callable[[], tuple[object, object]]] = {
    "op": _operation,
    "user.name": _of_status("owner", user__name="ann"),
    "doas": _of_status("owner", user__name="hue", doas="bob"),
    "delegation": _delegated,
    "data": lambda: (
        ask("CREATE", fresh()).status_code,
        _SESSION.put(f"{web().url}/webhdfs/v1{fresh()}?op=CREATE&data=true").status_code,
    ),
    "OPEN offset": _opened_range,
    "OPEN length": _opened_length,
    "OPEN noredirect": _of_answers("OPEN", noredirect="true"),
    "CREATE overwrite": _overwritten,
    "CREATE createflag": _flags,
    "CREATE createparent": _parent,
    "CREATE blocksize": _of_status("blockSize", blocksize=1024),
    "CREATE replication": _of_status("replication", replication=1),
    "CREATE permission": _of_status("permission", permission="600"),
    "CREATE noredirect": lambda: tuple(
        ask("CREATE", fresh(), **given).status_code for given in ({}, {"noredirect": "true"})
    ),
    "APPEND noredirect": lambda: tuple(
        ask("APPEND", made(fresh()), **given).status_code for given in ({}, {"noredirect": "true"})
    ),
    "CONCAT sources": _concatenated,
    "TRUNCATE newlength": _truncated,
    "GETFILECHECKSUM noredirect": _of_answers("GETFILECHECKSUM", noredirect="true"),
    "MKDIRS permission": _folder_permission,
    "RENAME destination": _renamed,
    "RENAME renameoptions": _renamed_over,
    "DELETE recursive": _removed,
    "LISTSTATUS_BATCH startafter": _listed,
    "SETPERMISSION permission": _of_attributes("SETPERMISSION", "permission", permission="700"),
    "SETOWNER owner": _of_attributes("SETOWNER", "owner", owner="zoe"),
    "SETOWNER group": _of_attributes("SETOWNER", "group", group="crew"),
    "SETTIMES modificationtime": _of_attributes(
        "SETTIMES", "modificationTime", modificationtime=1000
    ),
    "SETTIMES accesstime": _of_attributes("SETTIMES", "accessTime", accesstime=1000),
    "SETREPLICATION replication": _of_attributes("SETREPLICATION", "replication", replication=1),
    "GET_BLOCK_LOCATIONS offset": _of_answers("GET_BLOCK_LOCATIONS", offset=200_000),
    "GET_BLOCK_LOCATIONS length": _of_answers("GET_BLOCK_LOCATIONS", length=10),
    "GETFILEBLOCKLOCATIONS offset": _of_answers("GETFILEBLOCKLOCATIONS", offset=200_000),
    "GETFILEBLOCKLOCATIONS length": _of_answers("GETFILEBLOCKLOCATIONS", length=10),
    "GETDELEGATIONTOKEN renewer": _renewer,
    "RENEWDELEGATIONTOKEN token": _with_token("RENEWDELEGATIONTOKEN"),
    "CANCELDELEGATIONTOKEN token": _with_token("CANCELDELEGATIONTOKEN"),
}


def test_each_parameter_that_is_used_has_a_probe():
    assert sorted(PROBES) == PARAMETERS.named(Effect.USED)


@pytest.mark.parametrize("row", sorted(PROBES))
def test_a_used_parameter_changes_what_comes_of_it(row):
    without, given = PROBES[row]()
    assert without != given


def _parts(row: str) -> tuple[str, str]:
    op, space, name = row.partition(" ")
    return (op, name) if space else ("GETFILESTATUS", row)


@pytest.mark.parametrize("row", PARAMETERS.named(Effect.REFUSED))
def test_a_refused_parameter_is_named_with_the_reason(row):
    op, name = _parts(row)
    assert name in _why(ask(op, fresh(), **{name: "x"}), 400)


@pytest.mark.parametrize("row", PARAMETERS.named(Effect.IDLE))
def test_an_idle_parameter_changes_nothing(row):
    op, name = _parts(row)
    value = {"fsaction": "rwx", "overwrite": "true", "replication": 1}.get(name, "x")
    seen = []
    for given in ({}, {name: value}):
        folder = fresh()
        path = made(f"{folder}/f") if op not in ("CREATE", "MKDIRS") else f"{folder}/f"
        answer = ask(op, path, b"more", **given)
        after = {key: v for key, v in status(path).items() if not key.endswith(("Time", "Id"))}
        told = {} if op == "GETFILESTATUS" else answer.content
        read = b"" if op == "MKDIRS" else opened(path)
        seen.append((answer.status_code, told, after, read))
    assert seen[0] == seen[1]


def _why(answer: requests.Response, right: int) -> str:
    assert answer.status_code == right, answer.text
    message = answer.json()["RemoteException"]["message"]
    assert "\n" not in message
    return str(message)


@pytest.mark.parametrize(
    ("op", "name", "near"),
    [("CREATE", "overwite", "overwrite"), ("OPEN", "ofset", "offset"), ("MKDIRS", "recursive", "")],
)
def test_a_parameter_of_nobody_is_refused_with_the_nearest(op, name, near):
    why = _why(ask(op, fresh(), **{name: "1"}), 400)
    assert f'{op}: unknown parameter "{name}"' in why
    assert near in why


def test_a_parameter_may_come_twice_but_not_with_two_values():
    path = made(fresh())
    url = f"{web().url}/webhdfs/v1{path}?op=OPEN&offset=1&OFFSET="
    assert requests.get(f"{url}1").content == b"123456789"
    assert "offset: given twice" in _why(requests.get(f"{url}2"), 400).lower()


# Block sizes -------------------------------------------------------------------------------------
def test_a_file_has_blocks_of_the_size_that_was_asked_for():
    path = made(fresh(), b"x" * 2500, blocksize=1024)
    assert ask("APPEND", path, b"y" * 1000).ok
    located = ask("GETFILEBLOCKLOCATIONS", path).json()["BlockLocations"]["BlockLocation"]
    assert [block["length"] for block in located] == [1024, 1024, 1024, 428]
    moved = fresh()
    assert ask("RENAME", path, destination=moved).ok
    assert status(moved)["blockSize"] == 1024
    assert opened(moved) == b"x" * 2500 + b"y" * 1000
    checksum = ask("GETFILECHECKSUM", moved).json()["FileChecksum"]["algorithm"]
    assert checksum == "MD5-of-2MD5-of-512CRC32C"


@pytest.mark.parametrize(("size", "right"), [(100_000, 100_000), (128 * 2**20, 100_000)])
def test_the_topologys_own_block_size_and_hadoops_default_say_nothing(size, right):
    assert status(made(fresh(), blocksize=size))["blockSize"] == right


@pytest.mark.parametrize("size", ["1", "1000", "100352", "0", "-512", "64MB", 2**60])
def test_a_block_size_that_cannot_be_is_refused_by_name(size):
    assert "blocksize" in _why(ask("CREATE", fresh(), blocksize=size), 400)


# Any mixture -------------------------------------------------------------------------------------
_SENSIBLE = {
    "offset": ["0", "3"],
    "length": ["0", "4"],
    "overwrite": ["true", "false"],
    "createflag": ["create", "create,overwrite", "CREATE,SYNC_BLOCK"],
    "createparent": ["true", "false"],
    "blocksize": ["512", "1024", "100000"],
    "replication": ["1", "2", "3"],
    "permission": ["600", "755"],
    "noredirect": ["true", "false"],
    "newlength": ["0", "5"],
    "renameoptions": ["NONE", "OVERWRITE"],
    "recursive": ["true", "false"],
    "startafter": ["a"],
    "owner": ["zoe"],
    "group": ["crew"],
    "modificationtime": ["1000", "-1"],
    "accesstime": ["1000"],
    "user.name": ["ann", "bob"],
    "doas": ["carl"],
    "fsaction": ["r-x"],
    "renewer": ["rita"],
}
_SILLY = ["", "-1", "maybe", "\u6771", "a\nb", "1e9", "99999999999999999999", "null", "%"]
_NUMBERS = {"offset", "length", "blocksize", "replication", "newlength"}
_NOBODYS = ["overwite", "foo", "block_size", "\u6771", "dfs.blocksize", ""]
_OPS = sorted({_parts(row)[0] for row in PARAMETERS.entries} - {"GETFILESTATUS"})


def check_random(dice: random.Random) -> None:
    """A random mixture of names and values: refused by name, or all that is used has its effect."""
    op = dice.choice(_OPS)
    rows = [row for row in PARAMETERS.entries if row.startswith(f"{op} ")]
    common = ["user.name", "doas", "namenoderpcaddress"]
    names = [row.partition(" ")[2] for row in rows] + common
    chosen = dice.sample(names, dice.randint(0, min(4, len(names))))
    if dice.random() < 0.2:
        chosen.append(dice.choice(_NOBODYS))
    given = {
        name: dice.choice(_SILLY if dice.random() < 0.2 else _SENSIBLE.get(name, ["x"]))
        for name in dict.fromkeys(chosen)
    }
    folder = fresh()
    path = f"{folder}/f" if op in ("CREATE", "MKDIRS") else made(f"{folder}/f")
    if op == "RENAME":
        given["destination"] = f"{folder}/g"
    if op == "CONCAT":
        given["sources"] = made(f"{folder}/g")
    names_in_url = {name.replace(".", "__"): value for name, value in given.items()}
    answer = ask(op, path, b"abc", **names_in_url)
    assert answer.status_code < 500, (op, given, answer.text)
    if answer.status_code >= 400:
        why = answer.json()["RemoteException"]["message"]
        assert "\n" not in why
        assert "Traceback" not in why
        needs = ("does not exist", "cancel", "renew", "delegation token", "newlength", "owner")
        culprits = [name for name in given if name and name in why]
        assert culprits or any(need in why for need in needs) or "" in given, (op, given, why)
        return
    _check_effects(op, path, given, answer)


def _told(given: dict[str, str]) -> dict[str, str]:
    """What says something: clients in Java send "null" for a number that they have not got."""
    return {
        name: value
        for name, value in given.items()
        if value and not (name in _NUMBERS and value == "null")
    }


def _check_effects(op: str, path: str, given: dict[str, str], answer: requests.Response) -> None:
    told = _told(given)
    user = told.get("doas", told.get("user.name", "dr.who"))
    if told.get("noredirect", "").lower() == "true":
        assert set(answer.json()) == {"Location"}
        return
    if op == "OPEN":
        begin = int(told.get("offset", 0))
        end = begin + int(told.get("length", 10))
        assert answer.content == b"0123456789"[begin:end]
    if op == "CREATE":
        seen = status(path)
        assert seen["owner"] == user
        assert seen["blockSize"] == int(told.get("blocksize", 100_000))
        assert seen["replication"] == int(told.get("replication", 2))
        assert seen["permission"] == told.get("permission", "644")
    if op == "MKDIRS":
        seen = status(path)
        assert (seen["owner"], seen["permission"]) == (user, told.get("permission", "755"))
    if op == "TRUNCATE":
        assert status(path)["length"] == int(told["newlength"])
    if op == "SETOWNER":
        assert status(path)["owner"] == told.get("owner", "dr.who")
    if op == "SETREPLICATION":
        assert status(path)["replication"] == int(told.get("replication", 2))
    if op == "RENAME":
        assert status(given["destination"])["length"] == 10
        assert (answer.content == b"") == ("renameoptions" in told)


def test_any_mixture_is_refused_by_name_or_has_its_effect(seed):
    check_random(random.Random(seed))
