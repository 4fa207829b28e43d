"""The record of who had which circuit when."""

import json

import pytest

from railyard.cluster.errors import UsageError
from railyard.netemu.record.circuits import (
    CircuitChange,
    CircuitLog,
    CircuitUse,
    circuit_rows,
    read_circuits,
)


def log_of(*changes):
    log = CircuitLog()
    log.take(CircuitChange(at_s, what, "r0", "r3", who, n) for at_s, what, who, n in changes)
    return log


def test_a_coflow_has_a_circuit_dark_then_lit_until_it_is_done():
    log = log_of((1.0, "set-up", "a", 1), (1.5, "up", "a", 1), (3.0, "up", None, 1))
    assert log.uses(9.0) == [CircuitUse("r0", "r3", "a", 1.0, 1.5, 3.0)]


def test_the_next_finds_it_lit_and_is_under_way_at_the_end():
    log = log_of((1.0, "up", "a", 1), (2.0, "up", None, 1), (4.0, "up", "b", 1))
    assert log.uses(5.0)[1] == CircuitUse("r0", "r3", "b", 4.0, 4.0, 5.0)


def test_what_was_given_up_dark_never_carried():
    log = log_of((1.0, "set-up", "a", 1), (1.2, "set-up", None, 1), (1.3, "down", None, 1))
    assert log.uses(9.0) == [CircuitUse("r0", "r3", "a", 1.0, None, 1.2)]


def test_circuits_between_the_same_racks_are_told_apart():
    log = log_of((1.0, "up", "a", 1), (2.0, "up", "b", 2), (3.0, "up", None, 1))
    assert [(use.coflow, use.end_s) for use in log.uses(9.0)] == [("a", 3.0), ("b", 9.0)]


def test_a_record_that_is_full_says_how_much_more_there_was(monkeypatch):
    monkeypatch.setattr("railyard.netemu.record.circuits.USES_MAX", 1)
    log = log_of(
        (1.0, "up", "a", 1), (2.0, "up", None, 1), (3.0, "up", "b", 1), (4.0, "down", "b", 1)
    )
    assert [use.coflow for use in log.uses(9.0)] == ["a"]
    assert circuit_rows([], log.left_out) == [{"type": "circuits-left-out", "count": 1}]


def test_rows_are_read_back(tmp_path):
    uses = log_of((1.0, "set-up", "a", 1), (1.5, "up", "a", 1)).uses(2.0)
    file = tmp_path / "network.jsonl"
    assert read_circuits(file) == []
    rows = [{"type": "links", "capacity_bytes_per_s": {}}, *circuit_rows(uses, 0)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read_circuits(file) == uses


@pytest.mark.parametrize("text", ["nonsense\n", "[]\n", '{"type": "circuit", "src": "r0"}\n'])
def test_what_is_no_record_is_refused(tmp_path, text):
    file = tmp_path / "network.jsonl"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"network\.jsonl: is no record of the network: "):
        read_circuits(file)
