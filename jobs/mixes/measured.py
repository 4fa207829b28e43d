"""Turns a mix of real jobs into a workload for the simulator, by measuring them.

The jobs' inputs are generated and their tasks run in this process, and the bytes that go from each
task to each other one are counted.  This takes as long as the stored bytes need: about half a
second for a job of 10 GB on a topology with scale 1000.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from railyard.cluster.topology import Topology
from railyard.jobs.local import BytesReader, LocalRun, run_locally
from railyard.jobs.mixes.mixes import Mix
from railyard.jobs.mixes.mixplans import Planned, plan_mix
from railyard.jobs.model import Job, StageSpec
from railyard.jobs.package import load_job
from railyard.jobs.samples.sample import Step
from railyard.jobs.workloads.model import InputFile, Workload, WorkloadJob, WorkStage
from railyard.jobs.workloads.skew import spread_files

_FOLDER = "/mix"


def measured_workload(mix: Mix, topology: Topology, seed: int) -> Workload:
    """The mix's jobs with the bytes and numbers of tasks that they have on this topology.

    Raises ``UsageError`` for an impossible job.  Exceptions of a job's own code are not caught.
    """
    measuring = _Measuring(topology)
    jobs = tuple(measuring.measure(one) for one in plan_mix(mix, topology, seed, _FOLDER))
    return Workload(name=mix.name, source="measured on the jobs themselves", jobs=jobs)


class _Store(dict[str, bytes]):
    """A block store in memory, {path: content}: a ``jobs.samples.sample.Files``."""

    def list(self, folder: str) -> list[str]:
        return sorted(path for path in self if path == folder or path.startswith(f"{folder}/"))

    def open(self, path: str) -> BytesReader:
        return BytesReader(self[path])


class _Measuring:
    """Runs jobs and measures them; generates equal inputs once and measures equal jobs once."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._store = _Store()
        self._shares: dict[str, tuple[float, ...]] = {}  #: {folder of input: the racks' shares}
        self._known: dict[bytes, tuple[tuple[WorkStage, ...], tuple[InputFile, ...]]] = {}

    def measure(self, planned: Planned) -> WorkloadJob:
        """The measured stages and files of a planned job."""
        step, wanted = planned.plan.measured, planned.job
        for generate in planned.plan.before:
            # Steps that read a file only check it; the job does not depend on their output.
            if not generate.input and not self._store.list(generate.output):
                self._generate(generate)
        package = step.pack(self._store)
        key = msgspec.msgpack.encode((step.sources, step.reduces, package))
        if key not in self._known:
            self._known[key] = self._run(load_job(package), step)
        stages, inputs = self._known[key]
        return WorkloadJob(
            name=wanted.name,
            user=wanted.user,
            queue=wanted.queue,
            submit_s=wanted.submit_s,
            stages=stages,
            files=inputs,
            recurrence=wanted.recurrence,
        )

    def _generate(self, step: Step) -> None:
        self._shares[step.output] = step.shares
        run = run_locally(load_job(step.pack(self._store)), {}, step.reduces)
        for stage, outputs in run.outputs.items():
            for number, output in enumerate(outputs):
                self._store[f"{step.output}/part-{stage}-{number:05}"] = output

    def _run(self, job: Job, step: Step) -> tuple[tuple[WorkStage, ...], tuple[InputFile, ...]]:
        """Run the measured step's job: its stages, and the files that it reads."""
        paths = {source: self._store.list(source) for source in step.sources}
        files = {path: self._store[path] for listed in paths.values() for path in listed}
        named = {name: paths[source] for name, source in step.inputs}
        split_bytes = self._topology.stored_block_bytes
        run = run_locally(job, files, step.reduces, split_bytes, named)
        inputs = tuple(
            file
            for source, listed in paths.items()
            for file in self._inputs(
                {path: files[path] for path in listed}, self._shares.get(source, ())
            )
        )
        return self._stages(job.stage_specs(step.reduces), inputs, named, run), inputs

    def _inputs(
        self, files: Mapping[str, bytes], shares: tuple[float, ...]
    ) -> tuple[InputFile, ...]:
        """The input files, of which those of a generating stage are in order of its tasks."""
        scale, block_bytes = self._topology.scale, self._topology.storage.block
        inputs = [
            InputFile(
                path=path,
                folder=path.rpartition("/")[0],
                size_bytes=len(data) * scale,
                block_bytes=block_bytes,
            )
            for path, data in files.items()
        ]
        if shares:
            inputs = spread_files(inputs, shares)
        return tuple(file for file in inputs if file.size_bytes)

    def _stages(
        self,
        specs: tuple[StageSpec, ...],
        inputs: tuple[InputFile, ...],
        named: Mapping[str, Sequence[str]],
        run: LocalRun,
    ) -> tuple[WorkStage, ...]:
        """The stages; ``named``: {name of an input: paths of its files}."""
        scale, stages = self._topology.scale, []
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
        return tuple(stages)
