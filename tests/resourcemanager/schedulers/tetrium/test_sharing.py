"""Fair parts of slots (4.4)."""

from hypothesis import given
from hypothesis import strategies as st

from railyard.resourcemanager.schedulers.tetrium.sharing import Claim, FairParts

CLAIMS = st.dictionaries(
    st.sampled_from("abcdefgh"),
    st.builds(Claim, st.integers(0, 30), st.integers(1, 100)),
    min_size=1,
)


def parts_of(epsilon, slots, claims):
    return FairParts(epsilon, slots, sum(claim.held for claim in claims.values()), claims)


@given(CLAIMS, st.integers(1, 200))
def test_with_epsilon_1_a_job_may_have_all(claims, free):
    parts = parts_of(1.0, 300, claims)
    assert not parts.lacking
    assert all(parts.cap(job, free) == free for job in claims)


def test_with_epsilon_0_slots_are_in_proportion_to_tasks():
    parts = parts_of(0.0, 12, {"a": Claim(0, 10), "b": Claim(0, 20), "c": Claim(0, 30)})
    free, caps = 12, []
    for job in "abc":
        caps.append(parts.cap(job, free))
        free -= caps[-1]
    assert caps == [2, 4, 6]


def test_half_way_the_first_may_have_what_the_others_do_not_lack():
    parts = parts_of(0.5, 12, {"a": Claim(0, 10), "b": Claim(0, 20), "c": Claim(0, 30)})
    assert parts.cap("a", 12) == 12 - (0.5 * 4 + 0.5 * 6)


def test_what_a_job_holds_counts_though_few_slots_are_free():
    """11 of 12 slots are held: the only free one is for the job that has less than its part."""
    claims = {"much": Claim(9, 21), "little": Claim(2, 28)}
    parts = parts_of(0.0, 12, claims)
    assert list(parts.lacking) == ["little"]
    assert parts.cap("much", 1) == 0
    assert parts.cap("little", 1) == 1
    assert not parts_of(1.0, 12, claims).lacking


def test_what_others_run_who_want_no_more_is_not_given_again():
    parts = FairParts(0.0, 12, 6, {"a": Claim(0, 6)})
    assert parts.lacking == {"a": 6.0}


@given(CLAIMS, st.floats(0, 1), st.integers(1, 200), st.randoms(use_true_random=False))
def test_whatever_others_take_each_job_that_lacks_some_may_have_its_part(
    claims, epsilon, more, dice
):
    """But for rounding: each of those before may have taken up to one slot more."""
    held = sum(claim.held for claim in claims.values())
    slots, free = held + more, more
    tasks = held + sum(claim.pending for claim in claims.values())
    parts = parts_of(epsilon, slots, claims)
    lacking = dict(parts.lacking)
    short = max(0.0, sum(lacking.values()) - free)  # as others hold more than their part
    for served, job in enumerate(sorted(lacking, key=lambda job: dice.random())):
        cap = parts.cap(job, free)
        part = (1 - epsilon) * slots * (claims[job].held + claims[job].pending) / tasks
        assert cap >= part - claims[job].held - short - served - 1e-6
        free -= min(dice.randint(0, cap), free)
