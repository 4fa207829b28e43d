"""Who gets which grants, in virtual time."""

import itertools

import pytest

from railyard.netemu.emulator.grants import (
    GRANT_AFTER_S,
    IDLE_CHECK_AFTER_S,
    KEEP_S,
    SLOW_AT_ONCE,
    TICK_S_MIN,
    TICK_S_MIN_EACH,
    Ledger,
)
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.messages import RegisterCoflow
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.schedulers import flow_scheduler
from railyard.netemu.schedulers.maxmin import MaxMin
from railyard.oracles.orders import carry_out
from tests.netemu.topologies import network_of

ANN, BOB = b"ann", b"bob"


def ledger_of(policy):
    return Ledger(Fabric(network_of(2, 2, "8Mbps", "8Mbps"), policy), scale=1)


@pytest.fixture
def ledger():
    return ledger_of(MaxMin())


def spec(flow, size_bytes=10**6, src="r0n0", dst="r1n0", coflow=None):
    return FlowSpec(flow=flow, src=src, dst=dst, size_bytes=size_bytes, coflow=coflow)


def run(ledger, until_s):
    """Take every turn until then: [(time, peer, {flow: total}, finished)]."""
    granted = []
    while ledger.next_due_s() <= until_s:
        ledger.advance(ledger.next_due_s())
        for peer, grants in ledger.take_grants().items():
            granted.append((ledger.fabric.now_s, peer, dict(grants.total_bytes), grants.finished))
    ledger.advance(until_s)
    return granted


def test_a_flow_gets_its_last_grant_when_it_finishes_in_the_model(ledger):
    ledger.open(spec("a", size_bytes=123_457), ANN)
    granted = run(ledger, 1.0)
    assert granted[-1] == (pytest.approx(0.123457), ANN, {}, ("a",))
    assert max(ledger.lags) <= 1


def test_a_small_flow_does_not_wait_for_a_tick(ledger):
    ledger.open(spec("a", size_bytes=100), ANN)
    assert run(ledger, 1.0) == [(pytest.approx(1e-4), ANN, {}, ("a",))]
    assert TICK_S_MIN > 1e-4


def test_grants_are_totals_that_follow_time_however_late_they_are_made(ledger):
    ledger.open(spec("a"), ANN)
    ledger.advance(0.7)  # nothing was checked for 0.7 s
    assert ledger.take_grants()[ANN].total_bytes == {"a": 700_000}
    granted = run(ledger, 2.0)
    totals = [total["a"] for _, _, total, _ in granted if total]
    assert totals == sorted(totals)
    for when_s, _, total, _ in granted:
        for granted_bytes in total.values():
            assert granted_bytes <= when_s * 1e6 + 1
    assert granted[-1] == (pytest.approx(1.0), ANN, {}, ("a",))


def test_slow_flows_get_grants_seldom_and_few_at_a_time(ledger):
    flows = [f"f{number}" for number in range(100)]
    for flow in flows:
        ledger.open(spec(flow), ANN)
    granted = run(ledger, 3.0)
    for flow in flows:
        times = [when_s for when_s, _, total, _ in granted if flow in total]
        assert 2 <= len(times) <= 3.0 / GRANT_AFTER_S + 1
    assert max(len(total) for _, _, total, _ in granted) == SLOW_AT_ONCE


def test_many_slow_flows_are_checked_less_often(ledger):
    many = 1000
    for number in range(many):
        ledger.open(spec(f"f{number}"), ANN)
    checked_s = [when_s for when_s, *_ in run(ledger, 2.0)]
    gaps_s = [later - earlier for earlier, later in itertools.pairwise(checked_s)]
    assert many * TICK_S_MIN_EACH > TICK_S_MIN
    assert len(gaps_s) > 50
    assert min(gaps_s) >= many * TICK_S_MIN_EACH * 0.999


def test_a_flow_that_another_opened_keeps_its_clock_until_its_sender_comes(ledger):
    ledger.open(spec("a"), None)
    assert run(ledger, 0.4) == []
    ledger.attach("a", ANN)
    assert run(ledger, 0.4) == [(0.4, ANN, {"a": 400_000}, ())]
    assert run(ledger, 2.0)[-1] == (pytest.approx(1.0), ANN, {}, ("a",))


