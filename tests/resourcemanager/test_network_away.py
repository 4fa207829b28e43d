"""For how long the network was away while jobs ran."""

import pytest

from railyard.resourcemanager.process.network.orders import away_s


@pytest.mark.parametrize(
    ("begin_s", "end_s", "seconds"),
    [
        pytest.param(0.0, 10.0, 3.0, id="all of it"),
        pytest.param(1.5, 5.25, 0.75, id="parts"),
        pytest.param(2.0, 5.0, 0.0, id="not meanwhile"),
    ],
)
def test_only_the_jobs_time_counts(begin_s, end_s, seconds):
    assert away_s([(1.0, 2.0), (5.0, 7.0)], begin_s, end_s) == seconds
