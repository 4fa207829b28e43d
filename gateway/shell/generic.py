"""Hadoop's generic options, its configuration files, and which cluster is asked.

That is the one that the options say, or the one that is up.  As in Hadoop, a -D counts more than
-fs, which counts more than the files of -conf, and these more than core-site.xml.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree
from xml.parsers import expat

from railyard.cluster.acceptance import Accepted, idle, refused, used
from railyard.cluster.errors import UsageError
from railyard.gateway.shell.paths import STORES, check_own, has_port, is_same, uri_of
from railyard.gateway.shell.web import NoGateway, Web

_NO_DAEMONS = refused("railyard up and railyard down start and stop daemons")
OPTIONS = Accepted(
    "hadoop, hdfs, yarn and mapred: generic options",
    "generic option",
    {
        "-D": used("a setting: which cluster is asked, and what a command or job looks at"),
        "-conf": used("a file of settings"),
        "-fs": used("the cluster that is asked, such as webhdfs://HOST:PORT"),
        "-dfs": used("the same as -fs"),
        "-jt": used("refused unless it is the address of the cluster that is asked"),
        "--config": used("the folder whose core-site.xml says which cluster is asked"),
        "--loglevel": idle("there is no log"),
        "--debug": idle("there is no log"),
        "-libjars": refused("Java classes are not run"),
        "-tokenCacheFile": refused("the token is read from HADOOP_CONF_DIR"),
        **dict.fromkeys(("--daemon", "--workers", "--hosts", "--hostnames"), _NO_DAEMONS),
        "--buildpaths": refused("there are no Java classes"),
    },
)
SETTINGS = Accepted(
    "hadoop, hdfs, yarn and mapred, but for jobs: settings (-D, -conf)",
    "setting",
    {
        "fs.defaultFS": used("the cluster that is asked, such as webhdfs://HOST:PORT"),
        "fs.default.name": used("the same"),
        "yarn.resourcemanager.address": used("refused unless it is the cluster's that is asked"),
        "yarn.resourcemanager.webapp.address": used("the same"),
        "mapreduce.jobtracker.address": used("the same"),
        "mapred.job.tracker": used("the same"),
        "dfs.replication": used("replicas of new files"),
        "fs.trash.interval": used("0; anything else is refused, as there is no trash"),
        "fs.trash.checkpoint.interval": idle("there is no trash"),
        "dfs.blocksize": refused("blocks are as large as the topology says"),
        "dfs.block.size": refused("blocks are as large as the topology says"),
        "fs.permissions.umask-mode": refused("-chmod changes permissions"),
        "dfs.umaskmode": refused("-chmod changes permissions"),
    },
    begins=("fs.", "dfs."),
)
#: Of these the first that is set says which cluster is asked.
DEFAULT_STORE = ("fs.defaultFS", "fs.default.name")
#: Settings that must be the address of the cluster that is asked, like -jt.
MANAGERS = (
    "yarn.resourcemanager.address",
    "yarn.resourcemanager.webapp.address",
    "mapreduce.jobtracker.address",
    "mapred.job.tracker",
)
_SITE = "core-site.xml"
_FOLDERS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
#: Most bytes of a file, and letters of an entity.
_BYTES_MAX = 4 * 2**20
_LETTERS_MAX = 1000
#: How often a value is looked through for variables.
_DEPTH_MAX = 20
_VARIABLE = re.compile(r"\$\{([^\s${}]+)\}")
_RIGHT = "need <configuration> with <property><name>...</name><value>...</value></property>"
_INCLUDE = "{http://www.w3.org/2001/XInclude}include"


class Generic:
    """The generic options of a command."""

    def __init__(self) -> None:
        self._set: dict[str, str] = {}  #: by -D
        self._files: list[Path] = []  #: of -conf
        self._once: dict[str, str] = {}  #: of -fs, -jt and --config

    def take_all(self, arguments: list[str]) -> list[str]:
        """Take those with which the arguments begin; returns the rest."""
        rest = list(arguments)
        while rest and (count := self.take(rest)):
            rest = rest[count:]
        return rest

    def take(self, words: list[str]) -> int:
        """Take the option with which words begin; returns its words, 0 if it is none of these."""
        option = words[0]
        if option.startswith("-D") and option != "-D":
            self.set(option[2:], option)
            return 1
        if option not in OPTIONS.entries:
            return 0
        OPTIONS.check(option)
        if option == "--debug":
            return 1
        if len(words) < 2:
            raise UsageError(f"{option}: need a value")
        value = words[1]
        if option == "-D":
            self.set(value, f"-D {value}")
        elif option == "-conf":
            self._files.append(Path(value))
        elif option != "--loglevel":
            name = "-fs" if option == "-dfs" else option
            if self._once.setdefault(name, value) != value:
                raise UsageError(f"{option} {value[:80]}: is given twice: need it once")
        return 2

    def set(self, text: str, given: str) -> None:
        """Take NAME=VALUE of an option such as -D."""
        name, value = name_and_value(text, given)
        self._set[name] = value

    def settings(self) -> dict[str, str]:
        """All settings that were given, those of files as well."""
        known = {f"env.{name}": value for name, value in os.environ.items()}
        known |= {"user.name": user_name(), "user.home": os.environ.get("HOME", "")}
        return expanded(merged(self._files) | self._set, known)

    def connect(self, user: str) -> Web:
        """A connection to the cluster that is meant; ``UsageError`` if it can't be asked."""
        address = self._address()
        if "-jt" in self._once:
            check_own("-jt", self._once["-jt"], address)
        settings = self.settings()
        for name in MANAGERS:
            if name in settings:
                check_own(f"{name}={settings[name]}", settings[name], address)
        return Web(address, user, _token_of(address, self._folder))

    def connect_checked(self, user: str) -> Web:
        """The same for a command that starts no job: its settings are those of ``SETTINGS``."""
        settings = self.settings()
        for name, value in settings.items():
            SETTINGS.check(name, f"{name}={value}")
        if settings.get("fs.trash.interval", "0").strip() not in ("", "0"):
            right = "need 0, as there is no trash: -rm removes at once"
            raise UsageError(f"fs.trash.interval={settings['fs.trash.interval'][:40]}: {right}")
        web = self.connect(user)
        if "dfs.replication" in settings:
            web.of_new_files["replication"] = settings["dfs.replication"].strip()
        return web

    def _address(self) -> str:
        of_files = merged(self._files)
        for given, wanted in (
            *((f"-D {name}", self._set.get(name)) for name in DEFAULT_STORE),
            ("-fs", self._once.get("-fs")),
            *((f"-conf, {name}", of_files.get(name)) for name in DEFAULT_STORE),
        ):
            if wanted is not None:
                return _wanted(given, wanted, lambda: _configured(self._folder))
        return _configured(self._folder)

    @property
    def _folder(self) -> Path | None:
        folder = self._once.get("--config")
        return None if folder is None else Path(folder)


