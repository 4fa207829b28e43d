"""Tables of arrays for compiled loops: one pointer, where numba would hand over each array.

numba takes a tuple apart wherever it is handed over: a state's hundred arrays are seven numbers
each, for each call, and compiling took twice as long.
Here a loop gets the address of a *block*: for each array its own address and length, for each
number the number, and for each table within it the same again.
"""

from __future__ import annotations

import functools
from typing import Any, cast, get_type_hints

import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    models,
    register_model,
    unbox,
)
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import from_dtype

_WORD = cgutils.intp_t


class TableType(types.Type):
    """What numba knows of a kind of table."""

    def __init__(self, kind: Any) -> None:
        self.kind: Any = kind
        super().__init__(f"{kind.__module__}.{kind.__name__}")


register_model(TableType)(models.OpaqueModel)


class Pointers:
    """A table as compiled loops get it; good for as long as the table's arrays are its own."""

    def __init__(self, table: Any) -> None:
        self._kept = table  # and with it the arrays
        self._block = np.array(_words(table), np.int64)
        self.address = self._block.ctypes.data
        kind: Any = type(table)
        self._numba_type_ = _type_of(kind)


@functools.cache
def _type_of(kind: Any) -> TableType:
    return TableType(kind)


@functools.cache
def _fields(kind: Any) -> dict[str, tuple[Any, int]]:
    """{field: its type, and where in the block it begins, in words}"""
    found, at = dict[str, tuple[Any, int]](), 0
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if hasattr(hint, "__metadata__"):
            found[name] = types.Array(from_dtype(np.dtype(hint.__metadata__[0])), 1, "C"), at
            at += 2
        elif hint in (int, bool):
            found[name] = types.intp if hint is int else types.boolean, at
            at += 1
        else:
            found[name] = _type_of(hint), at
            at += _size(hint)
    return found


def _size(kind: Any) -> int:
    """Words of a kind of table."""
    words = 0
    for of, _ in _fields(kind).values():
        array_or_number = 2 if isinstance(of, types.Array) else 1
        words += _size(of.kind) if isinstance(of, TableType) else array_or_number
    return words


def _words(table: Any) -> list[int]:
    """The block of a table."""
    words, kind = list[int](), cast("Any", type(table))
    for (name, (of, at)), value in zip(_fields(kind).items(), table, strict=True):
        assert len(words) == at
        if isinstance(of, TableType):
            words += _words(value)
        elif isinstance(of, types.Array):
            assert value.flags.c_contiguous, name
            assert from_dtype(value.dtype) == of.dtype, f"{kind.__name__}.{name}"
            words += [value.ctypes.data, len(value)]
        else:
            words.append(int(value))
    return words


@infer_getattr
class _Attribute(AttributeTemplate):
    key = TableType

    def generic_resolve(self, table: Any, name: str) -> Any:  # type: ignore[override]
        """The type of a field."""
        return _fields(table.kind)[name][0]


@lower_getattr_generic(TableType)  # type: ignore[untyped-decorator]
def _field(context: Any, builder: Any, table: TableType, block: Any, name: str) -> Any:
    """Read a field of a table from its block."""
    of, at = _fields(table.kind)[name]
    words = builder.bitcast(block, _WORD.as_pointer())
    if isinstance(of, TableType):
        return builder.bitcast(builder.gep(words, [_WORD(at)]), block.type)

    def word(at: int) -> Any:
        read = builder.load(builder.gep(words, [_WORD(at)]))
        # nothing changes a block while a loop runs: it need not be read anew after each store
        read.set_metadata("invariant.load", builder.module.add_metadata([]))
        return read

    if not isinstance(of, types.Array):
        return builder.trunc(word(at), context.get_value_type(of))
    made = context.make_array(of)(context, builder)
    size = context.get_abi_sizeof(context.get_data_type(of.dtype))
    populate_array(
        made,
        data=builder.inttoptr(word(at), made.data.type),
        shape=[word(at + 1)],
        strides=[_WORD(size)],
        itemsize=_WORD(size),
        meminfo=None,
    )
    return made._getvalue()


@unbox(TableType)  # type: ignore[untyped-decorator]
def _unbox(table: TableType, pointers: Any, c: Any) -> Any:
    """The address that ``Pointers`` has."""
    number = c.pyapi.object_getattr_string(pointers, "address")
    address = c.pyapi.long_as_longlong(number)
    c.pyapi.decref(number)
    is_error = cgutils.is_not_null(c.builder, c.pyapi.err_occurred())
    return NativeValue(c.builder.inttoptr(address, c.context.get_value_type(table)), is_error)
