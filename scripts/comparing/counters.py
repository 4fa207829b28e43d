"""What the jobs' own code counted under each contender: means over seeds.  Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from railyard.cluster.units import format_number
from railyard.scripts.comparing.estimates import Estimate, estimate
from railyard.scripts.comparing.metrics import Summary
from railyard.scripts.comparing.rows import Contender, Row
from railyard.scripts.results.words import own_counters

#: The number of a job of a mix: "terasort-2".
_NUMBER = re.compile(r"-\d+$")


@dataclass(frozen=True, kw_only=True)
class Counted:
    """A counter of all jobs of a run together."""

    name: str  #: with the jobs' name if jobs of several names counted
    contender: Contender | None  #: None: it is the same under all of a clock
    value: Estimate

    def shown(self) -> str:
        """Its mean, and the half width of its interval."""
        spread = self.value.half_width
        within = f" ± {format_number(spread)}" if spread else ""
        return f"{format_number(self.value.mean)}{within}"


def counted(rows: Sequence[Row]) -> list[Counted]:
    """All counters of each clock; once, if it is the same under all contenders with every seed."""
    found = []
    for _, of in groupby(rows, key=lambda row: row.contender.clock):
        totals = {row.contender: [_totals(run) for run in row.runs] for row in of}
        keys = sorted({key for runs in totals.values() for run in runs for key in run})
        several = len({job for job, _ in keys}) > 1
        for job, counter in keys:
            values = {who: [run[job, counter] for run in runs] for who, runs in totals.items()}
            name = f"{job}: {counter}" if several else counter
            shown: list[tuple[Contender | None, list[int]]] = [*values.items()]
            if len({tuple(each) for each in values.values()}) == 1:
                shown = [(None, shown[0][1])]
            found += [
                Counted(name=name, contender=who, value=estimate(each)) for who, each in shown
            ]
    return found


def _totals(run: Summary) -> Counter[tuple[str, str]]:
    """The counts of a run's jobs by their name without number, and the counter's name."""
    totals: Counter[tuple[str, str]] = Counter()
    for job in run.get("jobs", ()):
        for name, count in own_counters(job).items():
            totals[_NUMBER.sub("", job["name"]), name] += count
    return totals