def name_and_value(text: str, given: str) -> tuple[str, str]:
    """The parts of NAME=VALUE; ``given``: as it was typed, with its option."""
    name, equals, value = text.partition("=")
    if not (name.strip() and equals):
        raise UsageError(f"{given}: need NAME=VALUE")
    return name.strip(), value


def user_name() -> str:
    """Who asks: HADOOP_USER_NAME, or the user of this machine."""
    return os.environ.get("HADOOP_USER_NAME") or os.environ.get("USER") or "user"


def _configured(folder: Path | None) -> str:
    """Host and port: of the core-site.xml of a folder, of HADOOP_CONF_DIR's, or of what is up."""
    for each in [folder] if folder else _named_folders():
        site = each / _SITE
        if folder is None and not site.is_file():
            continue
        properties = merged([site])
        for name in DEFAULT_STORE:
            if name in properties:
                return _wanted(f"{site}: {name}", properties[name], _running)
        if folder is not None:
            raise UsageError(f"{site}: sets no fs.defaultFS, so it says no cluster")
    return _running()


def _wanted(given: str, wanted: str, known: Callable[[], str]) -> str:
    """Host and port of the address of a store; without a port it must be the one that is known."""
    wanted = wanted.strip()
    uri = uri_of(wanted)
    bare = not uri.scheme and not uri.authority
    authority = uri.path.partition("/")[0] if bare else uri.authority
    if uri.scheme not in ("", *STORES) or not authority:
        raise UsageError(
            f"{given}: {wanted or 'nothing'}: need the address of a cluster: webhdfs://HOST:PORT"
        )
    try:
        own = known()
    except NoGateway:
        own = ""
    if own and is_same(authority, own):
        return own
    if has_port(authority):
        return authority.rpartition("@")[2]
    this = f": this one is webhdfs://{own}" if own else ""
    raise UsageError(f"{given}: {wanted}: need a port to ask another cluster{this}")


