"""tests.cluster.test_units."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.errors import UsageError, printable, printable_lines, shown_value, words_of
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
    number_or_text,
    parse_duration,
    parse_rate,
    parse_size,
    rate_unit,
    size_unit,
    time_unit,
    whole_number,
)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("256MB", 256_000_000),
        ("256MiB", 268_435_456),
        ("10GB", 10**10),
        ("1.125GB", 1_125_000_000),
        ("1kB", 1000),
        ("1 KiB", 1024),
        ("42", 42),
        (42, 42),
        ("2e3", 2000),
        ("0", 0),
    ],
)
def test_sizes_say_which_megabyte_they_mean(text, size_bytes):
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "10XB", "-1", -1, "1.5", "GB", "ten", True, "10Gbps", None])
def test_what_is_no_size_is_refused_with_an_example(text):
    with pytest.raises(UsageError, match=r"storage\.block = .*need a .*(10GB|whole number)"):
        parse_size(text, "storage.block")


@pytest.mark.parametrize(
    ("parse", "text", "right"),
    [
        pytest.param(parse_size, "999999999PB", "at most 1000PB", id="size"),
        pytest.param(parse_size, 10**19, "at most 1000PB", id="size as a number"),
        pytest.param(parse_size, "9" * 5000, "need a size such as", id="size of many digits"),
        pytest.param(parse_size, 10**5000, "need a size such as", id="number of many digits"),
        pytest.param(parse_rate, "9" * 5000 + "Gbps", "need a rate such as", id="many digits"),
        pytest.param(parse_rate, "1e-99Gbps", "8bps to 8000Tbps", id="slowest rate"),
        pytest.param(parse_rate, "1e99Gbps", "8bps to 8000Tbps", id="fastest rate"),
        pytest.param(parse_duration, "1e99h", "at most", id="time"),
        pytest.param(parse_duration, "9" * 5000 + "s", "need a time such as", id="long time"),
    ],
)
def test_what_nothing_can_bear_is_refused_in_a_short_line(parse, text, right):
    with pytest.raises(UsageError, match=right) as error:
        parse(text, "here")
    assert str(error.value).startswith("here = ")
    assert len(str(error.value)) < 300


def test_a_rate_may_be_nothing_at_all():
    assert parse_rate("0bps") == 0.0


@pytest.mark.parametrize(
    ("text", "value"),
    [("12", 12), ("0.5", 0.5), ("1Gbps", "1Gbps"), ("true", "true"), ("9" * 5000, "9" * 5000)],
)
def test_what_looks_like_a_number_is_one(text, value):
    assert number_or_text(text) == value


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("17", 17), ("²", None), ("-1", None), ("9" * 5000, None)]
)
def test_whole_numbers_are_plain_digits(text, value):
    assert whole_number(text) == value


@pytest.mark.parametrize(
    ("text", "bytes_per_s"),
    [
        ("10Gbps", 1.25e9),
        ("100Mbps", 12.5e6),
        ("1 Gbit/s", 1.25e8),
        ("200MB/s", 200e6),
        ("1MiB/s", 2**20),
        ("unlimited", float("inf")),
        ("inf", float("inf")),
    ],
)
def test_rates_tell_bits_from_bytes(text, bytes_per_s):
    assert parse_rate(text) == bytes_per_s


@pytest.mark.parametrize("text", ["10", 10, 125000000, "-1Gbps", "fast", "nan", "1ibps", "١Gbps"])
def test_a_rate_without_its_unit_is_refused(text):
    with pytest.raises(UsageError, match="need a rate such as 10Gbps"):
        parse_rate(text)


@pytest.mark.parametrize(
    ("text", "bytes_per_s"),
    [
        ("12.5MBps", 12.5e6),
        ("12500KBps", 12.5e6),
        ("12500kB/s", 12.5e6),
        ("0.1GBps", 1e8),
        ("11.920929MiBps", 11.920929 * 2**20),
        ("12.5Mb/s", 12.5e6 / 8),
        ("12.5Mbit/s", 12.5e6 / 8),
        ("1Mibps", 2**20 / 8),
    ],
)
def test_a_capital_b_is_a_byte_and_a_small_one_a_bit(text, bytes_per_s):
    assert parse_rate(text) == bytes_per_s


@pytest.mark.parametrize(
    "text", ["12.5MB/S", "12.5mb/s", "12.5MBPS", "12.5mbps", "12.5M", "12.5MB"]
)
def test_a_rate_that_may_mean_bits_or_bytes_is_refused_with_both_spellings(text):
    with pytest.raises(UsageError) as error:
        parse_rate(text, "links.nic")
    right = "need 12.5MB/s (bytes) or 12.5Mbps (bits): upper and lower case count"
    assert str(error.value) == f"links.nic = '{text}': {right}"


@pytest.mark.parametrize("text", ["10Gb", "10gb", "10gB", "10g", "10GIB", "10 gib"])
def test_a_size_whose_letters_are_unclear_is_refused_with_the_clear_ones(text):
    with pytest.raises(
        UsageError, match=r"need a size such as 10GB \(.*\) or 10GiB \(.*: upper and lower"
    ):
        parse_size(text)


_FACTORS = {"": 1} | {
    f"{letter}{i}": (1024 if i else 1000) ** ("kMGT".index(letter) + 1)
    for letter in "kMGT"
    for i in ("", "i")
}
_SIZES = {f"{prefix}{b}": factor for prefix, factor in _FACTORS.items() for b in ("", "B")}
_RATES = {
    f"{prefix}{unit}": Fraction(factor, 8 if unit.startswith("b") else 1)
    for prefix, factor in _FACTORS.items()
    for unit in ("B/s", "Bps", "b/s", "bps", "bit/s")
}


@given(
    st.decimals(min_value=8, max_value=900, places=2).map(str),
    st.sampled_from([*_SIZES, *_RATES]),
    st.sampled_from([str, str.upper, str.lower, str.swapcase, str.title]),
)
def test_however_a_figure_is_spelled_it_is_exact_or_refused(digits, unit, cased):
    text, spelled = f"{digits}{cased(unit)}", cased(unit).replace("K", "k")
    right = _RATES.get(spelled)
    assert _parsed(parse_rate, text) == (right and float(Fraction(digits) * right))
    size = Fraction(digits) * _SIZES.get(spelled, 0)
    assert _parsed(parse_size, text) == (size if size and size.denominator == 1 else None)


def _parsed(parse, text):
    """What it means; None if it is refused."""
    try:
        return parse(text)
    except UsageError:
        return None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10ms", 0.01),
        ("1.5s", 1.5),
        ("2min", 120),
        ("1h", 3600),
        ("20us", 2e-5),
        (3, 3.0),
        ("0", 0),
    ],
)
def test_durations(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["-1s", "soon", "", "10 mss"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(UsageError, match="need a time such as 10ms"):
        parse_duration(text)


def test_figures_are_written_for_people():
    assert format_size(10**10) == "10 GB"
    assert format_size(999) == "999 B"
    assert format_size(999_499) == "999 kB"
    assert format_size(999_700) == "1 MB"
    assert format_rate(1.25e9) == "10 Gbps"
    assert format_rate(float("inf")) == "unlimited"
    assert [format_duration(s) for s in (0, 0.01, 3.214, 125, 179.6, 86_329)] == [
        "0.00 s", "10.0 ms", "3.21 s", "2 min 05 s", "3 min 00 s", "23 h 59 min",
    ]  # fmt: skip


def test_a_column_has_one_unit():
    times_s = (0.0, 3.214, 121.4, 9_999.0)
    assert [time_unit(max(times_s)).digits(s) for s in times_s] == ["0", "3.21", "121", "9,999"]
    assert [time_unit(s).name for s in (0.5, 1, 10_000, 600_000)] == ["ms", "s", "min", "h"]
    assert [size_unit(n).name for n in (0, 999, 1000, 2e9, 1e15)] == ["B", "B", "kB", "GB", "PB"]
    assert size_unit(2e9).digits(153_400_000) == "0.15"
    assert [format_digits(n) for n in (0.0123, 0.0996, 9.996, 99.96, -12.34)] == [
        "0.012", "0.10", "10.0", "100", "-12.3",
    ]  # fmt: skip
    assert [format_ratio(n) for n in (0.5, 12.34, 5000, 1e-9, 1.0, 0.998)] == [
        "0.50", "12.3", "> 1000", "< 0.001", "1.00", "0.998",
    ]  # fmt: skip


@given(st.integers(min_value=0, max_value=10**18))
def test_a_whole_number_of_bytes_reads_back(size_bytes):
    assert parse_size(str(size_bytes)) == parse_size(size_bytes) == size_bytes


# Numbers as people read them: short, without exponents, and read back as they were.


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


# Untrusted text is made safe to print.


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("naïve 語\tb", "naïve 語\tb", id="letters"),
        pytest.param("\x1b[31mred\x00\r", "\\x1b[31mred\\x00\\r", id="control characters"),
        pytest.param("a\u202eb\u2066c\u200bd", "a\\u202eb\\u2066c\\u200bd", id="direction, width"),
        pytest.param("\x9b31m\u2028", "\\x9b31m\\u2028", id="controls of the second kind"),
        pytest.param(b"\xff".decode(errors="surrogateescape"), "\\xff", id="no UTF-8"),
        pytest.param("x" * 20, "x" * 20, id="just short enough"),
        pytest.param("x" * 21, "x" * 20 + "... (21 letters)", id="too long"),
    ],
)
def test_only_what_can_be_read_is_shown(text, shown):
    assert printable(text, letters_max=20) == shown


def test_lines_stay_lines():
    assert printable_lines("one\n\x1b[2Jtwo\n") == "one\n\\x1b[2Jtwo\n"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param("1GB", "'1GB'", id="text"),
        pytest.param(0.5, "0.5", id="number"),
        pytest.param(10**5000, "a number of 16610 bits", id="one that Python does not write"),
        pytest.param("9" * 5000, f"'{'9' * 79}... (5002 letters)", id="long text"),
        pytest.param("\x1b\n", "'\\x1b\\n'", id="control characters"),
    ],
)
def test_values_in_errors_are_short_and_readable(value, shown):
    assert shown_value(value) == shown


def test_an_error_whose_words_fail_has_words():
    class Broken(Exception):
        def __str__(self):
            raise RuntimeError("not even this")

    assert words_of(Broken()) == "(what it says cannot be shown)"
    assert words_of(ValueError("bad")) == "bad"
