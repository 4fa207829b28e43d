"""Circuits in the trace: each shows at both its ports, dark and then lit."""

from railyard.netemu.record.circuits import CircuitUse
from railyard.resourcemanager.driving.opticaltrace import optical_rows


def test_a_circuit_is_dark_then_lit_at_both_ports():
    rows = optical_rows([CircuitUse("r0", "r10", "a", 1.0, 1.5, 3.0)], process=7)
    assert [row["args"]["name"] for row in rows[:3]] == [
        "optical ports",
        "r0.ocs.up",
        "r10.ocs.down",
    ]
    assert {row["pid"] for row in rows} == {7}
    phases = [(r["tid"], r["args"]["phase"], r["ts"], r["dur"]) for r in rows if r["ph"] == "X"]
    assert phases == [
        (0, "dark", 1.0e6, 0.5e6),
        (0, "lit", 1.5e6, 1.5e6),
        (1, "dark", 1.0e6, 0.5e6),
        (1, "lit", 1.5e6, 1.5e6),
    ]


def test_one_after_another_shares_a_lane_and_wavelengths_have_their_own():
    uses = [
        CircuitUse("r0", "r1", "a", 0.0, 0.0, 2.0),
        CircuitUse("r0", "r2", "b", 1.0, None, 3.0),
        CircuitUse("r0", "r3", "c", 2.0, 2.0, 4.0),
    ]
    rows = [row for row in optical_rows(uses, process=1) if row["ph"] == "X"]
    out = {row["args"]["coflow"]: row["tid"] for row in rows if row["tid"] < 2}
    assert out == {"a": 0, "b": 1, "c": 0}
    assert {row["args"]["phase"] for row in rows if row["args"]["coflow"] == "b"} == {"dark"}


def test_without_circuits_there_is_nothing():
    assert optical_rows([], process=1) == []
