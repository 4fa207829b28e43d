from railyard.netemu.schedulers.maxmin import MaxMin
from railyard.netemu.schedulers.fifo import Fifo
from railyard.netemu.schedulers.varys import Varys
from railyard.netemu.schedulers.aalo import Aalo, WeightedAalo
from railyard.netemu.schedulers.sjf import ShortestFirst
from railyard.netemu.schedulers.afap import AsFastAsPossible
ALL = {k.name: k for k in (MaxMin, Fifo, Varys, Aalo, WeightedAalo, ShortestFirst, AsFastAsPossible)}
