"""Runs one job or several on a cluster, and writes their results."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import ClusterFailed, PeerLost
from railyard.cluster.files.runfolder import RunFolder
from railyard.cluster.topology import Topology
from railyard.jobs.mixes.mixes import Mix
from railyard.jobs.mixes.mixplans import StoredFiles
from railyard.jobs.workloads.model import Workload
from railyard.scripts.clusters.session import Session, connected, own_session
from railyard.scripts.results.folder import save_emulation, save_logs
from railyard.scripts.results.machinewatch import MachineWatch
from railyard.scripts.results.outcome import MixOutcome, Outcome
from railyard.scripts.results.outputfile import NotWritten
from railyard.scripts.results.summary import (
    make_summary,
    print_mix,
    print_summary,
)
from railyard.scripts.running.fetched import fetched_inputs
from railyard.scripts.running.files import copy_out
from railyard.scripts.running.forecasting import send_forecasts
from railyard.scripts.running.mixrun import MixRun
from railyard.scripts.running.netwatch import NetworkWatch
from railyard.scripts.running.request import Prepared
from railyard.scripts.running.room import require_room_to_measure
from railyard.scripts.running.trial import planned
from railyard.scripts.running.workplace import Submitter, Workplace
from railyard.scripts.terminal.progress import View


class Work(Protocol):
    """One job or several, ready to be run."""

    name: str  #: of the workload

    @property
    def outputs(self) -> tuple[str, ...]:
        """The folders of the block store that the requested jobs write."""

    def carry_out(self, session: Session, view: View) -> Outcome | MixOutcome:
        """Store the input, run, check; the outcome says which jobs failed."""

    def show(self, summary: dict[str, Any], topology: Topology) -> None:
        """Print the results; call it after ``carry_out``."""


class SingleJob:
    """One job; its input and output may be files of the user's."""

    def __init__(self, prepared: Prepared, submitter: Submitter, fetch_to: Path | None) -> None:
        self.name = prepared.name
        self._prepared = prepared
        self._submitter = submitter
        self._fetch_to = fetch_to

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(step.output for step in self._prepared.plan.measured)

    def carry_out(self, session: Session, view: View) -> Outcome:
        place = Workplace(session, view, self._prepared.copies)
        place.check(self._prepared.plan)
        if self._prepared.stored_bytes:
            name = self._prepared.plan.measured[0].name
            place.announce(self._prepared.plan, self._prepared.stored_bytes, name)
        place.bring_input(self._prepared.plan, self._prepared.copies)
        self._outcome = place.carry_out(self._prepared.plan, self._submitter)
        if self._fetch_to is not None and self._outcome.failure is None:
            copy_out(place.store, self._outcome.output, self._fetch_to)
        return self._outcome

    def show(self, summary: dict[str, Any], topology: Topology) -> None:
        if self._outcome.failure is None:
            print_summary(summary, self._outcome, topology)


class SeveralJobs:
    """A mix of jobs."""

    def __init__(
        self, mix: Mix, topology: Topology, seed: int, store: StoredFiles | None = None
    ) -> None:
        self.name = mix.name
        self._mix = mix
        self._topology = topology
        self._seed = seed
        folder = f"/runs/mix-{secrets.token_hex(3)}"
        self._jobs = planned(mix, topology, seed, folder, store)

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(step.output for one in self._jobs for step in one.plan.measured)

    @cached_property
    def workload(self) -> Workload:
        """The same jobs by their sizes, which are measured when this is first asked for."""
        from railyard.jobs.mixes.measured import measured_workload  # the jobs, and numpy

        with fetched_inputs() as localized:
            mix = localized(self._mix)
            require_room_to_measure(mix, self._topology)
            return measured_workload(mix, self._topology, self._seed)

    def carry_out(self, session: Session, view: View) -> MixOutcome:
        forecasts = send_forecasts(session, view, lambda: self.workload)
        self._outcome = MixRun(session, view, self._jobs, forecasts).carry_out()
        return self._outcome

    def show(self, summary: dict[str, Any], topology: Topology) -> None:
        print_mix(summary, self._outcome, topology)


@dataclass(frozen=True)
class Ran:
    """The results of work on a cluster."""

    outcome: Outcome | MixOutcome
    summary: dict[str, Any]
    unwritten: NotWritten | None = None  #: why the folder for results is incomplete


def run_on(session: Session, work: Work, view: View, results: Path | None) -> Ran:
    """Carry out work; ``results`` is a new folder for all files of the run."""
    session.on_death = lambda death: view.say(_of_a_rack(death))
    watch = None if results is None else NetworkWatch(session)
    machine = MachineWatch(session)
    try:
        outcome = work.carry_out(session, view)
        summary = make_summary(session, work.name, outcome) | {"machine": machine.figures()}
        if watch is not None:
            watch.finish()
    except (ClusterFailed, PeerLost):
        if results is not None:
            save_logs(session.folder, results)
        raise
    unwritten = None
    if results is not None and watch is not None:
        try:
            save_emulation(session.folder, results, summary, watch.record)
        except NotWritten as error:  # the results are shown first
            unwritten = error
    return Ran(outcome, summary, unwritten)


@contextmanager
def session_for(up: RunFolder | None, config: ClusterConfig, view: View) -> Iterator[Session]:
    """A session with the cluster that is up, or else with one of its own."""
    if up is not None:
        with connected(up, config) as session:
            yield session
        return
    racks = config.topology.racks
    view.say(f"starting {config.topology.name}: {racks.count} racks, {config.topology.slots} slots")
    with own_session(config) as session:
        yield session


def _of_a_rack(death: dict[str, Any]) -> str:
    who = f"the {death['role']} {death['name']}"
    return f"{who} died ({death['how']}); {death['next']}"
