"""Circuits in the network under ``sunflow``: the published example, bounds, failures, NICs."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.messages import CloseFlow, RegisterCoflow, SetCapacity
from railyard.netemu.model.flows import CircuitState, FlowSpec
from railyard.netemu.schedulers import flow_scheduler
from railyard.oracles.lowerbound import circuit_times_s, lower_bound_s
from railyard.oracles.orders import carry_out, open_flows
from tests.netemu.topologies import ends_of_all, network_of

GB = 10**9


def fabric(racks=3, nodes=1, nic="unlimited", delta_s=0.0, elephant="1B", wavelengths=1, **more):
    """A circuit carries 1 GB a second, and so does a rack's packet-switched uplink."""
    return Fabric(
        network_of(
            racks,
            nodes,
            nic,
            "8Gbps",
            ocs={
                "port_bytes_per_s": "8Gbps",
                "delta_s": f"{delta_s}s",
                "elephant_bytes": elephant,
                "wavelengths": wavelengths,
                **more,
            },
        ),
        flow_scheduler("sunflow"),
    )


def start(f, coflow, src, dst, size_bytes, name="", **more):
    open_flows(
        f,
        FlowSpec(
            flow=f"{coflow}/{name or f'{src}>{dst}'}",
            src=src if isinstance(src, str) else f"r{src}n0",
            dst=dst if isinstance(dst, str) else f"r{dst}n0",
            size_bytes=size_bytes,
            coflow=coflow,
            **more,
        ),
    )


def begin(f, coflow, sizes):
    carry_out(f, RegisterCoflow(coflow=coflow))
    for (src, dst), size_bytes in sizes.items():
        start(f, coflow, src, dst, size_bytes)


def ends_of_coflows(f):
    ends = {}
    for flow, end_s in ends_of_all(f).items():
        coflow = flow.split("/")[0]
        ends[coflow] = max(end_s, ends.get(coflow, 0.0))
    return ends


def placed(maps, reduces):
    """Units from rack to rack: each map sends one to each reduce."""
    return {
        (src, dst): m * r * GB
        for src, m in enumerate(maps)
        for dst, r in enumerate(reduces)
        if src != dst and m * r
    }


DELTAS = [0.0, 0.01, 0.1, 0.5]


@pytest.mark.parametrize("delta_s", DELTAS)
def test_co_scheduler_fig_2_case_1(delta_s):
    f = fabric(delta_s=delta_s)
    begin(f, "Job1", placed((3, 3, 3), (0, 2, 1)))
    begin(f, "Job2", placed((5, 5, 5), (2, 0, 1)))
    expected = {"Job1": 12 + 2 * delta_s, "Job2": 20 + 3 * delta_s}
    assert ends_of_coflows(f) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("delta_s", DELTAS)
def test_co_scheduler_fig_2_case_2(delta_s):
    f = fabric(delta_s=delta_s)
    begin(f, "Job1", placed((3, 3, 3), (1, 1, 1)))
    begin(f, "Job2", placed((5, 5, 5), (1, 1, 1)))
    expected = {"Job1": 6 + 2 * delta_s, "Job2": 16 + 3 * delta_s}
    assert ends_of_coflows(f) == pytest.approx(expected, abs=1e-9)
    assert f.bytes_by_category()["ocs"] == 48 * GB


SIZES = st.dictionaries(
    st.tuples(st.integers(0, 4), st.integers(0, 4)).filter(lambda pair: pair[0] != pair[1]),
    st.integers(1, 9).map(lambda units: units * GB),
    min_size=1,
)


@given(sizes=SIZES, delta_s=st.sampled_from([0.0, 0.1, 1.0]), wavelengths=st.sampled_from([1, 2]))
def test_a_coflow_alone_ends_between_its_bound_and_twice_that(sizes, delta_s, wavelengths):
    f = fabric(racks=5, delta_s=delta_s, wavelengths=wavelengths)
    begin(f, "C", sizes)
    end_s = ends_of_coflows(f)["C"]
    matrix = [[sizes.get((src, dst), 0) for dst in range(5)] for src in range(5)]
    least_s = lower_bound_s(matrix, GB, delta_s, wavelengths)
    assert end_s >= least_s - 1e-9
    # a pair is not split, so with wavelengths the longest one counts, too
    longest_s = max(sizes.values()) / GB + delta_s
    assert end_s <= 2 * max(least_s, longest_s) + 1e-9 if wavelengths > 1 else 2 * least_s + 1e-9
    assert f.bytes_by_category()["ocs"] == sum(sizes.values())


