"""Runs a whole job in this process, one task after the other, to try it out or to test it.

    outputs = run_locally(LongWords(min_letters=10), {"corpus.txt": b"some text"}, reduces=2)
    print(b"".join(outputs["r"]))

The tasks run as on a cluster, but the files and the shuffle are byte strings in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from railyard.cluster.messages import Split, TaskSpec
from railyard.jobs.model import Job, check_input_names, run_task
from railyard.jobs.taskio import Buffer, Counters, JobError, Programs, TaskResult, check_counters


class BytesReader:
    """A file in memory."""

    def __init__(self, data: Buffer) -> None:
        self._data = memoryview(data)
        self.stored_bytes = len(self._data)  #: length of the file

    def read(self, offset: int, length: int) -> memoryview:
        return self._data[offset : offset + length]


class FilesInMemory(dict[str, bytes]):
    """A block store in memory, {path: content}: a ``jobs.plan.Files``."""

    def list(self, folder: str) -> list[str]:
        """Sorted paths of the files in a folder; for the path of a file, this path."""
        return sorted(path for path in self if path == folder or path.startswith(f"{folder}/"))

    def open(self, path: str) -> BytesReader:
        return BytesReader(self[path])


@dataclass
class LocalIO:
    """A ``TaskIO`` with files and fetched outputs in memory."""

    files: Mapping[str, Buffer]
    outputs: Sequence[tuple[str, Buffer]] = ()
    reported: list[float] = field(default_factory=list)  #: the progress that the task reported

    @property
    def programs(self) -> Programs:
        raise JobError("a job with programs needs a cluster")

    def open(self, path: str) -> BytesReader:
        return BytesReader(self.files[path])

    def fetched(self) -> Iterator[tuple[str, memoryview]]:
        for stage, output in self.outputs:
            yield stage, memoryview(output)

    def progress(self, share: float) -> None:
        self.reported.append(share)


@dataclass
class LocalRun:
    """The outputs and counters of a job."""

    #: {stage that no other stage reads: its output files, by task}
    outputs: dict[str, list[bytes]] = field(default_factory=dict)
    counters: Counters = field(default_factory=dict)  #: summed over all tasks
    #: {stage that another stage reads: bytes of each partition, summed over its tasks}
    partition_bytes: dict[str, list[int]] = field(default_factory=dict)

    def output_bytes(self, stage: str) -> int:
        """Bytes of a stage's output, whether other stages read it or not."""
        if stage in self.partition_bytes:
            return sum(self.partition_bytes[stage])
        return sum(map(len, self.outputs.get(stage, ())))

    def files(self, folder: str) -> dict[str, bytes]:
        """The files that its tasks write into a folder, {path: content}."""
        return {
            f"{folder}/part-{stage}-{number:05}": output
            for stage, outputs in self.outputs.items()
            for number, output in enumerate(outputs)
        }


def run_locally(
    job: Job,
    files: Mapping[str, Buffer],
    reduces: int = 1,
    split_bytes: int = 2**25,
    inputs: Mapping[str, Collection[str]] | None = None,
) -> LocalRun:
    """Run all of a job's tasks over ``files``, {path: content}, in splits of ``split_bytes``.

    ``inputs``: {name of an input: paths of its files}, for jobs that name theirs.  Raises
    ``UsageError`` for other names than those.  Exceptions of the job's code are not caught.
    """
    named = {path: name for name, paths in (inputs or {}).items() for path in paths}
    for path, data in files.items():
        if data or len(files) == 1:  # among several, one may be empty, such as a reduce's output
            job.input_format(named.get(path, "")).check(path, len(data))
    specs = job.stage_specs(reduces)
    check_input_names(specs, inputs or {})
    every = cut_into_splits({path: len(data) for path, data in files.items()}, split_bytes)
    written: dict[str, list[TaskResult]] = {}
    run = LocalRun()
    for spec in specs:
        partitions = next((other.tasks for other in specs if spec.name in other.reads), 0)
        results = written[spec.name] = []
        splits = [s for s in every if not spec.inputs or named.get(s.path) in spec.inputs]
        fetched = [(name, result) for name in spec.reads for result in written[name]]
        for index in range(spec.tasks or len(splits)):
            task = TaskSpec(
                stage=spec.name,
                index=index,
                splits=(splits[index],) if spec.reads_files else (),
                reads=spec.reads,
                inputs=len(fetched),
                partitions=partitions,
            )
            outputs = [(name, b"".join(result.partitions[index])) for name, result in fetched]
            result = run_task(job, task, LocalIO(files, outputs))
            output = b"".join(result.output)
            if not partitions:
                run.outputs.setdefault(spec.name, []).append(output)
            for name, count in result.counters.items():
                run.counters[name] = run.counters.get(name, 0) + count
            check_counters(run.counters)
            results.append(result)
        if partitions:
            run.partition_bytes[spec.name] = [
                sum(len(piece) for result in results for piece in result.partitions[partition])
                for partition in range(partitions)
            ]
    return run


def cut_into_splits(stored_bytes: Mapping[str, int], split_bytes: int) -> list[Split]:
    """Splits of at most ``split_bytes`` that cover all files; ``stored_bytes``: {path: length}."""
    return [
        Split(path=path, stored_offset=at, stored_length=min(split_bytes, length - at))
        for path, length in stored_bytes.items()
        for at in range(0, length, split_bytes)
    ]
