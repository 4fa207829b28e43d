"""What ``railyard status`` says of a daemon."""

import pytest

from railyard.cluster.messaging.transport import Description
from railyard.dfs.messages.files import SafeModeStatus
from railyard.scripts.commands.cluster.status import _state


def described(**more):
    return Description(name="d", pid=2, requests=5, refused=0, **more)


def death(pid, next_="it is started again"):
    return {"role": "DataNode", "name": "d", "pid": pid, "how": "exit 1", "next": next_}


@pytest.mark.parametrize(
    ("answer", "deaths", "words"),
    [
        pytest.param(described(), [], "", id="well"),
        pytest.param(None, [], "does not answer", id="silent"),
        pytest.param(None, [death(2)], "died: exit 1; it is started again", id="dead"),
        pytest.param(
            None,
            [death(1), death(2, "it is not started again, having died 8 times within 60 s")],
            "died: exit 1; it is not started again, having died 8 times within 60 s",
            id="given up",
        ),
        pytest.param(described(), [death(1)], "started again; died 1 time: exit 1", id="came back"),
        pytest.param(
            described(unreachable=("network",)),
            [death(0), death(1)],
            "waits for a connection to network; started again; died 2 times: exit 1",
            id="waits",
        ),
    ],
)
def test_state_of_a_daemon(answer, deaths, words):
    said = _state(answer, deaths, pid=2)
    assert said.plain == words


def test_safe_mode_is_told_with_what_it_waits_for():
    said = str(SafeModeStatus(on=True, reported=3, needed=8, blocks=8))
    assert said == (
        "the NameNode is in safe mode: 3 of 8 blocks have been reported, 8 are needed; changes wait"
    )
