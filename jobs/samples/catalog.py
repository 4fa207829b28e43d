"""The jobs that come with Railyard, by name, and the jobs in users' files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from railyard.cluster.errors import UsageError, require, unknown_name
from railyard.cluster.messages.execution import JobPackage
from railyard.cluster.shown import printable
from railyard.jobs.model import Job, input_names
from railyard.jobs.package import load_job, pack_file, pack_job
from railyard.jobs.samples.associations.plan import plan_self_join
from railyard.jobs.samples.correlation.plan import plan_correlation
from railyard.jobs.samples.kmeans.plan import plan_kmeans
from railyard.jobs.samples.query.plan import plan_query
from railyard.jobs.samples.sample import Files, Plan, Request, Sample, Step, Verdict
from railyard.jobs.samples.sequences.plan import plan_ranked_inverted_index, plan_sequence_count
from railyard.jobs.samples.steps import (
    decoded,
    generating_step,
    helping_step,
    lines_of,
    measured_step,
    output_of,
    text_of,
)
from railyard.jobs.samples.teragen import RECORD_BYTES, RECORDS, TeraGen
from railyard.jobs.samples.terasort import TeraSort, require_enough, sample_cuts
from railyard.jobs.samples.teravalidate import TeraValidate
from railyard.jobs.samples.textgen import TextGen
from railyard.jobs.samples.topwords import TopWords
from railyard.jobs.samples.wordcount import WordCount

#: Compares the (word, count) lines of an output with the independently counted words of the input.
_Compare = Callable[[list[tuple[bytes, int]], Counter[bytes]], Verdict]

#: Number of the most frequent words that are shown.
_TOP = 10
_SHOWN_LETTERS_MAX = 40


def find(job: str) -> Sample:
    """The sample with this name, or the job in a user's file: "my_job.py", "my_job.py:LongWords".

    Raises ``UsageError`` for an unknown name, with the nearest one, or a file that does not exist.
    """
    file, _, job_class = job.partition(":")
    if file.endswith(".py"):
        if not Path(file).is_file():
            raise UsageError(f"{file}: no such file: need a job's Python file, or a job's name")
        return user_job(Path(file), job_class)
    samples = {sample.name: sample for sample in CATALOG}
    if job not in samples:
        raise unknown_name("job", job, samples)
    return samples[job]


def user_job(file: Path, job_class: str = "") -> Sample:
    """A job in a user's file; its plan has one step and no check."""
    name = printable(file.stem, _SHOWN_LETTERS_MAX)

    def plan(request: Request) -> Plan:
        package = pack_file(file, job_class, request.params)
        job = load_job(package)
        stages = job.stage_specs()
        return Plan(
            steps=(measured_step(name, request.input, request, package),),
            input=job.input,
            formats={each: job.input_format(each) for each in input_names(stages)},
            needs_input=any(stage.reads_files for stage in stages),
        )

    return Sample(name, f"the job in {file}", plan)


# The sort benchmark ------------------------------------------------------------------------------
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


# Words -------------------------------------------------------------------------------------------
def plan_wordcount(request: Request) -> Plan:
    """Count the words of generated or given text."""

    def compare(found: list[tuple[bytes, int]], expected: Counter[bytes]) -> Verdict:
        wrong = sorted(set(found) ^ set(expected.items()))
        if wrong or len(found) != len(expected):
            example = f': "{wrong[0][0].decode(errors="replace")}" {wrong[0][1]}' if wrong else ""
            return Verdict(False, f"{len(wrong)} counts differ from an independent count{example}")
        total = expected.total()
        return Verdict(
            True,
            f"{total} words, {len(expected)} distinct, as counted independently",
            tuple(
                f"{count:>9}  {printable(decoded(word), _SHOWN_LETTERS_MAX)}"
                for word, count in expected.most_common(_TOP)
            ),
        )

    return _plan_text("wordcount", WordCount, request, bytes.split, compare)


def plan_topwords(request: Request) -> Plan:
    """Find the most frequent words of generated or given text."""

    def words(text: bytes) -> list[bytes]:
        # This job reads text as str, so any white space of Unicode ends a word.
        return [word.encode("utf-8", "surrogateescape") for word in decoded(text).split()]

    def compare(found: list[tuple[bytes, int]], expected: Counter[bytes]) -> Verdict:
        ranked = sorted(expected.items(), key=lambda item: (-item[1], decoded(item[0])))
        right = found == ranked[: TopWords(**request.params).most]
        return Verdict(right, "as counted independently" if right else "other words are first")

    return _plan_text("topwords", TopWords, request, words, compare)


def _plan_text(
    name: str,
    job: type[Job],
    request: Request,
    words: Callable[[bytes], list[bytes]],
    compare: _Compare,
) -> Plan:
    generate = None if request.input else _generate_text(request)
    source = generate.output if generate else request.input
    step = measured_step(name, source, request, pack_job(job, request.params))

    def verify(files: Files) -> Verdict:
        """Compare with counts from one simple pass that shares no code with the job."""
        expected: Counter[bytes] = Counter()
        for text in text_of(files, source):
            expected.update(words(text))
        found = []
        for line in lines_of(files, step.output):
            word, _, count = line.rpartition(b"\t")
            if not count.isdigit():
                return Verdict(False, f"the output has a line {line!r:.60}: need word<TAB>count")
            found.append((word, int(count)))
        return compare(found, expected)

    steps = (generate, step) if generate else (step,)
    return Plan(steps=steps, input=job.input, verify=verify)


def _generate_text(request: Request) -> Step:
    size = request.stored_bytes
    require(size >= 1, "size", size, "at least one real byte")
    params = {"size": size, "parts": min(request.parts, size), "seed": request.seed}
    return generating_step("textgen", request, pack_job(TextGen, params), size)


CATALOG = (
    Sample("correlation", "ranks rows by two columns; four single tasks", plan_correlation),
    Sample("kmeans", "clusters movies by their ratings, in several iterations", plan_kmeans),
    Sample("query", "joins two tables, adds up and ranks, as SQL in five stages", plan_query),
    Sample(
        "ranked-inverted-index",
        "ranks the documents of each three words, of what sequence-count wrote",
        plan_ranked_inverted_index,
    ),
    Sample("self-join", "joins associations of k items to candidates of k + 1", plan_self_join),
    Sample("sequence-count", "counts three words in a row, by document", plan_sequence_count),
    Sample("terasort", "sorts 100-byte records, as the sort benchmark defines it", plan_terasort),
    Sample("topwords", "finds the most frequent words, in three stages", plan_topwords),
    Sample("wordcount", "counts words; combined=false ships every single one", plan_wordcount),
)
