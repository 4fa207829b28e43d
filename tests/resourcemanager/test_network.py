"""Links between racks as policies see them: as stated, then as observed; and only if they ask."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import InvariantError, PeerError, UsageError
from railyard.cluster.messaging.wire import Done
from railyard.cluster.runfolder import RunFolder
from railyard.netemu.messages import LinksObserved, SetCapacity
from railyard.netemu.model.network import LinkState
from railyard.netemu.schedulers.maxmin import MaxMin
from railyard.oracles.invariants import check_core
from railyard.resourcemanager.driving import coredriver
from railyard.resourcemanager.driving.eventlog import EventLog, replay
from railyard.resourcemanager.interface.recipe import LinksConfig, option_names, read_links_options
from railyard.resourcemanager.process.network import Outages
from railyard.resourcemanager.schedulers import all_recipes, recipe_named
from tests.harness import tiny_cluster
from tests.resourcemanager.standins import Office
from tests.resourcemanager.toys import FREEST, FreestRack

GB = 1e9


def link(capacity: float, free: float) -> LinkState:
    return LinkState(capacity_bytes_per_s=capacity, free_bytes_per_s=free)


def observed(**links: LinkState) -> LinksObserved:
    return LinksObserved(links={name.replace("_", "."): each for name, each in links.items()})


def test_policies_see_links_as_stated_then_as_observed():
    c = tiny_cluster(racks=2, nodes=1, scheduler=FREEST)
    tasks = c.core.state.policies.tasks
    assert isinstance(tasks, FreestRack)
    assert tasks.cluster.links == dict.fromkeys(
        ("r0.up", "r0.down", "r1.up", "r1.down"), link(GB, GB)
    )
    c.at(2.0, lambda: c.feed(observed(r0_down=link(GB, 0.5 * GB), r0_up=link(0.0, 0.0))))
    c.run()
    assert tasks.seen == [(2.0, {"r0.down": link(GB, 0.5 * GB), "r0.up": link(0.0, 0.0)})]
    assert tasks.cluster.links["r0.down"] == link(GB, 0.5 * GB)
    assert tasks.cluster.links["r1.down"] == link(GB, GB)


def test_what_is_observed_decides():
    c = tiny_cluster(racks=3, nodes=2, slots=2, scheduler=FREEST)
    c.feed(observed(r0_down=link(GB, 0.2 * GB), r2_down=link(2 * GB, 1.5 * GB)))
    c.submit("j0", maps=3, reduces=2, map_s=1)
    assert set(c.run().nodes_of("j0.r")) <= {"r2n0", "r2n1"}


def test_only_those_who_use_the_network_have_links_and_settings():
    using = {name for name, recipe in all_recipes([]).items() if recipe.uses_network}
    those = {"centralized", "iridium", "joint", "tetris", "tetrium"}
    assert {re.split("[:+]", name)[0] for name in using} == those
    assert FREEST.uses_network
    assert option_names(FREEST)[:2] == ["fair.min_slots", "fair.user_weights"]
    assert {"links.period_s", "links.change"} <= set(option_names(FREEST))
    assert read_links_options(recipe_named("fair"), {}) is None
    assert read_links_options(FREEST, {"links.period_s": 3.0}) == LinksConfig(period_s=3.0)
    c = tiny_cluster(scheduler="fair")
    assert c.core.state.links == {}
    with pytest.raises(PeerError, match=r"nobody observes r0\.up, or it is no link between racks"):
        c.feed(observed(r0_up=link(GB, GB)))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"links.period_s": 0.0}, r"links.period_s = 0.0: need seconds from 0.05 to 3600"),
        ({"links.change": 1.5}, r"links.change = 1.5: need a share in \[0, 1\]"),
        ({"links.chance": 0.5}, r'unknown scheduler option "links.chance": did you mean "links.ch'),
    ],
)
def test_wrong_settings_are_refused(options: dict[str, float], error: str):
    with pytest.raises(UsageError, match=error):
        tiny_cluster(scheduler=FREEST, options=options)
    with pytest.raises(UsageError, match="unknown scheduler option"):
        tiny_cluster(scheduler="fair", options={"links.period_s": 1.0})


@pytest.mark.parametrize(
    ("links", "error"),
    [
        ({"r9_up": link(GB, GB)}, "nobody observes r9.up"),
        ({"r0_up": link(GB, 2 * GB)}, "r0.up can't have more free than it can carry"),
    ],
)
def test_what_cannot_be_observed_changes_nothing(links: dict[str, LinkState], error: str):
    c = tiny_cluster(scheduler=FREEST)
    before = dict(c.core.state.links)
    with pytest.raises(PeerError, match=error):
        c.feed(observed(r0_down=link(GB, 0.0), **links))
    assert c.core.state.links == before


def test_a_law_of_links_that_does_not_hold_is_found():
    c = tiny_cluster(scheduler=FREEST)
    c.core.state.links["r0.up"] = link(GB, math.inf)
    with pytest.raises(InvariantError, match=r"r0\.up has inf of 1000000000\.0 bytes/s"):
        check_core(c.core)


# The ResourceManager, with the real emulator ------------------------------------------------------
@pytest.fixture(name="listed")
def listed_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coredriver, "recipe_named", lambda _: FREEST)


def changes(folder: RunFolder) -> list[dict[str, LinkState]]:
    """The changes that were reported to the core, by its log."""
    events = [step.event for step in replay(folder.jobs / "events.jsonl")]
    return [event.links for event in events if isinstance(event, LinksObserved)]


def test_capacities_that_change_reach_the_core_and_its_log(folder: RunFolder, listed: None):
    office = Office(folder, "freest", MaxMin(), options={"links.period_s": 0.05})
    network = office.transport.link("network")
    network.call(SetCapacity(link="r0.up", bytes_per_s=0.2 * GB), Done)
    office.wait(lambda: changes(folder))
    network.call(SetCapacity(link="r0.up", bytes_per_s=GB), Done)
    office.wait(lambda: len(changes(folder)) == 2)
    assert changes(folder) == [
        {"r0.up": link(0.2 * GB, 0.2 * GB)},
        {"r0.up": link(GB, GB)},
    ]
    office.close()


def test_what_has_changed_while_the_connection_was_broken_comes_first(
    folder: RunFolder, listed: None
):
    office = Office(folder, "freest")
    office.links = {"r0.up": link(GB, GB), "r1.down": link(GB, 0.0)}
    office.break_connections()
    office.wait(lambda: changes(folder))
    office.links = {"r0.up": link(GB, GB), "r1.down": link(GB, GB)}
    office.break_connections()
    office.wait(lambda: len(changes(folder)) == 2)
    assert changes(folder) == [{"r1.down": link(GB, 0.0)}, {"r1.down": link(GB, GB)}]
    office.close()


def test_events_of_links_replay(tmp_path: Path, listed: None):
    c = tiny_cluster(racks=2, nodes=2, slots=2, scheduler=FREEST)
    c.submit("j0", maps=8, reduces=3, map_s=1)
    c.at(0.5, lambda: c.feed(observed(r0_down=link(math.inf, math.inf), r1_up=link(GB, 0.1))))
    c.run()
    log = EventLog(tmp_path / "log", ClusterConfig(topology=c.topology, scheduler="freest"))
    for (at_s, event), commands in zip(c.events, c.led_to, strict=True):
        log.write(at_s, event, commands)
    log.close()
    assert len(list(replay(tmp_path / "log"))) == len(c.events)


# For how long the network was away while jobs ran.


@pytest.mark.parametrize(
    ("begin_s", "end_s", "seconds"),
    [
        pytest.param(0.0, 10.0, 3.0, id="all of it"),
        pytest.param(1.5, 5.25, 0.75, id="parts"),
        pytest.param(2.0, 5.0, 0.0, id="not meanwhile"),
    ],
)
def test_only_the_jobs_time_counts(tmp_path, begin_s, end_s, seconds):
    outages = Outages(tmp_path / "away")
    outages.add(1.0, 2.0)
    outages.add(5.0, 7.0)
    assert outages.between_s(begin_s, end_s) == seconds


def test_the_next_resourcemanager_knows_it_and_a_line_that_was_cut_short_is_left_out(tmp_path):
    Outages(tmp_path / "away").add(1.0, 2.0)
    with open(tmp_path / "away", "a") as file:
        file.write("[5.0, 7\n")
    after = Outages(tmp_path / "away")
    after.add(8.0, 8.5)
    assert Outages(tmp_path / "away").between_s(0.0, 10.0) == 1.5


def test_a_file_that_cannot_be_written_costs_the_next_one_what_it_would_have(tmp_path):
    outages = Outages(tmp_path / "no-folder" / "away")
    outages.add(1.0, 2.0)
    assert outages.between_s(0.0, 10.0) == 1.0
    assert Outages(tmp_path / "no-folder" / "away").between_s(0.0, 10.0) == 0.0
