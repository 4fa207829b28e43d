"""Map output on a node's disk, and the shuffle service that sends it to the attempts that fetch it.

An output is one file, with an index at its end:

    partition 0, partition 1, ...            stored bytes, one after the other
    index        for each partition: offset (8 bytes), length (8), CRC-32C (4)
    footer       number of partitions (4), CRC-32C of the index (4), magic (8)

All little endian.  The file gets its name when it is complete, so that it is whole or not there.
A partition's checksum is made as it is written, starts from the names of attempt and partition, and
is checked by whoever reads it in the end: a partition in another's place is damaged too.
"""

from __future__ import annotations

import logging
import os
import struct
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from crc32c import crc32c

from railyard.cluster.errors import PeerError, RailyardError, shortened
from railyard.cluster.files import read_range
from railyard.cluster.ids import AttemptId, FlowId, JobId, NodeId, job_of, stage_of
from railyard.cluster.messaging.reactor import Reactor
from railyard.cluster.messaging.transport import Request, Server
from railyard.cluster.messaging.wire import REASON_LETTERS_MAX
from railyard.cluster.runfolder import RunFolder
from railyard.netemu.client import NetworkClient
from railyard.netemu.transfers import ServerTransfers
from railyard.nodemanager.messages import OutputPart, OutputsFound, ReadOutputs

log = logging.getLogger(__name__)

_ENTRY = struct.Struct("<QQI")
_FOOTER = struct.Struct("<II8s")
_MAGIC = b"RAILMAP2"

Buffer = bytes | bytearray | memoryview


class OutputUnreadable(RailyardError):
    """A map output cannot be read, perhaps only just now: descriptors have run out, say."""


class OutputDamaged(OutputUnreadable):
    """A map output is missing, or not what was written: its map has to run again."""


def shuffle_folder(folder: RunFolder, node: NodeId) -> Path:
    """Where a node keeps its map output, a folder for each job."""
    return folder.node(node) / "shuffle"


def output_path(folder: RunFolder, node: NodeId, attempt: AttemptId) -> Path:
    """The file of an attempt's output; ``PeerError`` if that is no attempt's name."""
    try:
        stage_of(attempt)
    except ValueError as error:
        raise PeerError(str(error)) from None
    return shuffle_folder(folder, node) / job_of(attempt) / attempt


def part_seed(attempt: AttemptId, partition: int) -> int:
    """The value that the CRC-32C of a partition starts from."""
    return int(crc32c(f"{attempt}/{partition}".encode()))


def write_output(path: Path, partitions: Sequence[Sequence[Buffer]]) -> tuple[int, ...]:
    """Write the file, or leave none; returns the stored bytes of each partition."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.new")
    index, lengths, offset = bytearray(), [], 0
    try:
        with open(unfinished, "wb") as file:
            for number, pieces in enumerate(partitions):
                checksum, length = part_seed(AttemptId(path.name), number), 0
                for piece in pieces:
                    view = memoryview(piece).cast("B")
                    file.write(view)
                    checksum = crc32c(view, checksum)
                    length += len(view)
                index += _ENTRY.pack(offset, length, checksum)
                lengths.append(length)
                offset += length
            file.write(index)
            file.write(_FOOTER.pack(len(partitions), crc32c(index), _MAGIC))
        unfinished.rename(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)  # a full disk does not get emptier by itself
        raise
    return tuple(lengths)


@dataclass(frozen=True, slots=True)
class Part:
    """Where a partition lies in its output's file."""

    path: Path
    identity: tuple[int, ...]  #: of the file that has it
    offset: int
    stored_bytes: int
    checksum: int  #: CRC-32C


class MapOutput:
    """The index of an output file.  ``OutputUnreadable`` if the file is none or is damaged."""

    def __init__(self, path: Path) -> None:
        self._path = path
        file = _open(path)
        try:
            status = os.fstat(file)
            self._identity = _identity(status)
            self._entries = self._read_index(file, status.st_size)
        finally:
            os.close(file)

    def is_still(self, path: Path) -> bool:
        try:
            return _identity(path.stat()) == self._identity
        except OSError:
            return False

    def part(self, number: int) -> Part:
        """Where a partition is; ``PeerError`` if there is none of that number."""
        if not 0 <= number < len(self._entries):
            raise PeerError(f"partition {number}: there are {len(self._entries)}")
        offset, length, checksum = self._entries[number]
        return Part(self._path, self._identity, offset, length, checksum)

    @property
    def stored_bytes(self) -> int:
        return sum(length for _, length, _ in self._entries)

    def check(self) -> None:
        """Read all partitions; ``OutputUnreadable`` if one can't be had."""
        for number in range(len(self._entries)):
            self.read(number)

    def read(self, number: int) -> memoryview:
        """A partition's bytes, checked.  ``OutputUnreadable`` if they can't be had."""
        part = self.part(number)
        with closing(PartsSource([part])) as source:
            data = source.read(part.stored_bytes)
        if crc32c(data, part_seed(AttemptId(self._path.name), number)) != part.checksum:
            raise damaged_part(self._path.name, number)
        return data

    def _read_index(self, file: int, size: int) -> list[tuple[int, int, int]]:
        name = f"map output {self._path.name}"
        if size < _FOOTER.size:
            raise OutputDamaged(f"{name}: cut short at {size} bytes")
        end = size - _FOOTER.size
        count, checksum, magic = _FOOTER.unpack(_read(self._path, file, end, _FOOTER.size))
        start = end - count * _ENTRY.size
        if magic != _MAGIC or start < 0:
            raise OutputDamaged(f"{name}: its footer is damaged")
        index = _read(self._path, file, start, end - start)
        if crc32c(index) != checksum:
            raise OutputDamaged(f"{name}: its index is damaged")
        return list(_ENTRY.iter_unpack(index))


