"""Parses and formats sizes, rates and durations with units.

This is the only place that parses "10Gbps", "256MB" and "10ms"; all other code uses bytes, bytes
per second and seconds, and names them so.

The prefixes are decimal, as in the papers and in networking: 1 MB = 10**6 bytes, 1 Gbps = 10**9
bits per second.  MiB, GiB and so on are the binary ones: 1 MiB = 2**20 bytes.  Upper and lower
case count: a capital B is a byte and a small b a bit.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

from railyard.cluster.errors import UsageError, require, shown_value

#: Maximum of any number in a file or an option; sums of a few fit into 64 bits.
NUMBER_MAX = 10**18
SIZE_BYTES_MAX = NUMBER_MAX  # 1000 PB
DURATION_S_MAX = 10.0**9  # 31 years
#: Range of a link's rate, besides 0 and unlimited.
RATE_BYTES_PER_S_MIN = 1.0
RATE_BYTES_PER_S_MAX = 1e15
#: Numbers from here on are shown as "more than this": nobody reads their digits.
_SHOWN_MAX = 1e15
#: (from so many seconds on, the larger unit, the smaller one, its seconds)
_TWO_UNITS = ((3599.5, "h", "min", 60), (119.995, "min", "s", 1))
#: Longer text is not a number with a unit.
_LETTERS_MAX = 60

_DECIMAL = (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))
_PREFIX = {"": 1} | {
    f"{letter}{binary}": (1024 if binary else 1000) ** power
    for power, letters in enumerate(("kK", "M", "G", "T", "P"), start=1)
    for letter in letters
    for binary in ("", "i")
}
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}

_NUMBER = r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]([+-]?[0-9]{1,2}))?\s*"
#: "K" for "k" is the one liberty: "m" is a thousandth elsewhere, and "b" a bit, so that a factor of
#: eight hangs on the case of a letter.
_SIZE = re.compile(_NUMBER + r"([kKMGTP]i?|)B?\s*")
_RATE = re.compile(_NUMBER + r"([kKMGTP]i?|)(bps|b/s|bit/s|Bps|B/s)\s*")
#: What means a size or a rate, but may mean bits or bytes: "10Gb", "12.5MB/S", "10gbps".
_UNCLEAR = re.compile(_NUMBER + r"([kmgtp])(i?)(?:b|bits?|bytes?)?(/s|ps)?\s*", re.IGNORECASE)
_DURATION = re.compile(_NUMBER + r"(ns|us|µs|ms|s|min|h)?\s*")
_OF_TWO_UNITS = re.compile(r"\s*([0-9]+)\s*(h|min)\s*([0-9]+)\s*(min|s)\s*")


def parse_size(text: str | int, where: str = "size") -> int:
    """Parse "256MB" (256 * 10**6), "64MiB" (64 * 2**20) or a plain number, in bytes.

    Raises ``UsageError`` for anything else, for a negative size and for part of a byte.
    """
    match = _SIZE.fullmatch(_written(text))
    if match is None or isinstance(text, bool):
        right = "a size such as 10GB (10**9 bytes) or 64MiB, at most 1000PB"
        raise UsageError(f"{where} = {shown_value(text)}: need {_clearly(text, of='B') or right}")
    value = _number(match) * _PREFIX[match[3]]
    require(value.denominator == 1, where, text, "a whole number of bytes")
    require(value <= SIZE_BYTES_MAX, where, text, "at most 1000PB")
    return int(value)


def parse_rate(text: str | int | float, where: str = "rate") -> float:
    """Parse "10Gbps" (10**10 bits/s), "200MB/s" or "inf" (no limit), in bytes per second.

    A capital B is a byte, also in "200MBps", and a small one a bit.  Raises ``UsageError`` for
    what is neither exactly ("200MB/S", "10gbps"), and for a number without a unit.
    """
    written = _written(text)
    if written.strip().lower() in ("inf", "unlimited"):
        return math.inf
    match = _RATE.fullmatch(written)
    if match is None:
        right = "a rate such as 10Gbps (bits), 200MB/s (bytes) or unlimited"
        raise UsageError(f"{where} = {shown_value(text)}: need {_clearly(text, of='B/s') or right}")
    per_s = 1 if match[4].startswith("B") else Fraction(1, 8)
    rate = _number(match) * _PREFIX[match[3]] * per_s
    sound = rate == 0 or RATE_BYTES_PER_S_MIN <= rate <= RATE_BYTES_PER_S_MAX
    require(sound, where, text, "0, or 8bps to 8000Tbps, or unlimited")
    return float(rate)


def parse_duration(text: str | int | float, where: str = "duration") -> float:
    """Parse "10ms", "2min", "1.5h", "2 min 05 s" or a plain number, in seconds."""
    written = _written(text)
    if two := _OF_TWO_UNITS.fullmatch(written):
        seconds = int(two[1]) * _SECONDS[two[2]] + int(two[3]) * _SECONDS[two[4]]
    elif match := _DURATION.fullmatch(written):
        seconds = float(_number(match)) * _SECONDS[match[3] or "s"]
    else:
        raise UsageError(f"{where} = {shown_value(text)}: need a time such as 10ms, 1.5s or 2min")
    require(seconds <= DURATION_S_MAX, where, text, "at most 10**9 s")
    return seconds


def number_or_text(text: str) -> str | int | float:
    """Convert text to an int or a float if it is one; otherwise return the text."""
    if len(text) <= _LETTERS_MAX:
        for kind in (int, float):
            with suppress(ValueError):
                return kind(text)
    return text


def whole_number(text: str) -> int | None:
    """Parse plain digits, up to 10**18; None for any other text."""
    if not (text.isascii() and text.isdigit() and len(text) <= _LETTERS_MAX):
        return None
    number = int(text)
    return number if number <= NUMBER_MAX else None


def format_size(size_bytes: float) -> str:
    """Format bytes as "10 GB": decimal, three digits; ``parse_size`` reads it."""
    return _with_prefix(size_bytes, "B")


def format_rate(bytes_per_s: float) -> str:
    """Format bytes per second as "10 Gbps", in bits per second; ``parse_rate`` reads it."""
    return "unlimited" if bytes_per_s == math.inf else _with_prefix(bytes_per_s * 8, "bps")


def format_number(value: float) -> str:
    """Format a number of anything as "12,345" or "0.333": three digits, or all before the point."""
    size = abs(value)
    if size >= _SHOWN_MAX:
        return f"{'> ' if value > 0 else '< -'}{_SHOWN_MAX:,.0f}"
    if value == int(value) or size >= 999.5:
        return f"{value:,.0f}"
    if size < 1e-6:
        return "< 0.000001" if value > 0 else "> -0.000001"
    places = max(0, 2 - math.floor(math.log10(size)))
    text = f"{value:.{places}f}"
    return text.rstrip("0").rstrip(".") if places else text


def format_count(count: int, noun: str) -> str:
    """Format a count as "1 block" or "2 blocks"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def format_share(share: float) -> str:
    """Format a share as "82%", "9.4%" or "0.25%": two digits, or all before the point."""
    percent = abs(share) * 100
    if 0 < percent < 0.005:
        return "< 0.01%" if share > 0 else "> -0.01%"
    places = 0 if percent >= 9.95 or percent == 0 else 1 if percent >= 0.995 else 2
    return f"{share:.{places}%}"


