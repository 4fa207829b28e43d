"""Time that overlapping spans cover."""

from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.messages.spans import Spans, total_s


def covered_s(*spans: tuple[float, float]) -> float:
    ended: Spans = {}
    for begin_s, end_s in sorted(spans, key=lambda span: span[1]):  # as they end
        ended[begin_s] = end_s
    return total_s(ended)


def test_an_instant_counts_once_and_a_gap_does_not():
    assert covered_s() == 0
    assert covered_s((1, 3)) == 2
    assert covered_s((1, 3), (2, 5)) == 4
    assert covered_s((1, 3), (4, 5)) == 3
    assert covered_s((1, 3), (3, 5)) == 4
    assert covered_s((4, 5), (6, 7), (1, 9)) == 8
    assert covered_s((1, 3), (1, 5)) == 4


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12))))
def test_as_many_seconds_as_are_in_any_span(drawn: list[tuple[int, int]]):
    spans = [(begin_s, begin_s + length_s) for begin_s, length_s in drawn]
    seconds = {second for begin_s, end_s in spans for second in range(begin_s, end_s)}
    assert covered_s(*spans) == len(seconds)
