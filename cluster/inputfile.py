"""Reads input files named by a user: ordinary ones of a sensible size; TOML into checked objects.

A read of a pipe or a device may block for ever or never end; both are refused before reading.
The mark that editors put before UTF-8 is left out; the one before UTF-16 is refused.  Errors are
one line that a user can act on.
"""

from __future__ import annotations

import codecs
import functools
import json
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from railyard.cluster.errors import (
    UsageError,
    printable,
    require,
    shown_value,
    unknown_name,
    words_of,
)
from railyard.cluster.units import NUMBER_MAX, format_size, parse_duration, parse_rate, parse_size

#: Maximum size of an input file, far above that of any published trace.
_BYTES_MAX = 2**30
T = TypeVar("T", bound=msgspec.Struct)
#: Maximum size of a file; a plan of 100,000 jobs has a quarter of it.
_TOML_BYTES_MAX = 2**26
_SOURCE_LETTERS_MAX = 400
#: {msgspec's name of a type: its name in errors}
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}
_PARSERS = {"size": parse_size, "rate": parse_rate, "duration": parse_duration}


def read_file(path: Path, bytes_max: int = _BYTES_MAX) -> bytes:
    """Read a regular file without its byte order mark.

    Raises ``UsageError`` for any other file, for UTF-16, and if reading fails.
    """
    name = printable(str(path))
    try:
        # Opening a pipe without a writer would block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if stat.S_ISDIR(status.st_mode):
                raise UsageError(f"{name}: cannot be read: Is a directory")
            if not stat.S_ISREG(status.st_mode):
                raise UsageError(f"{name}: is a pipe or a device: need an ordinary file")
            if status.st_size > bytes_max:
                most = f"at most {format_size(bytes_max)}"
                raise UsageError(f"{name}: has {format_size(status.st_size)}: need {most}")
            data = file.read(bytes_max)
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror}") from None
    except ValueError as error:  # a null byte in its name
        raise UsageError(f"{name}: cannot be read: {words_of(error)}") from None
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UsageError(f"{name}: begins with the byte order mark of UTF-16: need UTF-8")
    return data.removeprefix(codecs.BOM_UTF8)


def read_text_file(path: Path, what: str) -> str:
    """As ``read_file``, decoded; ``what`` names the kind of file in the error: "SWIM trace"."""
    try:
        return read_file(path).decode()
    except UnicodeDecodeError:
        raise UsageError(f"{printable(str(path))}: is no {what}: need text in UTF-8") from None


def read_json(path: Path) -> Any:
    """Read and parse a JSON file; raises ``UsageError``."""
    try:
        return json.loads(read_text_file(path, "JSON"))
    except ValueError as error:
        why = words_of(error)
    except RecursionError:
        why = "its lists and objects are nested too deeply"
    raise UsageError(f"{printable(str(path))}: is no JSON: {why}")


# TOML ---------------------------------------------------------------------------------------------
Size = Annotated[int, msgspec.Meta(title="size")]
Rate = Annotated[float, msgspec.Meta(title="rate")]
Duration = Annotated[float, msgspec.Meta(title="duration")]


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file into plain values; raises ``UsageError`` if it can't be read."""
    text = read_file(path, _TOML_BYTES_MAX)
    try:
        return tomllib.loads(text.decode("utf-8"))
    except RecursionError:
        why = "its lists and tables are nested too deeply"
    except UnicodeDecodeError as error:
        why = f"{error.reason} at byte {error.start}: need UTF-8"
    except tomllib.TOMLDecodeError as error:
        why = str(error)
    except ValueError:
        why = "it has a number of thousands of digits"
    raise UsageError(f"{printable(str(path))}: is not TOML: {why}")


def build(data: dict[str, Any], into: type[T], source: str) -> T:
    """The object of type ``into`` that a parsed file says; ``source`` starts the errors.

    Fields annotated ``Size``, ``Rate`` or ``Duration`` take text with units.  A class may have
    ``REFUSED``, {key that people may try: why it is not supported}, and ``without_effect()``, {key
    that other keys' values switch off: what it needs}; these are refused where they are given.
    """
    shown = printable(source, _SOURCE_LETTERS_MAX)
    try:
        made = msgspec.convert(_with_units(data, into, ""), into)
        _require_bounded(made, "")
        require_effect(made, data)
    except UsageError as error:
        raise UsageError(f"{shown}: {error}") from None
    except msgspec.ValidationError as error:
        raise UsageError(f"{shown}: {_in_words(str(error))}") from None
    except RecursionError:
        raise UsageError(f"{shown}: its lists and tables are nested too deeply") from None
    except OverflowError:
        raise UsageError(f"{shown}: has a number of more digits than anything needs") from None
    return made


