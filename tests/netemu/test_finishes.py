"""When the first flows finish: the same as by looking at all groups each time."""

from dataclasses import dataclass
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from railyard.netemu.fabric.finishes import Finishes


@dataclass(eq=False)
class Group:
    first_finish_s: float = inf
    stale: bool = False


def test_the_first_of_all_groups_comes_first_and_equals_as_they_were_noted():
    late, early, other, never = Group(3.0), Group(1.0), Group(1.0), Group()
    finishes = Finishes()
    finishes.note([late, never, other, early])
    order = []
    while finishes.first_s() < inf:
        order.append(finishes.take())
    assert order == [other, early, late]


def test_what_has_changed_since_is_void():
    group, other = Group(1.0), Group(2.0)
    finishes = Finishes()
    finishes.note([group, other])
    group.stale = True
    assert finishes.first_s() == 2.0
    group.stale, group.first_finish_s = False, 1.5
    finishes.note([group])
    assert finishes.first_s() == 1.5


@given(st.data())
def test_groups_finish_in_order_whatever_happens_to_them(data):
    groups = [Group(stale=True) for _ in range(4)]
    finishes = Finishes()
    for _ in range(data.draw(st.integers(1, 20))):
        some = data.draw(st.lists(st.sampled_from(groups), unique_by=id))
        match data.draw(st.sampled_from(["note", "change", "take"])):
            case "note":
                for group in some:
                    group.stale = False
                    group.first_finish_s = data.draw(st.sampled_from([1.0, 2.0, 3.0, inf]))
                finishes.note(some)
            case "change":
                for group in some:
                    group.stale = True
            case "take" if finishes.first_s() < inf:
                taken = finishes.take()
                assert not taken.stale
                taken.stale = True
        valid = [group.first_finish_s for group in groups if not group.stale]
        assert finishes.first_s() == min(valid, default=inf)