class PartsSource:
    """A ``netemu.transfers.Source`` of partitions, unchecked: their readers have the sums."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._parts = deque(part for part in parts if part.stored_bytes)
        self.left = sum(part.stored_bytes for part in self._parts)
        self._file: int | None = None  #: of the first part, once some of it was read
        self._done = 0  #: bytes of the first part that were read

    def read(self, size: int) -> memoryview:
        """The next bytes; of as many partitions as there are in ``size``."""
        pieces: list[memoryview] = []
        while size > 0 and self._parts:
            pieces.append(self._read_piece(size))
            size -= len(pieces[-1])
        return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _read_piece(self, size: int) -> memoryview:
        part = self._parts[0]
        if self._file is None:
            self._file = _open(part.path)
            if _identity(os.fstat(self._file)) != part.identity:
                raise OutputDamaged(f"map output {part.path.name}: changed while it was sent")
        size = min(size, part.stored_bytes - self._done)
        data = _read(part.path, self._file, part.offset + self._done, size)
        self._done += size
        self.left -= size
        if self._done == part.stored_bytes:
            self.close()
            self._parts.popleft()
            self._done = 0
        return data


def damaged_part(output: str, partition: int) -> OutputDamaged:
    """The error for a partition with other bytes than were written."""
    wrong = "is damaged: its checksum is wrong"
    return OutputDamaged(f"map output {output}: partition {partition} {wrong}")


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # what is no file must not keep us
    except FileNotFoundError as error:
        raise OutputDamaged(f"map output {path.name}: {error.strerror}") from None
    except OSError as error:
        raise OutputUnreadable(f"map output {path.name}: {error.strerror}") from None


def _read(path: Path, file: int, offset: int, size: int) -> memoryview:
    try:
        data = read_range(file, offset, size)
    except OSError as error:
        raise OutputUnreadable(f"map output {path.name}: {error.strerror}") from None
    if len(data) < size:
        raise OutputDamaged(f"map output {path.name}: cut short at {offset + len(data)} bytes")
    return data


def _identity(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns


@dataclass(eq=False)
class ShuffleService:
    """Answers ``ReadOutputs`` on a NodeManager's server.

    A fetch is one partition of any number of one node's outputs, sent as one stream: read from the
    files as the network emulator grants its flow.
    """

    _server: Server
    _reactor: Reactor
    _network: NetworkClient
    _folder: RunFolder
    _nodes: frozenset[NodeId]

    def __post_init__(self) -> None:
        self._transfers = ServerTransfers(self._server, self._reactor)
        self._indexes: dict[AttemptId, MapOutput] = {}
        self._sending: dict[FlowId, tuple[JobId, bytes]] = {}  #: {flow: its job, its reader}
        self._server.on(ReadOutputs, self._read)

    def discard(self, job: JobId) -> None:
        for attempt in [attempt for attempt in self._indexes if job_of(attempt) == job]:
            del self._indexes[attempt]
        for flow, (sent_job, peer) in list(self._sending.items()):
            if sent_job == job:
                self._transfers.with_peer(peer).drop(flow)
                self._end(flow)

    def _read(self, request: Request[ReadOutputs]) -> None:
        """Answer with what is found, and begin to send it; ``PeerError`` for what there is not."""
        order = request.message
        if order.src not in self._nodes:
            raise PeerError(f"{order.src} is no node of {self._server.name}")
        if order.flow in self._sending:
            raise PeerError(f"flow {order.flow}: is being sent already")
        if not order.outputs:
            raise PeerError(f"flow {order.flow}: asks for no output")
        found: list[Part] = []
        lost: dict[AttemptId, str] = {}
        for attempt in order.outputs:
            try:
                found.append(self._output(order.src, attempt).part(order.partition))
            except OutputDamaged as error:
                log.warning("%s", error)
                lost[attempt] = str(error)
            except OutputUnreadable as error:
                raise PeerError(str(error)) from None
        if lost:
            reason = shortened("; ".join(lost.values()), REASON_LETTERS_MAX)
            self._server.reply(request, OutputsFound(lost=tuple(lost), reason=reason))
            return
        parts = tuple(OutputPart(part.stored_bytes, part.checksum) for part in found)
        self._server.reply(request, OutputsFound(parts=parts))  # before the first chunk
        self._send(order, request.peer, found)

    def _output(self, node: NodeId, attempt: AttemptId) -> MapOutput:
        path = output_path(self._folder, node, attempt)
        known = self._indexes.get(attempt)
        if known is None or not known.is_still(path):
            self._indexes.pop(attempt, None)
            known = self._indexes[attempt] = MapOutput(path)
        return known

    def _send(self, order: ReadOutputs, peer: bytes, parts: Sequence[Part]) -> None:
        def broke_off(reason: str) -> None:
            log.warning("flow %s broke off: %s", flow, reason)
            self._end(flow)

        flow = order.flow
        transfer = self._transfers.with_peer(peer).outgoing(
            flow, PartsSource(parts), on_done=lambda: self._end(flow), on_failed=broke_off
        )
        self._sending[flow] = (job_of(order.outputs[0]), peer)
        self._network.attach(flow, transfer.total, transfer.allow, transfer.fail)

    def _end(self, flow: FlowId) -> None:
        self._sending.pop(flow, None)
        self._network.cancel(flow)
