"""Typed messages as MessagePack, checked on arrival.

A message is a frozen ``msgspec.Struct`` whose tag is its class name in kebab case.  On the wire it
is a MessagePack map with the tag under "type"; whatever arrives is decoded straight into its class,
or refused, so that nothing is ever made of it that the class does not have.  Nothing on the wire is
ever unpickled.

    a header:  [request number, {"type": tag, ...}]

No header is larger than its class says (``wire_bytes_max``): whoever packs a larger one hears of
it, and one that arrives is refused to whoever asked, since the number is read first.

Never here: sockets.  See ``cluster.transport`` for those.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, TypeVar

import msgpack
import msgspec

from railyard.cluster.bounded import REASON_LETTERS_MAX, Text
from railyard.cluster.errors import NotDone, PeerError, PeerUnable, RailyardError, Refused
from railyard.cluster.shown import shortened

#: What most messages may have on the wire; bulk bytes travel in a frame of their own.
HEADER_BYTES_MAX = 64 * 2**10
#: Questions and facts that list things: blocks, outputs, a job's source.
LONG_BYTES_MAX = 16 * 2**20
#: Answers that do: what a folder holds, where blocks are.  Only whoever asked takes them.
ANSWER_BYTES_MAX = 48 * 2**20
#: Of what is too large, or none, so much is read to find who asked, and for what.
_START_BYTES = 256


def _kebab(class_name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", class_name.rsplit(".", 1)[-1]).lower()


class Message(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag=_kebab, gc=False
):
    """Base of everything that is sent.  Subclasses add ``kw_only=True`` and their fields.

    Plain values can't refer to their message, so none is looked through for garbage (``gc``).
    """

    #: No header of this class is larger.
    wire_bytes_max: ClassVar[int] = HEADER_BYTES_MAX

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

    reason: Text
    unable: bool = False  #: the request was right, but cannot be carried out, perhaps just now

    @classmethod
    def because(cls, reason: object) -> Refusal:
        """The answer that an error becomes; of a long story, the beginning is told."""
        text = shortened(str(reason), REASON_LETTERS_MAX)
        return cls(reason=text, unable=isinstance(reason, PeerUnable))

    def error(self) -> Refused:
        """The error that it is to whoever asked."""
        return NotDone(self.reason) if self.unable else Refused(self.reason)

    def __str__(self) -> str:
        """The reason, as a ``PeerLost`` says it too: either may be what comes of a request."""
        return self.reason


class Malformed(PeerError):
    """What arrived is no message; ``request`` is the number of whoever asked, 0 if nobody did."""

    def __init__(self, why: str, request: int = 0) -> None:
        super().__init__(why)
        self.request = request


class Unsendable(RailyardError):
    """A message of ours is larger than the other side would take, or has what can't be sent."""


M = TypeVar("M", bound=Message)


def to_map(message: Message) -> dict[str, Any]:
    """``message`` as a map of plain values, its tag included; what JSON files hold too."""
    plain: dict[str, Any] = msgspec.to_builtins(message)
    return plain


class Vocabulary:
    """The messages that one side of a conversation understands."""

    def __init__(self, kinds: Iterable[type[Message]] = ()) -> None:
        self._kinds: dict[str, type[Message]] = {}
        self._decoders: dict[str, msgspec.msgpack.Decoder[Any]] = {}
        for kind in kinds:
            self.add(kind)

    def add(self, kind: type[Message]) -> None:
        """Understand ``kind`` from now on."""
        self._kinds[kind.tag()] = kind

    def kind(self, tag: object) -> type[Message]:
        """The class of that tag; ``PeerError`` if it is not understood here."""
        kind = self._kinds.get(tag) if isinstance(tag, str) else None
        if kind is None:
            raise PeerError(f"unknown message type {shortened(repr(tag), 80)}")
        return kind

    def from_map(self, plain: Any) -> Message:
        """The message in ``plain``; ``PeerError`` if it is none that is understood here."""
        if not isinstance(plain, dict):
            raise PeerError(f"a message must be a map, not {type(plain).__name__}")
        kind = self.kind(plain.get("type"))
        try:
            return msgspec.convert(plain, kind)
        except msgspec.ValidationError as error:
            raise PeerError(_said(kind, error)) from None

    def decode(self, kind: type[Message], packed: bytes | memoryview) -> Message:
        """The message of class ``kind`` in ``packed``; ``PeerError`` if it is none."""
        decoder = self._decoders.get(kind.tag())
        if decoder is None:
            decoder = self._decoders[kind.tag()] = msgspec.msgpack.Decoder(kind)
        try:
            message: Message = decoder.decode(packed)
        except (ValueError, RecursionError, OverflowError) as error:
            raise PeerError(_said(kind, error)) from None
        return message


