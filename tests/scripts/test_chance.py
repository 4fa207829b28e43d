"""How often a comparison calls chance a difference, and how often it finds what is one.

Summaries are drawn here; ``railyard bench comparison`` does the same with simulated schedulers.
"""

import math
import random

import pytest

from railyard.scripts.comparing.rows import Contender, rows_of
from railyard.scripts.comparing.statements import Verdict, statements
from tests.scripts.test_comparison import summary

PAIRS = 200


def drawn(dice, seed, jobs_s, times=1.0, straggle=0.0):
    """A run of jobs of this length: all of its times vary together by 4 %, each alone by 2 %."""
    common = dice.gauss(0, 0.04) + (math.log(2) if dice.random() < straggle else 0.0)

    def varied(value):
        return value * times * math.exp(common + dice.gauss(0, 0.02))

    run = summary(
        seed, jct=varied(jobs_s), cct=varied(jobs_s / 5), cross=round(varied(1e9) / times)
    )
    run["jct_s"]["p95"], run["cct_s"]["p95"] = varied(2 * jobs_s), varied(jobs_s / 2)
    return run | {"makespan_s": varied(5 * jobs_s)}


def verdicts(number, contenders, seeds, times=1.0, straggle=0.0):
    """What is said of so many contenders, of which the last one's times are ``times`` as long."""
    dice = random.Random(f"{number} {seeds} {times}")
    lengths = [dice.uniform(5, 50) for _ in range(seeds)]
    runs = {
        Contender(f"s{n}", "maxmin", "virtual"): [
            drawn(dice, seed, jobs_s, times if n == contenders - 1 else 1.0, straggle)
            for seed, jobs_s in enumerate(lengths)
        ]
        for n in range(contenders)
    }
    return {one.verdict for one in statements(rows_of(runs)).every}


@pytest.mark.parametrize(
    ("contenders", "seeds", "straggle"),
    [(2, 3, 0.0), (2, 5, 0.0), (2, 10, 0.1), (4, 5, 0.0)],
)
def test_of_identical_schedulers_at_most_one_in_twenty_is_called_different(
    contenders, seeds, straggle
):
    found = [verdicts(number, contenders, seeds, straggle=straggle) for number in range(PAIRS)]
    different = sum(not each.isdisjoint({Verdict.BETTER, Verdict.WORSE}) for each in found)
    assert different <= 0.05 * PAIRS


def test_with_ten_seeds_a_difference_of_a_tenth_is_found():
    found = [verdicts(number, 2, 10, times=1.1) for number in range(PAIRS)]
    assert sum(Verdict.WORSE in each for each in found) >= 0.9 * PAIRS
    assert sum(Verdict.BETTER in each for each in found) <= 0.01 * PAIRS
