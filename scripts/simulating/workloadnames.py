"""What a word asks for: a workload of the simulator's, or jobs that ``railyard run`` takes too."""

from __future__ import annotations

from railyard.cluster.errors import unknown_name
from railyard.jobs.mixes.mixes import MIX
from railyard.jobs.samples.catalog import CATALOG
from railyard.jobs.workloads.catalog import FAMILIES


def is_simulators(word: str) -> bool:
    """Whether it is a workload that only the simulator knows, such as "corral-w1,jobs=20"."""
    return _name(word) in FAMILIES


def require_known(word: str) -> None:
    """Raise ``UsageError``, with the nearest right name, for what is neither."""
    name, samples = _name(word), [sample.name for sample in CATALOG]
    if name.endswith((".py", ".toml")) or name in (MIX, *samples, *FAMILIES):
        return
    raise unknown_name("workload", name, [MIX, *samples, *FAMILIES])


def _name(word: str) -> str:
    return word.partition(",")[0].partition(":")[0]
