"""Hadoop's generic options and the settings of commands: what each changes, and what is refused."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from railyard.cluster.acceptance import Effect
from railyard.cluster.errors import UsageError
from railyard.gateway.shell.generic import OPTIONS, SETTINGS, Generic

OWN = "127.0.0.1:5001"
OTHER = "webhdfs://nowhere.invalid:8020"
_SITE = "<configuration><property><name>{}</name><value>{}</value></property></configuration>"
#: {option: words that change the outcome}
USED = {
    "-D": ["-D", f"fs.defaultFS={OTHER}"],
    "-conf": ["-conf", "other.xml"],
    "-fs": ["-fs", OTHER],
    "-dfs": ["-dfs", OTHER],
    "-jt": ["-jt", "nowhere.invalid:8032"],
    "--config": ["--config", "other"],
}
IDLE = {"--loglevel": ["--loglevel", "DEBUG"], "--debug": ["--debug"]}
SETTINGS_USED = {
    "fs.defaultFS": OTHER,
    "fs.default.name": OTHER,
    "yarn.resourcemanager.address": "nowhere.invalid:8032",
    "yarn.resourcemanager.webapp.address": "nowhere.invalid:8088",
    "mapreduce.jobtracker.address": "local",
    "mapred.job.tracker": "local",
    "dfs.replication": "3",
    "fs.trash.interval": "60",
}
SETTINGS_IDLE = {"fs.trash.checkpoint.interval": "60"}


@contextmanager
def a_cluster() -> Iterator[Path]:
    """A working folder in which a cluster is up, and there are files of another one."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        here = Path(folder)
        (here / "clusters" / "current").mkdir(parents=True)
        known = json.dumps({"url": f"http://{OWN}"})
        (here / "clusters" / "current" / "gateway.json").write_text(known)
        (here / "other").mkdir()
        for path in ("other.xml", "other/core-site.xml"):
            (here / path).write_text(_SITE.format("fs.defaultFS", OTHER))
        patch.setenv("RAILYARD_HOME", folder)
        for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
            patch.delenv(name, raising=False)
        patch.chdir(here)
        yield here


@pytest.fixture(autouse=True)
def here():
    with a_cluster() as folder:
        yield folder


def outcome(*words: str) -> object:
    """The cluster that is asked and what new files get, or why none is."""
    generic = Generic()
    try:
        assert generic.take_all([*words, "-ls", "/"]) == ["-ls", "/"]
        web = generic.connect_checked("ann")
    except UsageError as error:
        return str(error)
    return web.address, web.of_new_files


def test_there_is_a_probe_for_each_entry():
    assert OPTIONS.named(Effect.USED) == sorted(USED)
    assert OPTIONS.named(Effect.IDLE) == sorted(IDLE)
    assert SETTINGS.named(Effect.USED) == sorted(SETTINGS_USED)
    assert SETTINGS.named(Effect.IDLE) == sorted(SETTINGS_IDLE)


@pytest.mark.parametrize("option", USED)
def test_what_is_used_changes_which_cluster_is_asked(option):
    assert outcome() == (OWN, {})
    assert "nowhere.invalid:80" in str(outcome(*USED[option]))


@pytest.mark.parametrize("option", IDLE)
def test_what_changes_nothing_changes_nothing(option):
    assert outcome(*IDLE[option]) == (OWN, {})


@pytest.mark.parametrize("option", OPTIONS.named(Effect.REFUSED))
def test_what_is_refused_is_named(option):
    assert str(outcome(option, "x")).startswith(f"{option}: not supported: ")


@pytest.mark.parametrize("given", ["-D", "-conf"])
@pytest.mark.parametrize("name", SETTINGS.entries)
def test_each_setting_does_what_its_row_says(name, given, here):
    value = (SETTINGS_USED | SETTINGS_IDLE).get(name, "1")
    (here / "c.xml").write_text(_SITE.format(name, value))
    got = outcome(given, f"{name}={value}" if given == "-D" else "c.xml")
    if SETTINGS.entries[name].effect is Effect.USED:
        assert got != (OWN, {})
    elif SETTINGS.entries[name].effect is Effect.IDLE:
        assert got == (OWN, {})
    else:
        assert str(got).startswith(f"{name}={value}: not supported: ")


