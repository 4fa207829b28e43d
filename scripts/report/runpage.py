"""The page of one run, on either clock: its origin, its figures, its pictures, its jobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from railyard.cluster.topology import Topology
from railyard.cluster.units import format_count, format_number
from railyard.scripts.comparing.metrics import METRICS
from railyard.scripts.comparing.rows import CLOCK_WORDS
from railyard.scripts.report.html import embedded, write_html
from railyard.scripts.report.reasons import WORK_MAX, reasons
from railyard.scripts.report.results import Results
from railyard.scripts.report.rundata import run_data
from railyard.scripts.results.folder import FILES, ORIGIN, PAGE
from railyard.scripts.results.jobtable import counter_rows, job_table
from railyard.scripts.results.origin import Origin, origin_now
from railyard.scripts.results.outputfile import write_json
from railyard.scripts.results.summary import attempts_of, schedulers_of
from railyard.scripts.results.trust import fidelity_words, is_trusted
from railyard.scripts.results.words import figure_unit, figure_words, moved_words


def finish_folder(folder: Path, summary: dict[str, Any], topology: Topology) -> None:
    """Write ``origin.json`` and the page into the folder of a run that has just ended."""
    origin = origin_now()
    write_json(asdict(origin), folder / ORIGIN)
    write_run_page(folder, summary, topology, origin)


def write_run_page(
    folder: Path,
    summary: dict[str, Any],
    topology: Topology,
    origin: Origin,
    work_max: int = WORK_MAX,
) -> None:
    """Write ``index.html`` beside a run's other files; raises ``NotWritten``.

    ``work_max``: see ``reasons``.
    """
    results = Results(folder, summary)
    racks = format_count(topology.racks.count, "rack")
    emulated = summary["clock"] == "wall"
    values = {
        "title": f"{summary['workload']} under {summary['scheduler']}",
        "clock": CLOCK_WORDS[summary["clock"]].capitalize(),
        "emulation": {"scale": format_number(topology.scale), "compute": topology.compute.mode}
        if emulated
        else None,
        "flaws": list(_flaws(summary)),
        "workload": summary["workload"],
        "schedulers": schedulers_of(summary),
        "cluster": f"{topology.name}: {racks}, {topology.slots} slots. {topology.description}.",
        "origin": [("Seed", str(summary["seed"])), *origin.rows()],
        "figures": list(_figures(summary)),
        "own": [
            (f"{policy}: {figure_words(name)}", figure_unit(name, value).show(value))
            for policy, of in summary.get("figures", {}).items()
            for name, value in of.items()
        ],
        "data": embedded(
            run_data(results, results.makespan_s or 1.0) | {"why": reasons(results, work_max)}
        ),
        "count": format_count(len(summary["jobs"]), "job"),
        "jobs": job_table(summary["jobs"]),
        "counters": counter_rows(summary["jobs"]),
        "files": [(name, words) for name, words in FILES.items() if (folder / name).exists()],
    }
    write_html("run.html", folder / PAGE, values)


def _flaws(summary: dict[str, Any]) -> Iterator[str]:
    """What to know before anything on the page is believed."""
    jobs = summary["jobs"]
    failed = [job["name"] for job in jobs if not job["ok"]]
    if failed:
        names = ", ".join(failed[:10])
        yield f"Of {format_count(len(jobs), 'job')}, {len(failed)} failed: {names}."
    elif summary["verified"] is False:
        yield "The output of the jobs is wrong."
    if not is_trusted(summary):
        words = fidelity_words(summary["fidelity"])
        yield f"This machine was too busy for the times to be trusted: {words}."
    if "coarse" in summary:
        off = summary["coarse"]["off"]
        yield (
            f"Simulated coarsely, with up to {summary['coarse']['tasks_in_one']} blocks as one "
            f"map. Of 20 workloads that were drawn, 19 were off by at most "
            f"{off['jct_s']:.1%} in mean job times and {off['cct_s']:.1%} in mean shuffle times "
            "(scripts/bench simulator.coarse)."
        )


def _figures(summary: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for metric in METRICS:
        value = metric.of(summary)
        if value is not None and (value or not metric.unless_zero):
            yield metric.title, metric.show(value)
    yield "attempts", attempts_of(summary["tasks"], "copies")
    yield "bytes moved", moved_words(summary["bytes"])
    verified = {True: "verified", False: "wrong", None: "not checked"}
    yield "output", verified[summary["verified"]]
    if "fidelity" in summary:
        yield "fidelity", fidelity_words(summary["fidelity"])
