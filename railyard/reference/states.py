"""The page of state diagrams, ``docs/states.md``, from the table that the core itself uses.

``scripts/state-diagrams`` writes it; a test compares it with the table.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from railyard.resourcemanager.core.lifecycles import LIFECYCLES, Lifecycle

_HEAD = """\
# States of jobs, tasks and attempts

Drawn by `scripts/state-diagrams` from `resourcemanager/core/lifecycles.py`, the table that
the core uses: it refuses any other transition.
"""


def state_page() -> str:
    """The whole page, in Markdown with Mermaid's diagrams."""
    return "\n".join([_HEAD, *(_section(lifecycle) for lifecycle in LIFECYCLES)])


def _section(lifecycle: Lifecycle) -> str:
    meanings = [f"- **{state}**: {meaning}" for state, meaning in lifecycle.states.items()]
    title = f"## {lifecycle.kind.capitalize()}"
    return "\n".join([title, "", "```mermaid", *_diagram(lifecycle), "```", "", *meanings, ""])


def _diagram(lifecycle: Lifecycle) -> Iterator[str]:
    """Lines of a Mermaid state diagram: events of equal ends share an arrow."""
    yield "stateDiagram-v2"
    for state in lifecycle.states:
        if _node(state) != state:
            yield f'    state "{state}" as {_node(state)}'
    for state in lifecycle.begins:
        yield f"    [*] --> {_node(state)}"
    arrows: dict[tuple[str, str], list[str]] = {}
    for before, event, after in lifecycle.transitions:
        arrows.setdefault((before, after), []).append(event)
    for (before, after), events in arrows.items():
        yield f"    {_node(before)} --> {_node(after)}: {', or '.join(events)}"
    for state in lifecycle.ends:
        yield f"    {_node(state)} --> [*]"


def _node(state: str) -> str:
    return state.replace(" ", "_")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(state_page(), encoding="utf-8")
