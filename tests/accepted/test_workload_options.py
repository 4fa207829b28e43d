"""Options of workloads and mixes: each that is used changes the jobs, or is refused by name."""

import functools
import json
import random
import tempfile
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from docs.reference_pages import TABLES
from railyard.cluster.acceptance import Effect
from railyard.cluster.errors import UsageError
from railyard.jobs.workloads.catalog import FAMILIES, workload
from railyard.jobs.workloads.mixes import MIX, Defaults, accepted_options, read_mix

#: {option: (options that it needs beside it, a value that is nobody's default)}
_OF_ALL = {
    "users": ("", "7"),
    "queues": ("users=9", "3"),
    "gap": ("arrivals=poisson", "77s"),
    "recurring": ("", "0.3"),
    "size_error": ("recurring=1", "0.31"),
    "late": ("", "1"),
    "late_by": ("late=1", "33s"),
    "output_replication": ("", "2"),
    "grain": ("", "2"),
    "skew": ("", "1.3"),
    "skew_ratio": ("", "7"),
    "jobs": ("", "9"),
    "block": ("", "10MB"),
}
_SWIM = {
    "shuffle_min": ("", "2GB"),
    "size_max": ("", "40GB"),
    "times": ("", "2.5"),
    "reduce_size": ("", "2GB"),
    "reduces_max": ("", "3"),
    "start": ("", "3s"),
    "map_rate": ("", "1MB/s"),
    "reduce_rate": ("", "1MB/s"),
}
_TETRIUM = {
    "sites": ("", "9"),
    "stages_min": ("", "3"),
    "stages_max": ("", "17"),
    "maps_max": ("", "111"),
    "size_by_stages": ("", "0.4"),
    "variation": ("", "1.1"),
}
_OWN = {
    "swim": _SWIM,
    "co-scheduler": _SWIM,
    "shadow-facebook": _SWIM | {"total": ("", "7TB")},
    "corral-w1": {"largest": ("", "1500")},
    "corral-w2": {"jobs": ("", "40")},
    "corral-mix": {"largest": ("", "1500"), "ad_hoc": ("", "7"), "ad_hoc_queue": ("", "own")},
    "corral-tpch": {
        "largest": ("", "1500"),
        "ad_hoc": ("", "7"),
        "ad_hoc_queue": ("", "own"),
        "database": ("", "3GB"),
        "tables": ("", "own"),
    },
    "corral-recurring": {
        "size_error": ("", "0.31"),
        "days": ("", "2"),
        "history": ("", "3"),
        "largest": ("", "9TB"),
        "smallest": ("", "5GB"),
    },
    "tetrium": _TETRIUM,
    "tetrium-tpcds": _TETRIUM,
    "tetrium-bigdata": _TETRIUM | {"stages_max": ("", "6")},
    "shadow": {
        "app": ("", "kmeans"),
        "input": ("", "7GB"),
        "shuffle": ("", "0.3"),
        "output": ("", "0.3"),
        "reduces": ("", "7"),
    },
    "joint": {
        "gap_deviation": ("", "1s"),
        "work": ("", "500s"),
        "median": ("", "4"),
        "edge": ("edges=jobs", "3MB"),
        "edges": ("", "jobs"),
        "reads": ("", "0.4"),
        "block": ("reads=1", "7MB"),
    },
}
#: Values of which one may leave nothing of the other's: they are not drawn together.
_MASKS = [{"block", "reads"}, {"reduce_size", "reduces_max"}, {"app", "late"}, {"app", "late_by"}]
_SILLY = ["", "-1", "0", "1e99", "nan", "x", "12Gb", "9" * 40, "\x1b[2J", "true", "a=b"]
_UNKNOWN = ["blocks", "arrival", "Jobs", "GAP", "x.y", "\u202e"]


def probes(name):
    """{option of a workload: (options beside it, its value)}"""
    family = FAMILIES[name]
    usual = family.options.__struct_defaults__
    default = dict(zip(family.options.__struct_fields__[-len(usual) :], usual, strict=True))
    arrivals = "poisson,gap=8s" if default["arrivals"] in ("batch", "uniform") else "batch"
    switch = {"batch": "arrivals=uniform", "poisson": "gap=0s"}
    own = {
        "arrivals": ("", arrivals),
        "window": (switch.get(default["arrivals"], ""), "1234s"),
        **_OWN.get(name, {}),
    }
    used = family.accepted.named(Effect.USED)
    return own | {key: value for key, value in _OF_ALL.items() if key in used and key not in own}


