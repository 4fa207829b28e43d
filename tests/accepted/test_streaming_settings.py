"""Settings of streaming jobs: each does what its table says, and what stands in none is refused."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from types import SimpleNamespace

import msgspec
import pytest

from railyard.cluster.acceptance import Effect
from railyard.cluster.errors import UsageError
from railyard.dfs.messages import FileStatus
from railyard.gateway.http.answers import RemoteError
from railyard.gateway.yarn.submission import input_files, map_cuts
from railyard.jobs.streaming.job import StreamingJob
from railyard.jobs.streaming.request import (
    StreamingRequest,
    job_name,
    output_replication,
    queue_name,
    reads_recursively,
    streaming_of,
    tags,
)
from railyard.jobs.streaming.settings import OLD_NAMES, SETTINGS, Fixed
from tests.streaming import run

USED, IDLE, REFUSED = (SETTINGS.named(effect) for effect in Effect)
BY_FIELDS = {"mapreduce.job.output.key.comparator.class": "x.KeyFieldBasedComparator"}
PARTS = {"mapreduce.partition.keycomparator.options": "-k2,2nr"}
TWO = {"stream.num.map.output.key.fields": "2"}
#: Variables of programs that settings are not given as.
WATCHED = ("FOO", "NAME", "my_own")


@dataclass(frozen=True)
class Probe:
    """A value that changes something, given what else it needs."""

    value: str
    data: bytes = b"b\t1\na.x:y,z\t2\nabcdef\n"
    also: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    together: dict[str, str] = field(default_factory=dict)  #: refused without it


def _of_format(name):
    return {"input_format": f"org.apache.hadoop.mapred.lib.{name}"}


BY_LINES, BY_KEYS = _of_format("NLineInputFormat"), _of_format("KeyValueTextInputFormat")
PARTITIONED = {"partitioner": "KeyFieldBasedPartitioner", "reduces": "5"}
FIELDS = b"".join(b"a\tb%d\t1\n" % at for at in range(9))
PROBES = {
    "mapreduce.input.fileinputformat.input.dir.recursive": Probe("true"),
    "mapreduce.input.fileinputformat.split.minsize": Probe("300"),
    "mapreduce.input.keyvaluelinerecordreader.key.value.separator": Probe(",", options=BY_KEYS),
    "mapreduce.input.lineinputformat.linespermap": Probe("2", options=BY_LINES),
    "mapreduce.input.linerecordreader.line.maxlength": Probe("3"),
    "mapreduce.job.maps": Probe("50"),
    "textinputformat.record.delimiter": Probe("|", b"a|b|c"),
    "stream.map.input.field.separator": Probe(":", options=BY_LINES),
    "stream.map.input.ignoreKey": Probe("false"),
    "stream.map.output.field.separator": Probe("."),
    "stream.num.map.output.key.fields": Probe("2", b"a\tb\t1\na\ta\t2\n"),
    "stream.reduce.input.field.separator": Probe(":"),
    "stream.reduce.output.field.separator": Probe(":"),
    "stream.num.reduce.output.key.fields": Probe(
        "2", b"a\tb\tc\n", {"mapreduce.output.textoutputformat.separator": ","}
    ),
    "stream.non.zero.exit.is.failure": Probe("false"),
    "stream.stderr.reporter.prefix": Probe("rep:", options={"mapper": "reports"}),
    "stream.jobconf.truncate.limit": Probe("3", also={"my.own": "12345"}),
    "mapreduce.map.env": Probe("FOO=1,B=2"),
    "mapreduce.map.env.NAME": Probe("1"),
    "mapreduce.reduce.env": Probe("FOO=2"),
    "mapreduce.reduce.env.NAME": Probe("1"),
    "mapred.child.env": Probe("FOO=3"),
    "mapreduce.map.output.key.field.separator": Probe(".", b"a.1\na.2\n", {**BY_FIELDS, **PARTS}),
    "mapreduce.job.output.key.comparator.class": Probe(
        "mapred.lib.KeyFieldBasedComparator",
        FIELDS,
        TWO,
        together={"mapreduce.partition.keycomparator.options": "-r"},
    ),
    "mapreduce.partition.keycomparator.options": Probe("-r", FIELDS, {**TWO, **BY_FIELDS}),
    "mapreduce.job.partitioner.class": Probe(
        "KeyFieldBasedPartitioner",
        FIELDS,
        TWO,
        {"reduces": "5"},
        {"mapreduce.partition.keypartitioner.options": "-k1,1"},
    ),
    "mapreduce.partition.keypartitioner.options": Probe("-k1,1", FIELDS, TWO, PARTITIONED),
    "num.key.fields.for.partition": Probe("1", FIELDS, TWO, PARTITIONED),
    "mapreduce.output.textoutputformat.separator": Probe(","),
    "railyard.streaming.add.separator": Probe("true"),
    "dfs.replication": Probe("2"),
    "mapreduce.job.name": Probe("mine"),
    "mapreduce.job.queuename": Probe("q"),
    "mapreduce.job.tags": Probe("a,B"),
    "mapreduce.job.reduces": Probe("3"),
    "mapreduce.map.maxattempts": Probe("7"),
    "mapreduce.reduce.maxattempts": Probe("7"),
    "mapreduce.task.timeout": Probe("5000"),
    "mapreduce.map.speculative": Probe("false"),
    "mapreduce.reduce.speculative": Probe("false"),
}


class Store:
    """What the gateway asks the block store for: a file of ten blocks, perhaps a folder, too."""

    def __init__(self, *, nested):
        self.data = b"123456789\n" * 100
        self.folders = {"/in": ["/in/f"], **({"/in/deep": ["/in/deep/f"]} if nested else {})}
        if nested:
            self.folders["/in"].append("/in/deep")

    def find(self, path):
        folder = path in self.folders
        return FileStatus(path=path, folder=folder, stored_length=0 if folder else len(self.data))

    status = find

    def list(self, path):
        return [self.find(each) for each in self.folders[path]]

    def locations(self, _):
        return [SimpleNamespace(stored_length=100)] * 10

    def read(self, _):
        return iter([self.data])


def request_of(settings, options):
    given = {"input": ["/in"], "output": "/out", "mapper": "cat", "reducer": "cat", **options}
    return msgspec.convert({**given, "settings": settings}, StreamingRequest)


def inputs(request):
    try:
        flag = reads_recursively(request)
        return input_files(Store(nested=True), "/in", "ann", recursive=flag)
    except RemoteError as error:
        return str(error)


def outcome(settings, data, options):
    """What a job does with these settings: what it writes, counts and starts, and where."""
    request = request_of(settings, options)
    streaming = streaming_of(request, 0, "")
    ran = run(data, **{"mapper": "cat", "reducer": "cat", **options, "settings": settings})
    stages = StreamingJob(specification=msgspec.json.encode(streaming)).stage_specs()
    return {
        "files": ran.files,
        "counters": dict(ran.counters),
        "programs": [(program.timeout_s, program.status_counts) for program in ran.programs],
        "variables": [[each.get(name) for name in WATCHED] for each in ran.environments],
        "attempts": [(stage.max_attempts, stage.may_copy) for stage in stages],
        "job": (job_name(request), queue_name(request), tags(request)),
        "replicas": output_replication(request),
        "inputs": inputs(request),
        "cuts": map_cuts(Store(nested=False), request, ["/in/f"], streaming),
    }


def test_each_used_setting_has_a_probe():
    assert {OLD_NAMES.get(name, name) for name in USED} == set(PROBES)


@pytest.mark.parametrize("name", USED)
def test_a_used_setting_changes_what_a_job_does(name):
    probe = PROBES[OLD_NAMES.get(name, name)]
    without = outcome(probe.also, probe.data, probe.options)
    given = {**probe.also, **probe.together, name: probe.value}
    assert outcome(given, probe.data, probe.options) != without


def refusal(settings, options=()):
    """The error of settings; None if they are taken."""
    try:
        streaming_of(request_of(settings, dict(options)), 0, "")
    except UsageError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_setting_is_named(name):
    entry = SETTINGS.entries[name]
    assert refusal({name: "v"}).startswith(f"-D {name}=v: not supported: {entry.note}"[:80])
    if isinstance(entry, Fixed):
        data = PROBES["mapreduce.job.name"].data
        assert outcome({name: entry.value}, data, {}) == outcome({}, data, {})


def test_an_idle_setting_changes_nothing():
    data = PROBES["mapreduce.job.name"].data
    without = outcome({}, data, {})
    for name in IDLE:
        assert outcome({name: "17"}, data, {}) == without, name


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("mapreduce.job.reducers", "mapreduce.job.reduces"),
        ("stream.map.output.field.seperator", "stream.map.output.field.separator"),
        ("mapred.reduce.task", "mapred.reduce.tasks"),
    ],
)
def test_an_unknown_setting_of_hadoop_is_refused_with_a_near_one(name, near):
    assert refusal({name: "1"}).startswith(
        f'-D {name}=1: unknown setting "{name}": did you mean "{near}"? There are: '
    )


def test_settings_of_daemons_change_nothing_but_those_of_where_jobs_run():
    assert refusal({"yarn.nodemanager.vmem-check-enabled": "false"}) is None
    assert refusal({"mapreduce.jobhistory.address": "h:1"}) is None
    assert "not supported" in refusal({"yarn.resourcemanager.address": "h:1"})
    assert "unknown setting" in refusal({"yarn.nonsense": "1"})


def test_others_are_the_users_own():
    for name in ("my.own", "job.date", "map.colour", "x"):
        assert refusal({name: "v"}) is None


@pytest.mark.parametrize(
    ("name", "value", "right"),
    [
        ("stream.map.input.ignoreKey", "yes", "need true or false"),
        ("mapreduce.map.speculative", "true", "need false: copies are the scheduler's"),
        ("mapreduce.reduce.speculative", "no", "need true or false"),
        ("mapreduce.job.reduces", "two", "need a whole number, 0 or more"),
        ("mapreduce.job.reduces", "0x10", "need a whole number, 0 or more"),
        ("mapreduce.task.timeout", "10s", "need a whole number, 0 or more"),
        ("stream.jobconf.truncate.limit", "-2", "need a whole number, -1 or more"),
        ("stream.map.output.field.separator", "", "need at least one letter"),
        ("mapreduce.map.env", "FOO", "need NAME=VALUE"),
        ("mapreduce.map.env", "FOO=$HOME", "other variables are not filled in"),
        ("dfs.replication", "0", "need a whole number, 1 or more"),
        ("mapreduce.input.linerecordreader.line.maxlength", "-1", "0 or more"),
        ("mapreduce.partition.keycomparator.options", "-n", "need -D mapreduce.job.output.key"),
        ("mapreduce.partition.keypartitioner.options", "-k1", "need -partitioner KeyField"),
        ("mapreduce.input.lineinputformat.linespermap", "2", "need -inputformat NLine"),
        ("key.value.separator.in.input.line", ",", "need -inputformat KeyValueText"),
    ],
)
def test_values_that_mean_nothing_are_refused(name, value, right):
    assert right in refusal({name: value})


SILLY = ("", " ", "-1", "1e3", "yes", "\N{DESERT}", "x" * 300, "true", "0", "-k", "9" * 30)


def check_random(dice: random.Random) -> None:
    """Some settings at once: refused by the name of one of them, or each used one has an effect."""
    settings: dict[str, str] = {}
    options: dict[str, str] = {}
    sensible: list[str] = []
    for _ in range(dice.randint(1, 5)):
        kind = dice.choice(("used", "used", "silly", "idle", "refused", "unknown", "own"))
        if kind in ("used", "silly"):
            name = dice.choice(USED)
            probe = PROBES[OLD_NAMES.get(name, name)]
            settings = {**probe.also, **settings}
            options = {**probe.options, **options}
            settings[name] = probe.value if kind == "used" else dice.choice(SILLY)
            sensible += [name] if kind == "used" else []
        elif kind == "unknown":
            begin = dice.choice(SETTINGS.begins)
            settings[begin + dice.choice(("nonsense", "x.y", "\N{DESERT}"))] = dice.choice(SILLY)
        else:
            names = {"idle": IDLE, "refused": REFUSED, "own": ("my.own", "x")}[kind]
            settings[dice.choice(names)] = dice.choice(SILLY)
    error = refusal(settings, options.items())
    if error is not None:
        assert "\n" not in error
        culprits = [name for name in settings if f"-D {name}" in error or f'"{name}"' in error]
        now = [OLD_NAMES[name] for name in settings if name in OLD_NAMES]
        assert culprits or any(name in error for name in now), (error, settings)
        return
    assert not set(settings) & set(REFUSED) or all(
        isinstance(SETTINGS.entries[name], Fixed) for name in set(settings) & set(REFUSED)
    )
    whole = facts(settings, options)
    for name in sensible:
        others = {other: value for other, value in settings.items() if other != name}
        twin = any(OLD_NAMES.get(o, o) == OLD_NAMES.get(name, name) for o in others)
        silly = settings[name] != PROBES[OLD_NAMES.get(name, name)].value
        if twin or silly or _is_masked(name, settings, options):
            continue
        if refusal(others, options.items()) is None:
            assert facts(others, options) != whole, (name, settings)


def _is_masked(name, settings, options):
    """Whether a setting gives way to others, as documented, or has nothing to do."""
    name, now = OLD_NAMES.get(name, name), {OLD_NAMES.get(each, each) for each in settings}
    if name == "mapred.child.env":
        return {"mapreduce.map.env", "mapreduce.reduce.env"} <= now
    if name == "stream.map.input.ignoreKey":
        return "input_format" in options  # false is their default
    if name == "mapreduce.job.maps":
        return "mapreduce.input.fileinputformat.split.minsize" in now
    if name == "mapreduce.job.reduces":
        return "reduces" in options
    probe = PROBES[name]
    return "partitioner" in options or not set(probe.together) <= now if probe.together else False


def facts(settings, options):
    """What a job is made of: all but what its programs find of settings in their environment."""
    request = request_of(settings, options)
    streaming = streaming_of(request, 0, "")
    made = msgspec.structs.replace(streaming, settings={})
    job = (job_name(request), queue_name(request), tags(request), output_replication(request))
    cuts = map_cuts(Store(nested=False), request, ["/in/f"], made)
    return made, job, inputs(request), cuts


def test_any_settings_have_an_effect_or_are_refused(seed):
    check_random(random.Random(seed))
