"""The time that an attempt reads, which both clocks measure as the union of spans.

A span is a read from the block store, or a fetch of other tasks' output, from when it was ordered
until its last byte was there.  Fetches overlap; an instant at which several are under way counts
once, and one at which none is, since what they wait for is not done yet, does not count.
"""

from __future__ import annotations

#: {when spans began: when the last of these ended}, in seconds of one clock.  To note a span as it
#: ends is one assignment: most of an attempt's fetches begin together with others.
Spans = dict[float, float]


def total_s(spans: Spans) -> float:
    """Seconds that the spans cover."""
    apart: list[tuple[float, float]] = []
    for begin_s, end_s in sorted(spans.items()):
        if apart and begin_s <= apart[-1][1]:
            begin_s, other_end_s = apart.pop()
            end_s = max(end_s, other_end_s)
        apart.append((begin_s, end_s))
    return sum(end_s - begin_s for begin_s, end_s in apart)
