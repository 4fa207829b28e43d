"""Options of yarn application, mapred job and hdfs dfsadmin: used, or refused by name."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import pytest

from railyard.cluster.acceptance import Accepted, Effect
from railyard.gateway.shell import admin
from railyard.gateway.shell.web import Failed

_APP = {
    "id": "application_1_0001",
    "name": "n",
    "applicationType": "MAPREDUCE",
    "user": "ann",
    "queue": "default",
    "state": "FINISHED",
    "finalStatus": "SUCCEEDED",
    "progress": 100.0,
    "startedTime": 1,
}
_JOB = {
    "maps": 1,
    "reduces": 1,
    "mapProgress": 1.0,
    "reduceProgress": 1.0,
    "state": "SUCCEEDED",
    "reason": "",
    "counters": {"g": {"c": 3}},
}
_STORAGE = {
    **dict.fromkeys(("used", "remaining", "capacity", "underReplicated", "corrupt"), 0),
    **dict.fromkeys(("missing", "missingWithOneReplica", "urgent", "pendingDeletion"), 0),
    "safeMode": False,
    "nodes": [],
}


class Web:
    """The gateway: it has one application, which has ended, and notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []

    def rest(self, verb: str, path: str, body: Any = None) -> Any:
        self.asked.append((verb, path, body))
        if not path.startswith("/cluster/"):  # of Railyard's own
            return {"safeMode": False} if path.endswith("safemode") else {**_STORAGE, **_JOB}
        if verb == "PUT":
            return {"state": "FINISHED"}
        if not path.startswith("/cluster/apps?") and path != "/cluster/apps":
            return {"app": _APP}
        wanted = dict(parse_qsl(path.partition("?")[2]))
        keeps = wanted.get("states", "FINISHED").split(",")
        found = "FINISHED" in keeps and "applicationTags" not in wanted
        found = found and wanted.get("applicationTypes", "MAPREDUCE") == "MAPREDUCE"
        return {"apps": {"app": [_APP]} if found else None}


Run = Callable[[list[str], Web], int | None]
#: {a command: (its table, what runs it)}
COMMANDS: dict[str, tuple[Accepted, Run]] = {
    "application": (admin.APPLICATION_OPTIONS, admin.run_application),
    "job": (admin.JOB_OPTIONS, admin.run_job),
    "dfsadmin": (admin.DFSADMIN_OPTIONS, admin.run_dfsadmin),
}
_ID = "application_1_0001"
_ALL = ["-list", "-appStates", "ALL"]
#: {(command, option): what is typed without it, and with it}
PROBES = {
    ("application", "-list"): ([], ["-list"]),
    ("application", "-appStates"): (["-list"], ["-list", "-appStates", "finished"]),
    ("application", "-appTypes"): (_ALL, [*_ALL, "-appTypes", "SPARK"]),
    ("application", "-appTags"): (_ALL, [*_ALL, "-appTags", "a"]),
    ("application", "-status"): ([], ["-status", _ID]),
    ("application", "-kill"): ([], ["-kill", _ID]),
    ("job", "-list"): ([], ["-list", "all"]),
    ("job", "-status"): ([], ["-status", "job_1_0001"]),
    ("job", "-kill"): ([], ["-kill", "job_1_0001"]),
    ("job", "-counter"): ([], ["-counter", "job_1_0001", "g", "c"]),
    ("dfsadmin", "-report"): ([], ["-report"]),
    ("dfsadmin", "-safemode"): ([], ["-safemode", "get"]),
}


def _seen(command: str, words: list[str], capsys: Any) -> tuple[object, ...]:
    web = Web()
    status = COMMANDS[command][1](words, web)
    said = capsys.readouterr()
    return status, said.out, said.err, web.asked


def test_each_option_that_is_used_has_a_probe():
    used = {(c, o) for c, (table, _) in COMMANDS.items() for o in table.named(Effect.USED)}
    assert used == PROBES.keys()


@pytest.mark.parametrize(("command", "option"), sorted(PROBES))
def test_a_used_option_changes_what_is_asked_or_said(capsys, command, option):
    without, given = (_seen(command, words, capsys) for words in PROBES[command, option])
    assert without != given
    assert given[3]


REFUSED = [(c, o) for c, (table, _) in COMMANDS.items() for o in table.named(Effect.REFUSED)]


@pytest.mark.parametrize(("command", "option"), REFUSED)
def test_a_refused_option_is_named_with_the_reason(capsys, command, option):
    status, out, errors, asked = _seen(command, [option, "x"], capsys)
    assert (status, out, asked) == ({"dfsadmin": 255}.get(command, 1), "", [])
    assert f"{option}: not supported: " in errors.splitlines()[0]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("application", ["-list", "-appState", "FINISHED"]),
        ("application", ["-list", "-appStates"]),
        ("application", ["-list", "RUNNING"]),
        ("application", ["-list", "-appStates", "RUNNING", "-appStates", "FINISHED"]),
        ("application", ["-nosuch"]),
        ("job", ["-list", "everything"]),
        ("job", ["-list", "all", "all"]),
        ("dfsadmin", ["-report", "-slow"]),
    ],
)
def test_nothing_is_taken_and_ignored(capsys, command, words):
    status, _, errors, asked = _seen(command, words, capsys)
    assert status != 0
    assert errors
    assert not asked


_WORDS = ["x", "all", "ALL", "RUNNING,FINISHED", _ID, "job_1_0001", "get", "\u6771"]


def check_random(dice: random.Random) -> None:
    """Random words: refused, or all that was typed has its effect on what is asked."""
    command = dice.choice(sorted(COMMANDS))
    table, run = COMMANDS[command]
    words = [*table.entries, *_WORDS]
    typed = [dice.choice(words) for _ in range(dice.randint(0, 5))]
    if dice.random() < 0.5 and command == "application":
        filters = [[], _ALL[1:], ["-appTags", "a"], ["-appTypes", "x"]]
        typed = ["-list", *dice.choice(filters), *dice.choice(filters), *typed[:1]]
    web, refusal = Web(), ""
    try:
        status = run(typed, web)
    except Failed as error:
        status, refusal = 1, str(error)
    assert not refusal or any(word in refusal for word in typed)
    if status != 0 or typed[0] == "-safemode":
        return
    paths = [path for _, path, _ in web.asked]
    assert paths
    for option, value in itertools.pairwise(typed):
        if option.startswith("-app"):
            name = option.removeprefix("-app").lower()
            asked = any(name in path.lower() for path in paths)
            assert asked != (value == "ALL" and option == "-appStates")


def test_any_words_are_refused_or_have_their_effect(capsys, seed):
    check_random(random.Random(seed))
