"""Shadow: duplicates of a few maps, so that the shuffle loads all racks' links alike.

Source: Wu et al., "Shadow: Exploiting the Power of Choice for Efficient Shuffling in MapReduce",
IEEE Transactions on Big Data 2019; the end of 4.2 is in ``reduces``.  Maps wait for their rack
only, and slow tasks have copies as anywhere, but never those that Shadow has duplicated (5.2).

    o_i, O_j    output of map i; of all maps in rack j
    h_j, t      reduces in rack j; in all
    up_j        O_j (t - h_j) / t          (6)
    down_j      (O - O_j) h_j / t          (7)
    Skew        max / min of all of these  (10)

    T_m = max(max_j (D_j / B_j + R_j), T)   (11)  j: the chosen duplicates that have not ended
    T_s = max_i S_i / B_i                   (12)  i: racks
    T_t = T_m + T_s                         (13)

T is when the last original ended: then the outputs and times of all originals are known, and a
duplicate takes what its original took, after it has read its input from another rack.

Left open there, chosen here:

* Links without load do not count in Skew ("we only consider the links in use", Fig. 5).  With o_i =
  1, and times t, the loads are section 4.2's numbers of transfers.
* In Algorithm 1 ``max`` and ``min`` are taken anew before each test: with those of the round
  before, as printed, {4, 1, 1} ends after one duplicate (3 - 2 is not above 1), against Fig. 6.
  There are at most ``threshold`` duplicates (``duplicates_max``), not one more, and none if the
  racks are balanced from the beginning.  Of racks with as many maps the first goes first.
* All racks in which the job may have slots count in Algorithm 1, those without maps too.  It takes
  maps that run: of a job in several waves, those of the last (4.4).  If no slot of the light rack
  is free, the duplicate waits for one until all originals have ended.  If a duplicate fails,
  another one may not take its place before more maps of the stage are launched.
* A duplicate that has replaced its original may have a copy (``speculation``): nobody runs beside
  it.
* D_j / B_j + R_j runs from when the duplicate was launched; a read within a rack counts in D / B,
  too.  The transfers that share links (Fig. 9) are those of all duplicates in stages that have some
  running, and R is how long the original held its slot, without its reads.  Where there is no
  original, R is the median of the maps that are done, and o the mean.
* Late duplicates are considered one by one, the one that should end first before the others, and
  one is chosen if T_t strictly drops: not always the best of all 2^N choices.  S_i is what the maps
  of rack i send to reduces in other racks, and B_i all of the rack's uplink.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, inf
from statistics import median
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from railyard.cluster.errors import require
from railyard.cluster.ids import AttemptId, NodeId, RackId
from railyard.dfs.placement import nearest
from railyard.netemu.model.links import fill, stack
from railyard.netemu.model.network import Network
from railyard.resourcemanager.interface.recipe import Option, Recipe
from railyard.resourcemanager.interface.speculation import SpeculationConfig
from railyard.resourcemanager.interface.views import AttemptView, ClusterView, StageView, TaskView
from railyard.resourcemanager.schedulers.fair import FairOrder
from railyard.resourcemanager.schedulers.shadow.pairs import Duplicate, Pair, Pairs, Wave
from railyard.resourcemanager.schedulers.shadow.reduces import RoundRobinReduces, reduces_in
from railyard.resourcemanager.schedulers.shared.sites import nodes_alive


# Loads (3) ----------------------------------------------------------------------------------------
class Loads(NamedTuple):
    """Of the links of each rack, [racks], in the unit of the outputs."""

    up: list[float]
    down: list[float]

    @property
    def skew(self) -> float:
        """Of those in use; 1 if none is."""
        used = [load for load in (*self.up, *self.down) if load > 0]
        return max(used) / min(used) if used else 1.0

    @property
    def most(self) -> float:
        """Of the busiest link."""
        return max((*self.up, *self.down), default=0.0)


def link_loads(outputs: Sequence[float], reduces: Sequence[int]) -> Loads:
    """The loads (6) and (7) for O and h of each rack, [racks]; none without reduces."""
    t, total = sum(reduces), sum(outputs)
    if not t:
        return Loads([0.0] * len(outputs), [0.0] * len(outputs))
    pairs = list(zip(outputs, reduces, strict=True))
    up = [o * (t - h) / t for o, h in pairs]
    down = [(total - o) * h / t for o, h in pairs]
    return Loads(up, down)


# Task duplication (4.2) ---------------------------------------------------------------------------
def duplicates(maps: Sequence[int], threshold: int) -> list[Duplicate]:
    """Algorithm 1 for ``maps`` [racks], O((racks + duplicates) log racks): duplicates in order."""
    # A rack that lost a map never is the lightest later, nor one that gained a map the heaviest:
    # so each of the two orders need not know what was changed in the other.
    heavy = [(-count, rack) for rack, count in enumerate(maps)]
    light = [(count, rack) for rack, count in enumerate(maps)]
    heapq.heapify(heavy)
    heapq.heapify(light)
    found: list[Duplicate] = []
    while maps and -heavy[0][0] - light[0][0] > 1 and len(found) < threshold:
        (most, from_rack), (least, to_rack) = heavy[0], light[0]
        found.append(Duplicate(from_rack, to_rack))
        heapq.heapreplace(heavy, (most + 1, from_rack))
        heapq.heapreplace(light, (least + 1, to_rack))
    return found


# Bandwidth (5.2, Fig. 9) --------------------------------------------------------------------------
#: (The node that sends, the node that reads)
Transfer = tuple[NodeId, NodeId]


def available_bytes_per_s(transfers: Sequence[Transfer], network: Network) -> list[float]:
    """B of each transfer, bytes/s, if all are under way together; inf within a node.

    "We first find the most critical link", its transfers share it equally, what they use of other
    links is taken off, and so on: max-min fair shares.
    """
    if not transfers:
        return []
    unlimited = len(network.capacities)  # fills up short paths
    left = np.append(network.capacities, np.inf)
    paths = stack([network.route(src, dst).path for src, dst in transfers], unlimited)
    rates: list[float] = fill(paths.T, np.ones(len(transfers)), left).tolist()
    return rates


def uplinks_bytes_per_s(network: Network, racks: Sequence[str]) -> list[float]:
    """B_i of each rack's uplink, bytes/s, or of its switch in a tree of switches; [racks]."""
    number = network.number
    up = (number.get(f"{rack}.up", number.get(f"{rack}.tor")) for rack in racks)
    return [float(network.capacities[link]) for link in up if link is not None]


