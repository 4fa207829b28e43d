"""Explanations as lines for people: when, what, why, in at most 80 columns.  Pure."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from railyard.cluster.errors import printable
from railyard.cluster.units import format_count, format_rate, format_size
from railyard.resourcemanager.driving.explanation import (
    Answered,
    AnyExplanation,
    AttemptStory,
    Chosen,
    CoflowExplanation,
    Fetched,
    FileExplanation,
    FlowExplanation,
    JobExplanation,
    PairStory,
    StageStory,
    TaskExplanation,
    Turns,
    Waited,
)

K = TypeVar("K", bound=str)

WIDTH = 80
_COLUMN = 24  #: where texts begin
_FEW = 6  #: items of a list that are shown
_MANY = 12  #: answers, or pairs of racks, that are shown


def lines_of(explanation: AnyExplanation) -> Iterator[str]:
    """The explanation, line by line."""
    lines: dict[type, Callable[[Any], Iterable[str]]] = {
        TaskExplanation: _task,
        JobExplanation: _job,
        FlowExplanation: _flow,
        CoflowExplanation: _coflow,
        FileExplanation: _file,
    }
    yield from lines[type(explanation)](explanation)
    for unknown in explanation.unknown:
        yield from _row("not in the record", unknown)


# Tasks and attempts ------------------------------------------------------------------------------
def _task(e: TaskExplanation) -> Iterator[str]:
    yield from _head(f"{e.what} of {e.job} ({e.job_name}), {_under(e)}: {e.state}")
    yield from _row(_at(e.submitted_s), f"{e.job} was submitted")
    yield from _could_start(e.runnable_s, "it")
    yield from _waiting(e.waits, e.answers, e.turns)
    yield from _changes("planned", e.plans)
    for story in e.attempts:
        yield from _attempt(story)


def _could_start(runnable_s: float | None, what: str) -> Iterator[str]:
    if runnable_s is None:
        yield from _row("", f"{what} could not have a slot before the record ends")
    else:
        yield from _row(_at(runnable_s), f"{what} could have had a slot from then on")


def _waiting(waits: Iterable[Waited], answers: Iterable[Answered], turns: Turns) -> Iterator[str]:
    for wait in waits:
        last = f" (at last: {wait.why_last})" if wait.why_last != wait.why else ""
        text = f"waited; {wait.who}: {wait.why}{last}"
        yield from _row(_span(wait.from_s, wait.to_s), text)
    some = list(answers)
    for answer in some[:_MANY]:
        yield from _row(_span(answer.from_s, answer.to_s), _answer(answer))
    if len(some) > _MANY:
        yield from _row("", f"{len(some) - _MANY} more answers are in --json")
    if turns.slots:
        total = sum(turns.slots.values())
        by_job = ", ".join(f"{job} {count}" for job, count in _most(turns.slots)[:_FEW])
        by_job += ", ..." if len(turns.slots) > _FEW else ""
        text = f"{format_count(total, 'slot')} went to other tasks meanwhile: {by_job}"
        yield from _row("its turn", text)
    yield from _changes("order", turns.order)


def _changes(what: str, changes: list[tuple[float, str]]) -> Iterator[str]:
    """The first and the last of what has changed."""
    for at_s, text in changes if len(changes) <= 2 else [changes[0], changes[-1]]:
        yield from _row(f"{what} {_at(at_s)}", text or "nothing any more")


def _answer(answer: Answered) -> str:
    until = f" until {answer.until_s:.3f} s" if answer.until_s is not None else ""
    planned = f"; {answer.planned}" if answer.planned else ""
    offers = f"{format_count(answer.offers, 'offer')} of {_few(answer.nodes, 'node')}"
    return f"answered {answer.answer}{until}: {answer.why}{planned} ({offers})"


def _attempt(story: AttemptStory) -> Iterator[str]:
    yield from _row(_at(story.at_s), f"{story.attempt} on {story.node}{_slot(story)}")
    for chosen in (story.reserved, story.chosen):
        if chosen is not None:
            yield from _chosen(chosen)
    if story.replicas:
        text = f"{story.level}; its input has replicas on {_few(story.replicas, 'node')}"
        yield from _row("reads", text)
    if story.read_bytes is not None and any(story.read_bytes):
        places = zip(story.read_bytes, ("its node", "its rack", "other racks"), strict=True)
        text = ", ".join(f"{format_size(size)} from {where}" for size, where in places if size)
        yield from _row("read", f"{text}, reading for {story.read_s or 0.0:.3f} s")
    yield from _fetches(story)
    taken = f"; {story.taken}" if story.taken else ""
    yield from _row(_at(story.ended_s), f"{story.attempt} {story.outcome}{taken}")


def _slot(story: AttemptStory) -> str:
    if story.slot_s == story.at_s:
        return ""
    if story.slot_s is None:
        return ", reserved; it never got a slot"
    return f", reserved; it got a slot at {story.slot_s:.3f} s"


def _chosen(chosen: Chosen) -> Iterator[str]:
    why = chosen.why or "no reason given"
    yield from _row("why there", f"{chosen.who} {chosen.how} it: {why}")
    if chosen.planned:
        yield from _row("planned", chosen.planned)
    if chosen.order:
        yield from _row("its job's place", chosen.order)
    before = [f"{asked.job}: {asked.why}" for asked in chosen.asked_before]
    if before:
        more = [f"{len(before) - _FEW} more"] if len(before) > _FEW else []
        yield from _row("asked before", "; ".join([*before[:_FEW], *more]))
    if chosen.free_nodes:
        free = ", ".join(f"{count} {level}" for level, count in _most(chosen.free_nodes))
        yield from _row("nodes free then", free)


def _fetches(story: AttemptStory) -> Iterator[str]:
    if not story.fetches:
        return
    size = format_size(sum(fetch.size_bytes for fetch in story.fetches))
    first_s = min(fetch.started_s for fetch in story.fetches)
    ended = [fetch for fetch in story.fetches if fetch.ended_s is not None]
    last_s = max((fetch.ended_s or 0.0 for fetch in ended), default=first_s)
    count = format_count(len(story.fetches), "flow")
    yield from _row(_span(first_s, last_s), f"fetched: {count}, {size}")
    for idle in story.idle:
        yield from _row(_span(idle.from_s, idle.to_s), f"fetched nothing: {idle.why}")
    if ended:
        slowest = max(ended, key=lambda each: (each.ended_s or 0.0) - each.started_s)
        yield from _row("slowest flow", f"{slowest.flow}: {_carried(slowest)}")


# Jobs --------------------------------------------------------------------------------------------
def _job(e: JobExplanation) -> Iterator[str]:
    yield from _head(f"{e.what} ({e.job_name}) of {e.user} in queue {e.queue}, {_under(e)}")
    yield from _row(_at(e.submitted_s), "submitted")
    for stage in e.stages:
        yield from _stage(stage)
    yield from _row(_at(e.ended_s), f"{e.what} {e.outcome}")


def _stage(s: StageStory) -> Iterator[str]:
    reads = f", reads {' '.join(s.reads)}" if s.reads else ""
    needed = f", {s.needed} needed" if s.needed < s.tasks else ""
    yield from _head(f"{s.stage}: {format_count(s.tasks, 'task')}{needed}{reads}")
    yield from _could_start(s.runnable_s, "its first task")
    yield from _waiting(s.waits, s.answers, s.turns)
    if s.first_launch_s is not None:
        copies = f", {s.copies} of them copies" if s.copies else ""
        text = f"first launch; {format_count(s.attempts, 'attempt')} in all{copies}"
        yield from _row(_at(s.first_launch_s), text)
    for why, count in list(s.whys.items())[:_FEW]:
        text = f"{format_count(count, 'attempt')}: {why or 'no reason given'}"
        yield from _row("why there", text)
    for planned in s.planned[:_FEW]:
        yield from _row("planned", planned)
    if s.attempts:
        racks = ", ".join(f"{rack} {count}" for rack, count in s.racks.items())
        levels = ", ".join(f"{count} {level}" for level, count in _most(s.levels))
        yield from _row("where", f"{racks}; {levels}")
    if s.done_s is not None:
        yield from _row(_at(s.done_s), f"all of {s.stage} is done")


# Flows, coflows, circuits ------------------------------------------------------------------------
def _flow(e: FlowExplanation) -> Iterator[str]:
    flow = e.flow
    yield from _head(f"{e.what}, {flow.src} to {flow.dst} for {flow.reader}, {_under(e)}")
    yield from _row(_at(flow.started_s), f"ordered: {e.why}")
    if flow.last_output_s is not None:
        ended = f"the last, {flow.last_output}, ended at {flow.last_output_s:.3f} s"
        yield from _row("carries", f"{format_count(flow.outputs, 'output')}; {ended}")
    if e.reader_since_s is not None:
        yield from _row(_at(e.reader_since_s), f"{flow.reader} was launched")
    if e.before is not None and e.before_ended_s is not None:
        yield from _row(_at(e.before_ended_s), f"{e.before}, the one before it, ended")
    asked = f"weight {flow.weight:g}"
    if flow.priority:
        asked += f", priority {' '.join(f'{number:g}' for number in flow.priority)}"
    yield from _row("asked of the network", asked)
    if e.pair is None:
        where = "its node" if flow.src == flow.dst else "its rack"
        yield from _row("way", f"it stays within {where}: no circuit")
    else:
        yield from _pair(e.pair, e.elephant_bytes)
    yield from _row(_at(flow.ended_s), f"{flow.how}: {_carried(flow)}")


def _coflow(e: CoflowExplanation) -> Iterator[str]:
    yield from _head(f"{e.what}, {_under(e)}: {format_count(len(e.pairs), 'rack pair')} with flows")
    if e.opened_s is not None:
        yield from _row(_at(e.opened_s), "its coflow was opened: its first flow between two nodes")
    largest = sorted(e.pairs, key=lambda pair: -pair.size_bytes)
    for pair in largest[:_MANY]:
        yield from _pair(pair, e.elephant_bytes)
    if len(largest) > _MANY:
        yield from _row("", f"{len(largest) - _MANY} smaller pairs are in --json")
    if e.closed_s is not None:
        yield from _row(_at(e.closed_s), "its coflow was closed: nothing was left to fetch")


def _pair(pair: PairStory, elephant_bytes: float | None) -> Iterator[str]:
    flows = format_count(pair.flows, "flow")
    text = f"{pair.coflow} {pair.src} to {pair.dst}: {flows}, {format_size(pair.size_bytes)}"
    yield from _row(_span(pair.first_s, pair.last_s), text)
    if elephant_bytes is None:
        yield from _row("way", "by packets: this flow scheduler uses no circuits")
        return
    least, most = format_size(elephant_bytes), format_size(pair.most_left_bytes)
    for use in pair.circuits:
        dark = "never carried" if use.lit_s is None else f"carried from {use.lit_s:.3f} s"
        yield from _row(_span(use.begin_s, use.end_s), f"by circuit; it {dark}")
    if pair.circuits:
        yield from _row("way", f"up to {most} were open at once, an elephant is {least} or more")
    elif pair.most_left_bytes < elephant_bytes:
        yield from _row("way", f"by packets: at most {most} were open, an elephant is {least}")
    else:
        text = f"up to {most} were open, an elephant is {least}, but no circuit of it is recorded"
        yield from _row("way", text)


def _carried(flow: Fetched) -> str:
    if flow.ended_s is None:
        return f"{format_size(flow.size_bytes)} to carry"
    took_s = flow.ended_s - flow.started_s
    rate = f", {format_rate(flow.size_bytes / took_s)} in the mean" if took_s > 0 else ""
    return f"{format_size(flow.size_bytes)} in {took_s:.3f} s{rate}"


# Files -------------------------------------------------------------------------------------------
def _file(e: FileExplanation) -> Iterator[str]:
    yield from _head(f"{e.what}, {_under(e)}")
    if e.announced_s is not None:
        job = f" for {e.for_job}" if e.for_job else ""
        yield from _row(_at(e.announced_s), f"it was announced{job}")
    for number, racks in enumerate(e.racks, start=1):
        where = " ".join(racks) if racks else "wherever the store's own rule puts it"
        yield from _row(f"replica {number}", f"{e.who}: {where}")
    if not e.racks:
        yield from _row("replicas", f"{e.who} named no racks: the store's own rule decided")
    by_rack = Counter(rack for nodes in e.blocks for rack in {node.split("n")[0] for node in nodes})
    if by_rack:
        where = ", ".join(f"{rack} {by_rack[rack]}" for rack in sorted(by_rack))
        text = f"{format_count(len(e.blocks), 'block')}; with a replica in {where}"
        yield from _row("as last recorded", text)
    for move in e.moves:
        ended = "" if move.ended_s is None else f" at {move.ended_s:.3f} s"
        source = f" from {move.source}" if move.source else ""
        text = f"block {move.block}{source} to {move.node}: {move.why}; {move.outcome}{ended}"
        yield from _row(_at(move.asked_s), text)
    for reader in e.readers:
        racks_of = ", ".join(f"{rack} {count}" for rack, count in reader.racks.items())
        splits = format_count(reader.splits, "split")
        text = f"{reader.job} ({reader.job_name}) reads it: {splits}; with a replica in {racks_of}"
        yield from _row(_at(reader.at_s), text)


# Rows --------------------------------------------------------------------------------------------
def _head(text: str) -> Iterator[str]:
    yield from textwrap.wrap(printable(text), WIDTH, subsequent_indent="    ")


def _row(left: str, text: str) -> Iterator[str]:
    """A row: when, or what, on the left; wrapped texts keep their column."""
    first = f"  {left:<{_COLUMN - 3}} "
    yield from textwrap.wrap(
        printable(text), WIDTH, initial_indent=first, subsequent_indent=" " * _COLUMN
    )


def _under(e: Any) -> str:
    return f"under {e.scheduler}, flows by {e.flow_scheduler}"


def _at(at_s: float | None) -> str:
    return "" if at_s is None else f"{at_s:.3f} s"


def _span(from_s: float, to_s: float | None) -> str:
    if to_s == from_s:
        return _at(from_s)
    return f"{from_s:.3f} - {'...' if to_s is None else f'{to_s:.3f}'} s"


def _most(counts: Mapping[K, int]) -> list[tuple[K, int]]:
    return sorted(counts.items(), key=lambda item: -item[1])


def _few(names: Iterable[str], noun: str) -> str:
    some = list(names)
    if len(some) > _FEW:
        return f"{format_count(len(some), noun)}, {' '.join(some[:3])} ..."
    return " ".join(some)
