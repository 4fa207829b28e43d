"""What a NodeManager finds of map output when it is started again: all, or what was not damaged."""

from __future__ import annotations

from railyard.cluster.ids import task_of
from railyard.cluster.messages.execution import FlowFailed, LaunchAttempt, NodeRestarted
from railyard.simulator.silence.daemons import DaemonDown, DaemonStopped
from tests.simulator.test_stopped_manager import NAME, Seen, is_from_r0, seen, shuffling


def first_fetch_s() -> float:
    """When the first fetch from r0 by the other rack begins."""
    return next(at_s for at_s, order in seen(shuffling()).ordered if is_from_r0(order))


def maps_run(log: Seen) -> list[str]:
    """The maps that were launched, as often as they were."""
    launches = [order for _, order in log.ordered if isinstance(order, LaunchAttempt)]
    return [task_of(order.attempt) for order in launches if ".m" in order.attempt]


def test_what_it_finds_is_not_run_again_and_what_was_damaged_is():
    for lost in (0, 1, 5):
        down = DaemonDown(daemon=NAME, at_s=first_fetch_s() + 0.1, lasts_s=0.3, lost=lost)
        log = seen(shuffling(down))
        [back] = [event for _, event in log.told if isinstance(event, NodeRestarted)]
        again = [task for task in set(maps_run(log)) if maps_run(log).count(task) > 1]
        assert len(again) == min(lost, 2)
        assert len(back.outputs) == 2 - len(again)
        assert not {task_of(output) for output in back.outputs} & set(again)


def test_who_asks_for_damaged_output_is_told():
    """The ResourceManager, which would have cancelled the fetch, is stopped meanwhile."""
    at_s = first_fetch_s() + 0.1
    down = DaemonDown(daemon=NAME, at_s=at_s, lasts_s=0.3, lost=1)
    stopped = DaemonStopped(daemon="resourcemanager", at_s=at_s + 0.1, lasts_s=1.0)
    log = seen(shuffling(down, stopped))
    damaged = [
        output for _, event in log.told if isinstance(event, FlowFailed) for output in event.lost
    ]
    assert len(set(damaged)) == 1
    assert maps_run(log).count(task_of(damaged[0])) == 2
