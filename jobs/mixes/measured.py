"""A mix of real jobs as a workload: what the simulator is told of jobs that a cluster can run.

Nothing is assumed of them: their very inputs are generated, and their maps and reduces run, here in
this process; what each task would ship to each other one is counted.  That takes as long as the
real bytes take, and no longer: a job of 10 GB on a topology with scale 1000 about half a second.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from railyard.cluster.topology import Topology
from railyard.jobs.local import BytesReader, LocalRun, run_locally
from railyard.jobs.mixes.mixes import Mix
from railyard.jobs.mixes.mixplans import Planned, plan_mix
from railyard.jobs.model import StageSpec
from railyard.jobs.package import load_job
from railyard.jobs.samples.sample import Step
from railyard.jobs.workloads.model import InputFile, Workload, WorkloadJob, WorkStage

_FOLDER = "/mix"


def measured_workload(mix: Mix, topology: Topology, seed: int) -> Workload:
    """The mix's jobs with their sizes, bytes and numbers of tasks on this topology.

    Raises ``UsageError`` for a job that makes no sense; what a job's own code raises comes through.
    """
    bench = _Bench(topology)
    jobs = tuple(bench.measure(one) for one in plan_mix(mix, topology, seed, _FOLDER))
    return Workload(name=mix.name, source="measured on the jobs themselves", jobs=jobs)


class _Store(dict[str, bytes]):
    """A block store in memory: ``jobs.sample.Files``."""

    def list(self, folder: str) -> list[str]:
        return sorted(path for path in self if path == folder or path.startswith(f"{folder}/"))

    def open(self, path: str) -> BytesReader:
        return BytesReader(self[path])


class _Bench:
    """Where jobs are tried out; equal inputs are made once, equal jobs measured once."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._store = _Store()
        self._known: dict[bytes, tuple[tuple[WorkStage, ...], tuple[InputFile, ...]]] = {}

    def measure(self, planned: Planned) -> WorkloadJob:
        """One job."""
        step, wanted = planned.plan.measured, planned.job
        for generate in planned.plan.before:
            # Steps that read something only check it, and ship none of their own to the job.
            if not generate.input and not self._store.list(generate.output):
                self._generate(generate)
        package = step.pack(self._store)
        key = msgspec.msgpack.encode((step.input, step.reduces, package))
        if key not in self._known:
            files = {path: self._store[path] for path in self._store.list(step.input)}
            job = load_job(package)
            split_bytes = self._topology.stored_block_bytes
            run = run_locally(job, files, step.reduces, split_bytes)
            self._known[key] = self._described(job.stage_specs(step.reduces), files, run)
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
        run = run_locally(load_job(step.pack(self._store)), {}, step.reduces)
        for stage, outputs in run.outputs.items():
            for number, output in enumerate(outputs):
                self._store[f"{step.output}/part-{stage}-{number:05}"] = output

    def _described(
        self, specs: tuple[StageSpec, ...], files: Mapping[str, bytes], run: LocalRun
    ) -> tuple[tuple[WorkStage, ...], tuple[InputFile, ...]]:
        scale, block_bytes = self._topology.scale, self._topology.storage.block
        inputs = tuple(
            InputFile(
                path=path,
                folder=path.rpartition("/")[0],
                size_bytes=len(data) * scale,
                block_bytes=block_bytes,
            )
            for path, data in files.items()
            if data
        )
        stages = []
        for spec in specs:
            reads_files = spec.kind == "map" and not spec.tasks
            fetched = [run.partition_bytes[name] for name in spec.reads]
            stages.append(
                WorkStage(
                    name=spec.name,
                    reads=spec.reads,
                    files=tuple(file.path for file in inputs) if reads_files else (),
                    tasks=spec.tasks or sum(file.blocks for file in inputs),
                    output_bytes=run.output_bytes(spec.name) * scale,
                    weights=tuple(float(sum(parts)) for parts in zip(*fetched, strict=True)),
                )
            )
        return tuple(stages), inputs
