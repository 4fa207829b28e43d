"""Queries, ad hoc jobs, and 2,000 machines: Fig. 10, 11 and 14."""

from __future__ import annotations

from railyard.cluster.units import format_duration
from railyard.scripts.reproduce.figures import BETTER, Figure, against, reported
from railyard.scripts.reproduce.measures import (
    JCT_MEAN,
    JCT_MEDIAN,
    job_time_s,
    named,
    reduction,
    span_s,
)
from railyard.scripts.reproduce.papers.corral.setups import AGAINST, BASE, CORRAL, W1, setup
from railyard.scripts.reproduce.smaller import Coarser, fewer_jobs

#: Here a large job of W1 has up to 10,000 tasks (2): few jobs, and they should meet.
_LARGEST = "largest=10000"
_LARGE = "large jobs of W1 have up to 10,000 tasks"
_SIMULATION = Coarser(topology="corral-50x40", tasks=40, machines=10)


def _testbed(quick: bool) -> Coarser:
    return W1.testbed(quick, 48 if quick else 12)


# Other jobs --------------------------------------------------------------------------------------
def figure_10(quick: bool) -> Figure:
    """DAGs."""
    ad_hoc, window_s = (10, 180.0) if quick else (20, 360.0)
    queries = named("q")
    measures = (
        reduction("query time median", job_time_s("p50", queries), format_duration),
        reduction("query time mean", job_time_s("mean", queries), format_duration),
    )
    options = _LARGEST, f"ad_hoc={ad_hoc}", f"window={window_s:g}s"
    jobs = setup("tpch", _testbed(quick), "tables=own", *options)
    return Figure(
        title="15 queries like TPC-H's, beside a batch of W1",
        where="Fig. 10, section 6.3",
        lines=against(
            BASE,
            CORRAL,
            measures,
            case="queries",
            jobs=jobs,
            published={
                ("corral", "query time median"): reported(18.5),
                ("corral", "query time mean"): reported(21),
            },
        ),
        scaled=(
            f"queries come over {format_duration(window_s)}, beside {ad_hoc} jobs of W1",
            _LARGE,
            *_testbed(quick).words(),
        ),
        base=AGAINST,
    )


def figure_11(quick: bool) -> Figure:
    """Recurring and ad hoc jobs."""
    recurring, ad_hoc = (20, 10) if quick else (100, 50)
    window_s = 24.0 * recurring
    ours, others = named("w1-"), named("adhoc-")
    published = {
        "recurring, JCT mean": reported(33),
        "recurring, JCT median": reported(27),
        "ad hoc, JCT mean": reported(20),
        "ad hoc, JCT p90": reported(37),
        "ad hoc, makespan": reported(28),
    }
    quantities = (
        job_time_s("mean", ours),
        job_time_s("p50", ours),
        job_time_s("mean", others),
        job_time_s("p90", others),
        span_s(others),
    )
    measures = [
        reduction(title, quantity, format_duration)
        for title, quantity in zip(published, quantities, strict=True)
    ]
    options = (_LARGEST, f"jobs={recurring}", f"ad_hoc={ad_hoc}", f"window={window_s:g}s")
    return Figure(
        title="recurring jobs under Corral beside ad hoc ones, W1",
        where="Fig. 11, section 6.4",
        lines=against(
            BASE,
            CORRAL,
            measures,
            case="mix",
            jobs=setup("mix", _testbed(quick), *options),
            published={("corral", title): value for title, value in published.items()},
        ),
        scaled=(
            *([f"{recurring} recurring and {ad_hoc} ad hoc jobs, not 100 and 50"] if quick else []),
            f"recurring jobs come over {format_duration(window_s)}",
            _LARGE,
            *_testbed(quick).words(),
        ),
        base=AGAINST,
    )


# At scale ----------------------------------------------------------------------------------------
def figure_14(quick: bool) -> Figure:
    """Job and flow schedulers together, on 2,000 machines."""
    count = 20 if quick else 200
    window_s = 1.5 * count
    options = (_LARGEST, f"jobs={count}", f"window={window_s:g}s")
    jobs = setup("w1", _SIMULATION, *options)
    cases = (
        ("capacity + maxmin", "capacity + varys", reported(46)),
        ("capacity + varys", "corral + maxmin", reported(45)),
        ("corral + maxmin", "corral + varys", BETTER),
    )
    return Figure(
        title="job completion times with TCP (maxmin) and Varys, W1, median",
        where="Fig. 14, section 6.6",
        lines=tuple(
            line
            for base, rival, published in cases
            for line in against(
                base,
                (rival,),
                (JCT_MEDIAN, JCT_MEAN),
                case=f"against {base}",
                jobs=jobs,
                published={(rival, JCT_MEDIAN.title): published},
            )
        ),
        scaled=(
            *fewer_jobs(count, 200),
            f"jobs come over {format_duration(window_s)} instead of 15 min",
            _LARGE,
            *_SIMULATION.words(),
        ),
        base="the contender that is named at the left",
    )
