"""SelfJoin: joins associations of k items to candidates of k + 1 items.

An association is a line of items in increasing order, with commas between them.  Two that differ
in the last item only become a candidate: "a,b,c" and "a,b,d" give "a,b,c,d".  Equal lines count
once.  The output has a candidate a line; each reduce sorts them.

Source: Self-Join of the PUMA suite (Ahmad et al., 2012), the generation of candidates of Apriori
(Agrawal and Srikant, VLDB 1994, section 2.1.1, the join step without the pruning): a map splits
(first k - 1 items, last item), a reduce forms the pairs of last items.  Chosen here: a map ships
its lines as they are; items are compared byte by byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt

from railyard.cluster.errors import UsageError, printable, require, unknown_name
from railyard.cluster.messages import TaskSpec
from railyard.jobs.formats import Lines
from railyard.jobs.model import Job, Stage
from railyard.jobs.operators import FETCHED_SHARE, fetch, split_bytes
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
from railyard.jobs.samples.checks import expected_candidates
from railyard.jobs.samples.tasks import (
    BadLine,
    Part,
    check_lines,
    check_parts,
    generating_stages,
    parsed_blocks,
    rows_by_partition,
)
from railyard.jobs.taskio import Buffer, Counters, TaskIO, TaskResult

_PREFIXES_PER_PIECE = 2**12
_SHOWN_BYTES = 60

#: {all items but the last: the last items}
_Lasts = dict[bytes, set[bytes]]


class SelfJoin(Job):
    """Joins associations that differ in their last item."""

    input = Lines()

    def stages(self) -> tuple[Stage, ...]:
        return (Stage("m", _ShipLines()), Stage("r", _Join(), reads=("m",)))


class _ShipLines:
    """Ships each line of its splits to the reduce of all its items but the last."""

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        partitions: list[list[Buffer]] = [[] for _ in range(task.partitions)]
        total, done = max(1, split_bytes(task)), 0
        counters["associations"] = 0
        for split in task.splits:
            file = io.open(split.path)
            for block, (prefixes, lines) in parsed_blocks(associations, file, split):
                for partition, rows in rows_by_partition(prefixes, task.partitions):
                    joined = b"\n".join([lines[row] for row in rows.tolist()])
                    partitions[partition] += [joined, b"\n"]
                counters["associations"] += len(lines)
                done += len(block)
                io.progress(min(1.0, done / total))
        return TaskResult(partitions=partitions, input_bytes=split_bytes(task), counters=counters)


def associations(block: Buffer) -> tuple[list[bytes], list[bytes]]:
    """All items but the last of each of these lines, and the lines; ``BadLine`` for others."""
    lines = [line.removesuffix(b"\r") for line in bytes(block).split(b"\n")]
    if not lines[-1]:
        lines.pop()
    prefixes = []
    for number, line in enumerate(lines):
        items = line.split(b",")
        if not items[0] or any(first >= second for first, second in pairwise(items)):
            shown = line[:_SHOWN_BYTES].decode(errors="replace")
            right = "items in increasing order, with commas between them"
            raise BadLine(number, f"{shown!r}: need {right}")
        prefixes.append(line[: len(line) - len(items[-1])])
    return prefixes, lines


class _Join:
    """Forms the candidates."""

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        lasts: _Lasts = {}
        fetched_bytes = 0
        for _, output in fetch(task, io):
            fetched_bytes += len(output)
            for line in bytes(output).split(b"\n")[:-1]:
                cut = line.rfind(b",") + 1
                lasts.setdefault(line[:cut], set()).add(line[cut:])
        found = _candidates(lasts, io, counters)
        return TaskResult(output=found, input_bytes=fetched_bytes, counters=counters)


def _candidates(lasts: _Lasts, io: TaskIO, counters: Counters) -> Iterator[Buffer]:
    prefixes = sorted(lasts)
    counters["candidates"] = 0
    for start in range(0, len(prefixes), _PREFIXES_PER_PIECE):
        lines = [
            b"%s%s,%s\n" % (prefix, first, second)
            for prefix in prefixes[start : start + _PREFIXES_PER_PIECE]
            for first, second in combinations(sorted(lasts[prefix]), 2)
        ]
        counters["candidates"] += len(lines)
        yield b"".join(lines)
        io.progress(FETCHED_SHARE + (1 - FETCHED_SHARE) * start / len(prefixes))


# Associations of items, made up by seed: few beginnings are shared by many of them.
#
# The n-th most frequent beginning (all items but the last) has a share in proportion to 1 / n**0.3,
# with one association for each beginning in the mean, so that about 0.6 candidates come out for an
# association.  The last item is one of 4,096: a few associations come twice.


ITEMS_MAX = 100

_ROWS_AT_ONCE = 2**14
_EXPONENT = 0.3
_LASTS = 4096
#: Largest distance of two items of a beginning that follow one another.
_STEP_MAX = 997
#: Items are numbers of so many digits.
_DIGITS = 7
_ITEM_BYTES = _DIGITS + 2  #: "i", the digits, and a comma or the end of the line
#: First items are below; a prime, so that multiples of another number visit all of them.
_FIRST_ITEMS = 9_800_003
_SPREAD = 48_271

Numbers = npt.NDArray[np.int64]


def row_bytes(items: int) -> int:
    """Bytes of an association of so many items."""
    return items * _ITEM_BYTES


class AssociationsGen(Job):
    """Generates `rows` associations of `items` items in `parts` files."""

    input = Lines()
    rows: int
    items: int = 3
    parts: int = 1
    seed: int = 1

    def setup(self) -> None:
        require(self.rows >= 1, "rows", self.rows, "a whole number >= 1")
        require(2 <= self.items <= ITEMS_MAX, "items", self.items, f"2 to {ITEMS_MAX}")
        check_parts(self.rows, "rows", self.parts, self.seed)

    def stages(self) -> tuple[Stage, ...]:
        return generating_stages(self.rows, self.parts, self._pieces)

    def _pieces(self, part: Part, counters: Counters) -> Iterator[tuple[Buffer, int]]:
        dice = np.random.default_rng((self.seed, part.index))
        counters["rows"] = part.stop - part.first
        for _, count in part.pieces(_ROWS_AT_ONCE):
            yield _text(_rows(self, count, dice)), count


def _rows(job: AssociationsGen, count: int, dice: np.random.Generator) -> Numbers:
    """The items of ``count`` associations, one a row."""
    # The integral of n**-0.3, inverted: the number of the beginning of each association.
    beginnings = (job.rows * dice.random(count) ** (1 / (1 - _EXPONENT))).astype(np.int64)
    rows = np.empty((count, job.items), np.int64)
    rows[:, 0] = (beginnings + job.seed) * _SPREAD % _FIRST_ITEMS
    for column in range(1, job.items - 1):
        steps = 1 + (beginnings // _FIRST_ITEMS + beginnings * column) % _STEP_MAX
        rows[:, column] = rows[:, column - 1] + steps
    rows[:, -1] = rows[:, -2] + dice.integers(1, _LASTS + 1, count)
    return rows


def _text(rows: Numbers) -> Buffer:
    count, items = rows.shape
    text = np.empty((count, items, _ITEM_BYTES), np.uint8)
    text[:, :, 0] = ord("i")
    powers = 10 ** np.arange(_DIGITS - 1, -1, -1)
    text[:, :, 1:-1] = ord("0") + rows[:, :, None] // powers % 10
    text[:, :, -1] = ord(",")
    text[:, -1, -1] = ord("\n")
    return text.tobytes()


# The plan of Self-Join: associations generated or given, joined, checked.


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
