"""The record of what links carried: bounded, and without a byte lost."""

import json

from hypothesis import given
from hypothesis import strategies as st

from railyard.netemu.record.links import SAMPLES_MAX, LinkLog, read_samples


def rows(log, path, capacities=None):
    log.write(path, capacities or {"r0.up": 100.0, "r0.down": float("inf")})
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_links_come_first_then_what_has_changed(tmp_path):
    log = LinkLog()
    log.take(0.0, {"r0.up": 0, "r0.down": 0})
    log.take(0.5, {"r0.up": 50, "r0.down": 0})
    log.take(1.0, {"r0.up": 50, "r0.down": 7})
    assert rows(log, tmp_path / "network.jsonl") == [
        {"type": "links", "capacity_bytes_per_s": {"r0.up": 100.0, "r0.down": None}},
        {"at_s": 0.0, "bytes": {}},
        {"at_s": 0.5, "bytes": {"r0.up": 50}},
        {"at_s": 1.0, "bytes": {"r0.down": 7}},
    ]


def test_what_links_carry_now_is_there_when_it_changes(tmp_path):
    log = LinkLog()
    log.take(0.0, {"r0.up": 0})
    for at_s, total, now in (
        (1.0, 50, {"r0.up": 2.0}),
        (2.0, 51, {"r0.up": 2.0}),
        (3.0, 51, {"r0.up": float("inf")}),
        (4.0, 51, {}),
    ):
        log.take(at_s, {"r0.up": total}, now)
    assert rows(log, tmp_path / "network.jsonl")[1:] == [
        {"at_s": 0.0, "bytes": {}},
        {"at_s": 1.0, "bytes": {"r0.up": 50}, "now_bytes_per_s": {"r0.up": 2.0}},
        {"at_s": 2.0, "bytes": {"r0.up": 51}},
        {"at_s": 3.0, "bytes": {}, "now_bytes_per_s": {"r0.up": None}},
        {"at_s": 4.0, "bytes": {}, "now_bytes_per_s": {}},
    ]
    assert read_samples(tmp_path / "network.jsonl") == list(log.changes())


def test_samples_are_wanted_a_period_apart():
    log = LinkLog(period_s=0.5)
    assert log.wants(3.0)
    log.take(3.0, {})
    assert not log.wants(3.4)
    assert log.wants(3.5)


@given(st.integers(min_value=1, max_value=20_000))
def test_however_long_a_run_is_its_record_is_short_and_ends_with_all_bytes(ticks):
    log = LinkLog(period_s=1.0)
    taken = 0
    for tick in range(ticks):
        if log.wants(float(tick)):
            log.take(float(tick), {"r0.up": tick})
            taken = tick
    samples = list(log.changes())
    assert len(samples) <= SAMPLES_MAX
    assert samples[0][0] == 0.0
    assert samples[-1][0] == taken > ticks - 1 - log.period_s
    carried = 0
    for at_s, changed, _ in samples:
        carried = changed.get("r0.up", carried)
        assert carried == at_s