@given(
    coflows=st.lists(st.tuples(SIZES, st.integers(0, 8)), min_size=1, max_size=5),
    delta_s=st.sampled_from([0.0, 0.5]),
    wavelengths=st.sampled_from([1, 2]),
)
def test_no_port_ever_has_more_circuits_than_it_can(coflows, delta_s, wavelengths):
    """Every circuit that carries was dark for δ before; each port has at most W, dark ones too."""
    f = fabric(racks=5, delta_s=delta_s, wavelengths=wavelengths)
    coming = sorted(((at / 2, str(n), sizes) for n, (sizes, at) in enumerate(coflows)))
    for at_s, name, sizes in coming:
        f.handle(None, at_s)
        begin(f, name, sizes)
    ends_of_all(f)
    assert f.bytes_by_category()["cross_rack"] == sum(sum(s.values()) for _, _, s in coming)
    seen, changes = f.circuit_changes()
    assert seen == len(changes)
    assert all(one.at_s <= other.at_s for one, other in pairwise(changes))
    there = {}  # {circuit: its racks}
    ready_s = {}  # {circuit: when it may carry}
    for change in changes:
        if change.what == "down":
            del there[change.circuit]
            continue
        if change.circuit not in there:
            ready_s[change.circuit] = change.at_s + delta_s
        there[change.circuit] = (change.src, change.dst)
        assert change.what == ("up" if change.at_s >= ready_s[change.circuit] else "set-up")
        for side in (0, 1):
            ends = [pair[side] for pair in there.values()]
            assert ends.count(there[change.circuit][side]) <= wavelengths


def test_nothing_is_sent_while_a_circuit_is_set_up():
    f = fabric(delta_s=0.5)
    begin(f, "A", {(0, 1): GB})
    f.handle(None, 0.4)
    assert f.sent_bytes("A/0>1") == 0
    assert f.rate_bytes_per_s("A/0>1") == 0
    [circuit] = f.circuits()
    assert circuit == CircuitState("r0", "r1", "A", 0.5)
    f.handle(None, 0.75)
    assert f.sent_bytes("A/0>1") == GB // 4
    assert ends_of_all(f) == {"A/0>1": pytest.approx(1.5)}


def test_small_pairs_go_by_packets():
    """Two flows of .6 GB each are an elephant of 1 GB together; one is none."""
    f = fabric(nodes=2, elephant="1GB")
    for coflow in "AB":
        carry_out(f, RegisterCoflow(coflow=coflow))
    start(f, "A", "r0n0", "r1n0", 600_000_000, "1")
    start(f, "A", "r0n1", "r1n1", 600_000_000, "2")
    start(f, "B", "r0n0", "r2n0", 600_000_000)
    ends = ends_of_all(f)
    assert ends == {
        "A/1": pytest.approx(1.2),
        "A/2": pytest.approx(1.2),
        "B/r0n0>r2n0": pytest.approx(0.6),
    }
    assert f.bytes_by_category() | {"local": 0} == {
        "local": 0,
        "rack": 0,
        "cross_rack": 1_800_000_000,
        "eps": 600_000_000,
        "ocs": 1_200_000_000,
        "wan": 0,
    }


def test_what_grows_to_an_elephant_changes_to_a_circuit_and_stays_there():
    """.5 GB by packets until .25 s; then .25 + .75 left, by circuit from .35 s on."""
    f = fabric(delta_s=0.1, elephant="1GB")
    carry_out(f, RegisterCoflow(coflow="A"))
    ends = {"src": "r0n0", "dst": "r1n0", "coflow": "A"}
    open_flows(f, FlowSpec(flow="first", size_bytes=500_000_000, **ends))
    f.handle(None, 0.25)
    open_flows(f, FlowSpec(flow="large", size_bytes=750_000_000, **ends))
    assert f.circuits()[0].ready_s == pytest.approx(0.35)
    assert [ended.flow for ended in f.handle(None, 0.85)] == ["first"]
    open_flows(f, FlowSpec(flow="small", size_bytes=100_000_000, **ends))  # by the circuit, too
    assert ends_of_all(f) == pytest.approx({"small": 1.05, "large": 1.45})
    moved = f.bytes_by_category()
    assert (moved["eps"], moved["ocs"]) == (250_000_000, 1_100_000_000)
    by_link = f.bytes_by_link()
    assert (by_link["r0.up"], by_link["r0.ocs.up"]) == (250_000_000, 1_100_000_000)


