"""``joint-16x6``, four times as small: 4 racks of 6 servers, with a bandwidth for each as before.

A ToR switch has as many servers below it as in the paper, and its limit.  The aggregation switches
have half of the racks that they had (2), and half of the limit; the root has a quarter of the
servers, and a quarter of the limit.
"""

from __future__ import annotations

SMALLER = ",".join(
    (
        "joint-16x6",
        "racks.count=4",
        "tree.racks_per_aggregation=2",
        "tree.aggregation=1Gbps",
        "tree.root=500Mbps",
    )
)
