"""A job whose input is looked up, while blocks of it move."""

from __future__ import annotations

import msgspec

from railyard.cluster.ids import JobId
from railyard.dfs.messages.files import BlockLocation, BlocksLocated, FileBlocks
from railyard.resourcemanager.interface.events import StagePlan
from railyard.resourcemanager.interface.forecast import Forecast, StageForecast
from railyard.resourcemanager.process.messages import SubmitJob
from railyard.resourcemanager.process.submission import Submission, submitted
from tests.resourcemanager.standins import MAPS_AND_REDUCE, PACKAGE


def test_a_job_that_looks_up_its_input_hears_of_a_block_that_moves_meanwhile():
    located = BlockLocation(block=1, stored_offset=0, stored_length=70, nodes=("r0n0",))
    file = FileBlocks(path="/in", stored_length=70, blocks=(located,))
    asked: list[tuple[object, object]] = []

    class NameNode:
        def insist(self, message: object, _: object, on_answer: object) -> None:
            asked.append((message, on_answer))

    job = SubmitJob(name="w", package=PACKAGE, stages=MAPS_AND_REDUCE, input_paths=("/in", "/in2"))
    ready: list[object] = []
    ended: list[bool] = []
    submission = Submission(job, 10, lambda stages, files: ready.append((stages, files)), print)
    submission.on_end = lambda: ended.append(True)
    submission.begin(NameNode())
    (_, first), (_, second) = asked
    first(BlocksLocated(folder=False, files=(file,)), None)
    submission.moved("/in", 0, ("r2n0",))
    submission.moved("/in", 7, ("r3n0",))  # of a file that had more blocks
    assert ready == ended == []
    second(BlocksLocated(folder=False, files=(msgspec.structs.replace(file, path="/in2"),)), None)
    [(stages, files)] = ready
    assert [task.nodes for task in stages[0].inputs] == [("r2n0",), ("r0n0",)]
    assert [found.blocks[0].nodes for found in files] == [("r2n0",), ("r0n0",)]
    assert ended == [True]


def test_a_forecast_of_other_stages_is_left_aside_with_a_warning(caplog):
    maps, reduces = StagePlan(name="m", tasks=2), StagePlan(name="r", reads=("m",), tasks=1)
    predicted = StageForecast(name="m", tasks=9, input_bytes=0, output_bytes=0)
    forecast = Forecast(name="daily", stages=(predicted,))
    job = SubmitJob(name="w", package=PACKAGE, stages=MAPS_AND_REDUCE, forecast=forecast)
    assert submitted(JobId("j0"), job, (maps,)).forecast == forecast, "tasks may be more or fewer"
    assert caplog.messages == []
    assert submitted(JobId("j0"), job, (maps, reduces)).forecast is None
    assert caplog.messages == [
        "job w: its forecast is of other stages (m) than it has (m, r): left aside"
    ]
