"""What there is to choose from."""

import json

import pytest

from railyard.cluster.topology import load_topology
from railyard.resourcemanager.schedulers import all_recipes
from railyard.scripts.commands import bench
from railyard.scripts.commands.lists.settings import settings_of_recipe


def test_schedulers_name_their_papers_and_settings(railyard):
    said = railyard.ok("schedulers")
    for words in ("delay\n    Zaharia et al., EuroSys 2010", "delay.node_wait_s", "maxmin"):
        assert words in said
    assert "Without --flow-scheduler it is maxmin, unless it says above" in said


def test_topologies_tell_their_figures(railyard):
    said = " ".join(railyard.ok("topologies").split())
    assert "hybrid-8x4" in said
    assert "4 racks x 4 nodes x 1 slots; NIC 10 Gbps, uplink 40 Gbps; scale 1000" in said
    assert "circuits 100 Gbps, set up in 10.0 ms, from 1.12 GB on; scale 1000" in said
    assert "uplink 30 Gbps, 50% of the core already taken off for other traffic" in said
    assert "8 sites x 1 nodes x 4 to 16 slots; NIC unlimited, uplink 100 Mbps to 1 Gbps" in said
    assert "switches 3 Gbps / 2 Gbps / 2 Gbps" in said


def test_a_topology_is_shown_with_its_sites(railyard, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    rows = [line.split() for line in railyard.ok("topologies", "tetrium-8").splitlines()]
    [tokyo] = [row for row in rows if "Tokyo" in row]
    place = load_topology("tetrium-8").rack_list()[5]
    rates_gbps = [place.uplink_bytes_per_s * 8e-9, place.downlink_bytes_per_s * 8e-9]
    assert tokyo[:4] == ["r5", "Tokyo", "1", str(place.nodes[0].slots)]
    assert [float(number) for number in tokyo[4:]] == pytest.approx(rates_gbps, abs=0.005)
    assert any(row[:3] == ["r0", "to", "r6"] for row in _rows(railyard, "corral-7x30"))
    assert "unknown topology" in railyard.call("topologies", "tetrium-9").stderr


def _rows(railyard, name):
    return [line.split() for line in railyard.ok("topologies", name).splitlines()]


def test_every_benchmark_can_be_named():
    assert {"startup", "fidelity", "engine", "coflows", "fabric"} <= set(bench.benchmark_names())


def test_bench_writes_its_rows_and_fails_with_a_broken_bound(monkeypatch, tmp_path, capsys):
    row = {"name": "x", "value": 2.0, "unit": "s", "reference": 1.0, "ratio": 2.0, "bound": 1.5}

    class Module:
        run = staticmethod(lambda quick: [{**row, "ok": False, "note": "too slow"}])

    monkeypatch.setattr(bench.importlib, "import_module", lambda _: Module)
    file = tmp_path / "rows.json"
    status = bench.bench.main(["startup", "--json", str(file)], standalone_mode=False)
    assert status == 1
    assert json.loads(file.read_text())[0]["ratio"] == 2.0
    assert "BROKEN" in capsys.readouterr().out


def test_every_setting_says_what_it_does():
    for recipe in all_recipes().values():
        for setting in settings_of_recipe(recipe):
            assert len(setting.meaning) > 10, setting.name
            assert setting.default not in ("{}", "None", "")


def test_choices_of_a_setting_are_named(railyard):
    said = " ".join(railyard.call("schedulers", "tetrium", "--settings").stdout.split())
    assert "tetrium.map_order=remote-first whether" in said
    assert "remote-first or local-first" in said


@pytest.mark.parametrize("columns", ["60", "80"])
@pytest.mark.parametrize(
    "command",
    [
        ["schedulers", "--settings"],
        ["topologies"],
        ["topologies", "tetrium-8"],
        ["workloads"],
        ["schedulers"],
    ],
)
def test_lists_fit_the_terminal(railyard, monkeypatch, command, columns):
    monkeypatch.setenv("COLUMNS", columns)
    lines = railyard.call(*command).stdout.splitlines()
    assert lines
    for line in lines:
        one_word = len(line.split()) == 1
        assert len(line) <= int(columns) or one_word, line


def test_settings_are_listed_with_defaults_and_what_they_do(railyard):
    said = " ".join(railyard.ok("schedulers", "corral", "shadow", "--settings").split())
    for words in (
        "corral Jalaparti et al., SIGCOMM 2015",
        "corral.work_conserving=false a job may have slots elsewhere",
        "the published effect holds with tasks that keep to R_j",
        "shuffle.slowstart=0.05 share of the tasks read",
        "shuffle.slowstart=0.8",
        "corral.node_wait_s=5 how long a job holds out",
    ):
        assert words in said
    assert "tetrium" not in said
    wrong = railyard.run("schedulers", "coral")
    assert (wrong.returncode, 'did you mean "corral"' in wrong.stderr) == (2, True)
