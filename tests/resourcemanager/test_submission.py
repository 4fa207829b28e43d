"""A job whose input is looked up, while blocks of it move."""

from __future__ import annotations

import msgspec

from railyard.cluster.ids import JobId
from railyard.dfs.messages import BlockLocation, BlocksLocated, FileBlocks
from railyard.jobs.model import StageSpec
from railyard.resourcemanager.interface.events import StagePlan
from railyard.resourcemanager.interface.forecast import Forecast, StageForecast
from railyard.resourcemanager.process.messages import SubmitJob
from railyard.resourcemanager.process.recovery import JobFiles
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


def test_what_a_stage_allows_reaches_its_plan():
    stage = StageSpec(name="m", tasks=2, max_attempts=7, may_copy=False)
    job = SubmitJob(name="w", package=PACKAGE, stages=(stage,))
    ready: list[object] = []
    Submission(job, 10, lambda stages, _: ready.extend(stages), print).begin(object())
    assert ready == [StagePlan(name="m", tasks=2, max_attempts=7, may_copy=False)]


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


def plans(file: FileBlocks, **options: object) -> tuple[list[object], list[str]]:
    """The inputs of a job's maps over one file, or why it is refused."""
    job = SubmitJob(
        name="w", package=PACKAGE, stages=MAPS_AND_REDUCE, input_paths=(file.path,), **options
    )
    inputs: list[object] = []
    refused: list[str] = []
    submission = Submission(
        job, 10, lambda stages, _: inputs.extend(stages[0].inputs), refused.append
    )

    asked: list[object] = []

    class NameNode:
        def insist(self, message: object, _: object, on_answer: object) -> None:
            asked.append(on_answer)

    submission.begin(NameNode())
    for on_answer in asked:
        on_answer(BlocksLocated(folder=False, files=(file,)), None)
    return inputs, refused


def blocks(*lengths: int) -> tuple[BlockLocation, ...]:
    begins = [sum(lengths[:at]) for at in range(len(lengths))]
    return tuple(
        BlockLocation(block=at, stored_offset=begin, stored_length=length, nodes=(f"r{at}n0",))
        for at, (begin, length) in enumerate(zip(begins, lengths, strict=True))
    )


def ranges(inputs):
    return [
        (each.splits[0].stored_offset, each.splits[0].stored_length, each.nodes) for each in inputs
    ]


def test_a_file_is_read_by_one_task_or_cut_elsewhere_than_at_its_blocks():
    file = FileBlocks(path="/in.gz", stored_length=70, blocks=blocks(40, 30))
    inputs, _ = plans(file)
    assert ranges(inputs) == [(0, 40, ("r0n0",)), (40, 30, ("r1n0",))]
    inputs, _ = plans(file, unsplit=(".gz",))
    assert ranges(inputs) == [(0, 70, ("r0n0",))]
    inputs, _ = plans(file, cuts={"/in.gz": (0, 5, 39, 41)})
    near, far = ("r0n0",), ("r1n0",)
    assert ranges(inputs) == [(0, 5, near), (5, 34, near), (39, 2, near), (41, 29, far)]
    for wrong in ((1,), (0, 70), (0, 5, 5)):
        _, [why] = plans(file, cuts={"/in.gz": wrong})
        assert "need offsets from 0 on, in order, within it" in why


def test_a_file_without_bytes_has_a_task_where_that_is_asked_for():
    empty = FileBlocks(path="/in", stored_length=0, blocks=())
    assert plans(empty)[1] == ["input /in: is empty: need at least one byte"]
    inputs, _ = plans(empty, unsplit=())
    assert ranges(inputs) == [(0, 0, ())]


# The files of jobs that were submitted, on disks that can't be written.


def test_a_disk_that_cannot_be_written_ends_nothing(tmp_path):
    place = tmp_path / "jobs"
    place.touch()  # no folder: each change below it fails, as on a read-only disk
    submissions = stored_in(place)
    submissions.keep("j1", stored_job())
    submissions.forget("j1")
    assert submissions.jobs() == []


def test_what_is_kept_is_there_until_it_is_forgotten(tmp_path):
    stored_in(tmp_path).keep("j1", stored_job())
    assert stored_in(tmp_path).jobs() == ["j1"]
    assert stored_in(tmp_path).get("j1") == stored_job()
    stored_in(tmp_path).forget("j1")
    assert stored_in(tmp_path).jobs() == []
    assert stored_in(tmp_path).get("j1") is None


def test_a_file_that_was_cut_short_is_not_known(tmp_path, caplog):
    stored_in(tmp_path).keep("j1", stored_job())
    file = tmp_path / "j1.job"
    file.write_bytes(file.read_bytes()[:-5])
    assert stored_in(tmp_path).get("j1") is None
    assert str(file) in caplog.text


def stored_in(folder):
    return JobFiles(folder, ".job", SubmitJob, safe=True)


def stored_job():
    return SubmitJob(name="job", package=PACKAGE, user="ann", stages=(StageSpec(name="m"),))
