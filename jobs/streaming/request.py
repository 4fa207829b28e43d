"""What is asked for with the words of ``hadoop jar``, checked: what is not there is refused."""

from __future__ import annotations

import shlex
from typing import Annotated

import msgspec

from railyard.cluster.bounded import FEW, Name, Path, Text
from railyard.cluster.errors import UsageError
from railyard.jobs.model import REDUCES_MAX
from railyard.jobs.streaming.keys import KeyPart, parts_of
from railyard.jobs.streaming.settings import Settings
from railyard.jobs.streaming.specification import Streaming
from railyard.jobs.taskio import ProgramFile

_PARTITIONERS = ("HashPartitioner", "KeyFieldBasedPartitioner")
_COMPARATORS = ("KeyFieldBasedComparator",)
_BY_LINES = "NLineInputFormat"
_INPUT_FORMATS = ("TextInputFormat", "KeyValueTextInputFormat", "AutoInputFormat", _BY_LINES)
_OUTPUT_FORMATS = ("TextOutputFormat",)
_IDENTITY = ("IdentityReducer", "org.apache.hadoop.mapred.lib.IdentityReducer")
_NONE = "NONE"
_AGGREGATE = "aggregate"
_JAVA = ("org.", "com.", "java.")


class StreamingRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of ``hadoop jar``; the files are in the block store already."""

    user: Name = "user"
    input: Annotated[tuple[Path, ...], FEW]  #: files, folders and patterns
    output: Path
    mapper: Text
    combiner: Text = ""
    reducer: Text | None = None  #: None = it was not given
    partitioner: Name = ""
    input_format: Name = ""
    output_format: Name = ""
    reduces: Text | None = None  #: of -numReduceTasks
    files: Annotated[tuple[ProgramFile, ...], FEW] = ()
    environment: Annotated[dict[Name, Text], FEW] = {}
    settings: Annotated[dict[Name, Text], FEW] = {}


def streaming_of(request: StreamingRequest, begun_ms: int, store: str) -> Streaming:
    """The job that is asked for.  Raises ``UsageError``, a line, for what is wrong or missing.

    ``begun_ms`` and ``store`` are as in ``Streaming``.
    """
    settings = Settings(request.settings)
    reduces = _reduces(request, settings)
    if settings.flag("mapreduce.output.fileoutputformat.compress", False):
        raise UsageError(
            "-D mapreduce.output.fileoutputformat.compress=true: outputs are plain text"
        )
    fields = settings.whole("stream.num.map.output.key.fields", 1, least=1)
    aggregates = request.reducer == _AGGREGATE
    reducer = "" if aggregates or request.reducer in _IDENTITY else request.reducer or ""
    order = _order_parts(settings)
    lines = _lines_per_map(request, settings)
    _known("-outputformat", request.output_format, _OUTPUT_FORMATS)
    return Streaming(
        mapper=_words("-mapper", request.mapper),
        combiner=() if aggregates or not reduces else _words("-combiner", request.combiner),
        reducer=_words("-reducer", reducer) if reduces else (),
        aggregate=aggregates and bool(reduces),
        reduces=reduces,
        map_attempts=settings.whole("mapreduce.map.maxattempts", 4, least=1),
        reduce_attempts=settings.whole("mapreduce.reduce.maxattempts", 4, least=1),
        files=_checked_files(request.files),
        environment=dict(request.environment),
        settings=_told(request, settings, reduces),
        begun_ms=begun_ms,
        store=store,
        map_separator=settings.separator("stream.map.output.field.separator"),
        map_fields=fields,
        reduce_input_separator=settings.separator("stream.reduce.input.field.separator"),
        partition_parts=_partition_parts(request, settings),
        order_parts=order,
        key_separator=settings.separator("mapreduce.map.output.key.field.separator"),
        adds_separator=settings.flag("railyard.streaming.add.separator", False),
        timeout_s=settings.whole("mapreduce.task.timeout", 600_000) / 1000,
        status_counts=settings.flag("stream.non.zero.exit.is.failure", True),
        offsets=not settings.flag("stream.map.input.ignoreKey", not lines),
        lines_per_map=lines,
    )


def job_name(request: StreamingRequest) -> str:
    """The job's name, as in Hadoop that of the streaming jar unless it is set."""
    return Settings(request.settings).text("mapreduce.job.name", "streamjob")[:200] or "streamjob"


