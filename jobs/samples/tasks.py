"""What the tasks of sample jobs have in common: generating, parsing, partitioning and writing.

Jobs that generate make a part of all rows or bytes in each task, which needs no other part.  Jobs
that read lines of a certain form name the first line that is of another one by file and line.

Text is random, of made-up words with the word frequencies of real text: by Zipf's law, the n-th
most frequent word has a share in proportion to 1/n.  In place of Hadoop's RandomTextWriter, where
all words are equally frequent.  Articles are as an encyclopedia has them: a title, and a text of
very unequal length.  Lengths are lognormal, with a median of 300 words and a mean of 600, about as
in the English Wikipedia; words are drawn one by one.  So short sequences of frequent words are in
many articles, and most others in one, once.
"""

from __future__ import annotations

import math
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from railyard.cluster.errors import require
from railyard.cluster.messages import Split, TaskSpec
from railyard.jobs.formats import Lines
from railyard.jobs.model import Job, Stage
from railyard.jobs.operators import Work, after_fetch, split_bytes
from railyard.jobs.package import pack_job
from railyard.jobs.plan import GivenFile, Request, Step, generating_step
from railyard.jobs.taskio import BadInput, Buffer, Counters, FileReader, TaskIO, TaskResult

_LINES = Lines()
_COUNTED_BYTES = 2**20  #: per read while lines are counted
_SHOWN_BYTES = 60  #: of a wrong line, in its error

_ROWS_AT_ONCE = 2**14
_VOCABULARY = 20_000
_LETTERS_MAX = 14
_WORDS_AT_ONCE = 2**16
_WORDS_PER_LINE = 12
_MEDIAN_WORDS, _SIGMA = 300, math.sqrt(2 * math.log(2))
_WORD_BYTES = 7  #: of a word and the blank after it, a bit above the mean

Numbers = npt.NDArray[np.int64]

Key = TypeVar("Key")
Parsed = TypeVar("Parsed")
Parse = Callable[[Buffer], Parsed]  #: parses a block of whole lines; raises ``BadLine``


# Generating --------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Part:
    """What a task makes: of all rows (or bytes), those from ``first`` up to ``stop``."""

    index: int  #: of the task
    first: int
    stop: int

    def pieces(self, rows: int) -> Iterator[tuple[int, int]]:
        """(First row, number of rows) of pieces of at most so many rows."""
        for row in range(self.first, self.stop, rows):
            yield row, min(rows, self.stop - row)


