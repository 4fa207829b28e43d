from __future__ import annotations
import numpy as np
from railyard.netemu.schedulers.newbase import *
from railyard.netemu.model.ties import ranks
from railyard.netemu.model.instants import instant_s

class MaxMin(FlowScheduler):
    name = "maxmin"; source = ""; serves = Serves.ALL
    def plan(self, traffic): ...
class Fifo(FlowScheduler):
    name = "fifo"; source = ""; by_bytes = True
    def plan(self, traffic):
        return Plan(order=np.arange(len(traffic.groups)))
class Varys(FlowScheduler):
    name = "varys"; source = ""; by_bytes = True
    def plan(self, traffic):
        order = np.argsort(ranks(traffic.bottleneck_s, instant_s(traffic.now_s)), kind="stable")
        return Plan(order=order, ends_together=True, holds=Holds.UNTIL_END)
LIMITS = np.array([10e6 * 10.0**n for n in range(9)] + [np.inf])
class Aalo(FlowScheduler):
    name = "aalo"; source = ""
    def plan(self, traffic):
        queue = np.searchsorted(LIMITS, traffic.sent_bytes + 1e-3, side="right")
        return Plan(order=np.argsort(queue, kind="stable"), limits_bytes=LIMITS[queue])
class WeightedAalo(FlowScheduler):
    name = "aalo+weighted"; source = ""
    def plan(self, traffic):
        queue = np.searchsorted(LIMITS, traffic.sent_bytes + 1e-3, side="right")
        order = np.argsort(queue, kind="stable")
        weight = np.where(np.bincount(queue, minlength=10) > 0, 10 - np.arange(10), 0.0)
        return Plan(order=order, queues=queue[order], shares=weight / max(weight.sum(), 1.0), limits_bytes=LIMITS[queue], holds=Holds.UNTIL_EMPTY)
class ShortestFirst(FlowScheduler):
    name = "sjf"; source = ""; serves = Serves.SHORTEST
    def plan(self, traffic): ...
class AsFastAsPossible(FlowScheduler):
    name = "afap"; source = ""; serves = Serves.PRIORITIES
    def plan(self, traffic): ...
class Sunflow(FlowScheduler):
    name = "sunflow"; source = ""; serves = Serves.ALL; circuit_policy = "sunflow"
    def plan(self, traffic): ...
ALL = {k.name: k for k in (MaxMin, Fifo, Varys, Aalo, WeightedAalo, ShortestFirst, AsFastAsPossible)}
