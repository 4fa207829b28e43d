"""What is asked for with the words of ``hadoop jar``, and the streaming job that it is."""

from __future__ import annotations

import msgspec

from railyard.cluster.errors import UsageError, printable
from railyard.cluster.fileheads import command_words
from railyard.cluster.messaging.wire import NAME_LETTERS_MAX, Few, FewBy, Name, Path, Text
from railyard.jobs.model import REDUCES_MAX
from railyard.jobs.streaming.keys import KeyPart, parts_of
from railyard.jobs.streaming.settings import Settings
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
    adds_separator: bool = False  #: a line without a separator gets one, as in Hadoop
    timeout_s: float = 600.0  #: of a program that neither reads nor writes; 0 = none
    status_counts: bool = True  #: a program that ends with another status than 0 has failed
    reporter_prefix: bytes = b"reporter:"  #: of lines of stderr for counters and status
    map_variables: dict[str, str] = {}  #: of maps' programs; settings and -cmdenv win
    reduce_variables: dict[str, str] = {}
    setting_letters_max: int = -1  #: longer values are cut in the environment; -1 = none is

    def uri(self, path: str) -> str:
        """A path of the block store as programs see it."""
        return f"{self.store}{path}" if path else ""


_PARTITIONERS = ("HashPartitioner", "KeyFieldBasedPartitioner")
_COMPARATORS = ("KeyFieldBasedComparator",)
_TEXT, _KEY_VALUE, _BY_LINES = "TextInputFormat", "KeyValueTextInputFormat", "NLineInputFormat"
_INPUT_FORMATS = (_TEXT, _KEY_VALUE, "AutoInputFormat", _BY_LINES)
_OUTPUT_FORMATS = ("TextOutputFormat",)
_IDENTITY = ("IdentityReducer", "org.apache.hadoop.mapred.lib.IdentityReducer")
_JAVA = ("org.", "com.", "java.")
#: How many maps, and how large their inputs.
_SPLITTING = ("mapreduce.job.maps", "mapreduce.input.fileinputformat.split.minsize")
#: YARN's limits.
_TAGS_MAX = 10
_TAG_LETTERS_MAX = 100
_REPLICAS_MAX = 512


class StreamingRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of ``hadoop jar``; the files are in the block store already."""

    user: Name = "user"
    input: Few[Path]  #: files, folders and patterns
    output: Path
    mapper: Text
    combiner: Text = ""
    reducer: Text | None = None  #: None = it was not given
    partitioner: Name = ""
    input_format: Name = ""
    output_format: Name = ""
    reduces: Text | None = None  #: of -numReduceTasks
    files: Few[ProgramFile] = ()
    environment: FewBy[Name, Text] = {}
    settings: FewBy[Name, Text] = {}


def streaming_of(request: StreamingRequest, begun_ms: int, store: str) -> Streaming:
    """The job that is asked for.  Raises ``UsageError``, a line, for what is wrong or missing."""
    settings = Settings(request.settings)
    settings.check()
    reduces = _reduces(request, settings)
    form = _known("-inputformat", request.input_format, _INPUT_FORMATS) or _TEXT
    separator, fields = _written("map", settings)
    reduce_separator, reduce_fields = _written("reduce", settings)
    by_reduce = any(name in settings.values for name in _written_names("reduce"))
    aggregates = request.reducer == "aggregate"
    reducer = "" if aggregates or request.reducer in _IDENTITY else request.reducer or ""
    order = _order_parts(settings)
    lines, delimiter = _lines_per_map(form, settings), _delimiter(form, settings)
    by_lines = f"nothing of it, with {_BY_LINES}: its maps have as many lines as they should"
    _require_use(settings, not lines, by_lines, *_SPLITTING)
    whole = "nothing of it, with textinputformat.record.delimiter: a file is read by one map"
    _require_use(settings, not delimiter, whole, *_SPLITTING)
    for needed_later in (reads_recursively, tags, output_replication, splitting):
        needed_later(request)
    ignores_key = settings.flag("stream.map.input.ignoreKey", form == _TEXT)
    _known("-outputformat", request.output_format, _OUTPUT_FORMATS)
    return Streaming(
        mapper=_words("-mapper", request.mapper),
        combiner=() if aggregates or not reduces else _words("-combiner", request.combiner),
        reducer=_words("-reducer", reducer) if reduces else (),
        aggregate=aggregates and bool(reduces),
        reduces=reduces,
        map_attempts=settings.whole("mapreduce.map.maxattempts", 4, least=1),
        reduce_attempts=settings.whole("mapreduce.reduce.maxattempts", 4, least=1),
        map_copies=_copies("mapreduce.map.speculative", settings),
        reduce_copies=_copies("mapreduce.reduce.speculative", settings),
        files=_checked_files(request.files),
        environment=dict(request.environment),
        settings=_settings_of(request, settings, reduces),
        begun_ms=begun_ms,
        store=store,
        map_separator=separator,
        map_fields=fields,
        combine_separator=reduce_separator if by_reduce else separator,
        combine_fields=reduce_fields if by_reduce else fields,
        reduce_input_separator=settings.separator("stream.reduce.input.field.separator"),
        reduce_separator=reduce_separator,
        reduce_fields=reduce_fields,
        output_separator=settings.separator("mapreduce.output.textoutputformat.separator"),
        partition_parts=_partition_parts(request, settings),
        order_parts=order,
        key_separator=settings.separator("mapreduce.map.output.key.field.separator"),
        adds_separator=settings.flag("railyard.streaming.add.separator", False),
        timeout_s=settings.whole("mapreduce.task.timeout", 600_000) / 1000,
        status_counts=settings.flag("stream.non.zero.exit.is.failure", True),
        reporter_prefix=settings.separator("stream.stderr.reporter.prefix", "reporter:"),
        map_variables=settings.variables("mapreduce.map.env"),
        reduce_variables=settings.variables("mapreduce.reduce.env"),
        setting_letters_max=settings.whole("stream.jobconf.truncate.limit", -1, least=-1),
        offsets=form != _KEY_VALUE and not ignores_key,
        line_key_separator=_line_key_separator(form, settings),
        line_keys=not ignores_key,
        map_input_separator=settings.separator("stream.map.input.field.separator"),
        delimiter=delimiter,
        line_bytes_max=settings.whole("mapreduce.input.linerecordreader.line.maxlength", 0),
        lines_per_map=lines,
    )


def job_name(request: StreamingRequest) -> str:
    """The job's name, as in Hadoop that of the streaming jar unless it is set."""
    return _name(request, "mapreduce.job.name", "streamjob")


