"""The options of ``hadoop fs``: those that are used change what comes out, others nothing."""

from __future__ import annotations

import contextlib
import io
import os
import random
import shutil
import tempfile
from pathlib import Path

import pytest

from railyard.cluster.acceptance import Effect
from railyard.gateway.shell.command import OPTIONS, Command, options_of
from railyard.gateway.shell.main import COMMANDS, run
from tests.accepted.memorystore import MemoryStore

#: {entry: a command in which {} is the option, or nothing}
USED = {
    "ls -C": "-ls {} /d",
    "ls -R": "-ls {} /d",
    "ls -S": "-ls {} /d",
    "ls -d": "-ls {} /d",
    "ls -h": "-ls {} /d",
    "ls -r": "-ls {} /d",
    "ls -t": "-ls {} /d",
    "ls -u": "-ls {} /d",
    "find -iname": "-find /d {} B*",
    "find -name": "-find /d {} b*",
    "find -print0": "-find /d {}",
    "du -h": "-du {} /d",
    "du -s": "-du {} /d",
    "du -v": "-du {} /d",
    "df -h": "-df {} /",
    "count -h": "-count {} /d",
    "count -q": "-count {} /d",
    "count -u": "-count {} /d",
    "count -v": "-count {} /d",
    "test -d": "-test {} /d",
    "test -e": "-test {} /d",
    "test -f": "-test {} /d/a",
    "test -r": "-test {} /d",
    "test -s": "-test {} /d/a",
    "test -w": "-test {} /d",
    "test -z": "-test {} /d/empty",
    "getfacl -R": "-getfacl {} /d",
    "getmerge -nl": "-getmerge {} /d merged",
    "getmerge -skip-empty-file": "-getmerge -nl {} /d merged",
    "get -f": "-get {} /d/a old",
    "get -p": "-get {} /d/a new",
    "put -f": "-put {} old /d/a",
    "put -p": "-put {} old /d/new",
    "touch -c": "-touch {} /d/new",
    "cp -f": "-cp {} /d/a /d/b",
    "cp -p": "-cp {} /d/a /d/new",
    "mkdir -p": "-mkdir {} /n/m",
    "rm -R": "-rm {} /d",
    "rm -f": "-rm {} /none",
    "rm -r": "-rm {} /d",
    "rmdir --ignore-fail-on-non-empty": "-rmdir {} /d",
    "setrep -w": "-setrep {} 1 /d/a",
    "chmod -R": "-chmod {} 700 /d",
}
IDLE = {
    "ls -q": "-ls {} /d",
    "find -a": "-find /d -name a {} -name a*",
    "find -and": "-find /d -name a {} -name a*",
    "find -print": "-find /d {}",
    "du -x": "-du {} /d",
    "count -x": "-count {} /d",
    "cat -ignoreCrc": "-cat {} /d/a",
    "get -ignoreCrc": "-get {} /d/a new",
    "put -d": "-put {} old /d/new",
    "put -l": "-put {} old /d/new",
    "appendToFile -n": "-appendToFile {} old /d/a",
    "cp -d": "-cp {} /d/a /d/new",
    "rm -skipTrash": "-rm {} /d/a",
    "setrep -R": "-setrep {} 1 /d",
    "truncate -w": "-truncate {} 2 /d/a",
    "expunge -immediate": "-expunge {}",
}
REFUSED = {
    "ls -e": "-ls {} /d",
    "checksum -v": "-checksum {} /d/a",
    "tail -f": "-tail {} /d/a",
    "get -crc": "-get {} /d/a new",
    "rm -safely": "-rm {} -r /d",
}
UNKNOWN = ("-nonsense", "--nonsense", "-Q", "-9")


def store() -> MemoryStore:
    made = MemoryStore()
    made.add("/d/b", b"b" * 2048)
    made.add("/d/a", b"hello", owner="bob", modificationTime=2007, accessTime=1007)
    made.add("/d/empty", b"")
    made.add("/d/s/x", b"x")
    return made


def local_state(path: Path) -> object:
    """What a file is; of its times only whether one has been set to that of a test."""
    status = path.stat()
    is_kept = status.st_mtime_ns // 10**6 % 1000 == 7
    return path.is_file() and path.read_bytes(), status.st_mode, is_kept


def outcome(command: str, folder: Path) -> tuple[object, ...]:
    """(Exit status, output, errors, the store, the local folder) of a command."""
    for each in folder.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()
    (folder / "old").write_bytes(b"local")
    os.utime(folder / "old", (3.007, 4.007))
    web, out, errors = store(), io.TextIOWrapper(io.BytesIO(), write_through=True), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        status = run(command.split(), web)
    files = {each.name: local_state(each) for each in folder.iterdir()}
    return status, out.buffer.getvalue(), errors.getvalue(), web.state(), files


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def with_option(name: str, command: str) -> str:
    return command.format(name.partition(" ")[2])


def test_there_is_a_probe_for_each_entry():
    for effect, probes in ((Effect.USED, USED), (Effect.IDLE, IDLE), (Effect.REFUSED, REFUSED)):
        assert OPTIONS.named(effect) == sorted(probes)
    assert {name.partition(" ")[0] for name in OPTIONS.entries} <= COMMANDS.keys()


@pytest.mark.parametrize("name", USED)
def test_what_is_used_changes_what_comes_out(name, here):
    given, without = (outcome(text, here) for text in (with_option(name, USED[name]), plain(name)))
    assert given != without
    assert given[0] == 0


def plain(name: str) -> str:
    """The same without the option, and the pattern that belongs to it."""
    command = {**USED, **IDLE}[name]
    return command.partition(" {}")[0] if name.endswith("name") else command.format("")


@pytest.mark.parametrize("name", IDLE)
def test_what_changes_nothing_changes_nothing(name, here):
    given = outcome(with_option(name, IDLE[name]), here)
    assert given == outcome(plain(name), here)
    assert given[0] == 0


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_named_in_a_line(name, here):
    status, out, errors, state, _ = outcome(with_option(name, REFUSED[name]), here)
    command, option = name.split()
    assert (status, out) == (1, b"")
    assert errors.startswith(f"{command}: -{command} {option}: not supported: ")
    assert errors.count("\n") == 1
    assert state == store().state()


def check_random(dice: random.Random) -> None:
    """A command with random options is refused by name, or takes each of them."""
    command = dice.choice(sorted(set(COMMANDS) - {"find"} - {"setfacl", "setfattr", "getfattr"}))
    if "Snapshot" in command:
        return
    known = options_of(command)
    given = [f"-{name}" for name in dice.sample(sorted(known), dice.randint(0, len(known)))]
    if dice.random() < 0.3:
        given.insert(dice.randint(0, len(given)), dice.choice(UNKNOWN))
    words = dice.choices(["/d", "/d/a", "/none", "old", "new", "2", "/d/*", "", "hdfs://x/d"], k=3)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        text = " ".join([f"-{command}", *given, *words[: dice.randint(0, 3)]])
        status, _, errors, state, _ = outcome(text, Path(folder))
    wrong = [
        each for each in given if each[1:] not in known or known[each[1:]].effect is Effect.REFUSED
    ]
    if wrong:
        assert status in (1, 255), text
        assert any(each in errors.splitlines()[0] for each in wrong), (text, errors)
        assert state == store().state()
        return
    assert status in (0, 1, 255), text
    assert (
        Command(command, text.split()[1:], store()).has(*(each[1:] for each in given)) or not given
    )
    for each in given:
        alone = Command(command, [each], store())
        assert alone.options == {each[1:]}, text


def test_any_combination_is_taken_or_refused(seed):
    check_random(random.Random(seed))
