"""The plan of the correlation: a table generated or given, ranked, checked."""

from __future__ import annotations

from functools import partial

from railyard.cluster.errors import require
from railyard.cluster.shown import printable
from railyard.jobs.package import pack_job
from railyard.jobs.samples.checkedlines import check_lines
from railyard.jobs.samples.correlation.check import expected_ranks
from railyard.jobs.samples.correlation.generate import ROW_BYTES, TableGen
from railyard.jobs.samples.correlation.job import Correlation, rows
from railyard.jobs.samples.sample import Files, Plan, Request, Step, Verdict
from railyard.jobs.samples.steps import decoded, generating_step, lines_of, measured_step

_SHOWN_LETTERS_MAX = 60
#: Both coefficients are rounded to six digits.
_ROUNDING = 1.1e-6


def plan_correlation(request: Request) -> Plan:
    """Rank the rows of a generated or given table."""
    generate = None if request.input else _table(request)
    source = generate.output if generate else request.input
    step = measured_step("correlation", source, request, pack_job(Correlation, request.params))

    def verify(files: Files) -> Verdict:
        """Compare with a plain program that shares no code with the job."""
        expected, coefficient = expected_ranks(files, source)
        found = list(lines_of(files, step.output))
        last = found.pop() if found else b""
        if found != expected:
            odd = next(iter(sorted(set(found) ^ set(expected))), b"an order")
            shown = printable(decoded(odd), _SHOWN_LETTERS_MAX)
            words = f"{len(found)} ranks, {len(expected)} expected; others, such as: {shown}"
            return Verdict(False, words)
        if not _is_summary(last, len(expected), coefficient):
            shown = printable(decoded(last), _SHOWN_LETTERS_MAX)
            return Verdict(False, f"{len(expected)} rows, {coefficient} expected, not: {shown}")
        detail = f"{len(expected)} rows, rank correlation {coefficient}, as computed independently"
        return Verdict(True, detail)

    return Plan(
        steps=(generate, step) if generate else (step,),
        input=Correlation.input,
        check_files=partial(check_lines, rows),
        verify=verify,
    )


def _is_summary(line: bytes, rows: int, coefficient: str) -> bool:
    """Whether this is the last line of the output for so many rows and this coefficient."""
    start, _, found = decoded(line).rpartition("\t")
    if start != f"\t{rows}":
        return False
    try:
        return found == coefficient or abs(float(found) - float(coefficient)) < _ROUNDING
    except ValueError:
        return False


def _table(request: Request) -> Step:
    size = request.stored_bytes
    count = size // ROW_BYTES
    require(count >= 1, "size", size, f"at least a row of {ROW_BYTES} real bytes")
    params = {"rows": count, "parts": min(request.parts, count), "seed": request.seed}
    return generating_step("tablegen", request, pack_job(TableGen, params), size)
