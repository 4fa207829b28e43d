"""The operators of record-by-record stages: ``Map`` over files, ``Reduce`` over a shuffle.

Both call a job's functions, and write the resulting pairs to the shuffle or, if no stage reads
them, as lines of text to the block store.  Stages that work on blocks of bytes have ``Work``.

In the shuffle a *run* is a sequence of groups ``[key, [value, ...]]`` in MessagePack, sorted by
key, after a header that counts them.  A task's shuffle output is a concatenation of runs, so that
outputs can be concatenated too.  Keys and values are ``str``, ``bytes``, ``int``, ``float``,
``bool``, ``None`` and tuples of these; a list arrives as a tuple.  The keys of one stage must be
comparable with one another.
"""

from __future__ import annotations

import heapq
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

import msgpack

from railyard.cluster.messages import Split, TaskSpec
from railyard.jobs.formats import InputFormat, Lines
from railyard.jobs.taskio import Buffer, Counters, JobError, TaskIO, TaskResult

Pairs = Iterable[tuple[Any, Any]]
Combiner = Callable[[Any, Iterable[Any]], Pairs | None]
Partitioner = Callable[[Any, int], int]

_packer = partial(msgpack.Packer, use_bin_type=True, unicode_errors="surrogateescape")
_HEADER = struct.Struct("<QQ")  # groups, bytes after the header
_TEXT_BYTES = 2**18  # approximate size of the pieces in which text is written

_GROUPS_PER_REPORT = 4096  #: that a merge handles between two progress reports
_FETCHED_SHARE = 1 / 3  #: of the fetches in a reduce's progress, as in Hadoop
_LINES = Lines()
#: What these count, as "m.records_in".
COUNTED = (
    *("records_in", "pairs_out", "bytes_out", "keys_in"),
    *("combined_away", "combine_in", "combine_out"),
)


# Pairs in the shuffle and in text -----------------------------------------------------------------
def stable_hash(key: Any) -> int:
    """A hash that is the same in every process and run; equal keys have equal hashes."""
    return zlib.crc32(_packed(_normal(key)))


def partition_by_hash(key: Any, partitions: int) -> int:
    """The default partitioner."""
    return stable_hash(key) % partitions


def checked_pairs(pairs: Pairs | None, function: Callable[..., Any]) -> Iterator[tuple[Any, Any]]:
    """The (key, value) pairs that a user's function returned or yielded; None means no pairs.

    Raises ``JobError`` if it gave anything else.
    """
    if pairs is None:
        return
    name = getattr(function, "__qualname__", repr(function))
    if isinstance(pairs, str | bytes) or not isinstance(pairs, Iterable):
        raise JobError(f"{name} gave {pairs!r:.60}: need it to yield (key, value) pairs")
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2):
            raise JobError(f"{name} gave {pair!r:.60}: need a (key, value) pair")
        yield pair


class RunWriter:
    """Collects pairs, groups them by key, combines, partitions, and packs them into runs."""

    #: pairs held as Python objects, at about 100 bytes each, before they are packed
    PAIRS_MAX = 250_000

    def __init__(
        self, partitions: int, partition: Partitioner, combine: Combiner | None = None
    ) -> None:
        self.combined = 0  #: how many fewer pairs there are after combining
        #: bytes of the pairs before combining; None if some could not have been shipped
        self.uncombined_bytes: int | None = 0
        self._partition = partition
        self._combine = combine
        self._partitions: list[list[Buffer]] = [[] for _ in range(partitions)]
        self._groups: dict[Any, list[Any]] = {}
        self._held = 0

    def add(self, key: Any, value: Any) -> None:
        """Add a pair; may pack all pairs held so far."""
        try:
            self._groups.setdefault(key, []).append(value)
        except TypeError:
            right = "need str, bytes, a number or a tuple of those"
            raise JobError(f"{key!r:.60} cannot be a key: {right}") from None
        self._held += 1
        if self._held >= self.PAIRS_MAX:
            self._spill()

    def finish(self) -> list[list[Buffer]]:
        """Pack the remaining pairs and return the runs of each partition."""
        self._spill()
        return self._partitions

    def _spill(self) -> None:
        groups = self._groups if self._combine is None else self._combine_groups(self._combine)
        runs = [bytearray() for _ in self._partitions]
        counts = [0] * len(runs)
        try:
            keys = sorted(groups)
        except TypeError as error:
            raise _not_comparable(error) from None
        for key in keys:
            number = self._number(key)
            runs[number] += _packed((key, groups[key]))
            counts[number] += 1
        for pieces, run, count in zip(self._partitions, runs, counts, strict=True):
            if count:
                pieces += [_HEADER.pack(count, len(run)), run]
        self._groups, self._held = {}, 0

    def _combine_groups(self, combine: Combiner) -> dict[Any, list[Any]]:
        if self.uncombined_bytes is not None:  # those of the pairs if they were not combined
            try:
                self.uncombined_bytes += sum(map(len, map(_packer().pack, self._groups.items())))
            except (TypeError, ValueError, OverflowError):
                self.uncombined_bytes = None
        combined: dict[Any, list[Any]] = {}
        made = 0
        for key, values in self._groups.items():
            for new_key, value in checked_pairs(combine(key, values), combine):
                combined.setdefault(new_key, []).append(value)
                made += 1
        self.combined += self._held - made
        return combined

    def _number(self, key: Any) -> int:
        partitions = len(self._partitions)
        number = self._partition(key, partitions)
        if not (isinstance(number, int) and 0 <= number < partitions):
            gave = f"partition({key!r:.60}, {partitions}) gave {number!r:.60}"
            raise JobError(f"{gave}: need a whole number from 0 to {partitions - 1}")
        return number


