"""Capacities that people change while a job runs: its transfers slow down, and can be seen to."""

import json

import pytest

from railyard.cluster.files.runfolder import RunFolder
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Done
from railyard.netemu.messages import (
    GetNetworkStats,
    NetworkStats,
    NetworkView,
    SetCapacity,
    WatchNetwork,
)
from railyard.resourcemanager.process.messages import ClusterStatus, GetClusterStatus
from tests.command_line import SMALL

MBPS = 1e6 / 8


@pytest.fixture
def transport(railyard):
    railyard.ok("up", "--topology", SMALL)
    transport = Transport(RunFolder(railyard.current()))
    yield transport
    transport.close()
    railyard.ok("down")
    assert railyard.nothing_left()


class Watched:
    """The network as it is reported to whoever subscribed."""

    def __init__(self, transport):
        self.link = transport.link("network")
        self._reactor = transport.reactor
        self.link.on(NetworkView, lambda view, _: setattr(self, "view", view))
        wish = WatchNetwork(period_s=0.05, with_rates=True)
        self.view = self.link.call(wish, NetworkView)

    def wait(self, condition):
        assert self._reactor.run_until(condition, 40), "waited in vain"

    def from_rack_0(self):
        """Rates of shuffle flows of terasort that leave rack 0 once its uplink is slow."""
        return {
            flow: rate
            for flow, rate in self.view.rates_bytes_per_s.items()
            if flow.startswith("j2.r") and ":r0n" in flow and 0 < rate <= 10 * MBPS
        }

    def carried(self):
        """Seconds with open flows, and what the uplink of rack 0 carried in them."""
        stats = self.link.call(GetNetworkStats(), NetworkStats)
        return stats.active_s, stats.cross_rack_links["r0.up"]


class ResourceManager:
    """What the ResourceManager says is there."""

    def __init__(self, transport):
        self._link = transport.link("resourcemanager")

    def jobs(self):
        return {job.job for job in self._link.call(GetClusterStatus(), ClusterStatus).jobs}


def test_a_running_transfer_slows_with_its_link_and_the_view_shows_it(
    railyard, transport, tmp_path
):
    network, resource_manager = Watched(transport), ResourceManager(transport)
    report = tmp_path / "t.json"
    job = railyard.start("run", "terasort", "--size", "1GB", "--json", report)
    network.wait(lambda: "j2" in resource_manager.jobs())  # its maps will work for a while
    network.link.call(SetCapacity(link="r0.up", bytes_per_s=10 * MBPS), Done)  # so that it lasts
    network.wait(lambda: network.from_rack_0())
    flow, rate = next(iter(network.from_rack_0().items()))
    assert network.view.links["r0.up"].free_bytes_per_s == pytest.approx(0, abs=1)
    said = railyard.ok("network", "set", "r0.up", "1Mbps")
    assert "r0.up carries 1 Mbps, stated 10 Gbps" in said
    network.wait(lambda: network.view.links["r0.up"].capacity_bytes_per_s == MBPS)
    assert network.view.rates_bytes_per_s[flow] < rate / 2
    assert sum(network.from_rack_0().values()) <= MBPS * 1.001
    shown = " ".join(railyard.ok("network", "show").split())
    assert "Gbps Gbps Gbps Gbps" in shown
    assert "r0.up 0.001 10.0 0.001" in shown

    began_s, before = network.carried()
    transport.reactor.run_until(lambda: False, 1.0)
    ended_s, after = network.carried()
    assert 0 < after - before <= (ended_s - began_s) * MBPS + 2
    assert job.poll() is None

    railyard.ok("network", "set", "r0.up", "default")
    assert job.wait(60) == 0, job.communicate()
    assert json.loads(report.read_text())["verified"] is True
    job.communicate()


def test_a_job_that_waits_for_a_stopped_link_says_so_and_goes_on_once_it_carries(
    railyard, transport
):
    link = transport.link("network")
    link.call(SetCapacity(link="r1.up", bytes_per_s=0.0), Done)
    job = railyard.start("run", "terasort", "--size", "1GB")
    said = next(line for line in job.stderr if "nothing has gone on" in line)
    assert "links that carry nothing: r1.up (railyard network set LINK default)" in said
    railyard.ok("network", "set", "r1.up", "default")
    out, errors = job.communicate(timeout=100)
    assert job.returncode == 0, out + errors