def require_effect(made: msgspec.Struct, given: Iterable[str]) -> None:
    """Raise ``UsageError`` for a given key that another key's value keeps from any effect."""
    find = getattr(made, "without_effect", None)
    needs: Mapping[str, str] = find() if find is not None else {}
    for key in given:
        if key in needs:
            raise UsageError(f"{key}: changes nothing here: need {needs[key]}")


def _with_units(data: dict[str, Any], into: type[Any], prefix: str) -> dict[str, Any]:
    """Return ``data`` with the values of unit fields parsed; refuses unknown keys."""
    reasons: Mapping[str, str] = getattr(into, "REFUSED", {})
    fields = {
        field.encode_name: field
        for field in msgspec.structs.fields(into)
        if field.encode_name not in reasons
    }
    out: dict[str, Any] = {}
    for key, value in data.items():
        where = f"{prefix}{key}"
        if key in reasons:
            raise UsageError(f"{where}: not supported: {reasons[key]}")
        if key not in fields:
            raise unknown_name("key", where, [f"{prefix}{name}" for name in fields])
        out[key] = _value(value, fields[key].type, where)
    return out


def _value(value: Any, kind: Any, where: str) -> Any:
    if unit := _unit(kind):
        return _PARSERS[unit](value, where)
    for option in _options(kind):
        if isinstance(option, msgspec.inspect.LiteralType):
            right = " or ".join(f'"{choice}"' for choice in option.values)
            require(value in option.values, where, value, right)
        if isinstance(option, msgspec.inspect.DictType) and isinstance(value, dict):
            inner = option.value_type
            if isinstance(inner, msgspec.inspect.StructType):
                return {k: _table(v, inner.cls, f"{where}.{k}") for k, v in value.items()}
        if isinstance(option, msgspec.inspect.StructType):
            return _table(value, option.cls, where)
    return value


def _unit(kind: Any) -> str:
    """The name of the unit parser of a field's type; "" if it has no unit."""
    for option in _options(kind):
        if isinstance(option, msgspec.inspect.Metadata):
            title = str((option.extra_json_schema or {}).get("title", ""))
            if title in _PARSERS:
                return title
    return ""


def _options(kind: Any) -> tuple[msgspec.inspect.Type, ...]:
    """A type, or those of a union."""
    info = msgspec.inspect.type_info(kind)
    return info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)


@functools.cache
def _fields_without_unit(kind: type[msgspec.Struct]) -> list[tuple[str, str]]:
    """(key in the file, field name) of the fields without a unit."""
    fields = msgspec.structs.fields(kind)
    return [(field.encode_name, field.name) for field in fields if not _unit(field.type)]


def _require_bounded(value: Any, where: str) -> None:
    """Raise ``UsageError`` for numbers that are NaN, infinite or above 10**18.

    A field's own checks may accept those: inf > 0.  Unit parsers check their values themselves.
    """
    if isinstance(value, int | float):
        require(abs(value) <= NUMBER_MAX, where, value, "a number of at most 10**18")
    elif isinstance(value, msgspec.Struct):
        for key, name in _fields_without_unit(type(value)):
            _require_bounded(getattr(value, name), f"{where}.{key}" if where else key)
    elif isinstance(value, dict):
        for key, inner in value.items():
            _require_bounded(inner, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for inner in value:
            _require_bounded(inner, where)


def _table(value: Any, into: type[Any], where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{where} = {shown_value(value)}: need a table [{where}]")
    return _with_units(value, into, f"{where}.")


def _in_words(error: str) -> str:
    """Reword msgspec's "Expected `int`, got `str` - at `$.racks.count`", with the place first."""
    match = re.fullmatch(r"(.*?)(?: - at `\$\.?([^`]*)`)?", error, re.DOTALL)
    assert match is not None
    what, where = match[1], match[2]
    if missing := re.fullmatch(r"Object missing required field `(.*)`", what):
        return f'missing key "{where}.{missing[1]}"' if where else f'missing key "{missing[1]}"'
    if wrong := re.fullmatch(r"Expected `(.*)`, got `(.*)`", what):
        right, got = (_KINDS.get(kind, kind) for kind in wrong.groups())
        what = f"need {right}, not {got}"
    elif bound := re.fullmatch(r"Expected `(int|float)` ([<>]=?) (.*)", what):
        kind, relation, limit = bound.groups()
        what = f"need {_KINDS[kind]} {relation} {limit}"
    what = what.replace("`", "")
    return f"{where}: {what}" if where else what
