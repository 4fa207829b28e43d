"""Turns a mix of real jobs into a workload for the simulator, by measuring them.

The jobs' inputs are generated and their tasks run in this process, and the bytes that go from each
task to each other one are counted.  This takes as long as the stored bytes need: about half a
second for a job of 10 GB on a topology with scale 1000.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from railyard.cluster.errors import RailyardError, UsageError
from railyard.cluster.messages import JobPackage
from railyard.cluster.topology import Topology
from railyard.jobs.local import FilesInMemory, LocalRun, run_locally
from railyard.jobs.model import input_names
from railyard.jobs.package import load_job, mistake_in
from railyard.jobs.plan import Step
from railyard.jobs.workloads.mixes import Mix, Planned, plan_mix
from railyard.jobs.workloads.model import InputFile, Workload, WorkloadJob, WorkStage, spread_files

_FOLDER = "/mix"


def measured_workload(mix: Mix, topology: Topology, seed: int) -> Workload:
    """The mix's jobs with the bytes and numbers of tasks that they have on this topology.

    Raises ``UsageError`` for an impossible job, and with file and line for one whose code fails.
    """
    measuring = _Measuring(topology)
    planned = plan_mix(mix, topology, seed, _FOLDER)
    jobs = tuple(job for one in planned for job in measuring.measure(one))
    return Workload(name=mix.name, jobs=jobs)


class _Measured(NamedTuple):
    """A job that was run: what is measured of it."""

    run: LocalRun  #: empty if no later step may read its output
    stages: tuple[WorkStage, ...]
    inputs: tuple[InputFile, ...]


class _Measuring:
    """Runs jobs and measures them; generates equal inputs once and measures equal jobs once."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._store = FilesInMemory()
        self._shares: dict[str, tuple[float, ...]] = {}  #: {folder of input: the racks' shares}
        self._known: dict[bytes, _Measured] = {}

    def measure(self, planned: Planned) -> Iterator[WorkloadJob]:
        """The measured stages and files of each step of a planned job."""
        for path, local in planned.given.copies.items():
            if path not in self._store:
                self._store[path] = local.read_bytes()
        for step in planned.plan.before:
            if not self._store.list(step.output):
                self._shares[step.output] = step.shares
                run = self._run(step.pack(self._store), step)
                self._store.update(run.files(step.output))
        wanted, before = planned.job, ""
        for name, step in planned.steps():
            package = step.pack(self._store)
            is_last = step is planned.plan.measured[-1]
            key = msgspec.msgpack.encode((step.sources, step.reduces, package, is_last))
            if key not in self._known:
                measured = self._measure(package, step)
                self._known[key] = measured._replace(run=LocalRun()) if is_last else measured
            measured = self._known[key]
            self._store.update(measured.run.files(step.output))
            past = wanted.recurrence
            yield WorkloadJob(
                name=name,
                user=wanted.user,
                queue=wanted.queue,
                submit_s=wanted.submit_s,
                after=before,
                stages=measured.stages,
                files=measured.inputs,
                recurrence=past and msgspec.structs.replace(past, name=name),
            )
            before = name

    def _run(self, package: JobPackage, step: Step) -> LocalRun:
        paths = {source: self._store.list(source) for source in step.sources}
        files = {path: self._store[path] for listed in paths.values() for path in listed}
        named = {name: paths[source] for name, source in step.inputs}
        block_bytes = self._topology.stored_block_bytes
        try:
            return run_locally(load_job(package), files, step.reduces, block_bytes, named)
        except RailyardError as error:
            raise UsageError(f"{step.name}: {error}") from error
        except Exception as error:
            if package.module:
                raise
            raise UsageError(f"{step.name}: {mistake_in(package, error)}") from error

    def _measure(self, package: JobPackage, step: Step) -> _Measured:
        """Run a measured step's job: its stages, and the files that it reads."""
        run, scale = self._run(package, step), self._topology.scale
        inputs: list[InputFile] = []
        paths, specs = dict(step.inputs), load_job(package).stage_specs(step.reduces)
        # In the order of the stages that read them, as the ResourceManager has them.
        for source in [paths[name] for name in input_names(specs) if name in paths] or step.sources:
            files = [  # those of a generating stage are in order of its tasks
                InputFile(
                    path=path,
                    folder=path.rpartition("/")[0],
                    size_bytes=len(self._store[path]) * scale,
                    block_bytes=self._topology.storage.block,
                )
                for path in self._store.list(source)
            ]
            if shares := self._shares.get(source):
                files = spread_files(files, shares)
            inputs += [file for file in files if file.size_bytes]
        named = {name: self._store.list(source) for name, source in step.inputs}
        stages = []
        for spec in specs:
            wanted = {path for name in spec.inputs for path in named[name]}
            read = [
                file
                for file in inputs
                if spec.reads_files and (not spec.inputs or file.path in wanted)
            ]
            fetched = [run.partition_bytes[name] for name in spec.reads]
            weights = tuple(float(sum(parts)) for parts in zip(*fetched, strict=True))
            stages.append(
                WorkStage(
                    name=spec.name,
                    reads=spec.reads,
                    files=tuple(file.path for file in read),
                    tasks=spec.tasks or sum(file.blocks for file in read),
                    output_bytes=run.output_bytes(spec.name) * scale,
                    weights=weights if any(weights) else (),
                )
            )
        return _Measured(run, tuple(stages), tuple(inputs))
