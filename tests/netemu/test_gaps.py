"""Gaps: the compiled loops leave the same ports free for coflows that will want them soon."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.netemu.circuits.policies import compiled
from railyard.netemu.circuits.policies.sunflow import SunflowCircuits
from tests.netemu.test_circuits import PAIRS, PLACES, RACKS, STEPS, Both

DELTA_S = 0.5
#: A circuit carries a unit of bytes in so many seconds.
UNIT_S = 0.2


class Alone(Both):
    """One policy by itself, which knows when pairs end."""

    def __init__(self):
        super().__init__(wavelengths=1, delta_s=DELTA_S)

    def choose(self):
        """Returns what pairs have circuits afterwards, by coflow."""
        for pair in self.ask():
            self.expect_end(pair, UNIT_S * pair.counted_bytes)
        return [sorted((pair.src, pair.dst) for pair in d.serving) for d in self.order]

    def expect_end(self, pair, after_s):
        """A pair ends so long after its circuit carries."""
        self.policy.expect_end(pair, max(self.now_s, pair.circuit.ready_s) + after_s)

    def come_at_once(self, *coflows):
        """Several come before the next choice: (sizes, place) of each."""
        for sizes, place in coflows:
            self.come(sizes, place)

    def expect(self, number, after_s):
        """One that is served is to end earlier or later than was expected."""
        if serving := self.serving():
            self.expect_end(serving[number % len(serving)], after_s)

    def follow(self, steps):
        """Choose after each step; returns all choices."""
        choices = []
        for (what, *args), passed_s in steps:
            getattr(self, what)(*args)
            choices.append(self.choose())
            self.now_s += passed_s
        return choices


def both_follow(steps):
    """The choices of the reference, and of the compiled loops."""
    plain, fast = Alone(), Alone()
    fast.policy = compiled(fast.policy, [])
    assert type(fast.policy) is not SunflowCircuits
    return plain.follow(steps), fast.follow(steps)


def test_a_port_whose_pair_was_cut_is_not_booked_when_that_would_have_ended():
    """The first to come loses its pair 0 > 1, which was to end soon, and takes 0 > 2 at once.

    So it does not take 0 > 3 when 0 > 1 would have ended.
    """
    before = ({(4, 1): 2}, 0)
    after = ({(2, 3): 1}, 2)
    steps = [
        (("come", {(0, 1): 4, (0, 2): 3, (0, 3): 1}, 0), 1.0),
        (("expect", 0, 0.4), 0.0),
        (("come_at_once", before, after), 0.0),
    ]
    plain, fast = both_follow(steps)
    assert fast == plain
    assert plain[-1] == [[(4, 1)], [(0, 2)], [(2, 3)]]


def test_a_booked_port_that_a_later_coflow_holds_is_looked_at_again_too():
    """The coflow at place 5 waits for 0 > 4, which the one at place 7 has, and gets it then."""
    steps = [
        (("come", {(1, 3): 3}, 0), 0.0),
        (("come", {(0, 4): 1}, 7), 0.3),
        (("come", {(0, 2): 1, (4, 2): 3}, 1), 0.0),
        (("turn", 0, 1), 0.1),
        (("turn", 5, 8), 0.3),
        (("come_at_once", ({(1, 3): 1, (2, 1): 4, (3, 4): 2}, 9), ({(0, 2): 4}, 1)), 0.1),
        (("end", 3, 1), 0.3),
        (("come_at_once", ({(0, 4): 3}, 5), ({(0, 4): 1}, 8)), 0.0),
        (("expect", 5, 0.1), 0.3),
        (("expect", 1, 0.1), 0.0),
    ]
    plain, fast = both_follow(steps)
    assert fast == plain
    assert plain[-1][1] == [(0, 4)]


COFLOWS = st.tuples(st.dictionaries(PAIRS, st.integers(1, 4), min_size=1, max_size=8), PLACES)
STEPS_AND_ENDS = st.one_of(
    STEPS,
    st.tuples(st.just("come_at_once"), COFLOWS, COFLOWS),
    st.tuples(
        st.just("expect"), st.integers(0, RACKS), st.sampled_from([0.1, 0.2, 0.3, 0.4, math.inf])
    ),
)
SCHEDULES = st.lists(st.tuples(STEPS_AND_ENDS, st.sampled_from([0.0, 0.0, 0.1, 0.3])), max_size=40)


@settings(max_examples=150)
@given(SCHEDULES)
def test_the_same_gaps_by_compiled_loops(steps):
    plain, fast = both_follow(steps)
    assert fast == plain
