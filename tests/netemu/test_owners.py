import pytest

from railyard.cluster.errors import PeerError
from railyard.cluster.messaging.access.roles import (
    ATTEMPT,
    CLIENT,
    DATA_NODE,
    NODE_MANAGER,
    OWN,
    RESOURCE_MANAGER,
    Sender,
)
from railyard.netemu.emulator.owners import Owners
from railyard.netemu.messages import OpenFlow

ONE = Sender(ATTEMPT, 1, "one")
OTHER = Sender(ATTEMPT, 2, "other")
RM = Sender(RESOURCE_MANAGER, 3, "rm")


def order(**changes):
    return OpenFlow(
        **{"flow": "f", "src": "r0n0", "dst": "r1n0", "size_bytes": 1, "attach": True, **changes}
    )


def opened_by(sender):
    owners = Owners()
    owners.check_open(order(), sender)
    owners.opened("f", sender)
    return owners


def test_a_flow_is_its_openers_over_all_connections():
    owners = opened_by(ONE)
    owners.check("f", ONE)
    owners.check_open(order(again=True), ONE)
    for act in (owners.check, lambda _, who: owners.check_open(order(again=True), who)):
        with pytest.raises(PeerError, match='flow "f": belongs to another process'):
            act("f", OTHER)
    owners.check("f", RM)
    owners.check("f", Sender(NODE_MANAGER, 4, "nm"))


@pytest.mark.parametrize("role", [ATTEMPT, CLIENT, DATA_NODE])
def test_a_flow_of_a_job_is_nobody_elses(role):
    owners, stranger = opened_by(RM), Sender(role, 1, "one")
    for act in (owners.check, lambda _, who: owners.check_open(order(again=True), who)):
        with pytest.raises(PeerError, match='flow "f": belongs to another process'):
            act("f", stranger)
    owners.check_open(order(), stranger)  # that the name is taken is for others to say ...
    with pytest.raises(PeerError, match="belongs to another process"):  # ... and changes nothing
        owners.check("f", stranger)


@pytest.mark.parametrize("role", [ATTEMPT, CLIENT, DATA_NODE])
@pytest.mark.parametrize(
    "changes",
    [{"coflow": "c"}, {"weight": 1e6}, {"priority": (-1.0,)}, {"attach": False}],
    ids=lambda changes: next(iter(changes)),
)
def test_only_jobs_flows_are_more_than_others(role, changes):
    owners = Owners()
    with pytest.raises(PeerError, match="need attach=true, and neither coflow nor weight"):
        owners.check_open(order(**changes), Sender(role, 1, "one"))
    owners.check_open(order(**changes), Sender(RESOURCE_MANAGER, 1, "rm"))
    owners.check_open(order(**changes), Sender(OWN, 1, "own"))


def test_the_name_of_a_jobs_flow_is_not_taken_by_others():
    owners, fetch = Owners(), order(flow="j1.r0.0:r0n0:1")
    with pytest.raises(PeerError, match='need a name without ":"'):
        owners.check_open(fetch, ONE)
    owners.check_open(fetch, RM)


def test_what_is_over_is_nobodys():
    owners = opened_by(ONE)
    owners.forget(lambda flow: flow == "f")
    owners.check("f", OTHER)
