"""Flow schedulers in exact fractions, as their papers have them: what the network is held to.

Each works all rates out anew from what flows have left, one flow after the other.  Nothing here is
shared with ``netemu``, so that no slip can be in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf
from typing import TypeVar

#: Bytes, bytes/s and seconds; the only float is inf.
Exact = Fraction | float
Rates = dict["ExactFlow", Exact]

ZERO = Fraction(0)
#: Aalo: what a coflow has sent when it leaves each queue but the last.
LIMITS_BYTES = tuple(Fraction(10**n) for n in range(7, 16))
#: What differs by no more than this share, or so many bytes or seconds, differs by rounding.
SAME_SHARE, SAME_BYTES, SAME_S = Fraction(1, 10**9), Fraction(1, 10), Fraction(1, 10**9)
T = TypeVar("T")


@dataclass(eq=False)
class ExactFlow:
    """A flow, and what it has left to send."""

    name: str
    links: tuple[str, ...]
    left_bytes: Fraction
    coflow: str  #: its own name if it has none
    arrived_s: Fraction
    weight: Fraction = Fraction(1)
    priority: tuple[float, ...] = ()


@dataclass
class ExactNetwork:
    """Open flows and the links' capacities.  Unlimited links are in no flow's way."""

    capacities: dict[str, Exact]
    flows: list[ExactFlow] = field(default_factory=list)
    rates: Rates = field(default_factory=dict)  #: as they were before, of flows that are open
    sent_bytes: dict[str, Fraction] = field(default_factory=dict)  #: by coflow
    arrived_s: dict[str, Fraction] = field(default_factory=dict)  #: by coflow

    def way(self, flow: ExactFlow) -> list[str]:
        """The links that limit a flow."""
        return [link for link in flow.links if self.capacities[link] < inf]

    def coflows(self) -> dict[str, list[ExactFlow]]:
        """The open flows of each coflow."""
        found: dict[str, list[ExactFlow]] = {}
        for flow in self.flows:
            found.setdefault(flow.coflow, []).append(flow)
        return found

    def by_arrival(self, coflow: str) -> tuple[Fraction, str]:
        """First come, first served; then by name."""
        return self.arrived_s[coflow], coflow

    def fill(self, weights: Mapping[ExactFlow, Fraction], left: dict[str, Exact]) -> Rates:
        """Progressive filling: all rise in proportion to their weights until a link is full."""
        rates: Rates = {flow: inf for flow in weights if not self.way(flow)}
        rising = [flow for flow in weights if self.way(flow)]
        while rising:
            load: dict[str, Fraction] = {}
            for flow in rising:
                for link in self.way(flow):
                    load[link] = load.get(link, ZERO) + weights[flow]
            share = min(left[link] / weight for link, weight in load.items())
            full = {link for link, weight in load.items() if left[link] / weight == share}
            held = [flow for flow in rising if full & set(self.way(flow))]
            for flow in held:
                rates[flow] = share * weights[flow]
                for link in self.way(flow):
                    left[link] -= rates[flow]
            rising = [flow for flow in rising if flow not in rates]
        return rates


def ranks(values: Mapping[T, Exact], same: Fraction) -> dict[T, int]:
    """0 for the least, 1 for the next larger ones, and so on; those that are the same have one."""
    found: dict[T, int] = {}
    before: Exact = ZERO
    rank = 0
    for item in sorted(values, key=lambda item: values[item]):
        if found and values[item] > before * (1 + SAME_SHARE) + same:
            rank += 1
        found[item], before = rank, values[item]
    return found


def maxmin(network: ExactNetwork) -> Rates:
    """Max-min fair by weight."""
    weights = {flow: flow.weight for flow in network.flows}
    return network.fill(weights, dict(network.capacities))


def sjf(network: ExactNetwork) -> Rates:
    """Whoever has least left gets all that its way gives; equals share."""
    left, rates = dict(network.capacities), Rates()
    rank = ranks({flow: flow.left_bytes for flow in network.flows}, SAME_BYTES)
    for number in sorted(set(rank.values())):
        rates |= network.fill({f: f.weight for f in network.flows if rank[f] == number}, left)
    return rates


def fifo(network: ExactNetwork) -> Rates:
    """Coflows by arrival; in one, in proportion to what flows have left."""
    left, rates, coflows = dict(network.capacities), Rates(), network.coflows()
    for coflow in sorted(coflows, key=network.by_arrival):
        rates |= network.fill({flow: flow.left_bytes for flow in coflows[coflow]}, left)
    return rates


def varys(network: ExactNetwork) -> Rates:
    """SEBF and MADD, then backfill in the same order, in proportion to what flows have left."""
    left, rates, coflows = dict(network.capacities), Rates(), network.coflows()
    rank = ranks({c: _gamma_s(network, flows, left) for c, flows in coflows.items()}, SAME_S)
    order = sorted(coflows, key=lambda coflow: (rank[coflow], *network.by_arrival(coflow)))
    for coflow in order:
        ends_after_s = _gamma_s(network, coflows[coflow], left)
        for flow in coflows[coflow]:
            rates[flow] = ZERO if ends_after_s == inf else inf
            if 0 < ends_after_s < inf:
                rates[flow] = flow.left_bytes / ends_after_s
            for link in network.way(flow):
                left[link] -= rates[flow]
    for coflow in order:
        more = network.fill({flow: flow.left_bytes for flow in coflows[coflow]}, left)
        for flow, rate in more.items():
            rates[flow] += rate
    return rates


def _gamma_s(network: ExactNetwork, flows: list[ExactFlow], capacities: dict[str, Exact]) -> Exact:
    """How long the slowest link of these flows takes."""
    link_bytes: dict[str, Fraction] = {}
    for flow in flows:
        for link in network.way(flow):
            link_bytes[link] = link_bytes.get(link, ZERO) + flow.left_bytes
    needs_s = [
        size / capacities[link] if capacities[link] else inf for link, size in link_bytes.items()
    ]
    return max(needs_s, default=ZERO)


def _queue(network: ExactNetwork, coflow: str) -> int:
    return sum(limit <= network.sent_bytes.get(coflow, ZERO) for limit in LIMITS_BYTES)


def aalo(network: ExactNetwork) -> Rates:
    """Queues by what coflows have sent, strictly one after the other; FIFO in each."""
    left, rates, coflows = dict(network.capacities), Rates(), network.coflows()
    for coflow in sorted(coflows, key=lambda c: (_queue(network, c), *network.by_arrival(c))):
        rates |= network.fill({flow: flow.weight for flow in coflows[coflow]}, left)
    return rates


def aalo_weighted(network: ExactNetwork) -> Rates:
    """Each queue has its part of the links; what is left is handed out in strict order."""
    coflows = network.coflows()
    queue = {coflow: _queue(network, coflow) for coflow in coflows}
    total = sum(10 - number for number in set(queue.values()))
    parts: dict[int, dict[str, Exact]] = {
        number: {link: rate * (10 - number) / total for link, rate in network.capacities.items()}
        for number in set(queue.values())
    }
    rates, order = Rates(), sorted(coflows, key=lambda c: (queue[c], *network.by_arrival(c)))
    for coflow in order:
        weights = {flow: flow.weight for flow in coflows[coflow]}
        rates |= network.fill(weights, parts[queue[coflow]])
    left = {link: sum(part[link] for part in parts.values()) for link in network.capacities}
    for coflow in order:
        for flow, rate in network.fill({f: f.weight for f in coflows[coflow]}, left).items():
            rates[flow] += rate
    return rates


def afap(network: ExactNetwork) -> Rates:
    """Who has bandwidth keeps it; what is free goes by priority, to each all that its way has."""
    before = network.rates
    rates: Rates = {
        flow: rate if (rate := before.get(flow, ZERO)) < inf else ZERO for flow in network.flows
    }
    free = dict(network.capacities)
    for flow, rate in rates.items():
        for link in network.way(flow):
            free[link] -= rate
    order = sorted(network.flows, key=lambda flow: (flow.priority or (inf,), flow.name))
    for flow in reversed(order):
        less = min(rates[flow], max((-free[link] for link in network.way(flow)), default=ZERO))
        if less > 0:
            rates[flow] -= less
            for link in network.way(flow):
                free[link] += less
    for flow in order:
        more = min((free[link] for link in network.way(flow)), default=inf)
        if more > 0:
            rates[flow] += more
            for link in network.way(flow):
                free[link] -= more
    return rates


EXACT: dict[str, Callable[[ExactNetwork], Rates]] = {
    "maxmin": maxmin,
    "sjf": sjf,
    "fifo": fifo,
    "varys": varys,
    "aalo": aalo,
    "aalo+weighted": aalo_weighted,
    "afap": afap,
}


def ends_s(
    scheduler: str, capacities: Mapping[str, Exact], moments: Iterable[tuple[Exact, list[Act]]]
) -> tuple[dict[str, Fraction], list[Fraction]]:
    """When each flow ends, and the times of all events; flows that never end are left out.

    ``moments`` are times, ascending, and what happens then, after the flows that end then have.
    """
    network, ends, now_s = ExactNetwork(dict(capacities)), dict[str, Fraction](), ZERO
    decide, events_s = EXACT[scheduler], list[Fraction]()
    for until_s, acts in [*moments, (inf, [])]:
        while True:
            network.rates = decide(network)
            due_s = _next_s(network, now_s, scheduler)
            if due_s >= until_s or due_s == inf:
                break
            assert isinstance(due_s, Fraction)
            _pass(network, due_s - now_s, ends, due_s)
            now_s = due_s
            events_s.append(now_s)
        if until_s == inf:
            return ends, events_s
        assert isinstance(until_s, Fraction)
        _pass(network, until_s - now_s, ends, until_s)
        now_s = until_s
        events_s.append(now_s)
        for act in acts:
            act(network, now_s)
        _pass(network, ZERO, ends, now_s)  # those that have nothing to send
    return ends, events_s


#: Something that happens to a network at a time.
Act = Callable[[ExactNetwork, Fraction], None]


def _next_s(network: ExactNetwork, now_s: Fraction, scheduler: str) -> Exact:
    """When a flow ends, or a coflow leaves its queue."""
    sends: dict[str, Fraction] = {}
    dues_s: list[Exact] = [inf]
    for flow, rate in network.rates.items():
        if rate == inf:
            return now_s
        if rate:
            dues_s.append(now_s + flow.left_bytes / Fraction(rate))
            sends[flow.coflow] = sends.get(flow.coflow, ZERO) + Fraction(rate)
    if scheduler.startswith("aalo"):
        for coflow, rate in sends.items():
            sent = network.sent_bytes.get(coflow, ZERO)
            dues_s += [now_s + (limit - sent) / rate for limit in LIMITS_BYTES if limit > sent][:1]
    return min(dues_s)


def _pass(
    network: ExactNetwork, seconds: Fraction, ends: dict[str, Fraction], now_s: Fraction
) -> None:
    """Let flows send for so long, and end those that have sent all."""
    for flow, rate in network.rates.items():
        sent = flow.left_bytes if rate == inf else min(rate * seconds, flow.left_bytes)
        flow.left_bytes -= Fraction(sent)
        if rate < inf:  # what no link limits does not count
            total = network.sent_bytes.get(flow.coflow, ZERO)
            network.sent_bytes[flow.coflow] = total + Fraction(sent)
    done = [flow for flow in network.flows if flow.left_bytes == 0 or not flow.links]
    ends |= {flow.name: now_s for flow in done}
    network.flows = [flow for flow in network.flows if flow not in done]
    network.rates = {flow: rate for flow, rate in network.rates.items() if flow in network.flows}
