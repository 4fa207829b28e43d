"""A job's settings as Hadoop names them: which are used, change nothing here, or are refused.

``settings.toml`` is the table; names that stand in it, and all that begin as Hadoop's own do, are
looked up there.  Any other name is the user's own: programs find it in their environment, nothing
else.  A setting may also be *fixed*: refused, but for the one value that says what is done anyway.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from railyard.cluster.acceptance import Accepted, Effect, Entry, idle, refused, used
from railyard.cluster.errors import UsageError


@dataclass(frozen=True, slots=True)
class Fixed(Entry):
    """A setting that is refused but for ``value``, which is what is done anyway."""

    value: str


_TABLE = tomllib.loads(Path(__file__).with_name("settings.toml").read_text(encoding="utf-8"))
OLD_NAMES: dict[str, str] = _TABLE["old"]  #: {name of old: name now}
_NOW: dict[str, Entry] = {
    **{name: used(note) for name, note in _TABLE["used"].items()},
    **{
        name: Fixed(Effect.REFUSED, f"{why}; only {value}", value)
        for name, (why, value) in _TABLE["fixed"].items()
    },
    **{name: refused(why) for why, names in _TABLE["refused"].items() for name in names},
    **{name: idle(why) for why, names in _TABLE["idle"].items() for name in names},
}


def _of_old_name(new: str) -> Entry:
    entry, note = _NOW[new], f"the old name of {new}"
    if isinstance(entry, Fixed):
        return Fixed(entry.effect, f"{note}: {entry.note}", entry.value)
    return Entry(entry.effect, note if entry.effect is Effect.USED else f"{note}: {entry.note}")


#: How the names begin that are Hadoop's, or ours.
_BEGINS = (
    *("dfs.", "fs.", "hadoop.", "io.", "ipc.", "mapred.", "mapreduce.", "net.topology."),
    *("railyard.", "security.", "sequencefile.", "stream.", "tasktracker.", "textinputformat."),
    *("topology.", "yarn.", "job.end.", "job.local.", "jobclient.", "keep.failed.", "keep.task."),
    *("key.value.separator", "local.cache.", "map.input.", "map.output.", "map.sort."),
    *("min.num.spills", "num.key.fields", "reduce.output.key", "user.name"),
)
SETTINGS = Accepted(
    "hadoop jar: settings",
    "setting",
    _NOW | {old: _of_old_name(new) for old, new in OLD_NAMES.items()},
    _BEGINS,
)
#: A setting's name for one variable of programs.
_VARIABLE = re.compile(r"(mapreduce\.(?:map|reduce)\.env)\.([A-Za-z_][A-Za-z0-9_]*)")
#: The names that stand for all that begin so.
_ALL = tuple(name for name in SETTINGS.entries if name.endswith(".*"))
_IS_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Settings:
    """Settings under their names of now; values are text.  Of two values the last holds."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given
        self.values = {OLD_NAMES.get(name, name): value for name, value in given.items()}

    def check(self) -> None:
        for name, value in self._given.items():
            listed = _listed(name)
            entry = SETTINGS.entries.get(listed)
            if not (isinstance(entry, Fixed) and _equal(value, entry.value)):
                SETTINGS.check(listed, f"-D {name}={value}")

    def text(self, name: str, default: str) -> str:
        return self.values.get(name, default)

    def separator(self, name: str, default: str = "\t") -> bytes:
        """What separates fields: a tab if it is not set; ``UsageError`` for none at all."""
        text = self.text(name, default)
        if not text or "\n" in text:
            raise UsageError(f"-D {name}=: need at least one letter, and no end of a line")
        return text.encode("utf-8", "surrogateescape")

    def whole(self, name: str, default: int, least: int = 0) -> int:
        """A whole number of at least ``least``; ``UsageError`` for anything else."""
        text = self.text(name, str(default)).strip()
        digits = text.removeprefix("-")
        good = digits.isascii() and digits.isdecimal() and len(digits) < 18
        if not (good and int(text) >= least):
            raise UsageError(f"-D {name}={text[:40]}: need a whole number, {least} or more")
        return int(text)

    def flag(self, name: str, default: bool) -> bool:
        """True or false; ``UsageError`` for what is neither, which Hadoop takes for the default."""
        text = self.values.get(name)
        if text is None:
            return default
        said = {"true": True, "false": False}.get(text.strip().lower())
        if said is None:
            raise UsageError(f"-D {name}={text[:40]}: need true or false")
        return said

    def variables(self, name: str) -> dict[str, str]:
        """The variables of a task's programs: of ``name``, "A=1,B=2", and of ``name.A``."""
        whole = name if name in self.values else "mapred.child.env"
        found = {}
        for part in filter(None, map(str.strip, self.text(whole, "").split(","))):
            variable, equals, value = part.partition("=")
            if not (equals and _IS_VARIABLE.fullmatch(variable)):
                raise UsageError(f"-D {whole}: {part[:80]}: need NAME=VALUE, with commas between")
            found[variable] = value
        for given, value in self.values.items():
            match = _VARIABLE.fullmatch(given)
            if match and match[1] == name:
                found[match[2]] = value
        for variable, value in found.items():
            if "$" in value or "\0" in value:
                right = "its value as it is: other variables are not filled in"
                raise UsageError(f"-D {whole}: {variable}={value[:80]}: need {right}")
        return found


def _listed(name: str) -> str:
    """The name under which a setting stands in the table, perhaps with NAME or *."""
    if name in SETTINGS.entries:
        return name
    if _VARIABLE.fullmatch(name):
        return _VARIABLE.sub(r"\1.NAME", name)
    return next((one for one in _ALL if name.startswith(one.removesuffix("*"))), name)


def in_environment(settings: Mapping[str, str], letters_max: int = -1) -> dict[str, str]:
    """Settings as a program finds them: names of now and of old, with _ for what is no letter.

    Those with a null byte are left out: no environment can have them.  Longer values than
    ``letters_max`` are cut, unless it is negative.
    """
    old = {old: settings[new] for old, new in OLD_NAMES.items() if new in settings}
    return {
        "".join(c if c.isascii() and c.isalnum() else "_" for c in name): (
            value if letters_max < 0 else value[:letters_max]
        )
        for name, value in {**settings, **old}.items()
        if "\0" not in name + value
    }


def _equal(given: str, fixed: str) -> bool:
    """Whether a value is the one that is taken: as text, or as a number."""
    text = given.strip().lower()
    if text in (fixed.lower(), fixed.lower().rpartition(".")[2]):
        return True
    try:
        return float(text) == float(fixed)
    except ValueError:
        return False
