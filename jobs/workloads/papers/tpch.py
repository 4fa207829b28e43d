"""TPC-H-like queries, together with a batch of MapReduce jobs.

Source: Corral (Jalaparti et al., SIGCOMM 2015), section 6.3: 15 recurring Hive queries on a
database of 200 GB, submitted uniformly over 25 min; and a batch of ad hoc jobs of W1.

Left open there, chosen here: the 15 of the 22 queries (by seed) and the number of jobs of W1 (20).
A query scans its tables whole, in blocks of 256 MB, and filters, which leaves 5 to 40 % (Hive's
scans of ORC read less too).  It joins one table after the other, the largest first, each through a
shuffle, which leaves 30 to 100 %.  Then it groups, which leaves 1 to 20 %, and sorts in one task,
which leaves all.  A task fetches 256 MB.  The tables nation and region have a few kB, are shipped
with a query, and are left out.  The queries share the database's files, or with ``tables=own`` each
has its own.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np

from railyard.cluster.errors import require, require_count
from railyard.cluster.tomlfile import Duration, Size
from railyard.jobs.workloads.dags import StageNode, stages_of
from railyard.jobs.workloads.model import InputFile, Workload
from railyard.jobs.workloads.papers.corral import OfW1Options, ad_hoc_batch
from railyard.jobs.workloads.population import Shape, dice, merged, populate
from railyard.jobs.workloads.statistics import statistic

#: {table: its share of the database}, by the specification's row counts and row lengths
_TABLES = {
    "lineitem": 0.698,
    "orders": 0.160,
    "partsupp": 0.110,
    "customer": 0.023,
    "part": 0.0078,
    "supplier": 0.0012,
}
#: {query: initials of the tables that it reads} (ps: partsupp, p: part)
_QUERIES = {
    1: "l", 2: "p s ps", 3: "c o l", 4: "o l", 5: "c o l s", 6: "l", 7: "s l o c",
    8: "p s l o c", 9: "p s l ps o", 10: "c o l", 11: "ps s", 12: "o l", 13: "c o",
    14: "l p", 15: "l s", 16: "ps p s", 17: "l p", 18: "c o l", 19: "l p",
    20: "s ps p l", 21: "s l o", 22: "c o",
}  # fmt: skip
_INITIALS = {"l": "lineitem", "o": "orders", "ps": "partsupp", "c": "customer", "p": "part"} | {
    "s": "supplier"
}


class TpchOptions(OfW1Options, frozen=True, kw_only=True):
    """15 queries over 25 min by default."""

    jobs: int = 15  #: how many queries; the batch of W1 is beside them
    window: Duration = 1500.0  #: length of uniform arrivals
    database: Size = 200_000_000_000  #: bytes of all tables
    ad_hoc: int = 20  #: size of the batch of W1
    tables: Literal["shared", "own"] = "shared"  #: "own": each query has its own copy of the files

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.database >= 10**6, "database", self.database, "at least 1MB")
        require_count("ad_hoc", self.ad_hoc, least=0)

    def without_effect(self) -> dict[str, str]:
        """As of all workloads; queries have nothing of W1."""
        off = super().without_effect()
        return off if self.ad_hoc else off | {"largest": "ad_hoc above 0: there is no job of W1"}


def tpch(options: TpchOptions, seed: int) -> Workload:
    """Queries, and a batch of W1 in the background."""
    rng = dice(seed, "tpch")
    tables = {
        name: InputFile(
            path=f"/tpch/{name}",
            size_bytes=round(options.database * part),
            block_bytes=options.block,
        )
        for name, part in _TABLES.items()
    }
    rounds = -(-options.jobs // len(_QUERIES))
    numbers = np.concatenate([rng.permutation(sorted(_QUERIES)) for _ in range(rounds)])
    shapes = []
    for at, number in enumerate(numbers[: options.jobs].tolist()):
        name = f"q{number}-{at}"
        its = tables if options.tables == "shared" else _copies(tables, name)
        shapes.append(_query(name, number, its, options.block, rng))
    queries = populate(shapes, options, seed)
    last_s = max(job.submit_s for job in queries)
    return Workload(
        name="corral-tpch",
        source="Corral (Jalaparti et al., SIGCOMM 2015), section 6.3",
        jobs=merged(ad_hoc_batch(options.ad_hoc, options, seed), queries),
        statistics=(
            statistic("queries", "", len(queries), 15, note="section 6.3"),
            statistic("last query", "s", last_s, (0.0, 1500.0), note="section 6.3"),
            statistic(
                "database",
                "bytes",
                sum(table.size_bytes for table in tables.values()),
                200e9,
                0.001,
                "section 6.3",
            ),
        ),
    )


def _copies(tables: dict[str, InputFile], query: str) -> dict[str, InputFile]:
    return {
        name: msgspec.structs.replace(table, path=f"/tpch/{query}/{name}")
        for name, table in tables.items()
    }


def _query(
    name: str,
    number: int,
    tables: dict[str, InputFile],
    part_bytes: int,
    rng: np.random.Generator,
) -> Shape:
    """A query: scans, joins, a grouping and a sort."""
    read = [tables[_INITIALS[initial]] for initial in _QUERIES[number].split()]
    read.sort(key=lambda table: -table.size_bytes)
    nodes = [StageNode((), float(rng.uniform(0.05, 0.4)), table) for table in read]
    left = 0
    for right in range(1, len(read)):
        nodes.append(StageNode((left, right), float(rng.uniform(0.3, 1.0))))
        left = len(nodes) - 1
    nodes.append(StageNode((left,), float(rng.uniform(0.01, 0.2))))
    nodes.append(StageNode((len(nodes) - 1,), 1.0, tasks=1))
    return Shape(name, stages_of(nodes, part_bytes), tuple(read))
