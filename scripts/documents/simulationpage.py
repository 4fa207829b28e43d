"""The page of what ``railyard simulate`` takes: workloads with their options, and behaviour."""

from __future__ import annotations

import msgspec

from railyard.cluster.accepted import meanings
from railyard.jobs.workloads.catalog import FAMILIES, Family
from railyard.scripts.documents.markdown import WRITTEN, code, plain, table
from railyard.simulator.nodes.behaviour import Behaviour

_HEAD = f"""\
# Workloads and simulated nodes

{WRITTEN}
`--workload NAME,KEY=VALUE...` chooses a workload of the simulator; what the options mean is in
[workloads.md](../workloads.md). `--behaviour KEY=VALUE` makes simulated nodes differ from ideal
ones ([how to](../how-to/simulate-jobs.md)).
"""


def simulation_page() -> str:
    """The whole page, in Markdown: all workloads, the options of each, the keys of behaviour."""
    names = {name: f"{name}:{kind.file}" if kind.file else name for name, kind in FAMILIES.items()}
    rows = [(code(names[name]), plain(f.about), plain(f.source)) for name, f in FAMILIES.items()]
    options = ("workload", "options with their defaults")
    parts = [
        _HEAD,
        "## Workloads\n",
        table(("workload", "what it is", "source"), rows),
        table(options, [(code(name), _options(kind)) for name, kind in FAMILIES.items()]),
        "## Behaviour of simulated nodes\n",
        table(("key", "default", "meaning"), _behaviour()),
    ]
    return "\n".join(parts)


def _options(family: Family) -> str:
    return ", ".join(map(code, family.defaults()))


def _behaviour() -> list[tuple[str, ...]]:
    said = meanings(Behaviour)
    return [
        (code(field.name), code(f"{field.default:g}"), plain(said.get(field.name, "")))
        for field in msgspec.structs.fields(Behaviour)
    ]
