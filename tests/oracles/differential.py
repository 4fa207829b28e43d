"""Random cases in which the network must agree with exact fractions.

A case is a small network and what happens to it: coflows and single flows that come at any times,
also at the very ends of others, of sizes down to nothing, over links that are unlimited, limited
or shut; flows that are cancelled; links that change.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import pairwise

from railyard.cluster.ids import CoflowId, FlowId, NodeId
from railyard.cluster.inputfile import build
from railyard.cluster.topology import Topology
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.model.arrays import instant_s
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.schedulers import flow_scheduler
from railyard.oracles.cases import (
    CLOSE_S,
    CLOSE_SHARE,
    RATES,
    Cancel,
    Case,
    Change,
    Limit,
    Run,
    Start,
    random_links,
)
from railyard.oracles.circuits import lower_bound_s, reserve
from railyard.oracles.rates import Act, Exact, ExactFlow, ExactNetwork, ends_s

#: How many flows a case may have; exact fractions grow with each event.
FLOWS_MAX = 14
_SIZES = (0, 1, 10, 1000, 10**5, 10**6, 3 * 10**6, 5 * 10**6, 10**7, 2 * 10**7, 10**8)
_LARGE = 3 * 10**15  # thirds of it are whole: two ends that are one instant on the clock are equal
#: Sizes and weights that are far apart, in one case of three.
_FAR_SIZES = (1, 10, 1000, 10**6, 10**9, 3 * 10**14, 10**15)
_FAR_WEIGHTS = (1e-3, 1.0, 1e3)
_NEVER = Fraction(-1)


def random_case(scheduler: str, seed: int) -> Case[Fraction]:
    """The same seed, the same case: one in which no two events are one instant on the clock alone.

    Of two that are at different times by exact fractions, the clock would not say which is first.
    """
    dice = random.Random(seed)
    while True:
        case = _any_case(scheduler, dice)
        _, events_s = exact_ends_s(scheduler, case)
        gaps_s = pairwise(events_s)
        if not any(0 < later_s - at_s <= instant_s(float(at_s)) for at_s, later_s in gaps_s):
            return case


def _any_case(scheduler: str, dice: random.Random) -> Case[Fraction]:
    racks, nodes = dice.randint(2, 3), dice.randint(1, 2)
    data = {
        "name": "case",
        "racks": {"count": racks, "nodes": nodes},
        "links": random_links(dice),
    }
    case = Case[Fraction](build(data, Topology, "case"), [])
    names = [NodeId(f"r{rack}n{node}") for rack in range(racks) for node in range(nodes)]
    links = list(Fabric(case.topology, flow_scheduler("maxmin")).network.number)
    sizes = dice.choice([_SIZES, _SIZES, _FAR_SIZES])
    if dice.random() < 0.1:
        sizes = _LARGE, _LARGE // 3
    weights = dice.choice([(1.0, 1.0, 1.0, 2.0, 0.5), _FAR_WEIGHTS])
    flows, coflows, at_s = 0, 0, Fraction(0)
    for _ in range(dice.randint(2, 7)):
        at_s = _next_moment_s(scheduler, case, at_s, dice)
        changes: list[Change] = []
        for _ in range(dice.choice([1, 1, 2, 3])):
            kind = dice.random()
            if kind < 0.75 and flows < FLOWS_MAX:
                width = dice.choice([1, 1, 2, 3, 4])
                coflow = CoflowId(f"c{coflows}") if dice.random() < 0.8 else None
                coflows += 1
                for _ in range(width if coflow else 1):
                    changes.append(
                        Start(_random_flow(f"f{flows}", coflow, names, sizes, weights, dice))
                    )
                    flows += 1
            elif kind < 0.9:
                rate = dice.choice([0, *RATES, *RATES, math.inf])
                changes.append(Limit(dice.choice(links), float(rate)))
            elif flows:
                changes.append(Cancel(FlowId(f"f{dice.randrange(flows)}")))
        dice.shuffle(changes)
        if case.moments and case.moments[-1][0] == at_s:
            case.moments[-1][1].extend(changes)
        else:
            case.moments.append((at_s, changes))
    return case


def _exact(rate: float) -> Exact:
    return rate if rate == math.inf else Fraction(rate)


def _random_flow(
    name: str,
    coflow: CoflowId | None,
    nodes: list[NodeId],
    sizes: tuple[int, ...],
    weights: tuple[float, ...],
    dice: random.Random,
) -> FlowSpec:
    exactly = dice.random() < 0.7
    return FlowSpec(
        flow=FlowId(name),
        src=dice.choice(nodes),
        dst=dice.choice(nodes),
        size_bytes=dice.choice(sizes) if exactly else dice.randint(1, 2 * 10**7),
        coflow=coflow,
        weight=dice.choice(weights),
        priority=dice.choice([(), (1.0,), (2.0,), (1.0, 2.0)]),
    )


def _next_moment_s(
    scheduler: str, case: Case[Fraction], after_s: Fraction, dice: random.Random
) -> Fraction:
    """Some time later, now, or as a flow ends by what has happened so far."""
    kind = dice.random()
    if kind < 0.5:
        later_s = sorted(set(exact_ends_s(scheduler, case)[0].values()))
        later_s = [end_s for end_s in later_s if end_s > after_s]
        if later_s:
            return later_s[dice.randrange(min(3, len(later_s)))]
    if kind < 0.6:
        return after_s
    return after_s + Fraction(dice.choice([dice.randint(1, 3000), 10 * dice.randint(1, 300)]), 1000)


# When flows end -----------------------------------------------------------------------------------
def exact_ends_s(
    scheduler: str, case: Case[Fraction]
) -> tuple[dict[str, Fraction], list[Fraction]]:
    """When each flow ends by exact fractions, and when rates were set."""
    fabric = Fabric(case.topology, flow_scheduler("maxmin"))  # for its links and ways only
    named = {number: name for name, number in fabric.network.number.items()}
    capacities = {n: _exact(rate) for n, rate in fabric.capacities_bytes_per_s().items()}

    def act(change: Change) -> Act:
        def start(network: ExactNetwork, now_s: Fraction) -> None:
            assert isinstance(change, Start)
            spec = change.spec
            links = tuple(named[n] for n in fabric.network.route(spec.src, spec.dst).links)
            coflow = spec.coflow if spec.coflow is not None else f"flow {spec.flow}"
            size_bytes, weight = Fraction(spec.size_bytes), Fraction(spec.weight)
            flow = ExactFlow(spec.flow, links, size_bytes, coflow, now_s, weight, spec.priority)
            network.arrived_s.setdefault(coflow, now_s)
            network.flows.append(flow)

        def limit(network: ExactNetwork, now_s: Fraction) -> None:
            assert isinstance(change, Limit)
            network.capacities[change.link] = _exact(change.bytes_per_s)

        def cancel(network: ExactNetwork, now_s: Fraction) -> None:
            assert isinstance(change, Cancel)
            network.flows = [flow for flow in network.flows if flow.name != change.flow]
            network.rates = {f: rate for f, rate in network.rates.items() if f.name != change.flow}

        return {Start: start, Limit: limit, Cancel: cancel}[type(change)]

    moments = [(at_s, [act(change) for change in changes]) for at_s, changes in case.moments]
    return ends_s(scheduler, capacities, moments)


def disagreements(scheduler: str, seed: int, *, is_compiled: bool) -> Iterator[str]:
    """Where the network differs from exact fractions; nothing, if all is well."""
    case = random_case(scheduler, seed)
    yield from _differences(scheduler, case, exact_ends_s(scheduler, case)[0], seed, is_compiled)


def _differences(
    scheduler: str,
    case: Case[Fraction],
    expected: Mapping[str, Fraction],
    seed: int,
    is_compiled: bool,
) -> Iterator[str]:
    for trunks_from in (0, math.inf):
        run = Run(case.topology, scheduler, is_compiled=is_compiled, trunks_from=trunks_from)
        found = run.all_of(case.moments)
        for flow in sorted(expected.keys() | found.keys()):
            right_s, end_s = float(expected.get(flow, _NEVER)), found.get(flow, float(_NEVER))
            if abs(end_s - right_s) > CLOSE_S + CLOSE_SHARE * abs(right_s):
                trunks = f"trunks from {trunks_from} flows on"
                yield f"{scheduler}, seed {seed}, {trunks}: {flow} ends at {end_s}: {right_s}"


# Circuits ----------------------------------------------------------------------------------------
_CIRCUIT_BYTES_PER_S = 10**9


def circuit_disagreements(seed: int, *, is_compiled: bool) -> Iterator[str]:
    """Where two coflows on circuits end at other times than if all were reserved ahead."""
    dice = random.Random(seed)
    racks, delta_s = dice.randint(2, 5), Fraction(dice.choice([0, 10, 100, 300, 1000]), 1000)
    pairs = [(src, dst) for src in range(racks) for dst in range(racks) if src != dst]
    coflows = {
        name: {
            pair: dice.randint(1, 20) * 10**8
            for pair in dice.sample(pairs, dice.randint(1, len(pairs)))
        }
        for name in ("a", "b")
    }

    def urgency(name: str) -> tuple[Fraction, str]:
        return lower_bound_s(coflows[name], _CIRCUIT_BYTES_PER_S, delta_s), name

    order = sorted(coflows, key=urgency)
    plan = reserve([coflows[name] for name in order], racks, _CIRCUIT_BYTES_PER_S, delta_s)
    expected = {
        f"{name}.{src}.{dst}": end_s
        for name, ends in zip(order, plan, strict=True)
        for (src, dst), end_s in ends.items()
    }
    data = {
        "name": "case",
        "racks": {"count": racks, "nodes": 1},
        "links": {"nic": "unlimited", "uplink": "8Gbps"},
        "ocs": {
            "port_bytes_per_s": "8Gbps",
            "delta_s": f"{float(delta_s)}s",
            "elephant_bytes": "1B",
        },
    }
    changes: list[Change] = [
        Start(
            FlowSpec(
                flow=FlowId(f"{name}.{src}.{dst}"),
                src=NodeId(f"r{src}n0"),
                dst=NodeId(f"r{dst}n0"),
                size_bytes=size,
                coflow=CoflowId(name),
            )
        )
        for name, sizes in coflows.items()
        for (src, dst), size in sizes.items()
    ]
    case = Case(build(data, Topology, "case"), [(Fraction(0), changes)])
    yield from _differences("sunflow", case, expected, seed, is_compiled)
