"""Typed messages as MessagePack, checked on arrival.

A message is a frozen ``msgspec.Struct`` whose tag is its class name in kebab case.  On the wire it
is a MessagePack map with the tag under "type"; whatever arrives is checked against the class
before any of our code sees it.  Nothing on the wire is ever unpickled.

Never here: sockets.  See ``cluster.transport`` for those.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeVar

import msgpack
import msgspec

from cluster.errors import NotDone, PeerError, PeerUnable, Refused

#: No header may be larger; bulk bytes travel in a frame of their own.
MAX_HEADER_BYTES = 16 * 2**20


def _kebab(class_name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", class_name.rsplit(".", 1)[-1]).lower()


class Message(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag=_kebab, gc=False
):
    """Base of everything that is sent.  Subclasses add ``kw_only=True`` and their fields.

    Plain values can't refer to their message, so none is looked through for garbage (``gc``).
    """

    @classmethod
    def tag(cls) -> str:
        """The name under which this class travels, such as "attempt-succeeded"."""
        return str(cls.__struct_config__.tag)


class Event(Message, frozen=True):
    """A fact, told in the past tense."""


class Command(Message, frozen=True):
    """An order, in the imperative."""


class Done(Message, frozen=True):
    """The request was carried out and has no other answer."""


class Refusal(Message, frozen=True, kw_only=True):
    """The request was not carried out."""

    reason: str
    unable: bool = False  #: the request was right, but cannot be carried out, perhaps just now

    @classmethod
    def because(cls, reason: object) -> Refusal:
        """The answer that an error becomes."""
        return cls(reason=str(reason), unable=isinstance(reason, PeerUnable))

    def error(self) -> Refused:
        """The error that it is to whoever asked."""
        return NotDone(self.reason) if self.unable else Refused(self.reason)

    def __str__(self) -> str:
        """The reason, as a ``PeerLost`` says it too: either may be what comes of a request."""
        return self.reason


M = TypeVar("M", bound=Message)


def to_map(message: Message) -> dict[str, Any]:
    """``message`` as a map of plain values, its tag included; what JSON files hold too."""
    plain: dict[str, Any] = msgspec.to_builtins(message)
    return plain


class Vocabulary:
    """The messages that one side of a conversation understands."""

    def __init__(self, kinds: Iterable[type[Message]] = ()) -> None:
        self._kinds: dict[str, type[Message]] = {}
        for kind in kinds:
            self.add(kind)

    def add(self, kind: type[Message]) -> None:
        """Understand ``kind`` from now on."""
        self._kinds[kind.tag()] = kind

    def from_map(self, plain: Any) -> Message:
        """The message in ``plain``; ``PeerError`` if it is none that is understood here."""
        if not isinstance(plain, dict):
            raise PeerError(f"a message must be a map, not {type(plain).__name__}")
        kind = self._kinds.get(str(plain.get("type")))
        if kind is None:
            raise PeerError(f"unknown message type {plain.get('type')!r}")
        try:
            return msgspec.convert(plain, kind)
        except msgspec.ValidationError as error:
            raise PeerError(f"{kind.tag()}: {error}") from None


def pack(message: Message, request: int = 0) -> bytes:
    """The header frame of ``message``; ``request`` pairs a reply with its request, 0 is neither."""
    plain = msgspec.to_builtins(message, builtin_types=(bytes,))  # MessagePack has bytes
    return bytes(msgpack.packb([request, plain], use_bin_type=True))


def unpack(frame: bytes | memoryview, vocabulary: Vocabulary) -> tuple[int, Message]:
    """Request number and message of a header frame; ``PeerError`` if it is not a sound one."""
    number, plain = open_envelope(frame)
    return number, vocabulary.from_map(plain)


def open_envelope(frame: bytes | memoryview) -> tuple[int, Any]:
    """Request number and what is said to be a message; ``PeerError`` if it is no envelope."""
    if len(frame) > MAX_HEADER_BYTES:
        raise PeerError(f"a header of {len(frame)} bytes: the most is {MAX_HEADER_BYTES}")
    try:
        envelope = msgpack.unpackb(frame)
    except (ValueError, msgpack.UnpackException) as error:
        raise PeerError(f"not MessagePack: {error}") from None
    if not (isinstance(envelope, list) and len(envelope) == 2 and isinstance(envelope[0], int)):
        raise PeerError("an envelope must be [request number, message]")
    return envelope[0], envelope[1]