def test_settings_of_no_table():
    assert outcome("-D", "my.own=1", "-Dmapreduce.job.reduces=3") == (OWN, {})
    assert 'unknown setting "dfs.replicatoin": did you mean "dfs.replication"?' in str(
        outcome("-D", "dfs.replicatoin=3")
    )
    assert outcome("-D", "fs.trash.interval=0", "-D", "dfs.replication=3") == (
        OWN,
        {"replication": "3"},
    )


def test_what_counts_more():
    one, two = "webhdfs://one.invalid:1", "webhdfs://two.invalid:2"
    assert outcome("-fs", one, "-D", f"fs.defaultFS={two}") == ("two.invalid:2", {})
    assert outcome("-conf", "other.xml", "-fs", one) == ("one.invalid:1", {})
    assert outcome("--config", "other", "-conf", "other.xml") == ("nowhere.invalid:8020", {})
    assert outcome("-fs", "hdfs://localhost:5001", "-jt", "localhost:5001") == (OWN, {})
    for wrong in ("file:///", "s3a://bucket", "hdfs:///", "hdfs://ha-name", ""):
        assert str(outcome("-fs", wrong)).startswith(f"-fs: {wrong or 'nothing'}: need ")


def check_random(dice: random.Random) -> None:
    """Random options and settings: refused with the name of one, or the cluster is as they say."""
    names = [*SETTINGS.entries, "my.own", "dfs.nonsense", "fs.nonsense"]
    values = ["0", "3", "", "x", OTHER, OWN, "local", f"hdfs://{OWN}", "a b", "\x07"]
    given: list[list[str]] = []
    for _ in range(dice.randint(0, 4)):
        option = dice.choice(["-D", "-D", *OPTIONS.entries])
        setting = f"{dice.choice(names)}={dice.choice(values)}"
        value = setting if option == "-D" else dice.choice([*values, "other.xml", "other"])
        given.append([option] if option == "--debug" else [option, value])
    with a_cluster():
        got = outcome(*[word for each in given for word in each])
    if isinstance(got, str):
        assert "\n" not in got
        named = {each[0] for each in given} | {each[-1].partition("=")[0] for each in given}
        named |= {each[-1] for each in given} | {"core-site.xml", "other.xml"}
        assert any(name and name in got for name in named), (given, got)
        return
    address, of_new_files = got
    stores = [each[1] for each in given if each[0] in ("-fs", "-dfs", "-conf", "--config")]
    stores += [each[1].partition("=")[2] for each in given if each[-1].startswith("fs.def")]
    if not any(stores):
        assert address == OWN, given
    replicas = [each[1] for each in given if each[-1].startswith("dfs.replication=")]
    wanted = {"replication": replicas[-1].partition("=")[2].strip()} if replicas else {}
    assert of_new_files == wanted, given
    for option, *_ in given:
        assert OPTIONS.entries[option].effect is not Effect.REFUSED


def test_any_combination_is_heeded_or_refused(seed):
    check_random(random.Random(seed))


@pytest.mark.parametrize("option", ["-fs", "-dfs", "-jt", "--config"])
def test_which_cluster_is_said_once(option):
    assert outcome(option, "a:1", option, "b:1") == f"{option} b:1: is given twice: need it once"


def test_a_folder_without_a_site_says_no_cluster(here):
    (here / "empty").mkdir()
    assert "core-site.xml: is no file" in str(outcome("--config", "empty"))
    (here / "empty" / "core-site.xml").write_text(_SITE.format("a", "b"))
    assert "sets no fs.defaultFS" in str(outcome("--config", str(Path("empty"))))