class RunReader:
    """Merges the runs of many outputs into groups, sorted by key."""

    def __init__(self) -> None:
        self.groups = 0  #: groups in all runs, before groups of equal keys are merged
        self.values = 0  #: of the groups that were merged so far
        self._runs: list[memoryview] = []

    def add(self, output: Buffer) -> None:
        """Add one output, which must stay unchanged.  Raises ``JobError`` if it is damaged."""
        rest = memoryview(output)
        while rest:
            groups, length = _HEADER.unpack_from(rest) if len(rest) >= _HEADER.size else (0, 0)
            run = rest[_HEADER.size : _HEADER.size + length]
            if not groups or len(run) < length:
                raise JobError(f"a fetched output is damaged {len(rest)} bytes before its end")
            self.groups += groups
            self._runs.append(run)
            rest = rest[_HEADER.size + length :]

    def merged(self, on_group: Callable[[], None]) -> Iterator[tuple[Any, Iterator[Any]]]:
        """(Key, values) sorted by key; calls ``on_group`` for each group that is read.

        The values of a key are in any order, and can be read only until the next key is.
        """
        for key, equal in groupby(self._groups(on_group), key=itemgetter(0)):
            yield key, chain.from_iterable(map(itemgetter(1), equal))

    def _groups(self, on_group: Callable[[], None]) -> Iterator[tuple[Any, tuple[Any, ...]]]:
        try:
            for group in heapq.merge(*map(_unpacked, self._runs), key=itemgetter(0)):
                self.values += len(group[1])
                on_group()
                yield group
        except TypeError as error:  # only from comparing keys: consumers' errors are not seen here
            raise _not_comparable(error) from None


def text_lines(pairs: Iterable[tuple[Any, Any]], separator: bytes = b"\t") -> Iterator[Buffer]:
    """Lines of key, separator and value in pieces of many; of the key alone for a value of None."""
    piece = bytearray()
    for key, value in pairs:
        piece += key if isinstance(key, bytes) else _text(key)
        if value is not None:
            piece += separator
            piece += value if isinstance(value, bytes) else _text(value)
        piece += b"\n"
        if len(piece) >= _TEXT_BYTES:
            yield piece
            piece = bytearray()
    if piece:
        yield piece


def _text(value: Any) -> bytes:
    return str(value).encode("utf-8", "surrogateescape")


def _packed(value: Any) -> bytes:
    try:
        return bytes(_packer().pack(value))
    except (TypeError, ValueError, OverflowError) as error:
        right = "str, bytes, int of 64 bits, float, bool, None, or tuples of those"
        raise JobError(f"cannot ship {value!r:.80}: {error}: need {right}") from None


def _unpacked(run: memoryview) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    unpacker = msgpack.Unpacker(
        use_list=False, strict_map_key=False, unicode_errors="surrogateescape", max_buffer_size=0
    )
    unpacker.feed(run)
    return iter(unpacker)


def _not_comparable(error: TypeError) -> JobError:
    return JobError(f"keys of one stage must compare with one another: {error}")


def _normal(key: Any) -> Any:
    """``key`` in a form that packs equal keys to equal bytes: 1, 1.0 and True are equal."""
    if isinstance(key, bool) or (isinstance(key, float) and key.is_integer() and abs(key) < 2**63):
        return int(key)
    if isinstance(key, tuple | list):
        return [_normal(part) for part in key]
    return key


