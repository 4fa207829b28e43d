"""The typed parameters of a job, which are its annotated class attributes.

class LongWords(Job):
    min_letters: int = 8        # --param min_letters=10
    language: str               # no default: must be given
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from railyard.cluster.errors import UsageError, unknown_name

ParamValue = str | int | float | bool | bytes | list[bytes]

_KINDS: dict[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    bytes: "bytes",
    list[bytes]: "a list of bytes",
}
_MISSING = object()


@dataclass(frozen=True)
class Param:
    """One parameter of a job."""

    name: str
    kind: Any  #: one of the types of ``ParamValue``
    default: Any = _MISSING

    @property
    def required(self) -> bool:
        """Whether the parameter has no default."""
        return self.default is _MISSING

    def read(self, value: Any, job: str) -> ParamValue:
        """Convert ``value``, which may be text, to the parameter's type; or ``UsageError``."""
        if isinstance(value, str) and self.kind is bytes:
            return value.encode()
        if isinstance(value, str) and self.kind == list[bytes]:
            return [part.encode() for part in value.split(",")]
        try:
            read: ParamValue = msgspec.convert(value, self.kind, strict=not isinstance(value, str))
        except msgspec.ValidationError:
            right = f"need {_KINDS[self.kind]}"
            raise UsageError(f"{job}: {self.name} = {value!r}: {right}") from None
        return read


def params_of(job: type) -> dict[str, Param]:
    """{Name: parameter} of a job class, those of its base classes first.

    Raises ``UsageError`` for a parameter of a type that cannot be shipped.
    """
    try:
        hints = typing.get_type_hints(job)
    except (NameError, TypeError, SyntaxError) as error:
        raise UsageError(f"{job.__name__}: its annotations cannot be read: {error}") from None
    params = {}
    for name, kind in hints.items():
        if typing.get_origin(kind) is ClassVar or name == "input" or name.startswith("_"):
            continue
        default = getattr(job, name, _MISSING)
        if callable(default):
            raise UsageError(f"{job.__name__}: parameter {name} has a method's name: need another")
        if kind not in _KINDS:
            shown = getattr(kind, "__name__", kind)
            right = "str, int, float, bool, bytes or list[bytes]"
            raise UsageError(f"{job.__name__}: parameter {name} is a {shown}: need {right}")
        params[name] = Param(name, kind, default)
    return params


def read_params(job: type, given: Mapping[str, Any]) -> dict[str, ParamValue]:
    """The values of all parameters of a job: the given ones, converted, and the defaults.

    Raises ``UsageError`` for an unknown parameter, a wrong value or a missing one.
    """
    params, label = params_of(job), job.__name__
    for name in given:
        if name not in params:
            raise unknown_name(f"parameter of {label}", name, params)
    for param in params.values():
        if param.required and param.name not in given:
            need = _KINDS[param.kind]
            raise UsageError(f"{label}: parameter {param.name} is missing: need {need}")
    return {
        name: param.read(given.get(name, param.default), label) for name, param in params.items()
    }