def format_change(change: float) -> str:
    """Format by which share something is more or less: "+8.3%", "-12%", "0%"."""
    if abs(change) < 0.5e-4:
        return "0%"
    return f"{'+' if change > 0 else ''}{format_share(change)}"


def format_duration(seconds: float) -> str:
    """Format seconds as "10.0 ms", "3.21 s", "2 min 05 s" or "1 h 05 min".

    ``parse_duration`` reads it.
    """
    if seconds < 0:
        return f"-{format_duration(-seconds)}"
    if seconds == math.inf:
        return "without end"
    for least_s, large, small, small_s in _TWO_UNITS:
        if seconds >= least_s:
            whole = round(seconds / small_s)
            return f"{whole // 60} {large} {whole % 60:02} {small}"
    if seconds >= 0.9995 or seconds == 0:
        return f"{seconds:.2f} s"
    if seconds >= 0.99995e-3:
        return f"{seconds * 1e3:.1f} ms"
    return f"{max(seconds * 1e6, 1.0):.0f} us" if seconds >= 0.5e-6 else "< 1 us"


@dataclass(frozen=True)
class Unit:
    """The unit of all values of a column: "GB", of 10**9 bytes."""

    name: str
    factor: float

    def digits(self, value: float) -> str:
        """A value in this unit, without its name: three digits, or all before the point."""
        return format_digits(value / self.factor)

    def show(self, value: float) -> str:
        return f"{format_number(value / self.factor)}{f' {self.name}' if self.name else ''}"