# Task selection (4.3) -----------------------------------------------------------------------------
class LateDuplicate(NamedTuple):
    """A duplicate that has not ended at T, as its original has."""

    ends_s: float  #: start + D / B + R
    heavy: int  #: its original's rack
    light: int  #: its own
    output_bytes: float  #: o_j
    number: int  #: tells it from others with the same figures; of equal ones, the lowest goes first


class Shuffle(NamedTuple):
    """What the shuffle sends between racks."""

    output_bytes: Sequence[float]  #: [racks] O_i, of the chosen tasks
    sent_share: Sequence[float]  #: [racks] (t - h_i) / t; the sum of these, if several stages read
    uplink_bytes_per_s: Sequence[float]  #: [racks] B_i

    def time_s(self, rack: int, output_bytes: float) -> float:
        """S_i / B_i."""
        sent = output_bytes * self.sent_share[rack]  # S_i
        bytes_per_s = self.uplink_bytes_per_s[rack]
        if not sent:
            return 0.0
        return sent / bytes_per_s if bytes_per_s else inf


def select(
    late: Iterable[LateDuplicate], shuffle: Shuffle, last_original_s: float
) -> list[LateDuplicate]:
    """Those to choose; ``last_original_s``: T, or when the last one chosen already should end."""
    maps_s = last_original_s  # (11)
    outputs = list(shuffle.output_bytes)
    times = [shuffle.time_s(rack, size) for rack, size in enumerate(outputs)]
    total_s = maps_s + max(times, default=0.0)  # (13)
    chosen = []
    for each in sorted(late, key=lambda one: (one.ends_s, one.number)):
        heavy, light, size = each.heavy, each.light, each.output_bytes
        before = times[heavy], times[light]
        times[heavy] = shuffle.time_s(heavy, outputs[heavy] - size)
        times[light] = shuffle.time_s(light, outputs[light] + size)
        new_total_s = max(maps_s, each.ends_s) + max(times)  # (12) in (13)
        if new_total_s < total_s:
            total_s, maps_s = new_total_s, max(maps_s, each.ends_s)
            outputs[heavy] -= size
            outputs[light] += size
            chosen.append(each)
        else:
            times[heavy], times[light] = before
    return chosen