def test_a_failed_port_s_bytes_go_by_packets_and_come_back():
    """By circuit until 1 s, by packets until 2 s, then again, δ later."""
    f = fabric(delta_s=0.5, elephant="1GB")
    begin(f, "A", {(0, 1): 4 * GB})
    f.handle(None, 1.0)
    carry_out(f, SetCapacity(link="r1.ocs.down", bytes_per_s=0))
    assert f.rate_bytes_per_s("A/0>1") == GB
    assert f.circuits() == []
    f.handle(None, 2.0)
    carry_out(
        f, SetCapacity(link="r1.ocs.down", bytes_per_s=2 * GB)
    )  # the other port still carries 1 GB/s
    assert f.rate_bytes_per_s("A/0>1") == 0
    assert ends_of_all(f) == {"A/0>1": pytest.approx(5.0)}
    moved = f.bytes_by_category()
    assert (moved["eps"], moved["ocs"]) == (GB, 3 * GB)


def test_what_is_no_elephant_any_more_stays_with_packets():
    f = fabric(elephant="1GB")
    begin(f, "A", {(0, 1): 2 * GB})
    f.handle(None, 0.5)
    carry_out(f, SetCapacity(link="r0.ocs.up", bytes_per_s=0))
    f.handle(None, 1.5)
    carry_out(f, SetCapacity(link="r0.ocs.up", bytes_per_s=GB))
    ends_of_all(f)
    assert f.bytes_by_category()["ocs"] == 500_000_000


def test_a_slower_port_slows_its_circuit():
    f = fabric()
    begin(f, "A", {(0, 1): 2 * GB})
    f.handle(None, 1.0)
    carry_out(f, SetCapacity(link="r0.ocs.up", bytes_per_s=GB / 2))
    assert ends_of_all(f) == {"A/0>1": pytest.approx(3.0)}


def test_the_shorter_coflow_goes_first_and_the_longer_fills_gaps():
    """B cuts A at 1 s, for 1 s; δ is paid for every change of circuits."""
    f = fabric(delta_s=0.1)
    begin(f, "A", {(0, 1): 5 * GB})
    f.handle(None, 1.1)
    begin(f, "B", {(0, 2): GB})
    ends = ends_of_all(f)
    assert ends == {"B/0>2": pytest.approx(2.2), "A/0>1": pytest.approx(2.3 + 4.0)}


def test_a_circuit_that_carries_is_used_again_by_another_coflow():
    f = fabric(delta_s=0.5)
    begin(f, "A", {(0, 1): GB})
    begin(f, "B", {(0, 1): 2 * GB})
    assert ends_of_all(f) == {"A/0>1": pytest.approx(1.5), "B/0>1": pytest.approx(3.5)}


def test_nics_are_shared_by_packets_and_circuits():
    """The NIC of r0n0 (1 GB/s) feeds a circuit and two small flows by packets: a third for each.

    The latter end at .3 s; then the circuit has all: .9 GB left of 1 GB.
    """
    f = fabric(racks=4, nic="8Gbps", elephant="1GB")
    carry_out(f, RegisterCoflow(coflow="A"))
    carry_out(f, RegisterCoflow(coflow="B"))
    start(f, "A", 0, 1, GB)
    start(f, "B", 0, 2, 100_000_000)
    start(f, "B", 0, 3, 100_000_000)
    assert f.rate_bytes_per_s("A/0>1") == pytest.approx(GB / 3)
    ends = ends_of_all(f)
    assert ends == {
        "A/0>1": pytest.approx(1.2),
        "B/0>2": pytest.approx(0.3),
        "B/0>3": pytest.approx(0.3),
    }


