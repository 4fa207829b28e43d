"""What surrounds a job that a person asks for by name: its input, the jobs to run, the check.

    plan = jobs.catalog.find("terasort").plan(request)
    for step in plan.steps:                # teragen, terachecksum, terasort, teravalidate
        package = step.pack(files)
        ...                                # submit it, wait for its end
    verdict = plan.verify(files)

Sizes here count real bytes.  Never here: running anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from railyard.cluster.messages.execution import JobPackage
from railyard.cluster.topology import Topology
from railyard.jobs.formats import InputFormat
from railyard.jobs.taskio import FileReader


class Files(Protocol):
    """The block store, as whoever submits a job sees it."""

    def list(self, folder: str) -> Sequence[str]:
        """Paths of the data files in a folder, in order (none whose name begins with "_");
        of the file itself if it is one.
        """
        ...

    def open(self, path: str) -> FileReader:
        """A file."""
        ...


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a person asked for."""

    folder: str  #: of the block store; all that is made goes below it
    input: str = ""  #: the user's file or folder in the block store; "" = generate one
    output: str = ""  #: folder for the output; "" = one below ``folder``
    #: folder for generated input that others may use too, under a name that tells what it is;
    #: "" = below ``folder``, for this request alone
    shared: str = ""
    stored_bytes: int = 10_000_000  #: size of the generated input
    parts: int = 1  #: files of the generated input, each made by a task; best one a block
    reduces: int = 1
    seed: int = 1
    params: Mapping[str, Any] = field(default_factory=dict)  #: of the job itself


def default_reduces(topology: Topology) -> int:
    """Half of the slots: the other half stays for maps while reduces fetch."""
    return max(1, topology.slots // 2)


@dataclass(frozen=True, kw_only=True)
class Step:
    """A job to submit."""

    name: str  #: "teragen"
    input: str  #: file or folder that it reads; "" = none
    output: str  #: folder that it writes
    reduces: int
    #: makes the package once the steps before it are done; may read their output
    pack: Callable[[Files], JobPackage]
    measured: bool = False  #: whether this is the job that was asked for, not preparation or check


@dataclass(frozen=True)
class Verdict:
    """Whether an output is right."""

    ok: bool
    detail: str  #: one line, for people
    highlights: tuple[str, ...] = ()  #: lines with what is most interesting in the output


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All that is to be done for a request."""

    steps: tuple[Step, ...]  #: one after the other
    input: InputFormat  #: ``plan.input.check(path, length)`` refuses a user's file that is wrong
    needs_input: bool = False  #: whether the user must give a file, since none can be made
    #: raises ``UsageError`` if files of so many bytes are no input for what was asked
    check_sizes: Callable[[Sequence[int]], None] | None = None
    #: checks the output once all steps are done; None: nothing is known of it
    verify: Callable[[Files], Verdict] | None = None

    @property
    def measured(self) -> Step:
        """The job that was asked for."""
        [measured] = [step for step in self.steps if step.measured]
        return measured

    @property
    def before(self) -> tuple[Step, ...]:
        """What is to be done before it.  Steps of other plans with equal output do the same."""
        return self.steps[: self.steps.index(self.measured)]

    @property
    def after(self) -> tuple[Step, ...]:
        """What is to be done once it has ended."""
        return self.steps[self.steps.index(self.measured) + 1 :]


@dataclass(frozen=True)
class Sample:
    """A job that can be asked for by name."""

    name: str
    summary: str  #: one line
    plan: Callable[[Request], Plan]  #: raises ``UsageError`` for wrong parameters