# The scheduler ------------------------------------------------------------------------------------
#: Their Hadoop (5.1, 5.2): copies of slow tasks as in Hadoop 1.2.1, and reduces after 80 % of maps.
HADOOP: dict[str, Option] = {
    "shuffle.slowstart": 0.8,
    "speculation.on": True,
    "speculation.gap": 0.2,
}
#: The same, and maps that wait for their rack only.
RACK_WAIT_ONLY: dict[str, Option] = {"delay.node_wait_s": 0.0, **HADOOP}


class ShadowConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "shadow.*"."""

    #: Algorithm 1's threshold, as a share of the maps, rounded up; left open there: it launched
    #: duplicates of less than 15 % of them for all applications (6.2)
    duplicates_max: float = 0.15
    #: which of a task's two outputs counts: as 4.3 says, or the first that is there
    selection: Literal["estimate", "first-counts"] = "estimate"

    def __post_init__(self) -> None:
        share = self.duplicates_max
        require(0 <= share <= 1, "shadow.duplicates_max", share, "a share of the maps in [0, 1]")


class Shadow(Pairs):
    """Proposes duplicates, and takes outputs."""

    Config = ShadowConfig
    section = "shadow"

    def __init__(
        self, config: ShadowConfig, cluster: ClusterView, speculation: SpeculationConfig
    ) -> None:
        super().__init__(config, cluster, speculation)
        self._config = config
        self._network = cluster.topology.derived(Network)
        #: when duplicates that were chosen late should end
        self._predicted_s: dict[AttemptId, float] = {}
        #: figures: duplicates that replaced originals, taken outright; relative errors of times
        self._replaced, self._early, self._errors = 0, 0, list[float]()

    # Task duplication (4.2) ----------------------------------------------------------------------
    def wanted(self, wave: Wave, maps: list[int]) -> list[Duplicate]:
        threshold = ceil(self._config.duplicates_max * wave.stage.size) - len(wave.duplicates)
        return duplicates(maps, threshold)

    def original(self, candidates: list[TaskView], rack: RackId) -> tuple[TaskView, bool]:
        """A task with its input in the rack, too, which is moved there; else any."""
        alive = {task.id: nodes_alive(self.cluster, task.input.nodes) for task in candidates}
        near = [task for task in candidates if any(n.rack == rack for n in alive[task.id])]
        self._replaced += bool(near)
        return self.cluster.random.choice(near or candidates), bool(near)

    def first_counts(self, task: TaskView) -> bool:
        return self._config.selection == "first-counts" or super().first_counts(task)

    # Task selection (4.3) ------------------------------------------------------------------------
    def choose(self, wave: Wave) -> Iterable[AttemptView]:
        for pair in list(wave.pairs.values()):
            if pair.duplicate in pair.task.kept:  # it ended before T, or was chosen then
                self._count(pair)
                yield pair.duplicate
            elif pair.was_moved:  # it may have been slow, and have a copy
                yield from [kept for kept in pair.task.kept if kept is not pair.original][:1]
        if wave.originals_ended:
            late = [pair for pair in wave.pairs.values() if pair.is_late and not pair.chosen]
            if late:
                yield from self._select(wave, late)

    def _select(self, wave: Wave, late: list[Pair]) -> Iterable[AttemptView]:
        """It is T: choose among the duplicates that have not ended."""
        ends_s = self._ends_s(wave)
        outputs = self._outputs(wave)
        of: dict[LateDuplicate, Pair] = {}
        for pair in late:
            place = (self._rack(pair.original), self._rack(pair.duplicate))
            end_s, size = ends_s[pair.duplicate.id], float(pair.original.shuffle_bytes)
            of[LateDuplicate(end_s, *place, size, len(of))] = pair
        certain = [ends_s[pair.duplicate.id] for pair in wave.pairs.values() if pair not in late]
        shuffle = Shuffle(
            outputs, self._sent_share(wave.stage), uplinks_bytes_per_s(self._network, self.racks)
        )
        for each in select(of, shuffle, max([self.cluster.now_s, *certain])):
            pair = of.pop(each)
            pair.chosen = True
            self._predicted_s[pair.duplicate.id] = each.ends_s
        for pair in of.values():
            yield pair.original

    def _ends_s(self, wave: Wave) -> dict[AttemptId, float]:
        """start + D / B + R of the wave's duplicates that run."""
        bytes_per_s = self._bandwidth()
        winners = [task.winner for task in wave.stage.tasks if task.winner is not None]
        usual_s = median(map(_runtime_s, winners)) if winners else 0.0
        ends_s = {}
        for pair in wave.pairs.values():
            runtime_s = _runtime_s(pair.original) if pair.is_late else usual_s  # R
            read_s = pair.task.input.input_bytes / bytes_per_s.get(pair.duplicate.id, inf)  # D / B
            ends_s[pair.duplicate.id] = pair.duplicate.launched_s + read_s + runtime_s
        return ends_s

    def _bandwidth(self) -> dict[AttemptId, float]:
        """B of each duplicate that reads from another node, as in Fig. 9."""
        transfers: dict[AttemptId, Transfer] = {}
        for wave in self.waves.values():
            if any(duplicate.holds_slot for duplicate in wave.duplicates):
                for duplicate in wave.duplicates:
                    node, inputs = duplicate.node.id, duplicate.task.input.nodes
                    source = nearest(node, [each.id for each in nodes_alive(self.cluster, inputs)])
                    if source is not None and source != node:
                        transfers[duplicate.id] = source, node
        shares = available_bytes_per_s(list(transfers.values()), self._network)
        return {
            name: max(share, _SLOWEST_BYTES_PER_S)
            for name, share in zip(transfers, shares, strict=True)
        }

    def _outputs(self, wave: Wave) -> list[float]:
        """O of each rack of the topology, of the chosen tasks: originals, but where chosen."""
        outputs = [0.0] * len(self.racks)
        unknown: list[int] = []
        known = 0
        for task in wave.stage.tasks:
            pair = wave.pairs.get(task.id)
            attempt = task.winner or (task.kept[0] if task.kept else None)
            where = pair.duplicate if pair and (pair.chosen or attempt is None) else attempt
            if where is None:
                continue
            if attempt is None:
                unknown.append(self._rack(where))
            else:
                known += 1
                outputs[self._rack(where)] += attempt.shuffle_bytes
        mean = sum(outputs) / max(1, known)
        for rack in unknown:
            outputs[rack] += mean
        return outputs

    def _sent_share(self, stage: StageView) -> list[float]:
        """(t - h_i) / t of each rack, summed up over the stages that read."""
        shares = [0.0] * len(self.racks)
        for reader in stage.readers:
            for number, here in enumerate(reduces_in(reader, self.racks)):
                shares[number] += (reader.size - here) / reader.size
        return shares

    def _rack(self, attempt: AttemptView) -> int:
        return self.number[attempt.node.rack]

    # Figures -------------------------------------------------------------------------------------
    def _count(self, pair: Pair) -> None:
        predicted_s = self._predicted_s.pop(pair.duplicate.id, None)
        now_s = self.cluster.now_s
        if predicted_s is not None:
            took_s = max(now_s - pair.duplicate.launched_s, 1e-9)
            self._errors.append(abs(predicted_s - now_s) / took_s)
        elif not pair.chosen:
            self._early += 1

    def figures(self) -> Mapping[str, float]:
        found = {**super().figures(), "replaced": self._replaced, "taken_early": self._early}
        if self._errors:
            found["prediction_error"] = sum(self._errors) / len(self._errors)
        return found


#: A link that carries nothing is taken for one that carries next to nothing.
_SLOWEST_BYTES_PER_S = 1.0


def _runtime_s(attempt: AttemptView) -> float:
    """R: for how long an attempt held its slot, without its reads from other nodes."""
    ended_s = attempt.launched_s if attempt.ended_s is None else attempt.ended_s
    return max(0.0, ended_s - attempt.launched_s - attempt.read_s)


RECIPE = Recipe(
    name="shadow",
    source="Wu et al., IEEE Transactions on Big Data 2019",
    order=FairOrder,
    tasks=RoundRobinReduces,
    copies=Shadow,
    settings=RACK_WAIT_ONLY,
)
RECIPES = (
    RECIPE,
    RECIPE.variant("first-counts", "without its section 4.3", {"shadow.selection": "first-counts"}),
    RECIPE.variant("no-speculation", "without LATE's copies", {"speculation.on": False}),
)
