"""The plan of a job: generate its input, run it, check its output; the steps of plans.

    plan = jobs.samples.catalog.find("terasort").plan(request)
    for step in plan.steps:                # teragen, terasort, terachecksum, teravalidate
        package = step.pack(files)
        ...                                # submit it, wait for its end
    verdict = plan.verify(files)

Sizes here are in stored bytes.  Never here: running anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from railyard.cluster.errors import UsageError, printable, unknown_name
from railyard.cluster.messages import JobPackage
from railyard.cluster.topology import Topology
from railyard.jobs.formats import InputFormat
from railyard.jobs.model import Job
from railyard.jobs.package import pack_job
from railyard.jobs.skew import Skew
from railyard.jobs.taskio import FileReader

#: Bytes of a read while an output is checked; letters of a line of it that are shown.
_READ_BYTES, _LETTERS_MAX = 2**22, 60


class Files(Protocol):
    """Read access to the block store for a client."""

    def list(self, folder: str) -> Sequence[str]:
        """Sorted paths of the data files in a folder, without names that begin with "_".

        For the path of a file, this path.
        """

    def open(self, path: str) -> FileReader:
        """A reader of a file."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of a run of a sample."""

    folder: str  #: folder of the block store for all files of the run
    input: str = ""  #: the user's file or folder in the block store; "" = generate one
    #: (name, path) of the user's inputs, if they have names or are several
    inputs: tuple[tuple[str, str], ...] = ()
    output: str = ""  #: folder for the output; "" = one below ``folder``
    #: folder for generated input that other runs may reuse, named by its parameters; "" = generate
    #: it below ``folder``, for this run alone
    shared: str = ""
    stored_bytes: int = 10_000_000  #: size of the generated input
    parts: int = 1  #: files of the generated input, each written by a task; ideally one per block
    reduces: int = 1
    seed: int = 1
    params: Mapping[str, Any] = field(default_factory=dict)  #: parameters of the job
    skew: Skew | None = None  #: of the generated input over the racks; None = others decide
    racks: int = 1  #: how many the cluster has


