"""Names that frames use: those that a running cluster's things have, and some that nothing has.

What the names of jobs, attempts and flows will be is known beforehand, so that a batch of frames is
the same whenever it is made.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from railyard.cluster.topology import Topology

_JOBS = 40
_BLOCKS = 300


@dataclass(frozen=True)
class Ids:
    """Names by what they are names of, and numbers of blocks and files."""

    pools: dict[str, tuple[str, ...]]
    numbers: tuple[int, ...]
    every: tuple[str, ...] = field(default=())

    def pick(self, dice: random.Random, field_name: str) -> str:
        """A name for a field of this name; any name if the field says nothing."""
        wanted = [self.pools[pool] for pool in _POOLS_OF.get(field_name, ())]
        return dice.choice(dice.choice(wanted) if wanted else self.every)

    def number(self, dice: random.Random, field_name: str) -> int | None:
        """A number that may stand for something in this field; None if it stands for nothing."""
        if field_name in ("block", "blocks", "file", "instead_of"):
            return dice.choice(self.numbers)
        return None


def of_running(topology: Topology) -> Ids:
    """The names of nodes, jobs, tasks and blocks of a cluster with running jobs."""
    nodes = tuple(str(node.id) for node in topology.nodes())
    racks = tuple(str(rack.id) for rack in topology.rack_list())
    jobs = tuple(f"j{number}" for number in range(1, _JOBS))
    tasks = tuple(f"{job}.{task}" for job in jobs for task in ("m0", "m1", "m3", "r0", "r2"))
    attempts = tuple(f"{task}.{number}" for task in tasks for number in (0, 1))
    readers = [attempt for attempt in attempts if ".r" in attempt]
    return _ids(
        numbers=tuple(range(1, _BLOCKS)),
        job=jobs,
        task=tasks,
        attempt=attempts,
        node=nodes,  # the ends of flows, which any client may name
        one_node=nodes,  # what is to be changed
        rack=racks,
        flow=tuple(f"{a}:{n}:{i}" for a in readers for n in nodes[:3] for i in (0, 1, 2)),
        coflow=tuple(f"{job}.r" for job in jobs),
        path=("/", "/runs", "/kept", "/runs/terasort", "/kept/x", "/tmp", "/.."),
        link=tuple(f"{end}.{way}" for end in (*nodes, *racks) for way in ("up", "down")),
        module=(
            "railyard.jobs.samples.terasort",
            "railyard.jobs.samples.wordcount",
            "railyard.jobs.samples.wordcount",
            "os",
            "",
            "jobs.nothing",
        ),
        job_class=("TeraSort", "WordCount", "TopWords", "system", ""),
        stage=("m", "r", "x"),
        text=("text", "user", "default", "why not"),
    )


def of_nothing(topology: Topology) -> Ids:
    """Names that nothing of the cluster has, but for its nodes: an attacker's own."""
    running = of_running(topology)
    own = tuple(f"attack{number}" for number in range(30))
    return _ids(
        numbers=tuple(range(2**40, 2**40 + 30)),
        **dict.fromkeys(running.pools, own)
        | {name: running.pools[name] for name in ("node", "rack", "stage")}
        | {"path": tuple(f"/attack/{name}" for name in own)},
    )


def _ids(numbers: tuple[int, ...], **pools: tuple[str, ...]) -> Ids:
    every = tuple(name for pool in pools.values() for name in pool[:: max(1, len(pool) // 40)])
    return Ids(pools, numbers, every)


_POOLS_OF = {
    "attempt": ("attempt",),
    "attempts": ("attempt",),
    "outputs": ("attempt",),
    "lost": ("attempt",),
    "reader": ("attempt", "node"),
    "job": ("job",),
    "jobs": ("job",),
    "task": ("task",),
    "node": ("one_node",),
    "nodes": ("node",),
    "src": ("node",),
    "dst": ("node",),
    "source": ("node", "path"),
    "target": ("node", "path"),
    "writer": ("node",),
    "exclude": ("node",),
    "first": ("node",),
    "rack": ("rack",),
    "racks": ("rack",),
    "output_racks": ("rack",),
    "first_racks": ("rack",),
    "flow": ("flow",),
    "finished": ("flow",),
    "transfer": ("flow",),
    "coflow": ("coflow",),
    "path": ("path",),
    "input_paths": ("path",),
    "input_names": ("stage", "text"),
    "output_path": ("path",),
    "folders": ("path",),
    "markers": ("path",),
    "remove": ("path",),
    "link": ("link",),
    "module": ("module",),
    "job_class": ("job_class",),
    "stage": ("stage",),
    "reads": ("stage",),
    "name": ("stage", "text"),
    "user": ("text",),
    "queue": ("text",),
    "reason": ("text",),
}
