"""Duplicates and skew: Fig. 16 to 23, sections 6.2 and 6.3."""

from __future__ import annotations

from railyard.cluster.units import format_digits
from railyard.scripts.reproduce.figures import BETTER, Figure, Line, Published, reported
from railyard.scripts.reproduce.measures import (
    Measure,
    Summary,
    of_jobs,
    plain,
    show_percent,
)
from railyard.scripts.reproduce.papers.shadow.setups import (
    APPLICATIONS,
    DELAY,
    EACH_JOB,
    KMN,
    OURS,
    SHUFFLE,
    SKEW,
    SKEW_ITSELF,
    alone,
    applications,
    figure,
    gains,
    maps,
    mean_over_jobs,
    of_scheduler,
    share,
    skew_of,
    terasort,
    words,
)


def own(name: str, whose: str = OURS) -> Measure:
    """A figure of the scheduler's own."""
    return plain(name, "", lambda run: of_scheduler(run, whose, name), format_digits)


def _launched(whose: str) -> Measure:
    return plain(
        "duplicates, of the maps",
        "%",
        lambda run: share(run, whose, "duplicates", maps(run)),
        show_percent,
    )


def _chosen(whose: str) -> Measure:
    return plain(
        "chosen, of the duplicates",
        "%",
        lambda run: share(run, whose, "duplicates_chosen", of_scheduler(run, whose, "duplicates")),
        show_percent,
    )


def _before_t(run: Summary) -> float | None:
    """Of the chosen duplicates, those that needed no estimate, in %."""
    chosen = of_scheduler(run, OURS, "duplicates_chosen")
    early = [of_scheduler(run, OURS, name) or 0.0 for name in ("replaced", "taken_early")]
    return min(100.0, 100.0 * sum(early) / chosen) if chosen else None


LAUNCHED, CHOSEN = _launched(OURS), _chosen(OURS)
EARLY = plain("chosen before T, of the chosen", "%", _before_t, show_percent)
ERROR = plain(
    "error of predicted times",
    "%",
    lambda run: share(run, OURS, "prediction_error", 1.0),
    show_percent,
)


def figure_16(quick: bool) -> Figure:
    """Duplicates launched and chosen: those of all six applications."""
    jobs, case = applications(quick), "all six"
    lines = [
        alone(jobs, case, OURS, LAUNCHED, Published(least=0, most=15)),
        alone(jobs, case, OURS, CHOSEN, Published(least=85, most=100)),
        alone(jobs, case, OURS, EARLY),
        alone(jobs, case, OURS, own("replaced")),
    ]
    # Nothing is predicted while duplicates find their input in the light rack.
    racks = (("racks.count", "9"), ("racks.nodes", "6"), ("storage.replication", "1"))
    remote, case = terasort(quick, network=racks), "9 racks, one replica"
    lines.append(alone(remote, case, OURS, CHOSEN, Published(least=75, most=100)))
    lines.append(alone(remote, case, OURS, EARLY))
    lines.append(alone(remote, case, OURS, ERROR, reported(18.9)))
    title = "duplicates launched and chosen"
    return figure(title, "Fig. 16, 18 and 19, section 6.2", lines, words(quick))


def figure_17(quick: bool) -> Figure:
    """Duplicates by the size of the input."""
    sizes = (30, 60, 120) if quick else (30, 60, 90, 120, 160)
    lines: list[Line] = []
    for size in sizes:
        jobs, case = terasort(quick, size=f"{size}GB"), f"{size} GB"
        lines.append(alone(jobs, case, DELAY, SKEW_ITSELF))
        lines.append(alone(jobs, case, OURS, LAUNCHED, Published(least=4.4, most=13)))
        lines.append(alone(jobs, case, OURS, CHOSEN, Published(least=75, most=100)))
        lines += gains(jobs, case)
    return figure("duplicates by input size", "Fig. 17, section 6.2", lines)


def figure_20(quick: bool) -> Figure:
    """Skew of the shuffle against delay's and KMN's."""
    jobs, lines = applications(quick), list[Line]()
    for base, known in ((DELAY, reported(49.8)), (KMN, reported(36.6))):
        for app in APPLICATIONS:
            case = f"{app}, against {base}"
            lines += gains(jobs, case, base, measure=skew_of(app), published=BETTER)
        lines += gains(jobs, f"mean, against {base}", base, measure=_EACH_SKEW, published=known)
    return figure("skew", "Fig. 20, section 6.3", lines, words(quick))


def figure_22(quick: bool) -> Figure:
    """Extra tasks, and what each gains."""
    jobs, lines = applications(quick), list[Line]()
    for rival in (OURS, KMN):
        lines += gains(jobs, "all six", rivals=(rival,), measure=EACH_JOB)
        lines.append(alone(jobs, "all six", rival, _launched(rival)))
        lines.append(alone(jobs, "all six", rival, _chosen(rival)))
    title = "extra tasks and what they gain; published: up to 5.6 times KMN's gain for each"
    return figure(title, "Fig. 21 and 22, section 6.3", lines, words(quick))


def figure_23(quick: bool) -> Figure:
    """Skew and time of TeraSort."""
    lines: list[Line] = []
    for size in ("60GB",) if quick else ("60GB", "120GB"):
        jobs = terasort(quick, size=size)
        lines.append(alone(jobs, size, DELAY, SKEW_ITSELF, reported(2.01)))
        lines.append(alone(jobs, size, OURS, SKEW_ITSELF, reported(1.01)))
        lines += gains(jobs, size, measure=SHUFFLE, published=reported(45))
        lines += gains(jobs, size, published=reported(18))
        lines += gains(jobs, size, measure=SKEW)
    return figure("skew and time", "Fig. 23, section 6.3", lines)


_EACH_SKEW = mean_over_jobs(
    "skew, mean of each", of_jobs("shuffle_skew", "mean"), "shuffle_skew", format_digits
)
