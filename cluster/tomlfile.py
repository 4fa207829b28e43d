"""Reading a TOML file into typed, validated objects, with errors that a person can act on."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from cluster.errors import UsageError, require, unknown_name
from cluster.units import parse_duration, parse_rate, parse_size

Size = Annotated[int, msgspec.Meta(title="size")]
Rate = Annotated[float, msgspec.Meta(title="rate")]
Duration = Annotated[float, msgspec.Meta(title="duration")]

T = TypeVar("T", bound=msgspec.Struct)

#: What people call msgspec's types.
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}
_PARSERS = {"size": parse_size, "rate": parse_rate, "duration": parse_duration}


def load_toml(path: Path, into: type[T]) -> T:
    """Read ``path`` as an object of type ``into``.

    Fields annotated ``Size``, ``Rate`` or ``Duration`` take text with units.  Raises
    ``UsageError``, one line that starts with the file's name.
    """
    return build(read_toml(path), into, str(path))


def read_toml(path: Path) -> dict[str, Any]:
    """What a file says, as it stands there; raises ``UsageError`` if it can't be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: is not TOML: {error}") from None


def build(data: dict[str, Any], into: type[T], source: str) -> T:
    """Like ``load_toml``, from a mapping that was read already; ``source`` starts the errors."""
    try:
        return msgspec.convert(_with_units(data, into, ""), into)
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from None
    except msgspec.ValidationError as error:
        raise UsageError(f"{source}: {_in_words(str(error))}") from None


def _with_units(data: dict[str, Any], into: type[Any], prefix: str) -> dict[str, Any]:
    """``data`` with the values of unit fields parsed; unknown keys are refused on the way."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(into)}
    out: dict[str, Any] = {}
    for key, value in data.items():
        where = f"{prefix}{key}"
        if key not in fields:
            raise unknown_name("key", where, [f"{prefix}{name}" for name in fields])
        out[key] = _value(value, fields[key].type, where)
    return out


def _value(value: Any, kind: Any, where: str) -> Any:
    info = msgspec.inspect.type_info(kind)
    options = info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)
    for option in options:
        if isinstance(option, msgspec.inspect.LiteralType):
            right = " or ".join(f'"{choice}"' for choice in option.values)
            require(value in option.values, where, value, right)
        if isinstance(option, msgspec.inspect.Metadata):
            title = (option.extra_json_schema or {}).get("title", "")
            if title in _PARSERS:
                return _PARSERS[title](value, where)
        if isinstance(option, msgspec.inspect.DictType) and isinstance(value, dict):
            inner = option.value_type
            if isinstance(inner, msgspec.inspect.StructType):
                return {k: _table(v, inner.cls, f"{where}.{k}") for k, v in value.items()}
        if isinstance(option, msgspec.inspect.StructType):
            return _table(value, option.cls, where)
    return value


def _table(value: Any, into: type[Any], where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{where} = {value!r}: need a table [{where}]")
    return _with_units(value, into, f"{where}.")


def _in_words(error: str) -> str:
    """msgspec's "Expected `int`, got `str` - at `$.racks.count`" with the place first."""
    match = re.fullmatch(r"(.*?)(?: - at `\$\.?([^`]*)`)?", error, re.DOTALL)
    assert match is not None
    what, where = match[1], match[2]
    if missing := re.fullmatch(r"Object missing required field `(.*)`", what):
        return f'missing key "{where}.{missing[1]}"' if where else f'missing key "{missing[1]}"'
    if wrong := re.fullmatch(r"Expected `(.*)`, got `(.*)`", what):
        right, got = (_KINDS.get(kind, kind) for kind in wrong.groups())
        what = f"need {right}, not {got}"
    what = what.replace("`", "")
    return f"{where}: {what}" if where else what