@contextmanager
def words_of_families():
    """{name: its text with a small file, and as few jobs as do}"""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        swim, flows, flow = folder / "t.tsv", folder / "c.txt", folder / "w.json"
        lines = [
            f"j{at}\t{5 + 10 * at}\t10\t{(at + 1) * 10**9}\t{at % 4 * 1_700_000_000}\t{at * 10**8}"
            for at in range(60)
        ]
        swim.write_text("\n".join(lines) + "\n")
        coflows = [f"c{at} {at * 1500} 2 0 {at % 3} 2 2:{at + 3} 3:1.5" for at in range(12)]
        flows.write_text("\n".join(["4 12", *coflows]) + "\n")
        flow.write_text(json.dumps(_workflow()))
        files = {"FILE.tsv": swim, "FILE.json": flow, "FILE.txt": flows}
        few = {"corral-w2": "jobs=20", "shadow": "", "corral-recurring": "jobs=4"}
        yield {
            name: (f"{name}:{files[family.file]}" if family.file else name, few.get(name, "jobs=6"))
            for name, family in FAMILIES.items()
        }


def _workflow():
    tasks = [
        {"name": "a", "id": "a", "children": ["b"], "inputFiles": ["in"], "outputFiles": ["x"]},
        {"name": "b", "id": "b", "parents": ["a"], "inputFiles": ["x"], "outputFiles": ["y"]},
    ]
    sizes = {"in": 700_000_000, "x": 300_000_000, "y": 5_000_000}
    files = [{"id": name, "sizeInBytes": size} for name, size in sizes.items()]
    return {"name": "w", "workflow": {"specification": {"tasks": tasks, "files": files}}}


def jobs_of(text):
    """What a text makes: its jobs, packed; or why it is refused."""
    try:
        return msgspec.msgpack.encode(workload(text, 1, 4).jobs)
    except UsageError as error:
        return str(error)


def of(base, few, options):
    """The text of a workload with options, of few jobs unless they say how many."""
    mine = [option for option in options if option]
    if few and not any(option.startswith("jobs=") for option in mine):
        mine.insert(0, few)
    return ",".join([base, *mine])


@pytest.mark.parametrize("name", FAMILIES)
def test_each_used_option_changes_the_jobs(name):
    assert set(probes(name)) == set(FAMILIES[name].accepted.named(Effect.USED))
    with words_of_families() as words:
        for option, (beside, value) in probes(name).items():
            without = jobs_of(of(*words[name], [beside]))
            changed = jobs_of(of(*words[name], [beside, f"{option}={value}"]))
            assert isinstance(changed, bytes), changed
            assert changed != without, option


@pytest.mark.parametrize("name", FAMILIES)
def test_each_refused_option_is_named(name):
    with words_of_families() as words:
        for option in FAMILIES[name].accepted.named(Effect.REFUSED):
            refused = jobs_of(of(*words[name], [f"{option}=1"]))
            assert f"{option}: not supported: " in refused


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("wfcommons,gap=100s", "gap: changes nothing here: need arrivals=poisson"),
        ("wfcommons,window=1h", "window: changes nothing here: need arrivals=uniform"),
        ("tetrium,window=1h", "window: changes nothing here: need gap=0s"),
        ("corral-w1,queues=3", "queues: changes nothing here: need users above 1"),
        ("corral-w1,late_by=3s", "late_by: changes nothing here: need late above 0"),
        ("tetrium,jobs=3,late=0.01", "late = 0.01: need 0 or at least 51 jobs: of 3 it is none"),
        ("corral-w1,jobs=4,recurring=0.9", "recurring = 0.9: need 1 or at least 5 jobs: of 4"),
        ("corral-w1,jobs=3,late=0.0000001", "late = 1e-07: need 0: of 3 it is none"),
        ("swim,size_error=0.1", "size_error: changes nothing here: need recurring above 0"),
        ("swim,arrivals=uniform", "window = 0.0: need a time above 0"),
        ("swim,arrivals=poisson", "gap = 0.0: need a time above 0"),
        ("joint,block=1MB", "block: changes nothing here: need reads above 0"),
        ("joint,edge=1MB", "edge: changes nothing here: need edges=jobs or edges=all"),
        ("joint,arrivals=batch,gap=3s", "gap: changes nothing here: need arrivals=poisson"),
        ("tetrium,skew=1,variation=1", "variation: changes nothing here: need no skew"),
        ("tetrium,stages_min=3,stages_max=3,size_by_stages=0", "size_by_stages: changes nothing"),
        ("corral-tpch,ad_hoc=0,largest=1500", "largest: changes nothing here: need ad_hoc above 0"),
        ("corral-mix,ad_hoc=0,ad_hoc_queue=own", "ad_hoc_queue: changes nothing here: need ad_hoc"),
        ("corral-recurring,size_error=0,history=3", "history: changes nothing here"),
        ("shadow,app=kmeans,window=1h", "window: changes nothing here: need jobs that come at"),
    ],
)
def test_an_option_that_another_switches_off_is_refused(text, right):
    name, _, options = text.partition(",")
    with words_of_families() as words:
        assert right in jobs_of(f"{words[name][0]},{options}")


