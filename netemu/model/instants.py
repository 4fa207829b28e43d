"""Which times are one instant: those that differ by rounding only."""

from __future__ import annotations

#: Times that are no further apart than this are one instant ...
INSTANT_S = 1e-9
#: ... nor by more than this share of what the clock shows.  A flow of 10**15 bytes has a last
#: digit of .1 bytes, 1 ns at 1 Gbps, and what it has sent is a sum: its end is known to 10**-7 s,
#: when the clock shows 8 * 10**6 s.
CLOCK_ROUNDING = 1e-13


def instant_s(at_s: float) -> float:
    """By how much two times near this one may differ and be the same instant, in seconds."""
    return max(INSTANT_S, at_s * CLOCK_ROUNDING)
