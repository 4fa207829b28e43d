"""Numbers as people read them: short, without exponents, and read back as they were."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.units import (
    DURATION_S_MAX,
    RATE_BYTES_PER_S_MAX,
    RATE_BYTES_PER_S_MIN,
    SIZE_BYTES_MAX,
    format_change,
    format_digits,
    format_duration,
    format_number,
    format_rate,
    format_ratio,
    format_share,
    format_size,
    parse_duration,
    parse_rate,
    parse_size,
    rate_unit,
    size_unit,
    time_unit,
)

FINITE = st.floats(allow_nan=False, allow_infinity=False)
TIMES = st.floats(0, DURATION_S_MAX)
SIZES = st.integers(0, SIZE_BYTES_MAX)
RATES = st.floats(RATE_BYTES_PER_S_MIN, RATE_BYTES_PER_S_MAX)


@pytest.mark.parametrize(
    ("show", "values", "letters"),
    [
        pytest.param(format_number, FINITE, 24, id="number"),
        pytest.param(format_digits, FINITE, 24, id="digits"),
        pytest.param(format_ratio, st.floats(0, 1e300), 8, id="ratio"),
        pytest.param(format_share, st.floats(0, 10), 8, id="share"),
        pytest.param(format_change, st.floats(-10, 10), 8, id="change"),
        pytest.param(format_duration, TIMES, 16, id="duration"),
        pytest.param(format_size, SIZES, 8, id="size"),
        pytest.param(format_rate, RATES, 9, id="rate"),
    ],
)
def test_numbers_are_short_and_without_exponents(show, values, letters):
    @given(values)
    def check(value):
        text = show(value)
        assert len(text) <= letters
        assert not re.search("e[+-]", text)
        if 1e-9 < abs(value) < 1e12:
            assert any(digit in text for digit in "123456789") or show is format_change, text

    check()


@given(st.floats(1e-6, DURATION_S_MAX - 60))
def test_a_time_reads_back_within_what_was_shown(time_s):
    off_s = 30.1 if time_s >= 3599 else 0.51 if time_s >= 119 else 0.0051
    read_s = parse_duration(format_duration(time_s))
    assert abs(read_s - time_s) <= (time_s / 2 if time_s < 1 else off_s)


@given(st.integers(1, SIZE_BYTES_MAX))
def test_a_size_reads_back_to_three_digits(size_bytes):
    assert math.isclose(parse_size(format_size(size_bytes)), size_bytes, rel_tol=5.1e-3)


@given(RATES)
def test_a_rate_reads_back_to_three_digits(bytes_per_s):
    read = parse_rate(format_rate(bytes_per_s))
    assert math.isclose(read, bytes_per_s, rel_tol=5.1e-3, abs_tol=0.07)


@pytest.mark.parametrize("unit_of", [time_unit, size_unit, rate_unit])
@given(most=st.floats(1e-3, 1e15), share=st.floats(0, 1))
def test_all_of_a_column_reads_in_the_unit_of_its_largest(unit_of, most, share):
    unit = unit_of(most)
    assert "e" not in unit.digits(most * share)
    assert float(unit.digits(most).replace(",", "").strip("<> ")) > 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (3599, "59 min 59 s"),
        (3599.6, "1 h 00 min"),
        (86_329, "23 h 59 min"),
        (119.996, "2 min 00 s"),
        (0.99996, "1.00 s"),
        (0.00099996, "1.0 ms"),
        (-125, "-2 min 05 s"),
        (math.inf, "without end"),
    ],
)
def test_an_hour_reads_as_hours(seconds, text):
    assert format_duration(seconds) == text


def test_numbers_at_the_edges_of_their_formats():
    assert format_number(999.9) == "1,000"  # was "1e+03"
    assert format_size(SIZE_BYTES_MAX) == "1000 PB"
    assert [format_share(s) for s in (0, 0.00001, 0.0025, 0.094, 0.0996, 0.8249, 3.2)] == [
        *("0%", "< 0.01%", "0.25%", "9.4%", "10%", "82%", "320%")
    ]
    assert [format_change(c) for c in (0.083, -0.12, 0.0, -1e-9)] == ["+8.3%", "-12%", "0%", "0%"]
    assert [parse_duration(text) for text in ("2 min 05 s", "1h05min")] == [125, 3900]
