"""SelfJoin: joins associations of k items to candidates of k + 1 items.

An association is a line of items in increasing order, with commas between them.  Two that differ
in the last item only become a candidate: "a,b,c" and "a,b,d" give "a,b,c,d".  Equal lines count
once.  The output has a candidate a line; each reduce sorts them.

Source: Self-Join of the PUMA suite (Ahmad et al., 2012), the generation of candidates of Apriori
(Agrawal and Srikant, VLDB 1994, section 2.1.1, the join step without the pruning): a map splits
(first k - 1 items, last item), a reduce forms the pairs of last items.  Chosen here: a map ships
its lines as they are; items are compared byte by byte.

Generated associations: the n-th most frequent beginning (all items but the last) has a share in
proportion to 1 / n**0.3, with one association for each beginning in the mean, so that about 0.6
candidates come out for an association.  The last item is one of 4,096: a few come twice.
"""

from __future__ import annotations

from functools import partial
from itertools import combinations, pairwise

import numpy as np

from railyard.cluster.errors import require
from railyard.cluster.messages import TaskSpec
from railyard.jobs.model import Job, Stage
from railyard.jobs.operators import Work, fetched
from railyard.jobs.plan import (
    Files,
    Plan,
    Request,
    Step,
    Verdict,
    difference,
    lines_of,
    plan_of,
    require_params,
    shown,
)
from railyard.jobs.samples.checks import expected_candidates
from railyard.jobs.samples.tasks import (
    Numbers,
    RowsGen,
    ShipLines,
    check_lines,
    generated_rows,
    lines_in,
    malformed,
    pieces_of,
)
from railyard.jobs.taskio import Buffer, Counters, TaskIO, TaskResult

ITEMS_MAX = 100

_PREFIXES_PER_PIECE = 2**12
_EXPONENT = 0.3
_LASTS = 4096
_STEP_MAX = 997  #: largest distance of two items of a beginning that follow one another
_DIGITS = 7  #: items are numbers of so many
_ITEM_BYTES = _DIGITS + 2  #: "i", the digits, and a comma or the end of the line
#: First items are below; a prime, so that multiples of another number visit all of them.
_FIRST_ITEMS = 9_800_003
_SPREAD = 48_271
_SHOWN = 5  #: candidates that a verdict shows


class SelfJoin(Job):
    """Joins associations that differ in their last item."""

    def stages(self) -> tuple[Stage, ...]:
        return (
            Stage("m", ShipLines(associations, "associations")),
            Stage("r", Work(_join), reads=("m",)),
        )


def associations(block: Buffer) -> tuple[list[bytes], list[bytes]]:
    """All items but the last of each of these lines, and the lines; ``BadLine`` for others."""
    lines = [line.removesuffix(b"\r") for line in lines_in(block)]
    prefixes = []
    for number, line in enumerate(lines):
        items = line.split(b",")
        if not items[0] or any(first >= second for first, second in pairwise(items)):
            raise malformed(number, line, "items in increasing order, with commas between them")
        prefixes.append(line[: len(line) - len(items[-1])])
    return prefixes, lines


def _join(task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
    lasts: dict[bytes, set[bytes]] = {}  #: {all items but the last: the last items}
    for _, output in fetched(task, io):
        for line in lines_in(output):
            cut = line.rfind(b",") + 1
            lasts.setdefault(line[:cut], set()).add(line[cut:])
    counters["candidates"] = 0

    def candidates(prefix: bytes) -> bytes:
        pairs = list(combinations(sorted(lasts[prefix]), 2))
        counters["candidates"] += len(pairs)
        return b"".join([b"%s%s,%s\n" % (prefix, *pair) for pair in pairs])

    return TaskResult(output=pieces_of(sorted(lasts), candidates, io, _PREFIXES_PER_PIECE))


class AssociationsGen(RowsGen):
    """Generates `rows` associations of `items` items in `parts` files."""

    rows: int
    items: int = 3
    parts: int = 1
    seed: int = 1

    def setup(self) -> None:
        require(2 <= self.items <= ITEMS_MAX, "items", self.items, f"2 to {ITEMS_MAX}")
        super().setup()

    def text(self, _: int, rows: int, dice: np.random.Generator) -> bytes:
        return _text(_rows(self, rows, dice))


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


def _text(rows: Numbers) -> bytes:
    count, items = rows.shape
    text = np.empty((count, items, _ITEM_BYTES), np.uint8)
    text[:, :, 0] = ord("i")
    powers = 10 ** np.arange(_DIGITS - 1, -1, -1)
    text[:, :, 1:-1] = ord("0") + rows[:, :, None] // powers % 10
    text[:, :, -1] = ord(",")
    text[:, -1, -1] = ord("\n")
    return text.tobytes()


def plan_self_join(request: Request) -> Plan:
    """Join generated or given associations."""
    require_params(request, "self-join", ["items"], "associations")
    check = partial(check_lines, associations)
    return plan_of("self-join", SelfJoin, request, _generate, _verify, check, params={})


def _generate(request: Request) -> tuple[Step]:
    items = AssociationsGen(**{"rows": 1} | dict(request.params)).items
    row_bytes = items * _ITEM_BYTES
    return generated_rows(AssociationsGen, row_bytes, "an association", request, items=items)


def _verify(files: Files, source: str, output: str) -> Verdict:
    expected = expected_candidates(files, source)
    wrong = difference(sorted(lines_of(files, output)), expected, "candidates")
    detail = f"{len(expected)} candidates, as joined independently"
    return wrong or Verdict(True, detail, tuple(map(shown, expected[:_SHOWN])))
