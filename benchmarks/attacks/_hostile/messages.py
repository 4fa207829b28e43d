"""Every message class of Railyard, and its shape: what hostile frames are made of."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Iterator

import msgspec

from railyard.cluster.messaging.wire import Message

#: The parts whose modules define messages.
_PARTS = tuple(
    f"railyard.{part}" for part in ("cluster", "netemu", "dfs", "nodemanager", "resourcemanager")
)


@functools.cache
def message_shapes() -> dict[str, msgspec.inspect.StructType]:
    """{tag: fields and their types}, of every class of message that any part defines."""
    for part in _PARTS:
        package = importlib.import_module(part)
        for module in pkgutil.walk_packages(package.__path__, f"{part}."):
            importlib.import_module(module.name)
    shapes = {}
    for kind in sorted(set(_below(Message)), key=lambda kind: kind.tag()):
        if kind.__module__.startswith(_PARTS):
            shape = msgspec.inspect.type_info(kind)
            assert isinstance(shape, msgspec.inspect.StructType)
            shapes[kind.tag()] = shape
    return shapes


def _below(kind: type[Message]) -> Iterator[type[Message]]:
    for inner in kind.__subclasses__():
        yield inner
        yield from _below(inner)
