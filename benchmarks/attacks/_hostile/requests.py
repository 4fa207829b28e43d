"""Malformed and hostile HTTP requests, by number: the same seed and number make the same request.

Most differ from a sound request in one place, so that they get as far as they can.  Those that
begin like a sound one may be answered as one; all others must be refused, or their connection
closed.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from railyard.benchmarks.attacks._hostile import httpcontents as contents
from railyard.benchmarks.attacks._hostile import httpframing as framing
from railyard.benchmarks.attacks._hostile.httprequest import HostileRequest

_Kind = Callable[[random.Random], HostileRequest]
#: (kind, how often): silent ones are few, since each takes as long as the gateway waits
_KINDS: tuple[tuple[_Kind, float], ...] = (
    (framing.chunking, 10),
    (framing.headers, 10),
    (framing.line, 8),
    (contents.traversal, 10),
    (contents.parameters, 12),
    (contents.rest_parameters, 8),
    (contents.encoding, 10),
    (contents.bad_json, 8),
    (framing.smuggling, 8),
    (framing.pipelined, 4),
    (framing.half_closed, 8),
    (framing.slow, 2),
    (framing.silent, 0.3),
    (framing.garbage, 8),
    (framing.upgrading, 4),
    (framing.bomb, 2),
    (contents.other_sites, 4),
)


def hostile_request(seed: int, number: int) -> HostileRequest:
    """The request of a number."""
    dice = random.Random(f"{seed} {number}")
    kinds = [kind for kind, _ in _KINDS]
    weights = [weight for _, weight in _KINDS]
    return dice.choices(kinds, weights)[0](dice)
