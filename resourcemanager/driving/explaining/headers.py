"""What all explanations begin with."""

from __future__ import annotations

from typing import Any

from railyard.cluster.config import ClusterConfig


def header(config: ClusterConfig, what: str, recorded_s: float) -> dict[str, Any]:
    """The fields that all explanations have."""
    return {
        "what": what,
        "scheduler": config.scheduler,
        "flow_scheduler": config.flow_scheduler,
        "recorded_s": recorded_s,
    }