def test_a_nic_that_gets_a_limit_slows_its_circuit():
    f = fabric()
    begin(f, "A", {(0, 1): 2 * GB})
    f.handle(None, 1.0)
    carry_out(f, SetCapacity(link="r0n0.up", bytes_per_s=GB / 4))
    assert f.rate_bytes_per_s("A/0>1") == pytest.approx(GB / 4)
    f.handle(None, 3.0)
    carry_out(f, SetCapacity(link="r0n0.up", bytes_per_s=math.inf))
    assert ends_of_all(f) == {"A/0>1": pytest.approx(3.5)}


def test_wavelengths_are_circuits_of_their_own():
    """Two pairs from one rack at once, each at a wavelength's rate; no more than W."""
    f = fabric(racks=4, wavelengths=2)
    begin(f, "A", {(0, 1): 2 * GB, (0, 2): 2 * GB, (0, 3): GB})
    assert [f.rate_bytes_per_s(f"A/0>{n}") for n in (1, 2, 3)] == [GB, GB, 0]
    assert ends_of_coflows(f) == {"A": pytest.approx(3.0)}


def test_without_an_optical_switch_all_goes_by_packets():
    f = Fabric(network_of(3, 1, "unlimited", "8Gbps"), flow_scheduler("sunflow"))
    begin(f, "A", {(0, 1): GB, (0, 2): GB})
    assert ends_of_coflows(f) == {"A": pytest.approx(2.0)}
    assert f.circuits() == []
    assert f.circuit_changes() == (0, [])


@given(
    coflows=st.lists(SIZES, min_size=2, max_size=4),
    order=st.randoms(use_true_random=False),
    elephant=st.sampled_from(["1B", "3GB"]),
)
def test_simultaneous_coflows_come_in_any_order(coflows, order, elephant):
    ends = []
    for _ in range(2):
        f = fabric(racks=5, delta_s=0.25, elephant=elephant)
        for number in range(len(coflows)):
            carry_out(f, RegisterCoflow(coflow=str(number)))
        numbers = list(range(len(coflows)))
        order.shuffle(numbers)
        for number in numbers:
            for (src, dst), size_bytes in coflows[number].items():
                start(f, str(number), src, dst, size_bytes)
        ends.append(ends_of_all(f))
    assert ends[0] == pytest.approx(ends[1], rel=1e-9)