#: {option: (options beside it, its value)} of a job, and of a random mix
_COMMON = {
    "recurring": ("", "0"),
    "size_error": ("", "0.2"),
    "inputs": ("", "own"),
    "skew": ("", "1.2"),
    "skew_ratio": ("", "5"),
    "reduces": ("", "7"),
}
_JOB = _COMMON | {
    "size": ("", "3GB"),
    "input": ("", "a.txt"),
    "late": ("submit=60s", "1"),
    "late_by": ("submit=60s,late=1", "33s"),
    "submit": ("", "5s"),
    "times": ("", "2"),
    "user": ("", "ann"),
    "queue": ("", "fast"),
    "param": ("", "x"),
}
_MIX = _COMMON | {
    "late": ("window=60s", "1"),
    "late_by": ("window=60s,late=1", "33s"),
    "jobs": ("", "3"),
    "of": ("", "query+wordcount"),
    "sizes": ("", "3GB+4GB"),
    "window": ("", "9s"),
    "users": ("", "5"),
    "queues": ("", "a+b"),
}


def mix_of(text):
    try:
        mix = read_mix([text], Defaults(size_bytes=10**9), 1)
        return msgspec.msgpack.encode(mix.jobs)
    except UsageError as error:
        return str(error)


@pytest.mark.parametrize(("name", "named"), [("terasort", _JOB), (MIX, _MIX)])
def test_each_option_of_a_mix_changes_its_jobs(name, named):
    assert set(named) == set(accepted_options(name).named(Effect.USED))
    for option, (beside, value) in named.items():
        key = "param.n" if option == "param" else option
        without = mix_of(",".join(filter(None, [name, beside])))
        changed = mix_of(",".join(filter(None, [name, beside, f"{key}={value}"])))
        assert isinstance(changed, bytes), changed
        assert changed != without, option


def check_random(dice: random.Random) -> None:
    """One combination of options: refused by a name in it, or each of them changes the jobs."""
    if dice.random() < 0.3:
        name, make, base = dice.choice([("terasort", mix_of, _JOB), (MIX, mix_of, _MIX)])
        _check(dice, make, (name, ""), {k: v for k, v in base.items() if k != "param"})
        return
    name = dice.choice(list(FAMILIES))
    every = {key: value for each in FAMILIES for key, value in probes(each).items()}
    with words_of_families() as words:
        own = probes(name)
        _check(dice, jobs_of, words[name], own if dice.random() < 0.7 else every | own)


def _check(dice, make, words, values):
    drawn, beside = {}, {}
    for option in dice.sample(sorted(values), dice.randint(1, 4)):
        needs, value = values[option]
        drawn[option], _, more = value.partition(",")
        if option == "late" or dice.random() < 0.7:
            needed = [text for text in (*needs.split(","), more) if text]
            beside |= dict(text.split("=") for text in needed)
    if dice.random() < 0.2:
        drawn[dice.choice(_UNKNOWN)] = "1"
    if dice.random() < 0.2:
        beside[dice.choice(sorted(drawn))] = dice.choice(_SILLY)  # perhaps its default
    if any(each <= set(drawn) for each in _MASKS):
        return
    every = drawn | beside
    drawn = {key: value for key, value in drawn.items() if key not in beside}
    text = functools.partial(of, *words)
    made = make(text([f"{key}={value}" for key, value in every.items()]))
    if isinstance(made, str):
        assert len(made.splitlines()) == 1
        assert any(_shown(key) in made for key in every) or "KEY=VALUE" in made, made
        return
    for option in drawn:
        rest = [f"{key}={value}" for key, value in every.items() if key != option]
        assert make(text(rest)) != made, f"{option} changes nothing among {every}"


def _shown(key):
    return key if key.isprintable() else "\\u202e"


def test_any_combination_of_options_has_an_effect_or_is_refused(seed):
    check_random(random.Random(seed))


def test_the_page_has_these_tables():
    there = {table.interface for table in TABLES}
    assert {family.accepted.interface for family in FAMILIES.values()} <= there
    assert {accepted_options(name).interface for name in ("terasort", MIX)} <= there
