"""WordCount and TopWords: how often each word occurs, and which words occur most often.

Words are separated as by ``bytes.split()``: by blanks, tabs, line ends and form feeds.  The output
has lines "word<TAB>count", sorted by the words' bytes within each reduce.

With `combined=false` every single occurrence goes through the shuffle, which makes WordCount
heavy on the network.

TopWords is an example of a job in three stages: ``split`` counts words within each split, ``count``
sums the counts up, and ``top`` has one task that gets the most frequent words of every ``count``
task.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

from railyard.cluster.errors import printable, require
from railyard.cluster.messages import TaskSpec
from railyard.jobs.formats import Lines
from railyard.jobs.model import Job, Stage
from railyard.jobs.operators import Map, Reduce, Work, fetched, split_blocks
from railyard.jobs.plan import Files, Plan, Request, Verdict, decoded, lines_of, plan_of, text_of
from railyard.jobs.samples.tasks import TextGen, generated_text, pieces_of, rows_by_partition
from railyard.jobs.taskio import Buffer, Counters, TaskIO, TaskResult

Words = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]

#: With this block size the working set fits into a core's cache; larger ones take up to twice as
#: long.
_TEXT = Lines(block_bytes=2**18)
_HEADER = struct.Struct("<QQ")  # words, bytes of the words
#: Of a word as it is shipped, without its letters: its count, and the blank after it.
_PAIR_BYTES = 9
#: How many of the most frequent words a verdict shows, and letters of each.
_TOP, _LETTERS_MAX = 10, 40

_SHORT_BYTES = 15
#: Masks that keep the first n bytes of a word loaded as a little-endian number.
_FIRST = np.array([(1 << (8 * n)) - 1 for n in range(9)], np.uint64)
_LENGTH_SHIFT = np.uint64(56)
# Odd constants with well mixed bits: 2**64 / golden ratio (Knuth), and a prime of xxHash.
_MIX_LOW, _MIX_HIGH = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_SLOT_BITS = 17
_TO_SLOT = np.uint64(64 - _SLOT_BITS)


class WordCount(Job):
    """Counts words; `combined=false` ships every occurrence instead of each map's counts."""

    input = _TEXT
    combined: bool = True

    def stages(self) -> tuple[Stage, ...]:
        mapper = Work(_count_split) if self.combined else Work(_ship_words)
        return (Stage("m", mapper), Stage("r", Work(_sum), reads=("m",)))


