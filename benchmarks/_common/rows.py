"""A row of a benchmark's result, as ``railyard/cli/commands/bench.py`` prints it.

Not here: what is measured.
"""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]


def bench_row(
    name: str,
    value: float,
    unit: str = "",
    *,
    reference: float | None = None,
    ratio: float | None = None,
    bound: float | None = None,
    ratio_bound: float | None = None,
    ok: bool | None = None,
    note: str = "",
) -> Row:
    """What was measured, what it is compared with, and whether it keeps its bound.

    ``ratio`` is that of the value to the reference if nothing else is given.  ``bound`` is the most
    that the value may be, ``ratio_bound`` the most that the ratio may be; ``ok`` is given where
    another rule holds.
    """
    if ratio is None and reference:
        ratio = value / reference
    limited, limit = (value, bound) if ratio_bound is None else (ratio, ratio_bound)
    if ok is None and limited is not None and limit is not None:
        ok = limited <= limit
    return {
        "name": name,
        "value": value,
        "unit": unit,
        "reference": reference,
        "ratio": ratio,
        "bound": limit,
        "ok": ok,
        "note": note,
    }