def queue_name(request: StreamingRequest) -> str:
    """The queue that it is submitted to; all are below root, which need not be said."""
    return _name(request, "mapreduce.job.queuename", "default").removeprefix("root.") or "default"


def _name(request: StreamingRequest, setting: str, default: str) -> str:
    """A setting's name, ``default`` for none; ``UsageError`` for one longer than messages have."""
    given = Settings(request.settings).text(setting, default) or default
    if len(given) > NAME_LETTERS_MAX:
        shown = printable(given, 40)
        raise UsageError(f"-D {setting}={shown}: need at most {NAME_LETTERS_MAX} letters")
    return given


def tags(request: StreamingRequest) -> tuple[str, ...]:
    """Its tags, in small letters, each once; ``UsageError`` for those that YARN refuses."""
    given = Settings(request.settings).text("mapreduce.job.tags", "")
    found = tuple(dict.fromkeys(filter(None, map(str.strip, given.lower().split(",")))))
    for tag in found:
        if not tag.isascii() or len(tag) > _TAG_LETTERS_MAX:
            right = f"at most {_TAG_LETTERS_MAX} ASCII letters"
            raise UsageError(f"-D mapreduce.job.tags: {printable(tag, 120)}: need {right}")
    if len(found) > _TAGS_MAX:
        raise UsageError(f"-D mapreduce.job.tags: {len(found)} tags: need at most {_TAGS_MAX}")
    return found


def output_replication(request: StreamingRequest) -> int:
    """Replicas of the job's output; 0 = as many as the block store makes."""
    settings = Settings(request.settings)
    given = "dfs.replication" in settings.values
    number = settings.whole("dfs.replication", 1, least=1) if given else 0
    if number > _REPLICAS_MAX:
        raise UsageError(f"-D dfs.replication={number}: need at most {_REPLICAS_MAX}")
    return number


def splitting(request: StreamingRequest) -> tuple[int, int] | None:
    """(Maps that are wished for, least bytes of a map's input); None = a map for each block."""
    settings = Settings(request.settings)
    if not any(name in settings.values for name in _SPLITTING):
        return None
    maps, bytes_min = (settings.whole(name, 1) for name in _SPLITTING)
    return maps, bytes_min


def reads_recursively(request: StreamingRequest) -> bool:
    """Whether folders within the input's folders are read."""
    name = "mapreduce.input.fileinputformat.input.dir.recursive"
    return Settings(request.settings).flag(name, False)


def _reduces(request: StreamingRequest, settings: Settings) -> int:
    if request.reduces is not None:
        settings.values["mapreduce.job.reduces"] = request.reduces
    number = settings.whole("mapreduce.job.reduces", 1)
    if number > REDUCES_MAX:
        raise UsageError(f"-numReduceTasks {number}: need at most {REDUCES_MAX}")
    return 0 if request.reducer == "NONE" else number