def test_a_sender_that_comes_after_the_end_gets_everything_at_once(ledger):
    ledger.open(spec("a"), None)
    run(ledger, 5.0)
    ledger.attach("a", ANN)
    assert run(ledger, 5.0) == [(5.0, ANN, {}, ("a",))]


def test_a_sender_may_come_before_its_flow(ledger):
    ledger.attach("a", ANN)
    run(ledger, 1.0)
    ledger.open(spec("a"), None)
    assert run(ledger, 3.0)[-1] == (pytest.approx(2.0), ANN, {}, ("a",))


def test_time_that_stands_still_finishes_what_takes_no_time(ledger):
    ledger.open(spec("empty", size_bytes=0), ANN)
    assert run(ledger, 0.0) == [(0.0, ANN, {}, ("empty",))]


def test_an_idle_flow_is_granted_its_first_bytes_at_once(ledger):
    ledger.set_capacity("r0.up", 0.0)
    ledger.open(spec("a"), ANN)
    assert run(ledger, 0.3) == []
    ledger.set_capacity("r0.up", 1e6)
    granted = run(ledger, 0.31)
    assert granted == [
        (pytest.approx(0.3 + IDLE_CHECK_AFTER_S), ANN, {"a": pytest.approx(100, abs=1)}, ())
    ]


def test_a_flow_is_idle_again_when_another_takes_its_bandwidth():
    ledger = ledger_of(flow_scheduler("sjf"))
    ledger.open(spec("long"), ANN)
    run(ledger, 0.5)
    ledger.open(spec("short", size_bytes=100_000), BOB)
    granted = run(ledger, 0.61)
    assert granted[-2][:2] + granted[-2][3:] == (pytest.approx(0.6), BOB, ("short",))
    assert granted[-1] == (
        pytest.approx(0.6 + IDLE_CHECK_AFTER_S),
        ANN,
        {"long": pytest.approx(500_100, abs=1)},
        (),
    )


def test_each_peer_gets_its_own_flows_only(ledger):
    ledger.open(spec("a"), ANN)
    ledger.open(spec("b"), BOB)
    heard = {ANN: set(), BOB: set()}
    for _, peer, total, finished in run(ledger, 3.0):
        heard[peer] |= {*total, *finished}
    assert heard == {ANN: {"a"}, BOB: {"b"}}


@pytest.mark.parametrize(
    "attempt",
    [
        pytest.param(lambda x: x.attach("a", BOB), id="attached twice"),
        pytest.param(lambda x: x.open(spec("a"), BOB), id="opened twice"),
        pytest.param(lambda x: x.open(spec("late"), BOB), id="opened again after its end"),
        pytest.param(lambda x: x.attach("early", BOB), id="two early senders"),
        pytest.param(lambda x: x.open(spec("early"), BOB), id="owned, but has a sender"),
    ],
)
def test_a_flow_has_one_opener_and_one_sender(ledger, attempt):
    ledger.open(spec("late", size_bytes=1), None)
    run(ledger, 0.1)
    ledger.open(spec("a"), ANN)
    ledger.attach("early", ANN)
    with pytest.raises(ValueError, match=r"opened before|already"):
        attempt(ledger)


def test_a_peer_that_is_gone_frees_the_bandwidth_of_its_own_flows(ledger):
    ledger.open(spec("own"), ANN)
    ledger.open(spec("others"), None)
    ledger.attach("others", ANN)
    ledger.open(spec("b"), BOB)
    ledger.peer_gone(ANN)
    granted = run(ledger, 5.0)
    assert {peer for _, peer, _, _ in granted} == {BOB}
    assert granted[-1][0] == pytest.approx(2.0)  # shared with "others", which goes on
    assert (ledger.cancelled, ledger.finished) == (1, 2)


def test_closing_forgets_a_flow_in_every_state(ledger):
    ledger.open(spec("open"), ANN)
    ledger.open(spec("unclaimed", size_bytes=1), None)
    ledger.attach("early", BOB)
    run(ledger, 0.5)
    for flow in ("open", "unclaimed", "early", "unknown"):
        ledger.close(flow)
    assert_empty(ledger)
    assert run(ledger, 9.0) == []


def test_finishing_a_coflow_forgets_all_its_flows(ledger):
    carry_out(ledger.fabric, RegisterCoflow(coflow="j0"))
    ledger.open(spec("a", size_bytes=1, coflow="j0"), None)
    ledger.open(spec("b", coflow="j0"), ANN)
    run(ledger, 0.5)
    ledger.finish_coflow("j0")
    assert_empty(ledger)


