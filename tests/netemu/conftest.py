"""An emulator in a process of its own, and a client of it."""

import pytest

from railyard.benchmarks._network.emulated import EmulatedNetwork
from railyard.netemu.client import NetworkClient
from tests.netemu.topologies import three_racks


@pytest.fixture
def run_folders(tmp_path_factory, monkeypatch):
    home = tmp_path_factory.mktemp("n")
    monkeypatch.setenv("RAILYARD_HOME", str(home))
    return home


@pytest.fixture
def network(run_folders):
    with EmulatedNetwork(three_racks()) as network:
        yield network
    assert list(run_folders.glob("clusters/c-*")) == []


@pytest.fixture
def client(network):
    client = NetworkClient(network.transport, network.topology)
    yield client
    client.close()