class Generator(Job):
    """Base of jobs that generate; each has its parameters in the order of its folder's name."""

    TOTAL: ClassVar[str] = "rows"  #: the parameter that says how many there are in all parts
    OF: ClassVar[str] = "rows"  #: what these are, in errors
    if TYPE_CHECKING:
        parts: int
        seed: int

    def setup(self) -> None:
        require(self.total >= 1, self.TOTAL, self.total, "a whole number >= 1")
        require(1 <= self.parts <= self.total, "parts", self.parts, f"1 to the number of {self.OF}")
        require(self.seed >= 0, "seed", self.seed, "a whole number >= 0")

    @property
    def total(self) -> int:
        return int(getattr(self, self.TOTAL))

    def stages(self) -> tuple[Stage, ...]:
        return (Stage("m", Work(self._generate), tasks=self.parts),)

    def _generate(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        first, stop = (self.total * i // self.parts for i in (task.index, task.index + 1))

        def pieces() -> Iterator[Buffer]:
            done = 0
            for piece, count in self.pieces(Part(task.index, first, stop), counters):
                yield piece
                done += count
                io.progress(min(1.0, done / (stop - first)))

        return TaskResult(output=pieces())

    def pieces(self, part: Part, counters: Counters) -> Iterator[tuple[Buffer, int]]:
        """Make a part: yield its pieces, each with how many of its rows (or bytes) that is."""
        raise NotImplementedError


class RowsGen(Generator):
    """Base of jobs that generate rows of text, many of them at once."""

    def pieces(self, part: Part, counters: Counters) -> Iterator[tuple[Buffer, int]]:
        dice = np.random.default_rng((self.seed, part.index))
        counters["rows"] = part.stop - part.first
        for row, count in part.pieces(_ROWS_AT_ONCE):
            yield self.text(row, count, dice), count

    def text(self, first: int, rows: int, dice: np.random.Generator) -> bytes:
        """Make ``rows`` rows from ``first`` on."""
        raise NotImplementedError


def generated(job: type[Generator], request: Request, folder: str = "input", **params: Any) -> Step:
    """The step that generates a request's input, at most one part for each row."""
    params |= {"parts": min(request.parts, params[job.TOTAL]), "seed": request.seed}
    return generating_step(job.__name__.lower(), request, pack_job(job, params), folder)


def generated_text(job: type[Generator], request: Request, folder: str = "input") -> tuple[Step]:
    """The step that generates a request's size of text."""
    size = request.stored_bytes
    require(size >= 1, "size", size, "at least one real byte")
    return (generated(job, request, folder, size=size),)


def generated_rows(
    job: type[Generator], row_bytes: int, row: str, request: Request, **params: Any
) -> tuple[Step]:
    """The step that generates as many rows of so many bytes as the request has room for."""
    size = request.stored_bytes
    require(size >= row_bytes, "size", size, f"at least {row} of {row_bytes} real bytes")
    return (generated(job, request, rows=size // row_bytes, **params),)


# Generated text ----------------------------------------------------------------------------------
class TextGen(Generator):
    """Generates `size` bytes of text in `parts` files."""

    TOTAL, OF = "size", "bytes"
    size: int
    parts: int = 1
    seed: int = 1

    def pieces(self, part: Part, _: Counters) -> Iterator[tuple[Buffer, int]]:
        for piece in random_text(part.stop - part.first, (self.seed, part.index)):
            yield piece, len(piece)


class ArticlesGen(TextGen):
    """Generates about `size` bytes of articles in `parts` files."""

    def pieces(self, part: Part, counters: Counters) -> Iterator[tuple[Buffer, int]]:
        index, size, done = part.index, part.stop - part.first, 0
        dice = np.random.default_rng((self.seed, index))
        text = random_text(sys.maxsize, (self.seed, index, 1))
        words = (word for piece in text for word in bytes(piece).split())
        counters["articles"] = 0
        while done < size:
            length = 1 + int(dice.lognormal(math.log(_MEDIAN_WORDS), _SIGMA))
            length = min(length, 1 + (size - done) // _WORD_BYTES)  # the last ones are cut short
            title = b"%s %d.%d" % (next(words).capitalize(), index, counters["articles"])
            article = b"%s\t%s\n" % (title, b" ".join(islice(words, length)))
            counters["articles"] += 1
            done += len(article)
            yield article, len(article)


def random_text(size: int, seed: tuple[int, ...]) -> Iterator[Buffer]:
    """``size`` bytes of text in pieces, equal for equal seeds; ends with a newline."""
    dice = np.random.default_rng(seed)
    words = _vocabulary()
    line_ends = np.arange(_WORDS_PER_LINE - 1, _WORDS_AT_ONCE, _WORDS_PER_LINE)
    while size > 0:
        drawn = words.draws[dice.integers(0, len(words.draws), _WORDS_AT_ONCE, np.uint32)]
        grid = words.letters.take(drawn, axis=0)
        grid[line_ends, words.lengths[drawn[line_ends]]] = ord("\n")
        text = np.compress(words.used.take(drawn, axis=0).ravel(), grid.ravel())
        piece = bytearray(text[:size].data)
        size -= len(piece)
        if size == 0:
            piece[-1] = ord("\n")
        yield piece


class _Words(NamedTuple):
    """A vocabulary, the most frequent words first."""

    letters: npt.NDArray[np.uint8]  #: one word per row, padded with blanks
    lengths: npt.NDArray[np.int64]  #: letters of each word
    used: npt.NDArray[np.bool_]  #: which of ``letters`` are the word and one blank
    draws: npt.NDArray[np.uint16]  #: 2**20 rows of words, each in proportion to its share


@cache
def _vocabulary() -> _Words:
    dice = np.random.default_rng(0)
    # Frequent words are short, as in real text.  Words may repeat; then their shares add up.
    mean = np.linspace(4.5, 8.0, _VOCABULARY)
    lengths = np.clip(dice.poisson(mean), 1, _LETTERS_MAX).astype(np.int64)
    letters = dice.integers(ord("a"), ord("z") + 1, (_VOCABULARY, _LETTERS_MAX + 1), np.uint8)
    columns = np.arange(_LETTERS_MAX + 1)
    letters[columns >= lengths[:, None]] = ord(" ")
    shares = np.cumsum(1 / np.arange(1, _VOCABULARY + 1))
    draws = np.searchsorted(shares / shares[-1], (np.arange(2**20) + 0.5) / 2**20)
    return _Words(letters, lengths, columns <= lengths[:, None], draws.astype(np.uint16))


# Parsing -----------------------------------------------------------------------------------------
class BadLine(Exception):
    """A line, by its number among those of its block from 0 on, has not the form that is needed."""

    def __init__(self, number: int, words: str) -> None:
        super().__init__(words)
        self.number = number


def malformed(number: int, line: bytes, right: str) -> BadLine:
    """The error for a line; ``right``: the form that is needed."""
    return BadLine(number, f"{line[:_SHOWN_BYTES].decode(errors='replace')!r}: need {right}")


def lines_in(block: Buffer) -> list[bytes]:
    """The lines of a block, without LF."""
    lines = bytes(block).split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def parsed_blocks(
    parse: Parse[Parsed], file: FileReader, split: Split, shown: str = ""
) -> Iterator[tuple[Buffer, Parsed]]:
    """(Block of whole lines, what it is parsed as) for all lines that begin in the split.

    Raises ``BadInput`` for a line that has not the form; ``shown``: the file in its words.  Lines
    are numbered only for that: a task sees a split, and not the lines before it.
    """
    lines_before = 0
    for block in _LINES.blocks(file, split):
        try:
            parsed = parse(block)
        except BadLine as bad:
            at = _lines_before(file, split) + lines_before + bad.number + 1
            raise BadInput(f"{shown or split.path}:{at}: {bad}") from None
        yield block, parsed
        lines_before += bytes(block).count(b"\n")


def parsed_splits(parse: Parse[Parsed], task: TaskSpec, io: TaskIO) -> Iterator[Parsed]:
    """What each block of a task's splits is parsed as; reports the progress."""
    total, done = max(1, split_bytes(task)), 0
    for split in task.splits:
        for block, parsed in parsed_blocks(parse, io.open(split.path), split):
            yield parsed
            done += len(block)
            io.progress(min(1.0, done / total))


def parsed_file(parse: Parse[Parsed], file: FileReader, shown: str) -> Iterator[Parsed]:
    """What each block of a whole file is parsed as; raises as ``parsed_blocks``."""
    whole = Split(path="/", stored_offset=0, stored_length=file.stored_bytes)
    for _, parsed in parsed_blocks(parse, file, whole, shown):
        yield parsed


def check_lines(parse: Parse[Parsed], files: Iterable[GivenFile]) -> None:
    """Raise ``BadInput`` unless all lines of these files have the form."""
    for given in files:
        for _ in parsed_file(parse, given.file, given.shown):
            pass


def _lines_before(file: FileReader, split: Split) -> int:
    """How many lines of the file begin before the first that begins in the split."""
    if split.stored_offset == 0:
        return 0
    end = split.stored_offset - 1  # a newline here ends the last of them, and is not needed for it
    return 1 + sum(
        bytes(file.read(at, min(_COUNTED_BYTES, end - at))).count(b"\n")
        for at in range(0, end, _COUNTED_BYTES)
    )


# Partitioning and writing ------------------------------------------------------------------------
def rows_by_partition(
    keys: Sequence[bytes], partitions: int
) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """(Partition, rows of ``keys`` that go there, in order) for each partition that gets any.

    By CRC-32, so equal keys always go to the same one.
    """
    hashes = np.fromiter(map(zlib.crc32, keys), np.uint32, len(keys))
    return rows_by_number(hashes % partitions, partitions)


def rows_by_number(
    numbers: npt.NDArray[np.integer], partitions: int
) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """(Partition, rows that have its number, in order) for each partition that gets any."""
    numbers = numbers.astype(np.uint16 if partitions <= 2**16 else np.uint32)
    order = np.argsort(numbers, kind="stable")  # of small numbers: in linear time
    ends = np.bincount(numbers, minlength=partitions).cumsum().tolist()
    for partition, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        if end > start:
            yield partition, order[start:end]


@dataclass(frozen=True)
class ShipLines:
    """Ships each line of its splits as it is to the reduce of the line's key."""

    parse: Parse[tuple[list[bytes], list[bytes]]]  #: (keys, lines) of a block
    counter: str  #: of the lines

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        partitions: list[list[Buffer]] = [[] for _ in range(task.partitions)]
        counters[self.counter] = 0
        for keys, lines in parsed_splits(self.parse, task, io):
            for partition, rows in rows_by_partition(keys, task.partitions):
                partitions[partition] += [b"\n".join([lines[row] for row in rows.tolist()]), b"\n"]
            counters[self.counter] += len(lines)
        return TaskResult(partitions=partitions)


def pieces_of(
    keys: Sequence[Key], text_of: Callable[[Key], bytes], io: TaskIO, keys_at_once: int = 2**13
) -> Iterator[Buffer]:
    """A reduce's output: the text of each key, in pieces of many keys; reports the progress."""
    for start in range(0, len(keys), keys_at_once):
        some = keys[start : start + keys_at_once]
        yield b"".join(map(text_of, some))
        io.progress(after_fetch((start + len(some)) / len(keys)))