def test_nothing_is_kept_of_flows_that_ended(ledger):
    for number in range(1000):
        ledger.open(spec(f"f{number}", size_bytes=10), ANN)
    run(ledger, 1.0)
    assert ledger.finished == 1000
    assert_empty(ledger)


def test_halves_that_wait_in_vain_are_dropped_at_last(ledger):
    ledger.attach("never-opened", ANN)
    ledger.open(spec("never-attached", size_bytes=1), None)
    run(ledger, KEEP_S - 1)
    ledger.drop_forgotten()
    with pytest.raises(AssertionError):
        assert_empty(ledger)
    run(ledger, KEEP_S + 1)
    ledger.drop_forgotten()
    assert_empty(ledger)


def assert_empty(ledger):
    kept = {
        name: value
        for name, value in vars(ledger).items()
        if isinstance(value, dict | list) and value and name != "lags"
    }
    assert kept == {}
    assert ledger.fabric.open_flows == 0


def test_a_flow_that_waits_for_a_circuit_is_granted_its_first_bytes_at_once():
    """A circuit that begins to carry is an event, whether or not NICs limit flows, too."""
    ledger = Ledger(
        Fabric(
            network_of(
                2,
                1,
                "unlimited",
                "8Mbps",
                ocs={"port_bytes_per_s": "80Mbps", "delta_s": "123ms", "elephant_bytes": "1MB"},
            ),
            flow_scheduler("sunflow"),
        ),
        scale=1,
    )
    ledger.open(spec("a", size_bytes=10**7), ANN)
    granted = run(ledger, 0.2)
    assert granted[0][0] == pytest.approx(0.123, abs=2 * IDLE_CHECK_AFTER_S)
    assert 0 < granted[0][2]["a"] < 5000


@pytest.mark.parametrize(("nic", "first_bytes"), [("unlimited", 5000), ("40Mbps", 2500)])
def test_a_late_grant_for_a_circuit_has_the_bytes_that_it_carried_meanwhile(nic, first_bytes):
    """Not only the turn after it, nor the next tick; whether NICs limit flows or circuits alone."""
    ledger = Ledger(
        Fabric(
            network_of(
                2,
                1,
                nic,
                "8Mbps",
                ocs={"port_bytes_per_s": "80Mbps", "delta_s": "23ms", "elephant_bytes": "1MB"},
            ),
            flow_scheduler("sunflow"),
        ),
        scale=1,
    )
    ledger.open(spec("a", size_bytes=10**7), ANN)
    assert run(ledger, 0.022) == []
    assert ledger.next_due_s() == pytest.approx(0.023)
    ledger.advance(0.0235)
    grants = ledger.take_grants()
    assert grants[ANN].total_bytes == {"a": pytest.approx(first_bytes, abs=1)}


def test_rates_are_computed_once_for_all_that_open_and_attach_at_once():
    ledger = ledger_of(MaxMin())
    ledger.open(spec("early"), None)
    run(ledger, 0.1)
    before = ledger.fabric.decided
    ledger.attach("early", ANN)
    for number in range(50):
        ledger.open(spec(f"f{number}", src="r0n1", dst="r1n1"), None)
        ledger.attach(f"f{number}", BOB)
        ledger.open(spec(f"own{number}", src="r0n1", dst="r1n1"), BOB)
    assert ledger.next_due_s() == 0.1
    granted = ledger.take_grants()
    assert ledger.fabric.decided == before  # what has been sent is known without new rates
    assert granted.keys() == {ANN}
    assert granted[ANN].total_bytes == {"early": pytest.approx(100_000, abs=1)}
    assert ledger.next_due_s() > 0.1
    assert ledger.take_grants() == {}
    assert ledger.fabric.decided == before + 1


# Senders that come back over another connection --------------------------------------------------
def test_a_sender_that_came_back_gets_its_grants_from_the_beginning(ledger):
    ledger.open(spec("a"), ANN)
    run(ledger, 0.5)
    ledger.open(spec("a"), BOB, again=True)
    granted = run(ledger, 2.0)
    assert (granted[0][1], granted[0][2]) == (BOB, {"a": pytest.approx(500_000, rel=0.01)})
    assert granted[-1] == (pytest.approx(1.0), BOB, {}, ("a",))
    assert ledger.opened == 1


