"""The plan of the query: both tables generated, or given by name; joined; checked."""

from __future__ import annotations

import math
from dataclasses import replace

from railyard.cluster.errors import require
from railyard.jobs.package import pack_job
from railyard.jobs.samples.query.check import expected_rows, found_rows
from railyard.jobs.samples.query.generate import (
    RANKING_BYTES,
    RANKINGS_SHARE,
    VISIT_BYTES,
    RankingsGen,
    UserVisitsGen,
)
from railyard.jobs.samples.query.job import COLUMNS, Query
from railyard.jobs.samples.query.tables import TABLES, check_tables
from railyard.jobs.samples.sample import Files, Plan, Request, Step, Verdict
from railyard.jobs.samples.steps import generating_step, measured_step

_SHOWN_ROWS = 10


def plan_query(request: Request) -> Plan:
    """Run the query over two generated tables, or over those that are given."""
    job = Query(**request.params)
    generating = () if request.input else _generate(request)
    given = zip(TABLES, (step.output for step in generating), strict=False)
    inputs = dict(request.inputs or given)
    package = pack_job(Query, request.params)
    source = request.input or request.shared or request.folder
    query = measured_step("query", source, request, package)

    def verify(files: Files) -> Verdict:
        """Compare with a plain program that shares no code with the job."""
        tables = inputs["rankings"], inputs["uservisits"]
        expected = expected_rows(files, *tables, job.since, job.until)
        best = expected[: job.most]
        if (found := found_rows(files, query.output)) != best:
            wrong = next((row for row in found if row not in best), None)
            example = f", such as {' '.join(wrong)}" if wrong is not None else ""
            return Verdict(False, f"{len(found)} rows, {len(best)} expected; others{example}")
        detail = f"the first {len(best)} of {len(expected)} rows, as computed independently"
        shown = tuple("  ".join(f"{c:>15}" for c in row) for row in (COLUMNS, *best[:_SHOWN_ROWS]))
        return Verdict(True, detail, shown)

    return Plan(
        steps=(*generating, replace(query, inputs=tuple(inputs.items()))),
        input=job.input,
        formats={name: job.input_format(name) for name in TABLES},
        check_files=check_tables,
        verify=verify,
    )


def _generate(request: Request) -> tuple[Step, Step]:
    """The steps that generate both tables, with a file for each block of about their size."""
    size = request.stored_bytes
    right = f"at least {RANKING_BYTES + VISIT_BYTES} real bytes: a row of each table"
    require(size >= RANKING_BYTES + VISIT_BYTES, "size", size, right)
    pages = max(1, round(size * RANKINGS_SHARE / RANKING_BYTES))
    rows = max(1, round(size * (1 - RANKINGS_SHARE) / VISIT_BYTES))
    few = min(pages, math.ceil(request.parts * RANKINGS_SHARE))
    return (
        generating_step(
            "rankingsgen",
            request,
            pack_job(RankingsGen, {"pages": pages, "parts": few, "seed": request.seed}),
            pages * RANKING_BYTES,
            "rankings",
        ),
        generating_step(
            "uservisitsgen",
            request,
            pack_job(
                UserVisitsGen,
                {
                    "rows": rows,
                    "pages": pages,
                    "parts": min(rows, request.parts),
                    "seed": request.seed,
                },
            ),
            rows * VISIT_BYTES,
            "uservisits",
        ),
    )
