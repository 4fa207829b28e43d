"""The page of one run, on either clock: its origin, its figures, its pictures, its jobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from railyard.cluster.topology import Topology
from railyard.cluster.units import format_count, format_duration, format_number, format_size
from railyard.scripts.comparing.metrics import METRICS
from railyard.scripts.comparing.rows import CLOCK_WORDS
from railyard.scripts.report.html import embedded, write_html
from railyard.scripts.report.reasons import WORK_MAX, reasons
from railyard.scripts.report.results import Results
from railyard.scripts.report.rundata import run_data
from railyard.scripts.results.folder import FILES, ORIGIN, PAGE
from railyard.scripts.results.origin import Origin, origin_now
from railyard.scripts.results.outputfile import write_json
from railyard.scripts.results.summary import attempts_of, schedulers_of
from railyard.scripts.results.trust import fidelity_words, is_trusted


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
        "emulation": {"scale": f"{topology.scale:g}", "compute": topology.compute.mode}
        if emulated
        else None,
        "flaws": list(_flaws(summary)),
        "workload": summary["workload"],
        "schedulers": schedulers_of(summary),
        "cluster": f"{topology.name}: {racks}, {topology.slots} slots. {topology.description}.",
        "origin": [("Seed", str(summary["seed"])), *origin.rows()],
        "figures": list(_figures(summary)),
        "own": [
            (f"{policy}: {name}", format_number(value))
            for policy, of in summary.get("figures", {}).items()
            for name, value in of.items()
        ],
        "data": embedded(
            run_data(results, results.makespan_s) | {"why": reasons(results, work_max)}
        ),
        "jobs": job_rows(summary["jobs"]),
        "files": [(name, words) for name, words in FILES.items() if (folder / name).exists()],
    }
    write_html("run.html", folder / PAGE, values)


def job_rows(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A table of jobs as words."""
    begin_s = min((job["submitted_s"] for job in jobs), default=0.0)
    return [
        {
            "name": job["name"],
            "id": job["id"],
            "ok": job["ok"],
            "submitted": format_duration(job["submitted_s"] - begin_s),
            "jct": _duration(job["jct_s"]),
            "cct": _duration(job["cct_s"]),
            "input": format_size(job["input_bytes"]),
            "shuffle": format_size(job["shuffle_bytes"]),
            "output": format_size(job["output_bytes"]),
            "skew": "-" if job["shuffle_skew"] is None else f"{job['shuffle_skew']:.2f}",
            "tasks": ", ".join(format_count(job[f"{kind}s"], kind) for kind in ("map", "reduce")),
        }
        for job in jobs
    ]


def _duration(seconds: float | None) -> str:
    return "-" if seconds is None else format_duration(seconds)


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
        flows, off = summary["coarse"]["exact_flows"], summary["coarse"]["off"]
        yield (
            f"Simulated coarsely, as there would have been {flows:,} flows. Mean job times are "
            f"expected to be off by at most {off['jct_s']:.0%}, mean shuffle times by "
            f"{off['cct_s']:.0%}."
        )


def _figures(summary: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for metric in METRICS:
        value = metric.of(summary)
        if value is not None and (value or not metric.unless_zero):
            yield metric.title, metric.show(value)
    yield "attempts", attempts_of(summary["tasks"], "copies")
    moved = ", ".join(f"{format_size(n)} {way}" for way, n in summary["bytes"].items() if n)
    yield "bytes moved", moved or "none"
    verified = {True: "verified", False: "wrong", None: "not checked"}
    yield "output", verified[summary["verified"]]
    if "fidelity" in summary:
        yield "fidelity", fidelity_words(summary["fidelity"])