# Operators ---------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class PairsOperator:
    """Base of operators that produce pairs: combines, partitions and writes them."""

    combine: Combiner | None = None
    partition: Partitioner = partition_by_hash

    def deliver(
        self, pairs: Iterator[tuple[Any, Any]], task: TaskSpec, counters: Counters
    ) -> TaskResult:
        """Write the pairs as the task's result: shuffle output, or text if no stage reads it."""
        if not task.partitions:
            return TaskResult(output=text_lines(pairs))
        writer = RunWriter(task.partitions, self.partition, self.combine)
        for key, value in pairs:
            writer.add(key, value)
        result = TaskResult(partitions=writer.finish())
        if self.combine is not None:
            counters[f"{task.stage}.combined_away"] = writer.combined
            if writer.uncombined_bytes is not None:
                counters[f"{task.stage}.bytes_out"] = writer.uncombined_bytes
        return result


@dataclass(frozen=True)
class Map(PairsOperator):
    """Calls ``function(record)``, which yields pairs, for every record of the task's splits."""

    function: Callable[[Any], Pairs | None]
    input: InputFormat = _LINES

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        return self.deliver(self._pairs(task, io, counters), task, counters)

    def _pairs(self, task: TaskSpec, io: TaskIO, counters: Counters) -> Iterator[tuple[Any, Any]]:
        records = made = 0
        function = self.function
        for _, block in split_blocks(self.input, task, io):
            for record in self.input.records(block):
                records += 1
                for pair in checked_pairs(function(record), function):
                    made += 1
                    yield pair
        counters[f"{task.stage}.records_in"] = records
        counters[f"{task.stage}.pairs_out"] = made


@dataclass(frozen=True)
class Reduce(PairsOperator):
    """Calls ``function(key, values)``, which yields pairs, for every fetched key."""

    function: Callable[[Any, Iterable[Any]], Pairs | None]

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        """Run one reduce task; ``function`` is called lazily, as the result's output is read."""
        return self.deliver(self._pairs(fetched_runs(task, io), task, io, counters), task, counters)

    def _pairs(
        self, runs: RunReader, task: TaskSpec, io: TaskIO, counters: Counters
    ) -> Iterator[tuple[Any, Any]]:
        done = keys = made = 0

        def report() -> None:
            nonlocal done
            done += 1
            if done % _GROUPS_PER_REPORT == 0:
                io.progress(after_fetch(done / runs.groups))

        function = self.function
        for key, values in runs.merged(report):
            keys += 1
            for pair in checked_pairs(function(key, values), function):
                made += 1
                yield pair
        counters[f"{task.stage}.keys_in"] = keys
        counters[f"{task.stage}.records_in"] = runs.values
        counters[f"{task.stage}.pairs_out"] = made


@dataclass(frozen=True)
class Work:
    """Calls ``run(task, io, counters)`` for each task, which works on blocks of bytes."""

    run: Callable[[TaskSpec, TaskIO, Counters], TaskResult]


def split_bytes(task: TaskSpec) -> int:
    """Total length of a task's splits in stored bytes."""
    return sum(split.stored_length for split in task.splits)


def split_blocks(form: InputFormat, task: TaskSpec, io: TaskIO) -> Iterator[tuple[Split, Buffer]]:
    """(Split, block of whole records) for all of a task's splits; reports the progress."""
    total, done = max(1, split_bytes(task)), 0
    for split in task.splits:
        for block in form.blocks(io.open(split.path), split):
            yield split, block
            done += len(block)
            io.progress(min(1.0, done / total))


def fetched(task: TaskSpec, io: TaskIO) -> Iterator[tuple[str, memoryview]]:
    """(Stage, output) for all that a task fetches; reports the progress."""
    for number, (stage, output) in enumerate(io.fetched(), 1):
        io.progress(_FETCHED_SHARE * min(1.0, number / max(1, task.inputs)))
        yield stage, output


def after_fetch(done: float) -> float:
    """The progress of a task that has fetched all, and done that share of its other work."""
    return _FETCHED_SHARE + (1 - _FETCHED_SHARE) * done


def fetched_runs(task: TaskSpec, io: TaskIO) -> RunReader:
    """The runs of all that a task fetches."""
    runs = RunReader()
    for _, output in fetched(task, io):
        runs.add(output)
    return runs
