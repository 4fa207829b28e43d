"""The restart policy of daemons, with times given by the test."""

from railyard.cluster.processes.restarts import PAUSE_S_MAX, Restarts


def test_pauses_double_until_the_daemon_is_given_up():
    restarts = Restarts(deaths_max=5)
    assert [restarts.pause_s("d", at_s) for at_s in range(5)] == [0.1, 0.2, 0.4, 0.8, None]


def test_pauses_are_bounded():
    restarts = Restarts(deaths_max=50)
    pauses_s = [restarts.pause_s("d", 0.0) for _ in range(49)]
    assert max(pauses_s) == PAUSE_S_MAX


def test_deaths_long_ago_do_not_count():
    restarts = Restarts(deaths_max=3, within_s=10.0)
    assert [restarts.pause_s("d", at_s) for at_s in (0, 6, 12, 18, 30)] == [0.1, 0.2, 0.2, 0.2, 0.1]


def test_each_daemon_has_deaths_of_its_own():
    restarts = Restarts(deaths_max=2)
    assert [restarts.pause_s(name, 0.0) for name in "abab"] == [0.1, 0.1, None, None]
