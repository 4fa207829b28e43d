"""The wire format: typed messages as MessagePack, validated on arrival.

A message is a frozen ``msgspec.Struct``; its tag is its class name in kebab case.  On the wire it
is a MessagePack map with the tag under "type"; on arrival it is decoded straight into its class or
refused, so it never has fields or types that the class does not have.  Nothing is ever unpickled.

    a header:  [request number, {"type": tag, ...}]

A header's size is limited by its class (``wire_bytes_max``).  Packing a larger one raises an error;
if one arrives its sender gets a refusal, since the request number is read first.

Never here: sockets.  See ``cluster.messaging.transport`` for those.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, TypeVar

import msgpack
import msgspec

from railyard.cluster.bounded import REASON_LETTERS_MAX, Name, Text
from railyard.cluster.errors import NotDone, PeerError, PeerUnable, RailyardError, Refused
from railyard.cluster.shown import shortened

#: Maximum size of most messages on the wire; bulk bytes travel in a frame of their own.
HEADER_BYTES_MAX = 64 * 2**10
#: Maximum size of requests and events with lists (blocks, outputs) or with a job's source.
LONG_BYTES_MAX = 16 * 2**20
#: Maximum size of answers with lists: folders' entries, block locations.
ANSWER_BYTES_MAX = 48 * 2**20
#: Bytes of a malformed or too large header that are read to find its request number and tag.
_START_BYTES = 256


def _kebab(class_name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", class_name.rsplit(".", 1)[-1]).lower()


class Message(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag=_kebab, gc=False
):
    """Base class of all messages.  Subclasses add ``kw_only=True`` and their fields.

    Fields are plain values without reference cycles, so the garbage collector skips them (``gc``).
    """

    #: Maximum size of a header of this class.
    wire_bytes_max: ClassVar[int] = HEADER_BYTES_MAX

    @classmethod
    def tag(cls) -> str:
        """The tag of this class on the wire, such as "attempt-succeeded"."""
        return str(cls.__struct_config__.tag)


class Event(Message, frozen=True):
    """A fact, named in the past tense."""


class Command(Message, frozen=True):
    """Something to be done, named in the imperative."""


class Done(Message, frozen=True):
    """The request was carried out; there is nothing else to answer."""


class Refusal(Message, frozen=True, kw_only=True):
    """The request was refused or could not be carried out."""

    reason: Text
    unable: bool = False  #: the request is valid but cannot be carried out, perhaps only for now
    kind: Name = ""  #: for programs: what is wrong with the path it was about, as "missing"

    @classmethod
    def because(cls, reason: object) -> Refusal:
        """Make the refusal for an error; a long reason is cut."""
        text = shortened(str(reason), REASON_LETTERS_MAX)
        kind = reason.kind if isinstance(reason, PeerError) else ""
        return cls(reason=text, unable=isinstance(reason, PeerUnable), kind=kind)

    def error(self) -> Refused:
        """The exception that the requester raises."""
        return (NotDone if self.unable else Refused)(self.reason, self.kind)

    def __str__(self) -> str:
        """The reason; ``PeerLost``, the other failure of a request, is formatted alike."""
        return self.reason


class Malformed(PeerError):
    """A received header is not a valid message; ``request`` is its request number, or 0."""

    def __init__(self, why: str, request: int = 0) -> None:
        super().__init__(why)
        self.request = request


class Unsendable(RailyardError):
    """A message to be sent is too large, or has a value that the wire format does not allow."""


M = TypeVar("M", bound=Message)


def to_map(message: Message) -> dict[str, Any]:
    """Convert a message to a map of plain values with its tag, as in JSON files."""
    plain: dict[str, Any] = msgspec.to_builtins(message)
    return plain


class Vocabulary:
    """The classes of messages that one end of a connection accepts."""

    def __init__(self, kinds: Iterable[type[Message]] = ()) -> None:
        self._kinds: dict[str, type[Message]] = {}
        self._decoders: dict[str, msgspec.msgpack.Decoder[Any]] = {}
        for kind in kinds:
            self.add(kind)

    def add(self, kind: type[Message]) -> None:
        """Accept messages of class ``kind`` from now on."""
        self._kinds[kind.tag()] = kind

    def kinds(self) -> list[type[Message]]:
        """All of them."""
        return list(self._kinds.values())

    def kind(self, tag: object) -> type[Message]:
        """The class with a tag; raises ``PeerError`` if it is not accepted here."""
        kind = self._kinds.get(tag) if isinstance(tag, str) else None
        if kind is None:
            raise PeerError(f"unknown message type {shortened(repr(tag), 80)}")
        return kind

    def from_map(self, plain: Any) -> Message:
        """Convert a map to its message; raises ``PeerError`` if it is not accepted here."""
        if not isinstance(plain, dict):
            raise PeerError(f"a message must be a map, not {type(plain).__name__}")
        kind = self.kind(plain.get("type"))
        try:
            return msgspec.convert(plain, kind)
        except msgspec.ValidationError as error:
            raise PeerError(_said(kind, error)) from None

    def decode(self, kind: type[Message], packed: bytes | memoryview) -> Message:
        """Decode a message of class ``kind``; raises ``PeerError`` if ``packed`` is not one."""
        decoder = self._decoders.get(kind.tag())
        if decoder is None:
            decoder = self._decoders[kind.tag()] = msgspec.msgpack.Decoder(kind)
        try:
            message: Message = decoder.decode(packed)
        except (ValueError, RecursionError, OverflowError) as error:
            raise PeerError(_said(kind, error)) from None
        return message


def pack(message: Message, request: int = 0) -> bytes:
    """Encode a header frame; ``request`` pairs a request with its reply, 0 = neither.

    Raises ``Unsendable`` if it is too large for its class, or has a value that can't be encoded.
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
    """Decode a header frame to request number and message; raises ``Malformed``."""
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
    """Raise ``Malformed`` if a header is larger than its class allows, from its first bytes."""
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
    """Request number and tag from the first bytes of a header, as far as they can be decoded."""
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
    """Decodes only the tag of a message."""

    type: str | None = None


_RequestNumber = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_ENCODER = msgspec.msgpack.Encoder()
_ENVELOPE = msgspec.msgpack.Decoder(tuple[_RequestNumber, msgspec.Raw])
_TAGGED = msgspec.msgpack.Decoder(_Tagged)
