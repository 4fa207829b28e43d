import pytest

from railyard.cluster import ids


def test_names_are_built_and_taken_apart():
    job = ids.JobId("j3")
    task = ids.task_id(ids.stage_id(job, "m"), 7)
    attempt = ids.attempt_id(task, 0)
    assert (task, attempt) == ("j3.m7", "j3.m7.0")
    assert ids.job_of(attempt) == job
    assert ids.task_of(attempt) == task
    assert ids.stage_of(attempt) == "j3.m"
    assert ids.task_index(attempt) == 7
    assert ids.rack_of(ids.node_id(ids.rack_id(12), 3)) == "r12"


@pytest.mark.parametrize("wrong", ["", "r0", "n1", "r0n", "xr0n1", "r0n1x"])
def test_what_is_no_node_is_told(wrong):
    with pytest.raises(ValueError, match="is no node"):
        ids.rack_of(ids.NodeId(wrong))


@pytest.mark.parametrize("wrong", ["", "j3", "j3.m7", "j3.7.0", "m7.0"])
def test_what_is_no_attempt_is_told(wrong):
    with pytest.raises(ValueError, match="is no attempt"):
        ids.stage_of(ids.AttemptId(wrong))
    with pytest.raises(ValueError, match="is no attempt"):
        ids.task_index(ids.AttemptId(wrong))
