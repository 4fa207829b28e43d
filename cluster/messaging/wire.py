"""The wire format: typed messages as MessagePack, validated on arrival; the types of their fields.

A message is a frozen ``msgspec.Struct``; its tag is its class name in kebab case.  On the wire it
is a MessagePack map with the tag under "type"; on arrival it is decoded straight into its class or
refused, so it never has fields or types that the class does not have.  Every number is finite and
bounded, every text and collection limited: a value out of bounds is refused with the name of its
field.  Values made within a process are not checked.  Nothing is ever unpickled.

    a header:  [request number, {"type": tag, ...}]

A header's size is limited by its class: see ``LongMessage``.  Packing a larger one raises an error;
if one arrives its sender gets a refusal, since the request number is read first.

Modules of messages write ``wire.NodeId``: an id as in ``cluster.ids``, limited in length.  Never
here: sockets.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Annotated, Any, ClassVar, TypeVar

import msgpack
import msgspec
from msgspec import Meta

from railyard.cluster import ids
from railyard.cluster.errors import (
    NotDone,
    PeerError,
    PeerUnable,
    RailyardError,
    Refused,
    shortened,
)

BYTES_MAX = 2**60  #: an exbibyte
TASKS_MAX = 2**20  #: of a stage
#: Maximum of a time in seconds: three centuries, which a float still resolves to microseconds.
SECONDS_MAX = 1e10

# Numbers -----------------------------------------------------------------------------------------
StoredBytes = Annotated[int, Meta(ge=0, le=BYTES_MAX)]  #: real bytes, and offsets in them
ModelBytes = Annotated[int, Meta(ge=0, le=BYTES_MAX)]  #: bytes of the model
Count = Annotated[int, Meta(ge=0, le=2**53)]  #: a number of things
Tasks = Annotated[int, Meta(ge=0, le=TASKS_MAX)]  #: a number of tasks, or a task's index
Slots = Annotated[int, Meta(ge=0, le=2**16)]
Replicas = Annotated[int, Meta(ge=0, le=2**16)]
Permission = Annotated[int, Meta(ge=0, le=0o1777)]  #: the bits of chmod
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]  #: number of a block, an open file, a request
COUNTER_MAX = 2**63 - 1  #: the least is ``-COUNTER_MAX - 1``
Signed = Annotated[int, Meta(ge=-COUNTER_MAX - 1, le=COUNTER_MAX)]  #: value of a user's counter
Pid = Annotated[int, Meta(ge=0, le=2**31 - 1)]
WaitStatus = Annotated[int, Meta(ge=0, le=2**16 - 1)]  #: from ``os.waitpid``
Checksum = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Seconds = Annotated[float, Meta(ge=0, le=SECONDS_MAX)]  #: a duration, or a time on some clock
Share = Annotated[float, Meta(ge=0, le=1)]
#: Weight of a flow at a link, or of a job among its user's jobs.  Sums of weights, and ratios of
#: any size to a weight, stay far below a float's limits.
Weight = Annotated[float, Meta(ge=1e-6, le=1e6)]
Rank = Annotated[float, Meta(ge=-1e18, le=1e18)]
#: Flow schedulers with priorities serve the smallest first, compared item by item; () comes last.
Priority = Annotated[tuple[Rank, ...], Meta(max_length=8)]
BYTES_PER_S_MAX = 1e18
BytesPerS = Annotated[float, Meta(ge=0, le=BYTES_PER_S_MAX)]
BytesPerSOrInf = Annotated[float, Meta(ge=0)]  #: inf = unlimited
BytesOrInf = Annotated[float, Meta(ge=0)]
SecondsOrInf = Annotated[float, Meta(ge=0)]  #: inf = never

# Texts -------------------------------------------------------------------------------------------
NAME_LETTERS_MAX = 255  #: of a job, a queue, a counter with its group
Name = Annotated[str, Meta(max_length=NAME_LETTERS_MAX)]
Path = Annotated[str, Meta(max_length=2**14)]  #: ``dfs.paths`` has a lower limit
#: A reason in words; ``cluster.errors.shortened`` cuts longer ones.
TEXT_LETTERS_MAX = 16_384
Text = Annotated[str, Meta(max_length=TEXT_LETTERS_MAX)]
REASON_LETTERS_MAX = 2000  #: each part of a text made from several reasons is cut to this first

# Names of things ---------------------------------------------------------------------------------
_ID = Meta(max_length=255)
RackId = Annotated[ids.RackId, _ID]
NodeId = Annotated[ids.NodeId, _ID]
JobId = Annotated[ids.JobId, _ID]
TaskId = Annotated[ids.TaskId, _ID]
AttemptId = Annotated[ids.AttemptId, _ID]
FlowId = Annotated[ids.FlowId, _ID]
CoflowId = Annotated[ids.CoflowId, _ID]

# Collections -------------------------------------------------------------------------------------
_T = TypeVar("_T")
_K = TypeVar("_K")
_V = TypeVar("_V")
_ENTRIES = Meta(max_length=2**20)
_FEW = Meta(max_length=2**14)
Entries = Annotated[tuple[_T, ...], _ENTRIES]
EntriesBy = Annotated[dict[_K, _V], _ENTRIES]
#: For collections that grow with the topology or are typed by hand: racks, nodes, stages, paths.
Few = Annotated[tuple[_T, ...], _FEW]
FewBy = Annotated[dict[_K, _V], _FEW]
ReplicaRacks = Few[Few[RackId]]  #: for each replica, the first to the last: its racks
#: Maximum size of most messages on the wire; bulk bytes travel in a frame of their own.
HEADER_BYTES_MAX = 64 * 2**10
LONG_BYTES_MAX = 16 * 2**20  #: the same of a ``LongMessage``
#: Bytes of a malformed or too large header that are read to find its request number and tag.
_START_BYTES = 256
_ENCODER = msgspec.msgpack.Encoder()
_ENVELOPE = msgspec.msgpack.Decoder(tuple[Number, msgspec.Raw])
_decoder = functools.cache(msgspec.msgpack.Decoder)


# Messages -----------------------------------------------------------------------------------------
def _kebab(class_name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", class_name.rsplit(".", 1)[-1]).lower()


class Message(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag=_kebab, gc=False
):
    """Base class of all messages.  Subclasses add ``kw_only=True`` and their fields.

    Fields are plain values without reference cycles, so the garbage collector skips them (``gc``).
    """

    wire_bytes_max: ClassVar[int] = HEADER_BYTES_MAX  #: of a header of this class

    @classmethod
    def tag(cls) -> str:
        """The tag of this class on the wire, such as "attempt-succeeded"."""
        return str(cls.__struct_config__.tag)


class Event(Message, frozen=True):
    """A fact, named in the past tense."""


class Command(Message, frozen=True):
    """Something to be done, named in the imperative."""


class LongMessage(Message, frozen=True):
    """A request or an event with lists (blocks, outputs), or with a job's source."""

    wire_bytes_max: ClassVar[int] = LONG_BYTES_MAX


