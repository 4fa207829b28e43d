"""A job's settings as Hadoop names them: names of old and new, and values of a kind.

Source: Apache Hadoop's table of deprecated properties, as far as streaming jobs meet it.
"""

from __future__ import annotations

from collections.abc import Mapping

from railyard.cluster.errors import UsageError

#: {name of old: name now}
OLD_NAMES = {
    "map.input.file": "mapreduce.map.input.file",
    "map.input.length": "mapreduce.map.input.length",
    "map.input.start": "mapreduce.map.input.start",
    "map.output.key.field.separator": "mapreduce.map.output.key.field.separator",
    "mapred.input.dir": "mapreduce.input.fileinputformat.inputdir",
    "mapred.input.dir.recursive": "mapreduce.input.fileinputformat.input.dir.recursive",
    "mapred.job.id": "mapreduce.job.id",
    "mapred.job.name": "mapreduce.job.name",
    "mapred.job.queue.name": "mapreduce.job.queuename",
    "mapred.line.input.format.linespermap": "mapreduce.input.lineinputformat.linespermap",
    "mapred.map.max.attempts": "mapreduce.map.maxattempts",
    "mapred.map.tasks": "mapreduce.job.maps",
    "mapred.output.compress": "mapreduce.output.fileoutputformat.compress",
    "mapred.output.dir": "mapreduce.output.fileoutputformat.outputdir",
    "mapred.output.key.comparator.class": "mapreduce.job.output.key.comparator.class",
    "mapred.partitioner.class": "mapreduce.job.partitioner.class",
    "mapred.reduce.max.attempts": "mapreduce.reduce.maxattempts",
    "mapred.reduce.tasks": "mapreduce.job.reduces",
    "mapred.task.id": "mapreduce.task.attempt.id",
    "mapred.task.is.map": "mapreduce.task.ismap",
    "mapred.task.partition": "mapreduce.task.partition",
    "mapred.task.timeout": "mapreduce.task.timeout",
    "mapred.text.key.comparator.options": "mapreduce.partition.keycomparator.options",
    "mapred.text.key.partitioner.options": "mapreduce.partition.keypartitioner.options",
    "mapred.textoutputformat.separator": "mapreduce.output.textoutputformat.separator",
    "mapred.tip.id": "mapreduce.task.id",
    "mapred.work.output.dir": "mapreduce.task.output.dir",
    "user.name": "mapreduce.job.user.name",
}
_NOW = {new: old for old, new in OLD_NAMES.items()}


class Settings:
    """Settings under their names of now; values are text."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self.values = {OLD_NAMES.get(name, name): value for name, value in given.items()}

    def text(self, name: str, default: str) -> str:
        """A text, ``default`` if it is not set."""
        return self.values.get(name, default)

    def separator(self, name: str) -> bytes:
        """What separates fields: a tab if it is not set; ``UsageError`` for none at all."""
        text = self.text(name, "\t")
        if not text:
            raise UsageError(f"-D {name}=: need at least one letter")
        return text.encode("utf-8", "surrogateescape")

    def whole(self, name: str, default: int, least: int = 0) -> int:
        """A whole number of at least ``least``; ``UsageError`` for anything else."""
        text = self.text(name, str(default)).strip()
        if not (text.isascii() and text.isdecimal() and len(text) < 18 and int(text) >= least):
            raise UsageError(f"-D {name}={text[:40]}: need a whole number, {least} or more")
        return int(text)

    def flag(self, name: str, default: bool) -> bool:
        """True or false; as in Hadoop, what is neither is the default."""
        return {"true": True, "false": False}.get(self.text(name, "").strip().lower(), default)


def in_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings as a program finds them: names of now and of old, with _ for what is no letter.

    Those with a null byte are left out: no environment can have them.
    """
    both = dict(settings)
    both |= {_NOW[name]: value for name, value in settings.items() if name in _NOW}
    return {
        "".join(c if c.isascii() and c.isalnum() else "_" for c in name): value
        for name, value in both.items()
        if "\0" not in name + value
    }
