"""Tetrium's workloads: jobs of many stages, with inputs skewed over sites.

Source: Hung et al., EuroSys 2018.  ``tetrium``: section 6.1, the trace-driven simulation on 50
sites (topology ``tetrium-50``).  ``tetrium-tpcds`` and ``tetrium-bigdata``: section 6.2, queries of
6 to 16 and of 2 to 5 stages in sequence, on 8 or 30 sites.

Left open there (the trace is not public), chosen here.  A job's graph is a tree of 2 to 16 stages.
A map reads 100 MB, as in section 2.2; jobs have 10 to 1,000 maps (queries: 10 to 200), log-uniform,
and those of more stages have more, as the paper's order of jobs takes the number of stages "as a
proxy for" the work (4.1); with ``size_by_stages`` = 0 the two have nothing to do with one another.
Intermediate data is 1/10 to twice the input (in Fig. 12(a) it exceeds the input at the high end);
later stages output 20 to 100 % of their input.  The shares of the sites in an input follow Zipf's
law, in random order, with a coefficient of variation of up to 2.5 (Fig. 12(b) exceeds 2).  Arrivals
are Poisson, 10 s apart.  Stragglers are a setting of the simulator.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from railyard.cluster.errors import require
from railyard.cluster.inputfile import Duration, Size
from railyard.jobs.workloads.model import InputFile, Workload
from railyard.jobs.workloads.population import Arrivals, Population, Shape, dice, populate
from railyard.jobs.workloads.shapes import StageNode, log_uniform, stages_of, zipf_shares
from railyard.jobs.workloads.statistics import mean, statistic


class TetriumOptions(Population, frozen=True, kw_only=True):
    """The settings of the paper's simulation."""

    COUNTS: ClassVar = {"jobs": 1, "sites": 2, "stages_min": 1, "stages_max": 1, "maps_max": 10}
    SIZES: ClassVar = ("block",)

    jobs: int = 200  #: how many
    sites: int = 50  #: over how many racks or sites inputs are spread
    stages_min: int = 2  #: fewest stages of a job
    stages_max: int = 16  #: most stages of a job
    maps_max: int = 1000  #: most maps of a job
    #: 0 = a job's maps don't depend on its number of stages; 1 = jobs of more stages have more
    size_by_stages: float = 1.0
    block: Size = 100_000_000  #: what a map reads
    variation: float = 2.5  #: largest coefficient of variation of an input's shares over sites
    arrivals: Arrivals = "poisson"
    gap: Duration = 10.0  #: mean time between two jobs; 0 = window / jobs

    def __post_init__(self) -> None:
        super().__post_init__()
        right = f"a whole number >= stages_min, {self.stages_min}"
        require(self.stages_max >= self.stages_min, "stages_max", self.stages_max, right)
        follows = self.size_by_stages
        require(0 <= follows <= 1, "size_by_stages", follows, "a number in [0, 1]")
        most = math.sqrt(self.sites - 1)
        right = f"0 to {most:.3g}, that of {self.sites} sites of which one has everything"
        sound = self.variation >= 0 and (self.variation <= most or self._is_skewed)
        require(sound, "variation", self.variation, right)

    @property
    def _is_skewed(self) -> bool:
        return self.skew is not None or self.skew_ratio is not None

    def without_effect(self) -> dict[str, str]:
        """As of all workloads; these are skewed in a way of their own."""
        off = super().without_effect()
        if self._is_skewed:
            off["variation"] = "no skew, which spreads inputs in its place"
        if self.stages_min == self.stages_max or self.maps_max == 10:
            off["size_by_stages"] = "jobs with different numbers of stages and of maps"
        return off


class TpcdsOptions(TetriumOptions, frozen=True, kw_only=True):
    """TPC-DS on the 8 sites of the deployment."""

    jobs: int = 50  #: how many
    sites: int = 8  #: over how many racks or sites inputs are spread
    stages_min: int = 6  #: fewest stages of a job
    maps_max: int = 200  #: most maps of a job


class BigDataOptions(TpcdsOptions, frozen=True, kw_only=True):
    """The Big Data benchmark on the 8 sites of the deployment."""

    stages_min: int = 2  #: fewest stages of a job
    stages_max: int = 5  #: most stages of a job


def tetrium(options: TetriumOptions, seed: int) -> Workload:
    """200 trees of 2 to 16 stages, inputs skewed over 50 sites."""
    rng = dice(seed, "tetrium")
    shapes = []
    for number in range(options.jobs):
        reads = random_tree(rng, _stages(rng, options))
        leaves = [at for at, read in enumerate(reads) if not read]
        maps = _maps(rng, len(reads), options) / len(leaves)
        nodes = []
        for at, read in enumerate(reads):
            file = None if read else _file(f"t{number}-{at}", maps, options, rng)
            nodes.append(StageNode(read, _selectivity(rng, first=not read), file))
        shapes.append(_shape(f"t{number}", nodes, options))
    return _workload("tetrium", shapes, options, seed, (2, 16), 50, "section 6.1")


