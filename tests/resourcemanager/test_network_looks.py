"""The network's counters when jobs began and ended."""

from __future__ import annotations

import logging
import math
from pathlib import Path

from railyard.cluster.ids import JobId
from railyard.netemu.messages import NetworkStats
from railyard.resourcemanager.process.network.looks import Looks

J1, J2 = JobId("j1"), JobId("j2")


def counted(flows: int) -> NetworkStats:
    return NetworkStats(
        active_s=1.5,
        cross_rack_room_bytes=math.inf,
        bytes={"rack": 10},
        cross_rack_links={"r0.up": 7},
        grant_lags=((1, 3), (12, 1)),
        cpu_samples=3,
        cpu_saturated=1,
        flows_opened=flows,
        flows_finished=flows,
        flows_cancelled=0,
        flows_open=0,
    )


def test_the_next_resourcemanager_knows_them(tmp_path: Path):
    before = Looks(tmp_path / "network")
    assert before.at(J1, "begin") is None
    before.note(J1, "begin", counted(1))
    before.note(J1, "end", counted(2))
    after = Looks(tmp_path / "network")
    assert (after.at(J1, "begin"), after.at(J1, "end")) == (counted(1), counted(2))
    assert after.at(J2, "begin") is None


def test_those_of_jobs_that_are_forgotten_are_removed_whoever_noted_them(tmp_path: Path):
    Looks(tmp_path / "network").note(J1, "begin", counted(1))
    looks = Looks(tmp_path / "network")
    looks.note(J2, "begin", counted(2))
    looks.keep_only({J2})
    assert looks.at(J1, "begin") is None
    assert looks.at(J2, "begin") == counted(2)
    assert [path.name for path in (tmp_path / "network").iterdir()] == ["j2.begin"]


def test_one_that_was_cut_short_or_cannot_be_written_is_not_known(tmp_path: Path, caplog):
    looks = Looks(tmp_path / "network")
    looks.note(J1, "begin", counted(1))
    file = tmp_path / "network" / "j1.begin"
    file.write_bytes(file.read_bytes()[:-5])
    assert looks.at(J1, "begin") is None
    (tmp_path / "file").touch()
    with caplog.at_level(logging.WARNING):
        Looks(tmp_path / "file").note(J1, "end", counted(1))
    assert "it will not be known" in caplog.text
