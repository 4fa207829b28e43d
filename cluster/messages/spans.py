"""The time that an attempt reads, which both clocks measure as the union of spans.

A span is a read from the block store, or a fetch of other tasks' output, from when it was ordered
until its last byte was there.  Fetches overlap; an instant at which several are under way counts
once, and one at which none is, since what they wait for is not done yet, does not count.
"""

from __future__ import annotations

#: (begin, end) in seconds of one clock, ascending and apart from one another
Spans = list[tuple[float, float]]


def add_span(spans: Spans, begin_s: float, end_s: float) -> None:
    """Add a span that ends no earlier than those before; amortised O(1)."""
    while spans:
        last_begin_s, last_end_s = spans[-1]
        if last_end_s < begin_s:
            break
        if last_begin_s <= begin_s:  # as most do
            spans[-1] = last_begin_s, end_s
            return
        del spans[-1]
    spans.append((begin_s, end_s))


def total_s(spans: Spans) -> float:
    """Seconds that the spans cover."""
    return sum(end_s - begin_s for begin_s, end_s in spans)
