"""SequenceCount and RankedInvertedIndex: three words in a row, counted by document, and ranked.

SequenceCount counts how often three words follow one another in each document.  A line of text is
"title<TAB>words"; a line without a tab belongs to the document that has the name of its file.  A
sequence lies in one line.  Words are separated as by ``bytes.split()``.  The output has lines
"word word word<TAB>document<TAB>count"; each reduce sorts them by document, then by sequence.

RankedInvertedIndex reads these.  Its output has lines
"word word word<TAB>count document<TAB>count document ...", with the largest count first, sorted by
sequence within each reduce.

Source: Sequence-Count and Ranked-Inverted-Index of the PUMA suite (Ahmad et al., "PUMA: Purdue
MapReduce Benchmarks Suite", 2012): a map emits (three words and the document, 1), a reduce adds up;
a map splits each line into the words, and document and count, a reduce makes a list, in decreasing
order of the counts.  Documents there are files; here also lines with a title, as small inputs have
few files.  There is no combiner, as in Shadow's experiments: nearly every sequence of a document is
another.  Chosen here: a map ships a document's name once for all of its sequences that go to a
reduce; documents with equal counts go by name.
"""

from __future__ import annotations

import math
import re
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from railyard.cluster.errors import printable, require
from railyard.cluster.messages import TaskSpec
from railyard.jobs.formats import Lines
from railyard.jobs.model import Job, Stage
from railyard.jobs.operators import Work, fetched, split_blocks
from railyard.jobs.package import pack_job
from railyard.jobs.plan import (
    Files,
    Plan,
    Request,
    Step,
    Verdict,
    difference,
    generating_step,
    lines_of,
    plan_of,
    shown,
)
from railyard.jobs.samples.checks import ranked_lines, wrong_counts
from railyard.jobs.samples.tasks import (
    ArticlesGen,
    ShipLines,
    check_lines,
    generated_text,
    lines_in,
    malformed,
    pieces_of,
    rows_by_partition,
)
from railyard.jobs.taskio import Buffer, Counters, TaskIO, TaskResult

LENGTH = 3  #: words of a sequence
COUNTS_PER_BYTE = 5.2  #: bytes of counts that a byte of generated articles becomes, measured

_TEXT = Lines(block_bytes=2**18)
_HEADER = struct.Struct("<QQ")  # bytes of the document's name, bytes of the sequences
_SEQUENCES_AT_ONCE = 2**14  #: about so many of a document are partitioned together
_COUNTED = re.compile(rb"(\S+ \S+ \S+)\t[^\t]*\t[0-9]{1,18}\r?")
#: Files of counts have about 90 % of a block, so that hardly one of them has a second block.
_FILES_PER_BLOCK = 10 / 9
_COUNTS_BYTES_MIN = 1000
#: Lines of an index, and letters of each, that a verdict shows.
_SHOWN, _LETTERS_MAX = 5, 70


class SequenceCount(Job):
    """Counts the sequences of three words in each document."""

    input = _TEXT

    def stages(self) -> tuple[Stage, ...]:
        return (Stage("m", Work(_ship_sequences)), Stage("r", Work(_sum), reads=("m",)))


