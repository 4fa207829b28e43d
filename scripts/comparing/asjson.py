"""A comparison for programs.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from railyard.scripts.comparing.agreement import agreements
from railyard.scripts.comparing.estimates import Estimate
from railyard.scripts.comparing.metrics import METRICS
from railyard.scripts.comparing.rows import Row, label_rows, own_figures
from railyard.scripts.comparing.statements import Statement, statements
from railyard.scripts.comparing.statements import as_json as statement_as_json
from railyard.scripts.results.trust import is_trusted


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """A row for each contender."""
    own, said = own_figures(rows), statements(rows)
    agreed = agreements(rows, label_rows(rows))
    return [
        {
            "scheduler": row.contender.scheduler,
            "flow_scheduler": row.contender.flow_scheduler,
            "clock": row.contender.clock,
            "seeds": row.seeds,
            "verified": [run["verified"] for run in row.runs],
            "trusted": [is_trusted(run) for run in row.runs],
            "figures": {
                key: cell and _as_json(cell) | _ratio(said.of(row.contender).get(key))
                for key, cell in row.cells.items()
            },
            "statements": [statement_as_json(one) for one in said.of(row.contender).values()],
            "own_figures": {
                f"{figure.policy}.{figure.name}": _as_json(figure.value)
                for figure in own
                if figure.contender == row.contender
            },
            "agreement": [one.as_json() for one in agreed if one.contender == row.contender],
            "by_chance": {
                metric.key: (min(found), max(found))
                for metric in METRICS
                if (found := row.by_chance(metric))
            },
            "runs": row.runs,
        }
        for row in rows
    ]


def _as_json(value: Estimate) -> dict[str, Any]:
    return {"mean": value.mean, "ci95_half_width": value.half_width}


def _ratio(one: Statement | None) -> dict[str, float]:
    return {} if one is None or one.change.kind != "ratio" else {"ratio": one.change.mean}
