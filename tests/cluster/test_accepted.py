"""Tables of what an interface accepts: used, without effect, refused; and names of nobody."""

from __future__ import annotations

import pytest

from railyard.cluster.accepted import Accepted, Effect, idle, refused, used
from railyard.cluster.errors import UsageError

TABLE = Accepted(
    "jobs: settings",
    "setting",
    {
        "job.reduces": used("how many reduces"),
        "job.maps": idle("a map for each block"),
        "job.jvm": refused("no Java runs here"),
    },
    begins=("job.", "task."),
)


def test_a_name_is_used_or_changes_nothing():
    assert TABLE.check("job.reduces") is TABLE.entries["job.reduces"]
    assert TABLE.check("job.maps").effect is Effect.IDLE


def test_a_refused_name_says_why_and_how_it_was_typed():
    with pytest.raises(UsageError, match=r"^-D job\.jvm=1: not supported: no Java runs here$"):
        TABLE.check("job.jvm", "-D job.jvm=1")


def test_an_unknown_name_of_the_interface_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match=r'unknown setting "job\.reduce": did you mean "job\.red'):
        TABLE.check("job.reduce")


def test_a_name_of_the_users_own_is_nobodys_business():
    assert TABLE.check("my.key") is None


def test_without_beginnings_every_unknown_name_is_refused():
    closed = Accepted("words", "word", {"a": used("the first")})
    with pytest.raises(UsageError, match='unknown word "b"'):
        closed.check("b")