def test_a_flow_that_is_not_known_is_opened_again(ledger):
    ledger.open(spec("a", size_bytes=1000), ANN, again=True)
    assert run(ledger, 1.0)[-1][3] == ("a",)


def test_an_order_given_twice_changes_nothing(ledger):
    for again in (False, True):
        ledger.open(spec("a", size_bytes=1000), None, again=again)
    run(ledger, 1.0)
    ledger.open(spec("a", size_bytes=1000), None, again=True)
    ledger.attach("a", ANN)
    assert run(ledger, 2.0)[-1][3] == ("a",)
    assert (ledger.opened, ledger.finished) == (1, 1)


def test_one_that_opens_again_what_nobody_sent_gets_its_end(ledger):
    ledger.open(spec("a", size_bytes=0), None)
    ledger.advance(0.1)
    ledger.open(spec("a", size_bytes=0), BOB, again=True)
    assert ledger.take_grants()[BOB].finished == ("a",)
    ledger.advance(1.0)
    assert ledger.take_grants() == {}


def test_a_sender_may_come_to_an_open_flow_at_the_very_time_of_a_tick(ledger):
    ledger.open(spec("other"), ANN)
    ledger.open(spec("a"), None)
    ledger.advance(TICK_S_MIN)
    ledger.attach("a", BOB)
    assert ledger.take_grants()[BOB].total_bytes["a"] == ledger.fabric.sent_bytes("a") > 0


def test_one_that_attached_comes_back(ledger):
    ledger.attach("early", ANN)
    ledger.attach("early", BOB, again=True)
    ledger.open(spec("early", size_bytes=1000), None)
    ledger.open(spec("a"), None)
    ledger.attach("a", ANN)
    run(ledger, 0.5)
    ledger.attach("a", BOB, again=True)
    ledger.peer_gone(ANN)
    assert {peer for _, peer, _, _ in run(ledger, 3.0)} == {BOB}


def test_one_that_comes_back_to_a_flow_that_is_over_hears_so(ledger):
    ledger.open(spec("a", size_bytes=1000), None)
    ledger.attach("a", ANN)
    run(ledger, 1.0)
    with pytest.raises(ValueError, match='flow "a" is over'):
        ledger.attach("a", BOB, again=True)


# A ResourceManager that was restarted ------------------------------------------------------------
def test_resuming_keeps_what_is_wanted_and_closes_what_is_not(ledger):
    ledger.register_coflow("old")
    ledger.register_coflow("kept")
    for flow, coflow in (("o", "old"), ("k", "kept"), ("gone", "kept"), ("block", None)):
        ledger.open(spec(flow, coflow=coflow), ANN)
    ledger.resume(["kept", "new"], [spec("k", coflow="kept")])
    assert set(ledger.coflows) == {"kept", "new"}
    assert [flow for flow in ("o", "k", "gone", "block") if ledger.fabric.is_open(flow)] == [
        "k", "block",
    ]  # fmt: skip
    assert (ledger.opened, ledger.cancelled) == (4, 2)


def test_a_flow_that_was_never_opened_is_once_its_sender_is_there(ledger):
    ledger.attach("early", ANN)
    ledger.resume(["c"], [spec("early", coflow="c"), spec("late", coflow="c")])
    assert ledger.fabric.is_open("early")
    assert not ledger.fabric.is_open("late")
    ledger.advance(0.5)
    ledger.attach("late", BOB)
    assert ledger.fabric.is_open("late")
    finished = {(peer, flow) for _, peer, _, ended in run(ledger, 9.0) for flow in ended}
    assert finished == {(ANN, "early"), (BOB, "late")}


def test_a_flow_that_is_over_is_not_opened_again(ledger):
    ledger.register_coflow("c")
    ledger.open(spec("over", size_bytes=1000, coflow="c"), ANN)
    ledger.open(spec("unclaimed", size_bytes=1000, coflow="c"), None)
    run(ledger, 1.0)
    ledger.resume(["c"], [spec("over", coflow="c"), spec("unclaimed", coflow="c")])
    ledger.resume(["c"], [spec("over", coflow="c"), spec("unclaimed", coflow="c")])
    assert ledger.opened == 2
    assert not ledger.fabric.open_flows
    ledger.attach("unclaimed", BOB)
    assert ledger.take_grants()[BOB].finished == ("unclaimed",)
    ledger.finish_coflow("c")
    ledger.attach("over", ANN)
    assert not ledger.fabric.open_flows