def _copies(name: str, settings: Settings) -> bool:
    """Whether the scheduler may copy tasks: not if it is false; true would not make it copy any."""
    if settings.flag(name, False):
        right = "false: copies are the scheduler's: railyard up --set speculation.on=true"
        raise UsageError(f"-D {name}=true: need {right}")
    return name not in settings.values


def _words(option: str, command: str) -> tuple[str, ...]:
    """The words of a command; () for one that need not be given."""
    if not command.strip():
        if option == "-mapper":
            raise UsageError("-mapper: need a command; cat passes all lines on")
        return ()
    try:
        words = command_words(command)
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
    option = "mapreduce.job.partitioner.class"
    if request.partitioner:
        given = _known("-partitioner", request.partitioner, _PARTITIONERS)
    else:
        given = _known(f"-D {option}", settings.text(option, ""), _PARTITIONERS)
    by_fields = given == "KeyFieldBasedPartitioner"
    name, old = "mapreduce.partition.keypartitioner.options", "num.key.fields.for.partition"
    _require_use(settings, by_fields, "-partitioner KeyFieldBasedPartitioner", name, old)
    _require_use(settings, name not in settings.values, f"it, or {name}", old)
    if old in settings.values:
        return parts_of(f"-k1,{settings.whole(old, 1, least=1)}", old)
    return parts_of(settings.text(name, ""), name)


def _order_parts(settings: Settings) -> tuple[KeyPart, ...]:
    option = "mapreduce.job.output.key.comparator.class"
    by_fields = bool(_known(f"-D {option}", settings.text(option, ""), _COMPARATORS))
    name = "mapreduce.partition.keycomparator.options"
    _require_use(settings, by_fields, f"-D {option}={_COMPARATORS[0]}", name)
    return parts_of(settings.text(name, ""), name)


def _require_use(settings: Settings, used: bool, right: str, *names: str) -> None:
    """Raise ``UsageError`` for a setting that would change nothing, since another one is needed."""
    for name in names:
        if name in settings.values and not used:
            raise UsageError(f"-D {name}={settings.values[name][:80]}: need {right}")


def _written_names(by: str) -> tuple[str, str]:
    return f"stream.{by}.output.field.separator", f"stream.num.{by}.output.key.fields"


def _written(by: str, settings: Settings) -> tuple[bytes, int]:
    """What ends the key of lines that a "map" or "reduce" program writes, and its fields."""
    separator, fields = _written_names(by)
    return settings.separator(separator), settings.whole(fields, 1, least=1)


def _lines_per_map(form: str, settings: Settings) -> int:
    """Lines of a map's input; 0 unless the format is by lines."""
    name = "mapreduce.input.lineinputformat.linespermap"
    _require_use(settings, form == _BY_LINES, f"-inputformat {_BY_LINES}", name)
    return settings.whole(name, 1, least=1) if form == _BY_LINES else 0


def _line_key_separator(form: str, settings: Settings) -> bytes:
    """What ends the key of a line of the input; b"" if lines have none."""
    name = "mapreduce.input.keyvaluelinerecordreader.key.value.separator"
    _require_use(settings, form == _KEY_VALUE, f"-inputformat {_KEY_VALUE}", name)
    if form != _KEY_VALUE:
        return b""
    separator = settings.separator(name)
    if len(separator) > 1:
        raise UsageError(f"-D {name}={settings.text(name, '')[:40]}: need one ASCII letter")
    return separator


def _delimiter(form: str, settings: Settings) -> bytes:
    """What ends a record; b"" if the ends of lines do."""
    name = "textinputformat.record.delimiter"
    text = settings.text(name, "")
    _require_use(settings, form == _TEXT, f"-inputformat {_TEXT}", name)
    return b"" if text == "\n" else text.encode("utf-8", "surrogateescape")


def _checked_files(files: tuple[ProgramFile, ...]) -> tuple[ProgramFile, ...]:
    names = [file.name for file in files]
    for name in names:
        if not name or "/" in name or "\0" in name or name in (".", ".."):
            raise UsageError(f"-files: {name[:80]!r}: need a plain name after #")
        if names.count(name) > 1:
            raise UsageError(f"-files: {name[:80]!r}: there are two of that name")
    return files


def _settings_of(request: StreamingRequest, settings: Settings, reduces: int) -> dict[str, str]:
    """The settings that programs find in their environment."""
    return settings.values | {
        "mapreduce.job.name": job_name(request),
        "mapreduce.job.queuename": queue_name(request),
        "mapreduce.job.user.name": request.user,
        "mapreduce.job.reduces": str(reduces),
        "mapreduce.input.fileinputformat.inputdir": ",".join(request.input),
        "mapreduce.output.fileoutputformat.outputdir": request.output,
    }
