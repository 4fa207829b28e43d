"""A scheduler that gives flows priorities, with a flow scheduler that has none: said once."""

from railyard.scripts.clusters.config import warn_of_idle_priorities
from railyard.scripts.clusters.pairs import Pair


def test_priorities_that_count_for_nothing_are_told(capsys):
    warn_of_idle_priorities(
        [Pair("joint", "maxmin"), Pair("joint", "afap"), Pair("fair", "maxmin")]
    )
    assert capsys.readouterr().err == (
        "joint + maxmin: flows have priorities, maxmin none: they count for nothing; "
        "--flow-scheduler afap serves by them\n"
    )
