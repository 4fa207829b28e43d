"""The toy scheduler that duplicates maps in each of four ways: does it?"""

from railyard.benchmarks.attacks._grounds.everykind import RECIPE
from railyard.cluster.ids import JobId
from railyard.cluster.messages.execution import AttemptKilled, AttemptSucceeded
from railyard.resourcemanager.core.state.figures import figures_of
from tests.harness import tiny_cluster


def test_each_map_is_duplicated_in_its_own_way():
    c = tiny_cluster(racks=3, nodes=2, slots=4, scheduler=RECIPE, kill_s=0.2)
    factors = iter([4, 1, 1, 4, 1, 5, 1, 1])  # m0.0 to m3.0, m0.1 to m3.1
    c.stretch = lambda: next(factors, 1.0)
    c.submit("j0", maps=4, reduces=3)
    c.run(until_s=1.5)
    stage = c.core.state.jobs[JobId("j0")].stages["m"]
    assert [task.state for task in stage.tasks] == ["done", "running", "done", "running"]
    assert [[kept.id for kept in task.kept] for task in stage.tasks] == [
        *([], ["j0.m1.0"], [], ["j0.m3.1"])
    ]
    c.run()
    killed = [event.attempt for _, event in c.events if isinstance(event, AttemptKilled)]
    assert killed == ["j0.m2.0", "j0.m0.0"]
    times = {e.attempt: at_s for at_s, e in c.events if isinstance(e, AttemptSucceeded)}
    assert (times["j0.m3.0"], times["j0.m1.1"]) == (4.0, 5.0)
    figures = figures_of(c.core.state.policies)[0]["EveryKind"]
    assert figures == {"duplicates": 4, "duplicates_chosen": 3}