def default_reduces(topology: Topology, blocks: int) -> int:
    """One per block of the input, but at most half of the slots.

    As Hadoop's and Spark's users expect, the number follows the data.  Half of the slots is left
    for maps while reduces fetch.
    """
    return max(1, min(topology.slots // 2, blocks))


@dataclass(frozen=True, kw_only=True)
class Step:
    """One job of a plan, to be submitted."""

    name: str  #: "teragen"
    input: str  #: file or folder to read, or that all of ``inputs`` are in; "" = none
    output: str  #: folder to write
    #: makes the package after the previous steps have ended; may read their output
    pack: Callable[[Files], JobPackage]
    reduces: int = 1
    #: (name, path) of each input, if they have names or are several; several may share a name
    inputs: tuple[tuple[str, str], ...] = ()
    #: whether this is the requested job or a part of it, not a preparation or a check
    measured: bool = False
    #: the share of each rack, r0, r1, ..., in what its last stage writes: the first replicas of a
    #: task's file are in one rack.  () = the store's or the scheduler's rule
    shares: tuple[float, ...] = ()
    generated_bytes: int = 0  #: about how many it writes, if it generates input; else 0

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(path for _, path in self.inputs) or ((self.input,) if self.input else ())


@dataclass(frozen=True)
class GivenFile:
    """A file of the user's."""

    input: str  #: the name of the input that it belongs to; "" = it has none
    shown: str  #: its path as the user knows it
    file: FileReader


@dataclass(frozen=True)
class Verdict:
    """The result of checking an output."""

    ok: bool
    detail: str  #: one line, for people
    highlights: tuple[str, ...] = ()  #: lines about the most interesting part of the output


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The steps and checks of a request.

    Measured steps follow one another without others between them.  The requested job begins with
    the submission of the first, and ends with the last.
    """

    steps: tuple[Step, ...]  #: in the order in which they run
    input: InputFormat  #: ``plan.input.check(path, length)`` refuses a wrong file of the user's
    #: {name of an input: its format}, for a job that names its inputs
    formats: Mapping[str, InputFormat] = field(default_factory=dict)
    needs_input: bool = False  #: whether the user must give a file, since none can be generated
    reads_several: bool = False  #: whether an input may be several files and folders of the store
    #: raises ``UsageError`` if input files of these sizes in bytes do not fit the request
    check_sizes: Callable[[Sequence[int]], None] | None = None
    #: raises ``BadInput`` or ``UsageError`` if the user's files are not what the job reads
    check_files: Callable[[Sequence[GivenFile]], None] | None = None
    #: checks the output after all steps; None = it cannot be checked
    verify: Callable[[Files], Verdict] | None = None

    @property
    def measured(self) -> tuple[Step, ...]:
        return tuple([step for step in self.steps if step.measured])

    @property
    def sources(self) -> tuple[str, ...]:
        """The path of each input of the requested job that is there before it begins."""
        outputs = {step.output for step in self.measured}
        paths = (path for step in self.measured for path in step.sources if path not in outputs)
        return tuple(dict.fromkeys(paths))

    @property
    def before(self) -> tuple[Step, ...]:
        """The steps that prepare; those of two plans that have equal outputs are equal."""
        return self.steps[: self.steps.index(self.measured[0])]

    @property
    def after(self) -> tuple[Step, ...]:
        return self.steps[self.steps.index(self.measured[-1]) + 1 :]


@dataclass(frozen=True)
class Sample:
    """A job that can be run by name."""

    name: str
    summary: str  #: one line
    plan: Callable[[Request], Plan]  #: raises ``UsageError`` for wrong parameters


def measured_step(
    name: str, source: str, request: Request, pack: Callable[[Files], JobPackage]
) -> Step:
    """The step of the requested job."""
    return Step(
        name=name,
        input=source,
        inputs=request.inputs,
        output=output_of(request),
        reduces=request.reduces,
        pack=pack,
        measured=True,
    )


def generating_step(
    name: str, request: Request, package: JobPackage, folder: str = "input", of: str = ""
) -> Step:
    """A step that generates input of about the request's size, skewed if that is asked for.

    ``folder``: its output below the folder of the run, if it is not shared with other runs; ``of``:
    what it makes that of, the output of another such step.
    """
    what = "-".join([name, *map(str, package.params.values()), *([Path(of).name] if of else [])])
    if request.skew is not None:
        what += f"-{request.skew}"
    if request.shared:
        drawn_for, output = what, f"{request.shared}/{what}"
    else:
        drawn_for, output = f"{what} {Path(request.folder).name}", f"{request.folder}/{folder}"
    return Step(
        name=name,
        input=of,
        output=output,
        pack=lambda _: package,
        shares=request.skew.shares(request.racks, drawn_for) if request.skew is not None else (),
        generated_bytes=request.stored_bytes,
    )


def plan_of(
    name: str,
    job: type[Job],
    request: Request,
    generate: Callable[[Request], tuple[Step, ...]],
    verify: Callable[[Files, str, str], Verdict],
    check_files: Callable[[Sequence[GivenFile]], None] | None = None,
    params: Mapping[str, Any] | None = None,
) -> Plan:
    """The plan of a job in one step over generated or given input.

    ``verify`` gets the folders of the input and of the output; ``params``: those of the job, if
    they are others than the request's.
    """
    before = () if request.input else generate(request)
    source = before[-1].output if before else request.input
    package = pack_job(job, request.params if params is None else params)
    step = measured_step(name, source, request, lambda _: package)
    return Plan(
        steps=(*before, step),
        input=job.input,
        check_files=check_files,
        verify=lambda files: verify(files, source, step.output),
    )


def require_params(request: Request, name: str, known: Sequence[str], given: str = "") -> None:
    """Raise ``UsageError`` for other parameters than those of the generated input.

    ``given``: what has none at all where the user gives it.
    """
    if given and request.input and request.params:
        raise UsageError(f"{name}: has no parameters for {given} that are given by --input")
    for each in request.params:
        if each not in known:
            raise unknown_name(f"parameter of {name}", each, known)


def output_of(request: Request) -> str:
    """The folder that the requested job writes."""
    return request.output or f"{request.folder}/output"


def text_of(files: Files, source: str) -> Iterator[bytes]:
    """The text of a folder's files, in pieces that end at the end of a line or of a file."""
    for path in files.list(source):
        file, unfinished = files.open(path), b""
        for offset in range(0, file.stored_bytes, _READ_BYTES):
            data = unfinished + bytes(file.read(offset, _READ_BYTES))
            end = data.rfind(b"\n") + 1
            yield data[:end]
            unfinished = data[end:]
        yield unfinished


def lines_of(files: Files, folder: str) -> Iterator[bytes]:
    """The lines of a folder's files, without their ends."""
    for text in text_of(files, folder):
        yield from text.removesuffix(b"\n").split(b"\n") if text else ()


def decoded(text: bytes) -> str:
    """The text, with lone surrogates for bytes that are not UTF-8."""
    return text.decode("utf-8", "surrogateescape")


def shown(line: bytes, letters_max: int = _LETTERS_MAX) -> str:
    """A line of an input or output in an error or a report."""
    return printable(decoded(line), letters_max)


def difference(found: list[bytes], expected: list[bytes], what: str) -> Verdict | None:
    """The verdict on an output that has other lines than it should; None if it has the same."""
    if found == expected:
        return None
    odd = next(iter(sorted(set(found) ^ set(expected))), b"a line twice, or another order")
    words = f"{len(found)} {what}, {len(expected)} expected; others, such as: {shown(odd)}"
    return Verdict(False, words)