def queue_name(request: StreamingRequest) -> str:
    """The queue that it is submitted to; all are below root, which need not be said."""
    given = Settings(request.settings).text("mapreduce.job.queuename", "default")[:200]
    return given.removeprefix("root.") or "default"


def _reduces(request: StreamingRequest, settings: Settings) -> int:
    given = request.reduces
    if given is not None:
        settings.values["mapreduce.job.reduces"] = given
    number = settings.whole("mapreduce.job.reduces", 1)
    if number > REDUCES_MAX:
        raise UsageError(f"-numReduceTasks {number}: need at most {REDUCES_MAX}")
    return 0 if request.reducer == _NONE else number


def _words(option: str, command: str) -> tuple[str, ...]:
    """The words of a command, split as a shell would."""
    if not command.strip():
        if option == "-mapper":
            raise UsageError("-mapper: need a command; cat passes all lines on")
        return ()
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise UsageError(f"{option} {command[:80]!r}: {error}") from None
    if len(words) == 1 and words[0].startswith(_JAVA):
        raise UsageError(f"{option} {words[0][:80]}: Java classes are not run: need a command")
    if "\0" in command or not words or not words[0]:
        raise UsageError(f"{option} {command[:80]!r}: need a command")
    return words


def _known(option: str, given: str, known: tuple[str, ...]) -> str:
    name = given.rpartition(".")[2]
    if given and name not in known:
        raise UsageError(f"{option} {given[:120]}: need one of {', '.join(known)}")
    return name


def _partition_parts(request: StreamingRequest, settings: Settings) -> tuple[KeyPart, ...]:
    given = request.partitioner or settings.text("mapreduce.job.partitioner.class", "")
    if _known("-partitioner", given, _PARTITIONERS) != "KeyFieldBasedPartitioner":
        return ()
    name = "mapreduce.partition.keypartitioner.options"
    if old := settings.text("num.key.fields.for.partition", ""):
        return parts_of(f"-k1,{old}", "num.key.fields.for.partition")
    return parts_of(settings.text(name, ""), name)


def _order_parts(settings: Settings) -> tuple[KeyPart, ...]:
    option = "mapreduce.job.output.key.comparator.class"
    if not _known(f"-D {option}", settings.text(option, ""), _COMPARATORS):
        return ()
    name = "mapreduce.partition.keycomparator.options"
    return parts_of(settings.text(name, ""), name)


def _lines_per_map(request: StreamingRequest, settings: Settings) -> int:
    """Lines of a map's input; 0 unless the format is by lines."""
    if _known("-inputformat", request.input_format, _INPUT_FORMATS) != _BY_LINES:
        return 0
    return settings.whole("mapreduce.input.lineinputformat.linespermap", 1, least=1)


def _checked_files(files: tuple[ProgramFile, ...]) -> tuple[ProgramFile, ...]:
    names = [file.name for file in files]
    for name in names:
        if not name or "/" in name or "\0" in name or name in (".", ".."):
            raise UsageError(f"-files: {name[:80]!r}: need a plain name after #")
        if names.count(name) > 1:
            raise UsageError(f"-files: {name[:80]!r}: there are two of that name")
    return files


def _told(request: StreamingRequest, settings: Settings, reduces: int) -> dict[str, str]:
    """The settings that programs find in their environment."""
    return settings.values | {
        "mapreduce.job.name": job_name(request),
        "mapreduce.job.queuename": queue_name(request),
        "mapreduce.job.user.name": request.user,
        "mapreduce.job.reduces": str(reduces),
        "mapreduce.input.fileinputformat.inputdir": ",".join(request.input),
        "mapreduce.output.fileoutputformat.outputdir": request.output,
    }
