"""The lines of the two jobs: documents, and counts of their sequences of three words.

A line of text is "title<TAB>words"; a line without a tab belongs to the document that has the name
of its file.  A line of counts is "word word word<TAB>document<TAB>count".
"""

from __future__ import annotations

import math
import re
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice

from railyard.cluster.errors import printable, require
from railyard.cluster.messages import TaskSpec
from railyard.jobs.formats import Lines
from railyard.jobs.model import Job, Stage
from railyard.jobs.operators import FETCHED_SHARE, fetch, split_blocks, split_bytes
from railyard.jobs.package import pack_job
from railyard.jobs.plan import (
    Files,
    Plan,
    Request,
    Step,
    Verdict,
    decoded,
    generating_step,
    lines_of,
    measured_step,
)
from railyard.jobs.samples.checks import ranked_lines, wrong_counts
from railyard.jobs.samples.tasks import BadLine, check_lines, parsed_blocks, rows_by_partition
from railyard.jobs.samples.textgen import ArticlesGen
from railyard.jobs.taskio import Buffer, Counters, TaskIO, TaskResult

#: Words of a sequence.
LENGTH = 3

_COUNTED = re.compile(rb"(\S+ \S+ \S+)\t[^\t]*\t[0-9]{1,18}\r?")
_SHOWN_BYTES = 60


def documents(lines: Buffer, path: str) -> Iterator[tuple[bytes, bytes]]:
    """(Document, words) of each of these lines of a file."""
    name = path.rpartition("/")[2].encode("utf-8", "surrogateescape")
    for line in bytes(lines).split(b"\n"):
        title, tab, words = line.partition(b"\t")
        yield (title, words) if tab else (name, line)


def counted_sequences(lines: Buffer) -> tuple[list[bytes], list[bytes]]:
    """The sequence in each of these lines of counts, and the lines; ``BadLine`` for other lines."""
    rows = bytes(lines).split(b"\n")
    if not rows[-1]:
        rows.pop()
    sequences = []
    for number, row in enumerate(rows):
        found = _COUNTED.fullmatch(row)
        if found is None:
            shown = row[:_SHOWN_BYTES].decode(errors="replace")
            right = "word word word<TAB>document<TAB>count, as sequence-count writes them"
            raise BadLine(number, f"{shown!r}: need {right}")
        sequences.append(found[1])
    return sequences, rows


# SequenceCount: how often three words follow one another in each document.
#
# A sequence lies in one line.  Words are separated as by ``bytes.split()``.  The output has lines
# "word word word<TAB>document<TAB>count"; each reduce sorts them by document, then by sequence.
#
# Source: Sequence-Count of the PUMA suite (Ahmad et al., "PUMA: Purdue MapReduce Benchmarks Suite",
# 2012): a map emits (three words and the document, 1), a reduce adds up.  Documents there are
# files; here also lines with a title, as small inputs have few files.  There is no combiner, as in
# Shadow's experiments: nearly every sequence of a document is another.  Chosen here: a map ships a
# document's name once for all of its sequences that go to a reduce.


_TEXT = Lines(block_bytes=2**18)
_HEADER = struct.Struct("<QQ")  # bytes of the document's name, bytes of the sequences
#: Sequences of a document that are partitioned at once, about.
_SEQUENCES_AT_ONCE = 2**14


class SequenceCount(Job):
    """Counts the sequences of three words in each document."""

    input = _TEXT

    def stages(self) -> tuple[Stage, ...]:
        return (Stage("m", _ShipSequences()), Stage("r", _Sum(), reads=("m",)))


class _ShipSequences:
    """Ships each sequence in its splits, with its document."""

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        partitions: list[list[Buffer]] = [[] for _ in range(task.partitions)]
        counters |= {"words": 0, "sequences": 0}
        for split, block in split_blocks(_TEXT, task, io):
            for document, sequences in _by_document(block, split.path, counters):
                for partition, rows in rows_by_partition(sequences, task.partitions):
                    joined = b"\n".join([sequences[row] for row in rows.tolist()])
                    header = _HEADER.pack(len(document), len(joined))
                    partitions[partition] += [header, document, joined]
        return TaskResult(partitions=partitions, input_bytes=split_bytes(task), counters=counters)


def _by_document(
    block: Buffer, path: str, counters: Counters
) -> Iterator[tuple[bytes, list[bytes]]]:
    """(Document, sequences) for the lines of a block; those of one that follow one another join."""
    current, held = b"", list[bytes]()
    for document, text in documents(block, path):
        if held and (document != current or len(held) >= _SEQUENCES_AT_ONCE):
            yield current, held
            held = []
        current = document
        words = text.split()
        ahead = [words[start:] for start in range(LENGTH)]
        counters["words"] += len(words)
        counters["sequences"] += max(0, len(words) + 1 - LENGTH)
        held += map(b" ".join, zip(*ahead, strict=False))
    if held:
        yield current, held


