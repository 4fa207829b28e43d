"""--behaviour and --faults: each key and kind changes a simulated run, or is refused by name."""

import re

import msgspec
import pytest

from railyard.cluster.accepted import Effect, declared
from railyard.cluster.errors import UsageError
from railyard.cluster.tomlfile import build
from railyard.cluster.topology import load_topology
from railyard.scripts.documents.acceptedpage import TABLES
from railyard.simulator.faults.faultspec import FAULTS, parse_faults
from railyard.simulator.nodes.behaviour import Behaviour
from tests.accepted.smallrun import small_run

#: {key: (keys that it needs beside it, its value)}
KEYS = {
    "variance": ({}, 0.3),
    "stragglers": ({}, 0.5),
    "straggler_factor": ({"stragglers": 0.5}, 9.0),
    "failures": ({}, 0.3),
    "launch_s": ({}, "1s"),
    "fetch_s": ({}, "1s"),
    "end_s": ({}, "1s"),
    "progress_s": ({"stragglers": 0.3}, "9s"),
    "output_block": ({}, "500MB"),
    "together_s": ({}, "3s"),
}
#: {kind: faults of it}
KINDS = {
    "node": "node:r0n1@1s+2s",
    "rack": "rack:r2@1s",
    "slow": "slow:r1n0*4@0s+9s",
    "link": "link:r1.up*0.1@0s",
    "slots": "slots:r1n0*2@0s",
    "blocks": "blocks:r0n0@0.1s,blocks:r0n1@0.1s,blocks:r0n2/1@0.1s",
}
#: Stragglers are copied, as their reports of progress say.
TOPOLOGY = msgspec.structs.replace(
    load_topology("flat-4x4,storage.replication=2,storage.block=64MB"),
    settings={"speculation.on": True, "speculation.after_s": 0.1},
)


@pytest.mark.parametrize("key", KEYS)
def test_each_key_of_the_behaviour_changes_a_run(key):
    beside, value = KEYS[key]
    without = _finished(build(beside, Behaviour, "--behaviour"))
    assert _finished(build({**beside, key: value}, Behaviour, "--behaviour")) != without


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_fault_changes_a_run(kind):
    assert _finished(faults=KINDS[kind]) != _finished()


def _finished(behaviour=None, faults=""):
    """When the run's jobs end, and what they did; not how often the network was looked at."""
    run = small_run(TOPOLOGY, faults, behaviour)
    return {key: run[key] for key in ("makespan_s", "jobs", "tasks", "slot_utilization", "bytes")}


def test_each_name_has_a_probe():
    keys = declared("", "", Behaviour)
    assert set(keys.named(Effect.USED)) == set(keys.entries) == set(KEYS)
    assert set(FAULTS.named(Effect.USED)) == set(FAULTS.entries) == set(KINDS)
    assert {"nodes of a simulation: --behaviour", FAULTS.interface} <= {
        table.interface for table in TABLES
    }


@pytest.mark.parametrize(
    ("given", "right"),
    [
        ({"variences": 1}, 'unknown key "variences": did you mean "variance"'),
        ({"stragglers": 0.1, "straggler_factor": 1.0}, "stragglers: changes nothing here: need"),
        ({"straggler_factor": 3.0}, "straggler_factor: changes nothing here: need stragglers"),
    ],
)
def test_a_key_without_an_effect_is_refused(given, right):
    with pytest.raises(UsageError, match=f"^--behaviour: {right}"):
        build(given, Behaviour, "--behaviour")


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("slw:r0n0*4@1s", 'unknown fault "slw": did you mean "slow"'),
        ("link:r0.up*1.0@1s", r"factor = 1\.0: need another number than 1"),
        ("slots:r0n0*1@1s", r"factor = 1\.0: need another number than 1"),
        ("node:r0n0@1s+0s", r"lasts = 0\.0: need a time above 0"),
    ],
)
def test_a_fault_without_an_effect_is_refused(text, right):
    with pytest.raises(UsageError, match=f"^--faults {re.escape(text)}: {right}"):
        parse_faults(text, TOPOLOGY, 60.0)