def _ship_sequences(task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
    partitions: list[list[Buffer]] = [[] for _ in range(task.partitions)]
    counters |= {"words": 0, "sequences": 0}
    for split, block in split_blocks(_TEXT, task, io):
        for document, sequences in _by_document(block, split.path, counters):
            for partition, rows in rows_by_partition(sequences, task.partitions):
                joined = b"\n".join([sequences[row] for row in rows.tolist()])
                header = _HEADER.pack(len(document), len(joined))
                partitions[partition] += [header, document, joined]
    return TaskResult(partitions=partitions)


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


def documents(lines: Buffer, path: str) -> Iterator[tuple[bytes, bytes]]:
    """(Document, words) of each of these lines of a file."""
    name = path.rpartition("/")[2].encode("utf-8", "surrogateescape")
    for line in bytes(lines).split(b"\n"):
        title, tab, words = line.partition(b"\t")
        yield (title, words) if tab else (name, line)


def _sum(task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
    counts: dict[bytes, Counter[bytes]] = {}
    for _, output in fetched(task, io):
        for document, sequences in _shipped(output):
            counts.setdefault(document, Counter()).update(sequences)
    counters["counted"] = sum(map(len, counts.values()))

    def lines(document: bytes) -> bytes:
        of = counts[document]
        return b"".join([b"%s\t%s\t%d\n" % (each, document, of[each]) for each in sorted(of)])

    return TaskResult(output=pieces_of(sorted(counts), lines, io, keys_at_once=1))


def _shipped(output: memoryview) -> Iterator[tuple[bytes, list[bytes]]]:
    """(Document, sequences) in one fetched output."""
    at = 0
    while at < len(output):
        named, length = _HEADER.unpack_from(output, at)
        at += _HEADER.size
        document, joined = bytes(output[at : at + named]), output[at + named : at + named + length]
        yield document, bytes(joined).split(b"\n")
        at += named + length


class RankedInvertedIndex(Job):
    """Ranks the documents that have a sequence by how often they have it."""

    def stages(self) -> tuple[Stage, ...]:
        ship = ShipLines(counted_sequences, "counts")
        return (Stage("m", ship), Stage("r", Work(_rank), reads=("m",)))


def counted_sequences(block: Buffer) -> tuple[list[bytes], list[bytes]]:
    """The sequence in each of these lines of counts, and the lines; ``BadLine`` for other lines."""
    lines, sequences = lines_in(block), []
    for number, line in enumerate(lines):
        found = _COUNTED.fullmatch(line)
        if found is None:
            right = "word word word<TAB>document<TAB>count, as sequence-count writes them"
            raise malformed(number, line, right)
        sequences.append(found[1])
    return sequences, lines


def _rank(task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
    index: dict[bytes, list[tuple[int, bytes]]] = {}  #: {sequence: -count, document of each}
    for _, output in fetched(task, io):
        for line in lines_in(output):
            sequence, document, count = line.split(b"\t")
            index.setdefault(sequence, []).append((-int(count), document))
    counters["distinct_sequences"] = len(index)

    def text_of(sequence: bytes) -> bytes:
        ranked = [b"%d %s" % (-count, document) for count, document in sorted(index[sequence])]
        return b"\t".join([sequence, *ranked]) + b"\n"

    return TaskResult(output=pieces_of(sorted(index), text_of, io))


def plan_sequence_count(request: Request) -> Plan:
    """Count the sequences in generated articles, or in given text."""
    generate = partial(generated_text, ArticlesGen)
    return plan_of("sequence-count", SequenceCount, request, generate, _verify_counts)


def plan_ranked_inverted_index(request: Request) -> Plan:
    """Rank the documents of sequences that were counted, in generated articles or before."""
    check = partial(check_lines, counted_sequences)
    return plan_of(
        "ranked-inverted-index", RankedInvertedIndex, request, _counts, _verify_index, check
    )


def _verify_counts(files: Files, source: str, output: str) -> Verdict:
    different, every, wrong = wrong_counts(files, source, output)
    if wrong:
        return Verdict(False, printable(wrong))
    return Verdict(True, f"{every} sequences, {different} counts, as counted independently")


def _verify_index(files: Files, source: str, output: str) -> Verdict:
    expected = ranked_lines(files, source)
    wrong = difference(sorted(lines_of(files, output)), expected, "lines")
    detail = f"{len(expected)} sequences, ranked as by an independent program"
    return wrong or Verdict(True, detail, _most_spread(expected))


def _counts(request: Request) -> tuple[Step, Step]:
    """The steps that make counts of about the size that is asked for."""
    size = request.stored_bytes
    right = f"at least {_COUNTS_BYTES_MIN} real bytes: some sequences"
    require(size >= _COUNTS_BYTES_MIN, "size", size, right)
    size = round(size / COUNTS_PER_BYTE)
    parts = math.ceil(request.parts / COUNTS_PER_BYTE)
    # The articles are made for the counts alone: only these are spread over racks, and announced.
    wanted = replace(request, stored_bytes=size, parts=parts, skew=None)
    (articles,) = generated_text(ArticlesGen, wanted, "articles")
    package = pack_job(SequenceCount)
    count = generating_step("sequence-count", request, package, of=articles.output)
    files = math.ceil(request.parts * _FILES_PER_BLOCK)
    return replace(articles, generated_bytes=0), replace(count, reduces=files)


def _most_spread(lines: list[bytes]) -> tuple[str, ...]:
    numbers = {line: line.count(b"\t") for line in lines}
    most = sorted(lines, key=lambda line: (-numbers[line], line))[:_SHOWN]
    return tuple(f"{numbers[line]:>7} documents  {shown(line, _LETTERS_MAX)}" for line in most)
