"""Results as pandas' data frames; pandas is an extra: ``pip install railyard[pandas]``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from railyard.cluster.errors import UsageError
from railyard.scripts.api.records import JobResult, RunRecord, Spread
from railyard.scripts.comparing.statements import Statement
from railyard.scripts.comparing.statements import as_json as statement_as_json

if TYPE_CHECKING:
    from pandas import DataFrame

#: What says which run a row is of.
_KEYS = ("scheduler", "flow_scheduler", "clock", "seed")
_NUMBERS = (
    "slot_utilization",
    "compute_utilization",
    "network_utilization",
    "link_skew",
    "verified",
)


def jobs_frame(runs: Iterable[RunRecord]) -> DataFrame:
    """A row for each job of each run."""
    return _frame(
        [
            _keys(run) | {name: getattr(job, name) for name in JobResult.__struct_fields__}
            for run in runs
            for job in run.jobs
        ]
    )


def runs_frame(runs: Iterable[RunRecord]) -> DataFrame:
    """A row for each run: its own figures, spreads as "jct_s_mean", bytes as "bytes_rack"."""
    return _frame([_keys(run) | _figures(run) for run in runs])


def statements_frame(statements: Sequence[Statement]) -> DataFrame:
    """A row for each statement of a comparison."""
    return _frame(
        [
            {
                "scheduler": one.who.scheduler,
                "flow_scheduler": one.who.flow_scheduler,
                "clock": one.who.clock,
                **statement_as_json(one),
            }
            for one in statements
        ]
    )


def lines_frame(figures: Mapping[str, Mapping[str, Any]]) -> DataFrame:
    """A row for each line of a paper's figures, as ``reproduce --json`` has them."""
    return _frame(
        [
            {
                "figure": name,
                "case": line["case"],
                "subject": line["subject"],
                "measure": f"less {line['measure']}" if line["lessens"] else line["measure"],
                "unit": line["unit"],
                "ours": line["mean"],
                "ci95_half_width": line["ci95_half_width"],
                "published_least": (line["published"] or {}).get("least"),
                "published_most": (line["published"] or {}).get("most"),
                "off_by": line["off_by"],
                "own": line["own"],
                "base": line["base"],
                "coarse": line["coarse"],
            }
            for name, figure in figures.items()
            for line in figure["lines"]
        ]
    )


def listing_frame(every: Iterable[msgspec.Struct]) -> DataFrame:
    """A row for each struct, with its fields."""
    return _frame([msgspec.structs.asdict(one) for one in every])


def _keys(run: RunRecord) -> dict[str, Any]:
    return {name: getattr(run, name) for name in _KEYS}


def _figures(run: RunRecord) -> dict[str, Any]:
    spreads = {"jct_s": run.jct_s, "cct_s": run.cct_s, "shuffle_skew": run.shuffle_skew}
    parts = {"bytes": run.bytes, "locality": run.locality, "tasks": run.tasks}
    return {
        "makespan_s": run.makespan_s,
        **{
            f"{name}_{part}": getattr(spread, part)
            for name, spread in spreads.items()
            for part in Spread.__struct_fields__
        },
        **{
            f"{name}_{part}": value
            for name, counts in parts.items()
            for part, value in msgspec.structs.asdict(counts).items()
        },
        **{name: getattr(run, name) for name in _NUMBERS},
        "trusted": run.trusted,
    }


def _frame(rows: list[dict[str, Any]]) -> DataFrame:
    try:
        from pandas import DataFrame
    except ImportError:
        raise UsageError("to_pandas: pandas is missing: pip install railyard[pandas]") from None
    return DataFrame(rows)
