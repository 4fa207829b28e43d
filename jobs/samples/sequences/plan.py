"""The plans of the two jobs: articles generated or text given; counted; ranked; checked."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from railyard.cluster.errors import require
from railyard.cluster.shown import printable
from railyard.jobs.package import pack_job
from railyard.jobs.samples.checkedlines import check_lines
from railyard.jobs.samples.sample import Files, Plan, Request, Step, Verdict
from railyard.jobs.samples.sequences.check import ranked_lines, wrong_counts
from railyard.jobs.samples.sequences.count import SequenceCount
from railyard.jobs.samples.sequences.documents import counted_sequences
from railyard.jobs.samples.sequences.generate import ArticlesGen
from railyard.jobs.samples.sequences.rank import RankedInvertedIndex
from railyard.jobs.samples.steps import decoded, generating_step, lines_of, measured_step

#: Bytes of counts that a byte of generated articles becomes, measured.
COUNTS_PER_BYTE = 5.2
#: Files of counts have about 90 % of a block, so that hardly one of them has a second block.
_FILES_PER_BLOCK = 10 / 9
_COUNTS_BYTES_MIN = 1000
_SHOWN = 5
_SHOWN_LETTERS_MAX = 70


def plan_sequence_count(request: Request) -> Plan:
    """Count the sequences in generated articles, or in given text."""
    generate = None if request.input else _articles(request)
    source = generate.output if generate else request.input
    package = pack_job(SequenceCount, request.params)
    step = measured_step("sequence-count", source, request, package)

    def verify(files: Files) -> Verdict:
        """Compare with a plain program that shares no code with the job."""
        different, every, wrong = wrong_counts(files, source, step.output)
        if wrong:
            return Verdict(False, printable(wrong))
        detail = f"{every} sequences, {different} counts, as counted independently"
        return Verdict(True, detail)

    steps = (generate, step) if generate else (step,)
    return Plan(steps=steps, input=SequenceCount.input, verify=verify)


def plan_ranked_inverted_index(request: Request) -> Plan:
    """Rank the documents of sequences that were counted, in generated articles or before."""
    before = () if request.input else _counts(request)
    source = before[-1].output if before else request.input
    package = pack_job(RankedInvertedIndex, request.params)
    step = measured_step("ranked-inverted-index", source, request, package)

    def verify(files: Files) -> Verdict:
        """Compare with a plain program that shares no code with the job."""
        expected = ranked_lines(files, source)
        found = sorted(lines_of(files, step.output))
        if found != expected:
            odd = next(iter(sorted(set(found) ^ set(expected))), b"a line twice")
            shown = printable(decoded(odd), _SHOWN_LETTERS_MAX)
            words = f"{len(found)} lines, {len(expected)} expected; others, such as: {shown}"
            return Verdict(False, words)
        detail = f"{len(expected)} sequences, ranked as by an independent program"
        return Verdict(True, detail, _most_spread(expected))

    return Plan(
        steps=(*before, step),
        input=RankedInvertedIndex.input,
        check_files=partial(check_lines, counted_sequences),
        verify=verify,
    )


def _articles(request: Request, folder: str = "input") -> Step:
    size = request.stored_bytes
    require(size >= 1, "size", size, "at least one real byte")
    params = {"size": size, "parts": min(request.parts, size), "seed": request.seed}
    return generating_step("articlesgen", request, pack_job(ArticlesGen, params), size, folder)


def _counts(request: Request) -> tuple[Step, Step]:
    """The steps that make counts of about the size that is asked for."""
    size = request.stored_bytes
    right = f"at least {_COUNTS_BYTES_MIN} real bytes: some sequences"
    require(size >= _COUNTS_BYTES_MIN, "size", size, right)
    size = round(size / COUNTS_PER_BYTE)
    parts = math.ceil(request.parts / COUNTS_PER_BYTE)
    # The articles are made for the counts alone: only these are spread over racks, and announced.
    articles = _articles(replace(request, stored_bytes=size, parts=parts, skew=None), "articles")
    count = generating_step(
        "sequence-count", request, pack_job(SequenceCount), request.stored_bytes, of=articles.output
    )
    files = math.ceil(request.parts * _FILES_PER_BLOCK)
    return replace(articles, generated_bytes=0), replace(count, reduces=files)


def _most_spread(lines: list[bytes]) -> tuple[str, ...]:
    """The sequences that are in most documents, for people."""
    numbers = {line: line.count(b"\t") for line in lines}
    most = sorted(lines, key=lambda line: (-numbers[line], line))[:_SHOWN]
    return tuple(
        f"{numbers[line]:>7} documents  {printable(decoded(line), _SHOWN_LETTERS_MAX)}"
        for line in most
    )
