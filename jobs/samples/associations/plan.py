"""The plan of Self-Join: associations generated or given, joined, checked."""

from __future__ import annotations

from functools import partial

from railyard.cluster.errors import UsageError, require, unknown_name
from railyard.cluster.shown import printable
from railyard.jobs.package import pack_job
from railyard.jobs.samples.associations.check import expected_candidates
from railyard.jobs.samples.associations.generate import AssociationsGen, row_bytes
from railyard.jobs.samples.associations.job import SelfJoin, associations
from railyard.jobs.samples.checkedlines import check_lines
from railyard.jobs.samples.sample import Files, Plan, Request, Step, Verdict
from railyard.jobs.samples.steps import decoded, generating_step, lines_of, measured_step

_SHOWN = 5
_SHOWN_LETTERS_MAX = 60


def plan_self_join(request: Request) -> Plan:
    """Join generated or given associations."""
    if request.input and request.params:
        raise UsageError("self-join: has no parameters for associations that are given by --input")
    generate = None if request.input else _associations(request)
    source = generate.output if generate else request.input
    step = measured_step("self-join", source, request, pack_job(SelfJoin))

    def verify(files: Files) -> Verdict:
        """Compare with a plain program that shares no code with the job."""
        expected, found = expected_candidates(files, source), sorted(lines_of(files, step.output))
        if found != expected:
            odd = next(iter(sorted(set(found) ^ set(expected))), b"a line twice")
            shown = printable(decoded(odd), _SHOWN_LETTERS_MAX)
            words = f"{len(found)} candidates, {len(expected)} expected; others, such as: {shown}"
            return Verdict(False, words)
        shown_lines = [printable(decoded(line), _SHOWN_LETTERS_MAX) for line in expected[:_SHOWN]]
        detail = f"{len(expected)} candidates, as joined independently"
        return Verdict(True, detail, tuple(shown_lines))

    return Plan(
        steps=(generate, step) if generate else (step,),
        input=SelfJoin.input,
        check_files=partial(check_lines, associations),
        verify=verify,
    )


def _associations(request: Request) -> Step:
    for name in request.params:
        if name != "items":
            raise unknown_name("parameter of self-join", name, ["items"])
    size = request.stored_bytes
    asked = AssociationsGen(**{"rows": 1} | dict(request.params))
    least = row_bytes(asked.items)
    rows = size // least
    require(rows >= 1, "size", size, f"at least an association of {least} real bytes")
    params = {
        "rows": rows,
        "items": asked.items,
        "parts": min(request.parts, rows),
        "seed": request.seed,
    }
    return generating_step("associationsgen", request, pack_job(AssociationsGen, params), size)