def _named_folders() -> list[Path]:
    return [Path(os.environ[name]) for name in _FOLDERS if os.environ.get(name)]


def _current() -> Path:
    """The folder of the cluster that is up."""
    own = f"railyard-{os.geteuid()}"
    home = Path(os.environ.get("RAILYARD_HOME") or Path(tempfile.gettempdir()) / own)
    return home / "clusters" / "current"


def _running() -> str:
    """Where the gateway of the cluster is that is up."""
    try:
        noted = json.loads((_current() / "gateway.json").read_bytes())
        return str(noted["url"]).removeprefix("http://")
    except OSError:
        right = "railyard up starts a cluster; HADOOP_CONF_DIR names one that is elsewhere"
        raise NoGateway(f"no gateway is known: {right}") from None


def _token_of(address: str, folder: Path | None) -> str:
    """What the gateway at an address wants to be shown; "" if nothing is known of it."""
    for each in (*([folder] if folder else []), *_named_folders(), _current() / "client-files"):
        with suppress(OSError, UsageError):
            site = merged([each / _SITE])
            if site.get("fs.defaultFS", "") == f"webhdfs://{address}":
                return (each / "token").read_text(encoding="utf-8").strip()
    return ""


# Configuration files -----------------------------------------------------------------------------
def merged(files: Iterable[Path]) -> dict[str, str]:
    """{name: value} of files in order; a later value replaces one that was not final."""
    values: dict[str, str] = {}
    final: set[str] = set()
    for file in files:
        for name, value, is_final in read_properties(file):
            if name not in final:
                values[name] = value
                if is_final:
                    final.add(name)
    return values


def expanded(properties: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """The properties with ${NAME} replaced: by another one, or by what is ``known`` otherwise.

    As in Hadoop, an unknown name stays as it is, and one within another's value is replaced, too.
    """

    def value_of(match: re.Match[str]) -> str:
        return properties.get(match[1], known.get(match[1], match[0]))

    made = {}
    for name, value in properties.items():
        for _ in range(_DEPTH_MAX):
            new = _VARIABLE.sub(value_of, value)
            if new == value or len(new) > _BYTES_MAX:
                break
            value = new
        made[name] = value
    return made


def read_properties(file: Path) -> Iterator[tuple[str, str, bool]]:
    """(Name, value, whether it is final) in order; ``UsageError`` for a file that is none."""
    try:
        if not file.is_file():
            raise UsageError(f"{file}: is no file: {_RIGHT}")
        if file.stat().st_size > _BYTES_MAX:
            raise UsageError(f"{file}: need at most {_BYTES_MAX} bytes")
        data = file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}") from None
    try:
        _check_entities(data)
        root = ElementTree.fromstring(data)
    except (ElementTree.ParseError, expat.ExpatError, ValueError, LookupError) as error:
        raise UsageError(f"{file}: is no XML that can be read: {error}: {_RIGHT}") from None
    if root.tag != "configuration":
        raise UsageError(f"{file}: begins with <{root.tag[:80]}>: {_RIGHT}")
    for element in root.iter():
        if element.tag == _INCLUDE:
            why = "other files are not read: put their properties into this one"
            raise UsageError(f"{file}: xi:include {element.get('href', '')[:80]}: {why}")
        if element.tag == "property":
            yield from _property(element)


def _check_entities(data: bytes) -> None:
    """Raise ``ValueError`` for an entity that is not plain text."""

    def declared(name: str, _: bool, value: str | None, *__: object) -> None:
        if value is None or "&" in value or "%" in value or len(value) > _LETTERS_MAX:
            raise ValueError(f"entity {name[:80]}: need one of plain text, {_LETTERS_MAX} letters")

    parser = expat.ParserCreate()
    parser.EntityDeclHandler = declared
    parser.Parse(data, True)


def _property(element: ElementTree.Element) -> Iterator[tuple[str, str, bool]]:
    """What a property sets; nothing without a name or a value, as in Hadoop."""

    def text(tag: str) -> str | None:
        child = element.find(tag)
        return element.get(tag) if child is None else "".join(child.itertext())

    name, value, final = text("name"), text("value"), text("final")
    if name is not None and name.strip() and value is not None:
        yield name.strip(), value, (final or "").strip() == "true"