def tpcds(options: TpcdsOptions, seed: int) -> Workload:
    """50 queries like TPC-DS': 6 to 16 stages in sequence, 8 sites."""
    shapes = _sequences("ds", options, seed)
    return _workload("tetrium-tpcds", shapes, options, seed, (6, 16), (8, 30), "section 6.2 (a)")


def bigdata(options: BigDataOptions, seed: int) -> Workload:
    """50 queries like the Big Data benchmark's: 2 to 5 stages in sequence, 8 sites."""
    shapes = _sequences("bd", options, seed)
    return _workload("tetrium-bigdata", shapes, options, seed, (2, 5), (8, 30), "section 6.2 (b)")


def _sequences(prefix: str, options: TetriumOptions, seed: int) -> list[Shape]:
    rng = dice(seed, prefix)
    shapes = []
    for number in range(options.jobs):
        count = _stages(rng, options)
        file = _file(f"{prefix}{number}", _maps(rng, count, options), options, rng)
        nodes = [StageNode((), _selectivity(rng, first=True), file)]
        nodes += [StageNode((at,), _selectivity(rng, first=False)) for at in range(count - 1)]
        shapes.append(_shape(f"{prefix}{number}", nodes, options))
    return shapes


def random_tree(rng: np.random.Generator, count: int) -> list[tuple[int, ...]]:
    """For each of ``count`` stages the earlier ones that it reads: none, or up to two unread ones.

    The last stage reads all that are still unread, so that the graph is connected.
    """
    unread: list[int] = []
    reads: list[tuple[int, ...]] = []
    for number in range(count):
        last = number == count - 1
        wanted = 0 if not unread else len(unread) if last else int(rng.integers(0, 3))
        taken = tuple(unread[-wanted:]) if wanted else ()
        unread = [*unread[: len(unread) - len(taken)], number]
        reads.append(taken)
    return reads


def _stages(rng: np.random.Generator, options: TetriumOptions) -> int:
    return int(rng.integers(options.stages_min, options.stages_max + 1))


def _maps(rng: np.random.Generator, stages: int, options: TetriumOptions) -> float:
    """How many maps a job of so many stages has: log-uniform over all jobs, whatever it follows."""
    maps = float(log_uniform(rng, 10, options.maps_max, 1)[0])
    follows, largest = options.size_by_stages, options.maps_max / 10
    if not follows or largest <= 1:
        return maps
    drawn = math.log(maps / 10) / math.log(largest)  # its place among all sizes, 0 to 1
    place = (stages - options.stages_min + drawn) / (options.stages_max - options.stages_min + 1)
    return float(10 * largest ** ((1 - follows) * drawn + follows * place))


def _selectivity(rng: np.random.Generator, *, first: bool) -> float:
    if first:
        return float(log_uniform(rng, 0.1, 2.0, 1)[0])
    return float(rng.uniform(0.2, 1.0))


def _file(name: str, maps: float, options: TetriumOptions, rng: np.random.Generator) -> InputFile:
    variation = float(rng.uniform(0.0, options.variation))
    return InputFile(
        path=f"/workload/{name}",
        size_bytes=max(1, round(maps * options.block)),
        block_bytes=options.block,
        shares=zipf_shares(rng, options.sites, variation),
    )


def _shape(name: str, nodes: list[StageNode], options: TetriumOptions) -> Shape:
    files = tuple(node.file for node in nodes if node.file is not None)
    return Shape(name, stages_of(nodes, options.block, tasks_max=options.maps_max), files)


def _workload(
    name: str,
    shapes: list[Shape],
    options: TetriumOptions,
    seed: int,
    stages: tuple[int, int],
    sites: int | tuple[int, int],
    where: str,
) -> Workload:
    jobs = populate(shapes, options, seed)
    counts = [len(job.stages) for job in jobs]
    shares = [file.shares for job in jobs for file in job.files]
    skews = [float(np.std(each) * len(each)) for each in shares]
    between = [job.stages[0].output_bytes / job.files[0].size_bytes for job in jobs]
    statistics = (
        statistic("sites", "", options.sites, sites, note=where),
        statistic("stages of a job, least", "", min(counts), stages, note=where),
        statistic("stages of a job, most", "", max(counts), stages, note=where),
        statistic("skew of inputs over sites, mean", "", mean(skews)),
        statistic("skew of inputs over sites, most", "", max(skews)),
        statistic("first intermediate data / input, least", "", min(between)),
        statistic("first intermediate data / input, most", "", max(between)),
    )
    return Workload(name=name, jobs=jobs, statistics=statistics, sites=options.sites)