def pack(message: Message, request: int = 0) -> bytes:
    """The header frame of ``message``; ``request`` pairs a reply with its request, 0 is neither.

    Raises ``Unsendable`` if its class allows fewer bytes, or if it has what can't be on the wire.
    """
    try:
        header = _ENCODER.encode((request, message))
    except OverflowError:
        raise Unsendable(f"{message.tag()}: a number of more than 64 bits") from None
    except UnicodeEncodeError:
        raise Unsendable(f"{message.tag()}: a text that is not valid Unicode") from None
    if len(header) > message.wire_bytes_max:
        most = f"the most is {message.wire_bytes_max:,}"
        raise Unsendable(f"{message.tag()}: a message of {len(header):,} bytes: {most}")
    return header


def unpack(frame: bytes | memoryview, vocabulary: Vocabulary) -> tuple[int, Message]:
    """Request number and message of a header frame; ``Malformed`` if it is not a sound one."""
    if len(frame) > HEADER_BYTES_MAX:
        _check_size(frame, vocabulary)
    try:
        number, packed = _ENVELOPE.decode(frame)
        tagged = _TAGGED.decode(packed)
    except msgspec.ValidationError:
        why = 'an envelope must be [request number, {"type": ...}]'
        raise Malformed(why, _number(frame)) from None
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not MessagePack: {error}", _number(frame)) from None
    try:
        return number, vocabulary.decode(vocabulary.kind(tagged.type), packed)
    except PeerError as error:
        raise Malformed(str(error), number) from None


def _check_size(frame: bytes | memoryview, vocabulary: Vocabulary) -> None:
    """Refuse a header that is larger than its class allows, by its first bytes."""
    number, tag = _start(frame)
    try:
        kind = vocabulary.kind(tag)
    except PeerError as error:
        raise Malformed(f"{error}: a header of {len(frame):,} bytes", number) from None
    if len(frame) > kind.wire_bytes_max:
        size = f"a header of {len(frame):,} bytes: the most is {kind.wire_bytes_max:,}"
        raise Malformed(f"{kind.tag()}: {size}", number)


def _number(frame: bytes | memoryview) -> int:
    return _start(frame)[0]


def _start(frame: bytes | memoryview) -> tuple[int, object]:
    """Request number and tag that a header begins with, as far as it has them."""
    number, tag = 0, None
    reader = msgpack.Unpacker()
    reader.feed(frame[:_START_BYTES])
    try:
        if reader.read_array_header() == 2:
            first = reader.unpack()
            number = first if type(first) is int and first >= 0 else 0
            if reader.read_map_header() and reader.unpack() == "type":
                tag = reader.unpack()
    except (ValueError, TypeError, msgpack.UnpackException):
        return number, None
    return number, tag


def _said(kind: type[Message], error: Exception) -> str:
    return f"{kind.tag()}: {shortened(str(error), 200)}"


class _Tagged(msgspec.Struct):
    """Of a message, its tag."""

    type: str | None = None


_RequestNumber = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_ENCODER = msgspec.msgpack.Encoder()
_ENVELOPE = msgspec.msgpack.Decoder(tuple[_RequestNumber, msgspec.Raw])
_TAGGED = msgspec.msgpack.Decoder(_Tagged)