class _Sum:
    """Adds up the occurrences of each sequence in each document."""

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        counts: dict[bytes, Counter[bytes]] = {}
        fetched_bytes = 0
        for _, output in fetch(task, io):
            fetched_bytes += len(output)
            for document, sequences in _shipped(output):
                counts.setdefault(document, Counter()).update(sequences)
        counters["counted"] = sum(map(len, counts.values()))
        return TaskResult(
            output=_counted_lines(counts, io), input_bytes=fetched_bytes, counters=counters
        )


def _shipped(output: memoryview) -> Iterator[tuple[bytes, list[bytes]]]:
    """(Document, sequences) in one fetched output."""
    at = 0
    while at < len(output):
        named, length = _HEADER.unpack_from(output, at)
        at += _HEADER.size
        document, joined = bytes(output[at : at + named]), output[at + named : at + named + length]
        yield document, bytes(joined).split(b"\n")
        at += named + length


def _counted_lines(counts: dict[bytes, Counter[bytes]], io: TaskIO) -> Iterator[Buffer]:
    for done, document in enumerate(sorted(counts), start=1):
        of = counts[document]
        rows = [b"%s\t%s\t%d\n" % (sequence, document, of[sequence]) for sequence in sorted(of)]
        yield b"".join(rows)
        io.progress(FETCHED_SHARE + (1 - FETCHED_SHARE) * done / len(counts))


# RankedInvertedIndex: for each sequence of three words the documents that have it, by count.
#
# It reads what SequenceCount writes.  The output has lines "word word word<TAB>count
# document<TAB>count document ...", with the largest count first, sorted by sequence within each
# reduce.
#
# Source: Ranked-Inverted-Index of the PUMA suite (Ahmad et al., 2012): a map splits each line into
# the words, and document and count; a reduce makes a list, in decreasing order of the counts.
# Chosen here: documents with equal counts go by name.


_LINES_PER_PIECE = 2**13

#: {sequence: (-count, document) of each document that has it}
_Index = dict[bytes, list[tuple[int, bytes]]]


class RankedInvertedIndex(Job):
    """Ranks the documents that have a sequence by how often they have it."""

    input = Lines()

    def stages(self) -> tuple[Stage, ...]:
        return (Stage("m", _ShipCounts()), Stage("r", _Rank(), reads=("m",)))


class _ShipCounts:
    """Ships each line of its splits to the reduce of its sequence."""

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        partitions: list[list[Buffer]] = [[] for _ in range(task.partitions)]
        total, done = max(1, split_bytes(task)), 0
        counters["counts"] = 0
        for split in task.splits:
            file = io.open(split.path)
            for block, (sequences, lines) in parsed_blocks(counted_sequences, file, split):
                for partition, rows in rows_by_partition(sequences, task.partitions):
                    partitions[partition] += [
                        b"\n".join([lines[row] for row in rows.tolist()]),
                        b"\n",
                    ]
                counters["counts"] += len(lines)
                done += len(block)
                io.progress(min(1.0, done / total))
        return TaskResult(partitions=partitions, input_bytes=split_bytes(task), counters=counters)


class _Rank:
    """Sorts the documents of each sequence."""

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        index: _Index = {}
        fetched_bytes = 0
        for _, output in fetch(task, io):
            fetched_bytes += len(output)
            for line in bytes(output).split(b"\n")[:-1]:
                sequence, document, count = line.split(b"\t")
                index.setdefault(sequence, []).append((-int(count), document))
        counters["distinct_sequences"] = len(index)
        return TaskResult(
            output=_ranked_lines(index, io), input_bytes=fetched_bytes, counters=counters
        )


def _ranked_lines(index: _Index, io: TaskIO) -> Iterator[Buffer]:
    sequences = iter(sorted(index))
    done = 0
    while piece := list(islice(sequences, _LINES_PER_PIECE)):
        yield b"".join([_line(sequence, index[sequence]) for sequence in piece])
        done += len(piece)
        io.progress(FETCHED_SHARE + (1 - FETCHED_SHARE) * done / len(index))


def _line(sequence: bytes, documents: list[tuple[int, bytes]]) -> bytes:
    ranked = [b"%d %s" % (-negative, document) for negative, document in sorted(documents)]
    return b"\t".join([sequence, *ranked]) + b"\n"


# The plans of the two jobs: articles generated or text given; counted; ranked; checked.


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
