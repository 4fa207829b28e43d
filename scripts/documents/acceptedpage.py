"""The page of what interfaces accept, from the tables in which they look names up."""

from __future__ import annotations

from collections.abc import Iterator

from railyard.cluster.accepted import Accepted, Effect, declared
from railyard.cluster.topology import accepted_keys
from railyard.gateway.shell import admin, applications, generic, jaroptions, jobs
from railyard.gateway.shell.fs import options
from railyard.gateway.webhdfs.accepted import PARAMETERS
from railyard.gateway.yarn.accepted import FIELDS, FILTERS
from railyard.jobs.mixes.mixes import MIX, accepted_options
from railyard.jobs.streaming.settings import SETTINGS
from railyard.jobs.workloads.catalog import FAMILIES
from railyard.scripts.documents.markdown import WRITTEN, code, plain, table
from railyard.simulator.faults.faultspec import FAULTS
from railyard.simulator.nodes.behaviour import Behaviour

#: All tables, in the order of the page.
TABLES: tuple[Accepted, ...] = (
    generic.OPTIONS,
    jaroptions.OPTIONS,
    SETTINGS,
    options.OPTIONS,
    generic.SETTINGS,
    applications.OPTIONS,
    jobs.OPTIONS,
    admin.OPTIONS,
    PARAMETERS,
    FILTERS,
    FIELDS,
    *(family.accepted for family in FAMILIES.values()),
    accepted_options("a job"),
    accepted_options(MIX),
    declared("nodes of a simulation: --behaviour", "key", Behaviour),
    FAULTS,
    *accepted_keys(),
)

_HEAD = f"""\
# What is accepted

{WRITTEN}
Each name that an interface knows is **used**, **changes no result here**, or is **refused** with
an error of one line. A name that stands in no table is refused, too, where it begins as the
interface's own names do.
"""


def accepted_page() -> str:
    """The whole page, in Markdown: how many entries each table has, then the tables."""
    counts = table(
        ("interface", *(str(effect) for effect in Effect)),
        [(each.interface, *(str(len(each.named(effect))) for effect in Effect)) for each in TABLES],
    )
    return "\n".join([_HEAD, counts, *_sections()])


def _sections() -> Iterator[str]:
    for each in TABLES:
        rows = [
            (code(name), str(effect), plain(each.entries[name].note))
            for effect in Effect
            for name in each.named(effect)
        ]
        own = f"Other names that begin with {', '.join(map(code, each.begins))} are refused."
        yield f"## {each.interface}\n"
        yield table((each.noun, "here", ""), rows) + (f"\n{own}\n" if each.begins else "")
