"""Parses the value of ``--faults``, and draws random schedules of faults from a seed.

    node:r0n1@10s+20s      the node is down from 10 s on, for 20 s (without "+20s": for good)
    rack:r2@30s+60s        all nodes of the rack are down
    slow:r1n0*4@5s+60s     attempts that begin to compute on the node take 4 times as long
    link:r3.up*0.2@5s+60s  the link has a fifth of its capacity
    slots:r3n0*0.5@5s+60s  the node has half its slots, to the nearest whole number, but at least 1
                           (with *0 none, with *2 twice as many); what runs there runs on
    blocks:r0n0/3@10s      every third replica on the node's disk is lost

Sites may be called by their names: link:Tokyo.up, rack:Tokyo.  Several faults are separated by
commas.  A number alone is a seed for random faults of all kinds.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping

from railyard.cluster.accepted import Accepted, used
from railyard.cluster.errors import UsageError, require, require_once
from railyard.cluster.ids import NodeId, RackId
from railyard.cluster.shown import printable
from railyard.cluster.topologies.linknames import link_name, place_named
from railyard.cluster.topology import Topology
from railyard.cluster.units import parse_duration, whole_number
from railyard.simulator.faults.faults import (
    BlocksLost,
    CapacityDrop,
    NodeDown,
    NodeSlow,
    RackDown,
    SlotsChange,
)
from railyard.simulator.silence.daemons import Fault

#: The kinds of faults, and what one is like after its kind.
FAULTS = Accepted(
    "faults of a simulation: --faults",
    "fault",
    {
        "node": used("r0n1@10s+20s: it is down"),
        "rack": used("r2@30s+60s: all of its nodes are down"),
        "slow": used("r1n0*4@5s+60s: it computes four times as long"),
        "link": used("r3.up*0.2@5s+60s: it has a fifth of its capacity"),
        "slots": used("r3n0*0.5@5s+60s: it has half of its slots"),
        "blocks": used("r0n0/3@10s: every third replica is lost"),
    },
)
_FAULT = re.compile(r"(\w+):([\w. -]+)(?:([*/])(\d+(?:\.\d+)?))?@([^+]+)(?:\+(.+))?", re.ASCII)
_RIGHT = (
    "node:r0n1@10s+20s, rack:r2@.., slow:r1n0*4@.., link:r3.up*0.2@.., slots:r3n0*0.5@.. "
    "or blocks:r0n0/3@10s"
)
#: Longest text accepted as a factor or share.
_NUMBER_LETTERS_MAX = 15
_SHOWN_LETTERS_MAX = 80
#: Nodes per random fault, on average.
_NODES_PER_FAULT = 4
_KINDS = ("node", "rack", "slow", "blocks", "link", "slots")


def parse_faults(text: str, topology: Topology, until_s: float) -> list[Fault]:
    """The faults given by a text; those of a seed end by ``until_s``.  Raises ``UsageError``."""
    seed = whole_number(text)
    if seed is not None:
        return random_faults(random.Random(seed), topology, until_s)
    places = topology.places()
    require_once((part.strip() for part in text.split(",")), "--faults")
    return [_parse(part, places) for part in text.split(",")]


def random_faults(dice: random.Random, topology: Topology, until_s: float) -> list[Fault]:
    """About one fault per four nodes, at random times; all have ended by ``until_s``."""
    many = 1 + dice.randrange(1 + len(topology.nodes()) // _NODES_PER_FAULT * 2)
    return [random_fault(dice, topology, until_s) for _ in range(many)]


def random_fault(dice: random.Random, topology: Topology, until_s: float) -> Fault:
    """A fault of a node, a rack, a disk, a link or slots that has ended by ``until_s``."""
    nodes, racks, links = topology.derived(_names)
    at_s = dice.uniform(0, until_s)
    when = {"at_s": at_s, "lasts_s": dice.uniform(0, until_s - at_s)}
    kind = dice.choices(_KINDS, (4, 1, 2, 1, 2, 2))[0]
    if kind == "rack" and len(racks) == 1:
        kind = "node"
    match kind:
        case "node":
            return NodeDown(node=dice.choice(nodes), **when)
        case "rack":
            return RackDown(rack=dice.choice(racks), **when)
        case "slow":
            return NodeSlow(node=dice.choice(nodes), factor=dice.uniform(1, 10), **when)
        case "slots":
            share = dice.choice((0.0, 0.5, 2.0))
            return SlotsChange(node=dice.choice(nodes), share=share, **when)
        case "link":
            share = dice.choice((0.0, 0.1, 0.5))
            return CapacityDrop(link=dice.choice(links), share=share, **when)
        case _:
            return BlocksLost(node=dice.choice(nodes), every=dice.randint(1, 4), at_s=when["at_s"])


def _names(topology: Topology) -> tuple[list[NodeId], list[RackId], list[str]]:
    """Nodes, racks and links that may have faults."""
    racks = [rack.id for rack in topology.rack_list()]
    links = [f"{rack}.{way}" for rack in racks for way in ("up", "down")]
    if topology.tree is not None:
        links = [f"{rack}.tor" for rack in racks]
    return [node.id for node in topology.nodes()], racks, links


def _parse(text: str, places: Mapping[str, str]) -> Fault:
    found = _FAULT.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"--faults {text}: need {_RIGHT}")
    kind, what, sign, number, at, lasts = found.groups()
    FAULTS.check(kind, f"--faults {text}")
    is_long = number is not None and len(number) > _NUMBER_LETTERS_MAX
    if is_long or sign not in (None, "/" if kind == "blocks" else "*"):
        raise UsageError(f"--faults {printable(text, _SHOWN_LETTERS_MAX)}: need {_RIGHT}")
    at_s = parse_duration(at, f"--faults {text}")
    lasts_s = math.inf if lasts is None else parse_duration(lasts, f"--faults {text}")
    _require_effect(text, sign, number, lasts_s)
    match kind, number:
        case "node", None:
            return NodeDown(node=NodeId(what), at_s=at_s, lasts_s=lasts_s)
        case "rack", None:
            return RackDown(rack=RackId(place_named(what, places)), at_s=at_s, lasts_s=lasts_s)
        case "slow", str():
            return NodeSlow(node=NodeId(what), factor=float(number), at_s=at_s, lasts_s=lasts_s)
        case "link", str():
            link = link_name(what, places)
            return CapacityDrop(link=link, share=float(number), at_s=at_s, lasts_s=lasts_s)
        case "slots", str():
            return SlotsChange(node=NodeId(what), share=float(number), at_s=at_s, lasts_s=lasts_s)
        case "blocks", _ if lasts is None and "." not in (number or ""):
            return BlocksLost(node=NodeId(what), every=int(number or 1), at_s=at_s)
    raise UsageError(f"--faults {text}: need {_RIGHT}")


def _require_effect(text: str, sign: str | None, number: str | None, lasts_s: float) -> None:
    """Raise ``UsageError`` for a fault that would change nothing."""
    where = f"--faults {printable(text, _SHOWN_LETTERS_MAX)}"
    if sign == "*" and number is not None:
        require(float(number) != 1, f"{where}: factor", float(number), "another number than 1")
    require(lasts_s > 0, f"{where}: lasts", lasts_s, "a time above 0, or none: for good")
