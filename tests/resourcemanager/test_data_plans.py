"""Where data goes is asked before it is written: the policy answers, the core checks."""

from __future__ import annotations

import pytest

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import RackId
from railyard.resourcemanager.interface.commands import PlaceData
from railyard.resourcemanager.interface.decisions import InvalidDecision
from railyard.resourcemanager.interface.events import DataAnnounced
from railyard.resourcemanager.interface.policies import DataPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.schedulers.fair import FairOrder
from tests.harness import TinyCluster, tiny_cluster


class LargeFilesApart(DataPolicy):
    """Each replica of a large file in a rack of its own."""

    def replica_racks(self, data):
        if data.path == "/nowhere":
            return [["r7"]]
        if data.path == "/broken":
            raise KeyError("oops")
        return [[RackId("r0")], [RackId("r1")], []] if data.size_bytes > 100 else []


RECIPE = Recipe(name="apart", source="a test", order=FairOrder, data=LargeFilesApart)


def placed(c: TinyCluster, path: str, size_bytes: int) -> PlaceData:
    c.feed(DataAnnounced(path=path, size_bytes=size_bytes))
    command = c.commands[-1][1]
    assert isinstance(command, PlaceData)
    return command


def test_the_policy_names_racks_for_each_replica():
    c = tiny_cluster(racks=2, scheduler=RECIPE)
    assert placed(c, "/in", 101).racks == (("r0",), ("r1",), ())
    assert placed(c, "/in", 100).racks == ()


def test_by_default_the_block_store_goes_by_its_own_rule():
    assert placed(tiny_cluster(), "/in", 10**9).racks == ()


def test_wrong_answers_and_wrong_questions_are_refused():
    c = tiny_cluster(racks=2, scheduler=RECIPE)
    with pytest.raises(InvalidDecision, match=r"apart/data placed /nowhere in r7 at 0.000 s, but"):
        placed(c, "/nowhere", 1)
    with pytest.raises(InvalidDecision, match=r"apart/data failed at 0.000 s, placing /broken: Ke"):
        placed(c, "/broken", 1)
    with pytest.raises(PeerError, match="/in: size_bytes = -1: need bytes >= 0"):
        placed(c, "/in", -1)


def test_a_job_passes_racks_on_to_those_who_write_its_output():
    c = tiny_cluster(racks=2)
    racks = ((RackId("r1"),), (RackId("r0"),))
    c.submit("j0", reduces=1, output_racks=racks)
    c.run()
    launched = {order.task.stage: order.task.output_racks for order in c.launched()}
    assert launched == {"m": (), "r": racks}