class LongAnswer(Message, frozen=True):
    """An answer with lists: folders' entries, block locations."""

    wire_bytes_max: ClassVar[int] = 48 * 2**20


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


def to_map(message: Message) -> dict[str, Any]:
    """Convert a message to a map of plain values with its tag, as in JSON files."""
    plain: dict[str, Any] = msgspec.to_builtins(message)
    return plain


class Vocabulary:
    """The classes of messages that one end of a connection accepts."""

    def __init__(self, kinds: Iterable[type[Message]] = ()) -> None:
        self._kinds: dict[str, type[Message]] = {kind.tag(): kind for kind in kinds}

    def add(self, kind: type[Message]) -> None:
        self._kinds[kind.tag()] = kind

    def kinds(self) -> list[type[Message]]:
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
            raise PeerError(_in_words(kind, error)) from None

    def decode(self, kind: type[Message], packed: bytes | memoryview) -> Message:
        """Decode a message of class ``kind``; raises ``PeerError`` if ``packed`` is not one."""
        try:
            message: Message = _decoder(kind).decode(packed)
        except (ValueError, RecursionError, OverflowError) as error:
            raise PeerError(_in_words(kind, error)) from None
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
        raise Malformed(why, _start(frame)[0]) from None
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not MessagePack: {error}", _start(frame)[0]) from None
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


def _start(frame: bytes | memoryview) -> tuple[int, object]:
    """Request number and tag from the first bytes of a header, as far as they can be decoded."""
    number, tag = 0, None
    reader = msgpack.Unpacker()
    reader.feed(frame[:_START_BYTES])
    with suppress(ValueError, TypeError, msgpack.UnpackException):
        if reader.read_array_header() == 2:
            first = reader.unpack()
            number = first if type(first) is int and first >= 0 else 0
            if reader.read_map_header() and reader.unpack() == "type":
                tag = reader.unpack()
    return number, tag


def _in_words(kind: type[Message], error: Exception) -> str:
    return f"{kind.tag()}: {shortened(str(error), 200)}"


class _Tagged(msgspec.Struct):
    """Decodes only the tag of a message."""

    type: str | None = None


_TAGGED = msgspec.msgpack.Decoder(_Tagged)