PERCENT = Unit("%", 0.01)
NO_UNIT = Unit("", 1.0)
#: From how many seconds on a column has which unit.
_TIME_UNITS = (
    (600_000.0, Unit("h", 3600.0)),
    (10_000.0, Unit("min", 60.0)),
    (1.0, Unit("s", 1.0)),
    (0.0, Unit("ms", 1e-3)),
)
_SIZE_UNITS = tuple(Unit(f"{prefix}B", factor) for prefix, factor in _DECIMAL)
_BYTES = Unit("B", 1.0)
_RATE_UNITS = tuple(Unit(f"{prefix}bps", factor / 8) for prefix, factor in _DECIMAL)
_BPS = Unit("bps", 1 / 8)


def time_unit(most_s: float) -> Unit:
    """The unit of a column of times whose longest is ``most_s``."""
    return next(unit for least, unit in _TIME_UNITS if most_s >= least)


def size_unit(most_bytes: float) -> Unit:
    """The unit of a column of sizes whose largest is ``most_bytes``."""
    return next((unit for unit in _SIZE_UNITS if most_bytes >= unit.factor), _BYTES)


def rate_unit(most_bytes_per_s: float) -> Unit:
    """The unit of a column of rates whose largest is ``most_bytes_per_s``, in bits per second."""
    return next((unit for unit in _RATE_UNITS if most_bytes_per_s >= unit.factor), _BPS)


def format_digits(value: float) -> str:
    """Format a number of a column as "12,345", "12.3" or "0.012".

    Its places after the point go by its size alone, so that numbers below each other line up.
    """
    size = abs(value)
    if size >= _SHOWN_MAX or 0 < size < 0.0005:
        return format_number(value) if size >= 1 else "< 0.001" if value > 0 else "> -0.001"
    if value == 0 or size >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 9.995 else f"{value:.{2 if size >= 0.0995 else 3}f}"


def format_ratio(ratio: float) -> str:
    """Format how many times as much: "0.87", "12.3", "0.998"; nobody needs it beyond a thousand."""
    if ratio != 1.0 and abs(ratio - 1.0) < 0.005:
        return f"{ratio:.3f}"  # "1.00" would hide on which side it is
    return "> 1000" if ratio > 1000 else format_digits(ratio)


def _written(figure: object) -> str:
    """The text of a value with a unit; "" if it is too long to be one."""
    if isinstance(figure, int) and figure.bit_length() > 4 * _LETTERS_MAX:
        return ""  # Python may refuse to write it
    text = str(figure)
    return text if len(text) <= _LETTERS_MAX else ""


def _clearly(text: object, of: str) -> str:
    """The spellings that are clear, where the letters of a size or a rate are not; or ""."""
    match = _UNCLEAR.fullmatch(_written(text))
    if match is None or (match[5] and of == "B"):
        return ""
    amount = f"{match[1]}e{match[2]}" if match[2] else match[1]
    large = match[3].upper()
    decimal = f"{amount}{'k' if large == 'K' else large}"
    if of == "B":
        clear = f"a size such as {decimal}B (bytes) or {amount}{large}iB (powers of 1024)"
    else:
        same = f"{amount}{large}i" if match[4] else decimal
        clear = f"{same}B/s (bytes) or {same}bps (bits)"
    return f"{clear}: upper and lower case count"


def _number(match: re.Match[str]) -> Fraction:
    # Exact: a float would round sizes from 2**53 bytes on.
    return Fraction(match[1]) * Fraction(10) ** int(match[2] or 0)


def _with_prefix(value: float, unit: str) -> str:
    for prefix, factor in _DECIMAL:
        if value >= 0.9995 * factor:  # rounds up to 1 with three digits
            return f"{format_number(value / factor).replace(',', '')} {prefix}{unit}"
    return f"{value:.0f} {unit}"
