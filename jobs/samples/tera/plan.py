"""The plan of the sort: records generated or given, sorted, and checked by two more jobs."""

from __future__ import annotations

from railyard.cluster.errors import UsageError, require, unknown_name
from railyard.cluster.messages.execution import JobPackage
from railyard.jobs.package import pack_job
from railyard.jobs.samples.sample import Files, Plan, Request, Step, Verdict
from railyard.jobs.samples.steps import generating_step, helping_step, lines_of, output_of
from railyard.jobs.samples.tera.teragen import RECORD_BYTES, RECORDS, TeraGen
from railyard.jobs.samples.tera.terasort import TeraSort, require_enough, sample_cuts
from railyard.jobs.samples.tera.teravalidate import TeraValidate


def plan_terasort(request: Request) -> Plan:
    """Sort generated or given records."""
    if request.input and request.params:
        raise UsageError("terasort: has no parameters for records that are given by --input")
    generate = None if request.input else _generate_records(request)
    source = generate.output if generate else request.input
    shared = generate and request.shared
    output = output_of(request)

    def pack_sort(files: Files) -> JobPackage:
        readers = [files.open(path) for path in files.list(source)]
        return pack_job(TeraSort, {"cuts": sample_cuts(readers, request.reduces)})

    def verify(files: Files) -> Verdict:
        before, after = _findings(files, check.output), _findings(files, validate.output)
        errors = after.pop(b"error", [])
        if errors:
            return Verdict(False, f"{len(errors)} faults or more, such as: {errors[0]}")
        for name, value in before.items():
            if after.get(name) != value:
                return Verdict(False, f"{name.decode()}: {after.get(name)} now, {value} before")
        (records,), (checksum,) = after[b"records"], after[b"checksum"]
        return Verdict(True, f"{records} records in order, checksum {checksum}")

    check = helping_step(
        "terachecksum",
        source,
        f"{source}-checksum" if shared else f"{request.folder}/checksum",
        pack_job(TeraValidate, {"ordered": False}),
    )
    sort = Step(
        name="terasort",
        input=source,
        output=output,
        reduces=request.reduces,
        pack=pack_sort,
        measured=True,
    )
    validate = helping_step(
        "teravalidate", output, f"{request.folder}/validate", pack_job(TeraValidate)
    )
    steps = (sort, check, validate)  # the job is the first to read its input
    return Plan(
        steps=(generate, *steps) if generate else steps,
        input=RECORDS,
        check_sizes=lambda sizes: require_enough(sizes, request.reduces),
        verify=verify,
    )


def _generate_records(request: Request) -> Step:
    for name in request.params:
        if name != "ascii":
            raise unknown_name("parameter of terasort", name, ["ascii"])
    rows = request.stored_bytes // RECORD_BYTES
    right = f"at least one record of {RECORD_BYTES} real bytes"
    require(rows >= 1, "size", request.stored_bytes, right)
    require_enough([request.stored_bytes], request.reduces)
    params = {"rows": rows, "parts": min(request.parts, rows), "seed": request.seed}
    return generating_step(
        "teragen",
        request,
        pack_job(TeraGen, params | dict(request.params)),
        request.stored_bytes,
    )


def _findings(files: Files, folder: str) -> dict[bytes, list[str]]:
    """TeraValidate's output: {first word of a line: the rests of these lines}."""
    found: dict[bytes, list[str]] = {}
    for line in lines_of(files, folder):
        name, _, value = line.partition(b"\t")
        found.setdefault(name, []).append(value.decode(errors="replace"))
    return found
