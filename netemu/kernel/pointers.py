"""Tables of arrays for compiled loops: one pointer, where numba would hand over each array.

numba takes a tuple apart wherever it is handed over: a state's hundred arrays are seven numbers
each, for each call, and compiling took twice as long.
Here a loop gets the address of a *block*: for each array its own address and length, for each
number the number, and for each table within it the same again.

Arrays are read and written where they are: a place below 0 is none from the end, as NumPy's would
be, which each read would have to look at.
"""

from __future__ import annotations

import functools
import operator
from typing import Any, cast, get_type_hints

import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_global, signature
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_builtin,
    lower_getattr_generic,
    models,
    register_model,
    unbox,
)
from numba.np.numpy_support import from_dtype

_WORD = cgutils.intp_t


class TableType(types.Type):
    """What numba knows of a kind of table."""

    def __init__(self, kind: Any) -> None:
        self.kind: Any = kind
        super().__init__(f"{kind.__module__}.{kind.__name__}")


class ArrayType(types.Type):
    """What numba knows of an array of a table."""

    def __init__(self, dtype: Any) -> None:
        self.dtype: Any = from_dtype(np.dtype(dtype))
        super().__init__(f"array of {self.dtype}")


register_model(TableType)(models.OpaqueModel)


@register_model(ArrayType)
class _ArrayModel(models.StructModel):
    def __init__(self, manager: Any, array: ArrayType) -> None:
        members = [("first", types.CPointer(array.dtype)), ("many", types.intp)]
        super().__init__(manager, array, members)


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
            found[name] = ArrayType(hint.__metadata__[0]), at
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
        array_or_number = 2 if isinstance(of, ArrayType) else 1
        words += _size(of.kind) if isinstance(of, TableType) else array_or_number
    return words


def _words(table: Any) -> list[int]:
    """The block of a table."""
    words, kind = list[int](), cast("Any", type(table))
    for (name, (of, at)), value in zip(_fields(kind).items(), table, strict=True):
        assert len(words) == at
        if isinstance(of, TableType):
            words += _words(value)
        elif isinstance(of, ArrayType):
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

    if not isinstance(of, ArrayType):
        return builder.trunc(word(at), context.get_value_type(of))
    made = cgutils.create_struct_proxy(of)(context, builder)
    made.first, made.many = builder.inttoptr(word(at), made.first.type), word(at + 1)
    return made._getvalue()


@infer_global(operator.getitem)
class _Read(AbstractTemplate):
    def generic(self, args: Any, _: Any) -> Any:
        """``array[place]``"""
        if isinstance(args[0], ArrayType) and isinstance(args[1], types.Integer):
            return signature(args[0].dtype, args[0], types.intp)
        return None


@infer_global(operator.setitem)
class _Write(AbstractTemplate):
    def generic(self, args: Any, _: Any) -> Any:
        """``array[place] = number``"""
        if isinstance(args[0], ArrayType) and isinstance(args[1], types.Integer):
            return signature(types.none, args[0], types.intp, args[0].dtype)
        return None


@infer_global(len)
class _Length(AbstractTemplate):
    def generic(self, args: Any, _: Any) -> Any:
        """``len(array)``"""
        return signature(types.intp, args[0]) if isinstance(args[0], ArrayType) else None


@lower_builtin(operator.getitem, ArrayType, types.intp)  # type: ignore[untyped-decorator]
def _read(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return context.unpack_value(builder, sig.return_type, _place(context, builder, sig, args))


@lower_builtin(operator.setitem, ArrayType, types.intp, types.Any)  # type: ignore[untyped-decorator]
def _write(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    context.pack_value(builder, sig.args[2], args[2], _place(context, builder, sig, args))
    return context.get_dummy_value()


@lower_builtin(len, ArrayType)  # type: ignore[untyped-decorator]
def _length(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return cgutils.create_struct_proxy(sig.args[0])(context, builder, args[0]).many


def _place(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Where a number of an array is; raises ``IndexError`` where numba is asked to check that."""
    array = cgutils.create_struct_proxy(sig.args[0])(context, builder, args[0])
    if context.enable_boundscheck:
        is_beyond = builder.icmp_unsigned(">=", args[1], array.many)
        with builder.if_then(is_beyond, likely=False):
            text = (f"a place beyond an {sig.args[0].name}",)
            context.call_conv.return_user_exc(builder, IndexError, text)
    return builder.gep(array.first, [args[1]])


@unbox(TableType)  # type: ignore[untyped-decorator]
def _unbox(table: TableType, pointers: Any, c: Any) -> Any:
    """The address that ``Pointers`` has."""
    number = c.pyapi.object_getattr_string(pointers, "address")
    address = c.pyapi.long_as_longlong(number)
    c.pyapi.decref(number)
    is_error = cgutils.is_not_null(c.builder, c.pyapi.err_occurred())
    return NativeValue(c.builder.inttoptr(address, c.context.get_value_type(table)), is_error)
