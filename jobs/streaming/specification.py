"""What a streaming job is: its programs and the rules by which their lines are read."""

from __future__ import annotations

import msgspec

from railyard.jobs.streaming.keys import KeyPart
from railyard.jobs.taskio import ProgramFile


class Streaming(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A streaming job, as it is shipped to its attempts."""

    mapper: tuple[str, ...]  #: the words of a command
    combiner: tuple[str, ...] = ()  #: () = none
    reducer: tuple[str, ...] = ()  #: () = lines go on as they are, sorted
    aggregate: bool = False  #: reduces are ``-reducer aggregate``
    reduces: int = 1  #: 0 = the mappers' lines are the output
    map_attempts: int = 4  #: failures of one task that end the job
    reduce_attempts: int = 4
    map_copies: bool = True  #: whether the scheduler may copy tasks
    reduce_copies: bool = True
    files: tuple[ProgramFile, ...] = ()
    environment: dict[str, str] = {}  #: of -cmdenv
    settings: dict[str, str] = {}  #: {Hadoop's name: value}
    begun_ms: int = 0  #: when the cluster began, since 1970: part of all ids
    store: str = "hdfs://"  #: what stands before a path of the block store
    offsets: bool = False  #: a mapper gets OFFSET<tab>LINE
    #: ends the key of a line that a mapper reads; b"" = lines have no keys
    line_key_separator: bytes = b""
    line_keys: bool = True  #: the mapper gets these keys
    map_input_separator: bytes = b"\t"  #: between key and value of what a mapper reads
    delimiter: bytes = b""  #: ends a record of the input; b"" = the ends of lines do
    line_bytes_max: int = 0  #: longer lines of the input are left out; 0 = none is
    lines_per_map: int = 0  #: so many lines of a file for each map; 0 = a block
    map_separator: bytes = b"\t"  #: between key and value of a line that a mapper wrote
    map_fields: int = 1  #: fields of its key
    combine_separator: bytes = b"\t"  #: between key and value of a line that a combiner wrote
    combine_fields: int = 1
    reduce_input_separator: bytes = b"\t"  #: also of what a combiner reads
    reduce_separator: bytes = b"\t"  #: between key and value of a line that a reducer wrote
    reduce_fields: int = 1
    output_separator: bytes = b"\t"  #: between key and value of the output's lines
    partition_parts: tuple[KeyPart, ...] = ()
    order_parts: tuple[KeyPart, ...] = ()  #: () = by the bytes of the whole key
    key_separator: bytes = b"\t"  #: between the fields that these parts count
    #: a line without a separator gets one, as in Hadoop
    adds_separator: bool = False
    timeout_s: float = 600.0  #: of a program that neither reads nor writes; 0 = none
    status_counts: bool = True  #: a program that ends with another status than 0 has failed
    reporter_prefix: bytes = b"reporter:"  #: of lines of stderr for counters and status
    map_variables: dict[str, str] = {}  #: of maps' programs; settings and -cmdenv win
    reduce_variables: dict[str, str] = {}
    setting_letters_max: int = -1  #: longer values are cut in the environment; -1 = none is

    def uri(self, path: str) -> str:
        """A path of the block store as programs are told it."""
        return f"{self.store}{path}" if path else ""