@pytest.mark.timeout(20)
def test_flows_on_a_circuit_end_as_their_nodes_links_let_them():
    """Two senders of one rack share a circuit that neither NIC fills; one of them ends first."""
    f = fabric(nodes=3, nic="2Gbps")
    carry_out(f, RegisterCoflow(coflow="a"))
    start(f, "a", "r0n0", "r1n0", GB // 4)
    start(f, "a", "r0n1", "r1n1", GB // 2)
    ends = ends_of_all(f)
    assert ends == {
        "a/r0n0>r1n0": pytest.approx(1.0, abs=1e-6),
        "a/r0n1>r1n1": pytest.approx(2.0, abs=1e-6),
    }


@pytest.mark.parametrize("gap_s", [0.0, 0.05, 0.1])
def test_a_gap_of_delta_or_less_is_left_alone(gap_s):
    """Coflow "first" has 0 to 1, and wants 2 to 1 when that ends, at 1.1 s, until 1.7 s.

    "other" has 2 to 3; its circuit would be cut before it carries.
    """
    f = fabric(racks=4, delta_s=0.1)
    begin(f, "first", {(0, 1): 1 * GB, (2, 1): GB // 2})
    f.handle(None, 1.1 - gap_s)
    begin(f, "other", {(2, 3): 5 * GB})
    made = {(c.src, c.dst) for c in f.circuits()}
    assert ("r2", "r3") not in made
    ends = ends_of_coflows(f)
    assert ends == pytest.approx({"first": 1.7, "other": 1.7 + 0.1 + 5.0})


def test_a_gap_that_is_longer_than_delta_is_used():
    f = fabric(racks=4, delta_s=0.1)
    begin(f, "first", {(0, 1): 1 * GB, (2, 1): GB // 2})
    f.handle(None, 0.9)
    begin(f, "other", {(2, 3): 5 * GB})
    # .1 s of the gap of .2 s is dark; the rest comes after 1.7 s
    assert ends_of_coflows(f) == pytest.approx({"first": 1.7, "other": 1.7 + 0.1 + 4.9})


def test_a_gap_is_used_after_all_if_who_was_to_end_it_gives_up():
    f = fabric(racks=4, delta_s=0.1)
    begin(f, "first", {(0, 1): 1 * GB, (2, 1): GB // 2})
    f.handle(None, 1.05)
    begin(f, "other", {(2, 3): 5 * GB})
    f.next_event_s()
    for flow in f.flows_of("first"):
        if "2" in flow.split("/")[1]:
            carry_out(f, CloseFlow(flow=flow))
    ends = ends_of_coflows(f)
    assert ends["other"] <= 1.1 + 0.1 + 5.0 + 1e-9


# T(C) with the papers' numbers and against its definition.


def coflow(maps, reduces):
    """Bytes between racks if each map has one unit for each reduce."""
    return np.outer(maps, reduces)


@pytest.mark.parametrize("delta", [0.0, 0.01, 0.1, 0.5])
@pytest.mark.parametrize(
    ("maps", "reduces", "transfer_s"),
    [
        ((3, 3, 3), (0, 2, 1), 12),  # Fig. 2(a), Job1
        ((5, 5, 5), (2, 0, 1), 20),  # Fig. 2(a), Job2
        ((3, 3, 3), (1, 1, 1), 6),  # Fig. 2(b), Job1
        ((5, 5, 5), (1, 1, 1), 10),  # Fig. 2(b), Job2
    ],
)
def test_co_scheduler_fig_2(maps, reduces, transfer_s, delta):
    assert lower_bound_s(coflow(maps, reduces), 1.0, delta) == pytest.approx(transfer_s + 2 * delta)


def test_co_scheduler_s_10_gb_sort_on_two_by_two_racks():
    """Four flows of 2.5 GB over 100 Gbps: each rack has 5 GB for two circuits of 10 ms set-up."""
    racks = coflow((20, 20, 0, 0), (0, 0, 5, 5)) * 25e6
    assert racks.max() == 2.5e9 >= 1.125e9
    assert circuit_times_s(racks, 12.5e9, 0.010)[0, 2] == pytest.approx(0.21)
    assert lower_bound_s(racks, 12.5e9, 0.010) == pytest.approx(0.42)
    assert lower_bound_s(racks, 12.5e9, 0.010, wavelengths=2) == pytest.approx(0.21)


def test_nothing_to_send_takes_no_time():
    assert lower_bound_s(np.zeros((3, 3)), 1.0, 0.5) == 0.0
    assert lower_bound_s(np.diag([5.0, 6.0]), 1.0, 0.5) == 0.0  # all of it stays in its rack
    assert lower_bound_s(np.zeros((0, 0)), 1.0, 0.5) == 0.0


@given(
    st.integers(1, 6).flatmap(
        lambda n: st.lists(
            st.lists(st.integers(0, 10**12), min_size=n, max_size=n), min_size=n, max_size=n
        )
    ),
    st.floats(0, 1),
    st.integers(1, 4),
)
def test_it_is_what_the_busiest_port_needs(rows, delta, wavelengths):
    n, rate = len(rows), 12.5e9

    def needs_s(pairs):
        return sum(rows[i][j] / rate + delta for i, j in pairs if i != j and rows[i][j])

    ports = [needs_s([(i, j) for j in range(n)]) for i in range(n)]
    ports += [needs_s([(i, j) for i in range(n)]) for j in range(n)]
    expected = pytest.approx(max(ports) / wavelengths)
    assert lower_bound_s(rows, rate, delta, wavelengths) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (([[1.0, 2.0]], 1.0, 0.0), "need a square matrix"),
        (([[0.0, -1.0], [0.0, 0.0]], 1.0, 0.0), "need none below 0"),
        (([[0.0]], 0.0, 0.0), "need a rate above 0"),
        (([[0.0]], 1.0, -1.0), "need seconds >= 0"),
        (([[0.0]], 1.0, 0.0, 0), "need at least 1"),
        (([[float("nan")]], 1.0, 0.0), "need none below 0"),
    ],
)
def test_nonsense_is_refused(arguments, expected):
    with pytest.raises(ValueError, match=expected):
        lower_bound_s(*arguments)