def _count_split(task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
    table, lines = WordTable(), 0
    for _, block in split_blocks(_TEXT, task, io):
        table.add(block)
        lines += _line_count(block)
    words, counts = table.counts()
    counters |= {"words": table.words, "shipped": len(words)}
    _count(counters, task, records_in=lines, pairs_out=table.words)
    _count(counters, task, combined_away=table.words - len(words))
    _count(counters, task, bytes_out=table.letters + table.words * _PAIR_BYTES)
    partitions: list[list[Buffer]] = [[] for _ in range(task.partitions)]
    _add(partitions, words, counts)
    return TaskResult(partitions=partitions)


def _ship_words(task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
    """Ships each occurrence of a word in its splits with a count of one."""
    partitions: list[list[Buffer]] = [[] for _ in range(task.partitions)]
    shipped = lines = 0
    for _, block in split_blocks(_TEXT, task, io):
        words = bytes(block).split()
        lines += _line_count(block)
        _add(partitions, words, [1] * len(words))
        shipped += len(words)
    counters |= {"words": shipped, "shipped": shipped}
    _count(counters, task, records_in=lines, pairs_out=shipped)
    return TaskResult(partitions=partitions)


def _sum(task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
    sums: dict[bytes, int] = {}
    records = 0
    for _, output in fetched(task, io):
        for words, counts in _shipped(output):
            records += len(words)
            for word, count in zip(words, counts, strict=True):
                sums[word] = sums.get(word, 0) + count
    counters["distinct_words"] = len(sums)
    _count(counters, task, records_in=records, keys_in=len(sums), pairs_out=len(sums))
    lines = pieces_of(sorted(sums), lambda word: b"%s\t%d\n" % (word, sums[word]), io, 2**14)
    return TaskResult(output=lines)


def _count(counters: Counters, task: TaskSpec, **counts: int) -> None:
    """Count what the operators of record-by-record stages count."""
    counters |= {f"{task.stage}.{name}": count for name, count in counts.items()}


def _line_count(block: Buffer) -> int:
    """Lines of a block; the last one may have no end."""
    text = bytes(block)
    return text.count(b"\n") + (not text.endswith(b"\n"))


def _add(partitions: list[list[Buffer]], words: list[bytes], counts: list[int]) -> None:
    """Add a block (header, counts, words separated by blanks) to the partitions of these words."""
    counted = np.array(counts, "<u8")
    for partition, rows in rows_by_partition(words, len(partitions)):
        joined = b" ".join([words[row] for row in rows.tolist()])
        header = _HEADER.pack(len(rows), len(joined))
        partitions[partition] += [header, counted[rows].tobytes(), joined]


def _shipped(output: memoryview) -> Iterator[tuple[list[bytes], list[int]]]:
    """(Words, counts) of each block of one fetched output."""
    at = 0
    while at < len(output):
        words, length = _HEADER.unpack_from(output, at)
        at += _HEADER.size
        counts = np.frombuffer(output, "<u8", words, at).tolist()
        at += 8 * words
        yield bytes(output[at : at + length]).split(b" "), counts
        at += length


class WordTable:
    """A count for each word of blocks of text; over three times as fast as a ``Counter``.

    A word of at most 15 bytes becomes two 64-bit numbers that hold its bytes and its length.  Equal
    pairs are found by a hash table, and every hit is compared, so that counts are exact.  Longer
    words, which are rare, are counted one by one.
    """

    def __init__(self) -> None:
        self.words = 0  #: occurrences of all words
        self.letters = 0  #: bytes of all these occurrences
        self._tallies: list[tuple[Words, Words, Numbers]] = []
        self._long: Counter[bytes] = Counter()

    def add(self, block: Buffer) -> None:
        """Count the words of a block, which must not begin or end within a word."""
        text = b"".join((b" ", block, b" " * 17))  # padded, so that 16 bytes can be loaded anywhere
        starts, lengths = _words(np.frombuffer(text, np.uint8))
        self.words += len(starts)
        self.letters += int(lengths.sum())
        long = lengths > _SHORT_BYTES
        if long.any():
            spans = zip(starts[long].tolist(), lengths[long].tolist(), strict=True)
            self._long.update([text[start : start + length] for start, length in spans])
            starts, lengths = starts[~long], lengths[~long]
        low, high = _numbers(text, starts, lengths)
        self._tallies.append(_tally(low, high))

    def counts(self) -> tuple[list[bytes], list[int]]:
        """The distinct words, and the count of each."""
        if not self._tallies:
            return [], []
        low, high, counts = (np.concatenate(column) for column in zip(*self._tallies, strict=True))
        low, high, counts = _tally(low, high, counts)
        lengths = (high >> _LENGTH_SHIFT).tolist()
        data = np.stack((low, high), axis=1).astype("<u8").tobytes()
        words = [data[16 * i : 16 * i + length] for i, length in enumerate(lengths)]
        return [*words, *self._long], [*counts.tolist(), *self._long.values()]


def _words(text: npt.NDArray[np.uint8]) -> tuple[Numbers, Numbers]:
    """Offset and length of each word; the text must begin and end with white space."""
    space = (text == ord(" ")) | (text - np.uint8(ord("\t")) <= ord("\r") - ord("\t"))
    edges = np.flatnonzero(space[1:] != space[:-1]) + 1
    return edges[0::2], edges[1::2] - edges[0::2]


def _numbers(text: bytes, starts: Numbers, lengths: Numbers) -> tuple[Words, Words]:
    """The first 8 bytes of each word, and its next 7 with its length in the highest byte."""
    anywhere: Words = np.ndarray((len(text) - 7,), "<u8", text, 0, (1,))
    low = anywhere[starts] & _FIRST[np.minimum(lengths, 8)]
    high = lengths.astype(np.uint64) << _LENGTH_SHIFT
    more = np.flatnonzero(lengths > 8)
    high[more] |= anywhere[starts[more] + 8] & _FIRST[lengths[more] - 8]
    return low, high


def _tally(low: Words, high: Words, counts: Numbers | None = None) -> tuple[Words, Words, Numbers]:
    """The distinct pairs of numbers, and the sum of the counts of each; by default 1 per row."""
    hashes = ((low * _MIX_LOW) ^ (high * _MIX_HIGH)) * _MIX_LOW
    slots = (hashes >> _TO_SLOT).astype(np.int64)
    rows = np.arange(len(low))
    owner = np.empty(1 << _SLOT_BITS, np.int64)
    sums = np.zeros(len(low), np.int64)
    while len(rows):
        owner[slots] = rows  # the last word gets the slot; the others wait for the next round
        mine = owner[slots]
        same = (low[mine] == low[rows]) & (high[mine] == high[rows])
        weights = None if counts is None else counts[rows[same]]
        sums += np.bincount(mine[same], weights, len(low)).astype(np.int64)
        slots, rows = slots[~same], rows[~same]
    found = np.flatnonzero(sums)
    return low[found], high[found], sums[found]


class TopWords(Job):
    """Finds the `most` most frequent words; ties are broken in alphabetical order."""

    most: int = 10

    def setup(self) -> None:
        require(self.most >= 1, "most", self.most, "a whole number >= 1")

    def stages(self) -> tuple[Stage, ...]:
        return (
            Stage("split", Map(self.split, self.input, combine=self.add)),
            Stage("count", Reduce(self.total, combine=self.best), reads=("split",)),
            Stage("top", Reduce(self.rank), reads=("count",), tasks=1),
        )

    def split(self, line: str) -> Iterator[tuple[str, int]]:
        for word in line.split():
            yield word, 1

    def add(self, word: str, counts: Iterable[int]) -> Iterator[tuple[str, int]]:
        yield word, sum(counts)

    def total(self, word: str, counts: Iterable[int]) -> Iterator[tuple[str, tuple[int, str]]]:
        """Yield all words under one key, so that one task sees them."""
        yield "top", (-sum(counts), word)

    def best(
        self, key: str, words: Iterable[tuple[int, str]]
    ) -> Iterator[tuple[str, tuple[int, str]]]:
        """Yield the words that can still be among the most frequent."""
        for word in sorted(words)[: self.most]:
            yield key, word

    def rank(self, _: str, words: Iterable[tuple[int, str]]) -> Iterator[tuple[str, int]]:
        for count, word in sorted(words)[: self.most]:
            yield word, -count


# The plans ---------------------------------------------------------------------------------------
#: Compares the (word, count) lines of an output with the independently counted words of the input.
_Compare = Callable[[list[tuple[bytes, int]], Counter[bytes]], Verdict]


def plan_wordcount(request: Request) -> Plan:
    """Count the words of generated or given text."""

    def compare(found: list[tuple[bytes, int]], expected: Counter[bytes]) -> Verdict:
        wrong = sorted(set(found) ^ set(expected.items()))
        if wrong or len(found) != len(expected):
            example = f': "{wrong[0][0].decode(errors="replace")}" {wrong[0][1]}' if wrong else ""
            return Verdict(False, f"{len(wrong)} counts differ from an independent count{example}")
        detail = f"{expected.total()} words, {len(expected)} distinct, as counted independently"
        top = expected.most_common(_TOP)
        lines = [f"{count:>9}  {printable(decoded(word), _LETTERS_MAX)}" for word, count in top]
        return Verdict(True, detail, tuple(lines))

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
    def verify(files: Files, source: str, output: str) -> Verdict:
        expected: Counter[bytes] = Counter()
        for text in text_of(files, source):
            expected.update(words(text))
        found = []
        for line in lines_of(files, output):
            word, _, count = line.rpartition(b"\t")
            if not count.isdigit():
                return Verdict(False, f"the output has a line {line!r:.60}: need word<TAB>count")
            found.append((word, int(count)))
        return compare(found, expected)

    return plan_of(name, job, request, partial(generated_text, TextGen), verify)
