"""The lists of words for completion: commands, options and all values that have names.

Finding them takes all commands and schedulers, a second or two of CPU time.  So they are kept in a
file of the home, until a file of Railyard's or an installed package changes; what finds them is
imported within functions, for a word that is completed from the file does without it.
"""

from __future__ import annotations

import hashlib
import os
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import click
import msgspec

from railyard.scripts.terminal.completion import TypedCommand, TypedOption, Words

#: Beside the folder of clusters.
_FILE = "completion.json"
#: What changes the words if a file below it does.
_SOURCES = ("cluster", "jobs", "netemu", "resourcemanager", "scripts", "simulator", "benchmarks")

#: {option or argument, as it is shown: kind of its values}
_KINDS = {
    "--scheduler": "scheduler",
    "--schedulers": "schedulers",
    "--flow-scheduler": "flow scheduler",
    "--topology": "topology",
    "--network": "network",
    "--set": "setting",
    "--workload": "workload",
    "--behaviour": "behaviour",
    "--faults": "faults",
    "--kinds": "kinds of fault",
    "JOB...": "job",
    "PAPER": "paper",
    "[FIGURE]...": "figure",
    "DIR": "dir",
    "FILE": "file",
    "SUMMARY": "file",
}
#: {command: kind of its argument that is only called a name}
_NAMES = {
    "schedulers": "scheduler",
    "bench": "benchmark",
    "topologies": "topology",
    "workloads show": "workload",
}
#: Callbacks that take paths.
_PATHS = {"writable_file": "file", "new_folder": "dir"}


class _Kept(msgspec.Struct, frozen=True):
    """The file."""

    of: str  #: what it was made of
    words: Words


def kept_words() -> Words:
    """The words, found anew only if something has changed."""
    from railyard.scripts.clusters.home import home

    file, of = home() / _FILE, _fingerprint()
    with suppress(OSError, msgspec.MsgspecError):
        if not file.is_symlink() and file.stat().st_uid == os.geteuid():
            kept = msgspec.json.decode(file.read_bytes(), type=_Kept)
            if kept.of == of:
                return kept.words
    words = find_words()
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = file.with_suffix(f".{os.getpid()}")
        new.write_bytes(msgspec.json.encode(_Kept(of, words)))
        new.replace(file)
    return words


@cache
def find_words() -> Words:
    """The words, by asking all commands and lists."""
    from railyard.scripts.commands.registry import railyard

    commands = dict(_commands(railyard, ()))
    return Words(commands, _values(), _keys())


def _fingerprint() -> str:
    """Changes with each file of ours, and when a package is installed or removed."""
    digest = hashlib.sha256()
    root = Path(__file__).resolve().parents[3]
    for name in _SOURCES:
        for file in (root / name).rglob("*.[pt][yo]*"):
            if file.suffix in (".py", ".toml"):
                found = file.stat()
                digest.update(f"{file} {found.st_mtime_ns} {found.st_size}\n".encode())
    packages = sysconfig.get_path("purelib")
    digest.update(f"{packages} {Path(packages).stat().st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _commands(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, TypedCommand]]:
    context = click.Context(command, info_name=path[-1] if path else "railyard")
    within: dict[str, str] = {}
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            sub = command.get_command(context, name)
            assert sub is not None
            within[name] = sub.get_short_help_str(70)
            yield from _commands(sub, (*path, name))
    params = command.get_params(context)
    options = [one for one in params if isinstance(one, click.Option)]
    arguments = [one for one in params if isinstance(one, click.Argument)]
    yield (
        " ".join(path),
        TypedCommand(
            within,
            tuple(TypedOption(tuple(one.opts), _kind(one, path), _line(one)) for one in options),
            tuple(_kind(one, path) for one in arguments),
        ),
    )


def _line(option: click.Option) -> str:
    """The first sentence of its help."""
    text = " ".join((option.help or "").split())
    return text.split(".  ")[0].split(". ")[0].removesuffix(".")


def _kind(param: click.Parameter, path: tuple[str, ...]) -> str:
    if isinstance(param, click.Option) and (param.is_flag or param.count):
        return "flag"
    if isinstance(param.type, click.Choice):
        return "choice:" + "|".join(map(str, param.type.choices))
    command = " ".join(path)
    if command == "plan" and "--set" in param.opts:
        return "text"
    shown = param.opts[0] if isinstance(param, click.Option) else param.metavar or ""
    for name in (shown, param.metavar or ""):
        if name in _KINDS:
            return _KINDS[name]
    if isinstance(param, click.Argument) and command in _NAMES:
        return _NAMES[command]
    callback = getattr(param.callback, "__name__", "")
    if callback in _PATHS:
        return _PATHS[callback]
    if isinstance(param.type, click.Path):
        return "file" if param.type.file_okay else "dir"
    return "text"


def _values() -> dict[str, dict[str, str]]:
    from railyard.cluster.accepted import meanings
    from railyard.cluster.overrides import SHORT
    from railyard.cluster.topology import TABLES, load_topology, topology_names
    from railyard.jobs.samples.catalog import CATALOG
    from railyard.jobs.workloads.catalog import FAMILIES
    from railyard.netemu.schedulers import flow_schedulers
    from railyard.resourcemanager.schedulers import all_recipes
    from railyard.scripts.chaos.plan import GROUPS, KINDS
    from railyard.scripts.commands.bench import benchmark_names, parts_of
    from railyard.scripts.commands.lists.settings import settings_of_recipe
    from railyard.scripts.reproduce.papers import PAPERS, paper
    from railyard.simulator.faults.faultspec import FAULTS
    from railyard.simulator.nodes.behaviour import Behaviour

    recipes = all_recipes()
    jobs = {name: job.summary for name, job in CATALOG.items()}
    jobs["mix,"] = "jobs drawn by the seed"
    families = {
        f"{name}:" if family.file else name: family.about for name, family in FAMILIES.items()
    }
    benchmarks = [each for name in benchmark_names() for each in (name, *parts_of(name))]
    settings = {
        f"{setting.name}=": setting.meaning
        for recipe in recipes.values()
        for setting in settings_of_recipe(recipe)
    }
    figures = {f"figure of {name}": dict.fromkeys(paper(name).figures, "") for name in PAPERS}
    tables = {
        f"{table}.{key}=": "" for table, keys in TABLES.items() if table != "rack" for key in keys
    }
    return {
        "scheduler": {name: recipe.source for name, recipe in sorted(recipes.items())},
        "flow scheduler": dict.fromkeys(sorted(flow_schedulers()), ""),
        "topology": {name: load_topology(name).description for name in topology_names()},
        "network": {f"{short}=": key for short, key in SHORT.items()} | tables,
        "setting": dict(sorted(settings.items())),
        "job": jobs,
        "workload": families | jobs,
        "behaviour": {f"{key}=": text for key, text in meanings(Behaviour).items()},
        "fault": {f"{kind}:": entry.note for kind, entry in FAULTS.entries.items()},
        "kind of fault": dict.fromkeys(GROUPS, "") | KINDS,
        "paper": dict.fromkeys(PAPERS, ""),
        "benchmark": dict.fromkeys(benchmarks, ""),
        **figures,
    }


def _keys() -> dict[str, dict[str, str]]:
    from railyard.cluster.overrides import SHORT
    from railyard.jobs.mixes.mixes import MIX, option_names
    from railyard.jobs.samples.catalog import CATALOG
    from railyard.jobs.workloads.catalog import FAMILIES

    of_jobs = {
        name: {key if key.endswith(".") else f"{key}=": "" for key in option_names(name)}
        for name in (MIX, *CATALOG)
    }
    of_families = {
        name: {f"{key}=": f"default: {default}" for key, _, default in _pairs(family.defaults())}
        for name, family in FAMILIES.items()
    }
    return of_families | of_jobs | {"topology": {f"{short}=": key for short, key in SHORT.items()}}


def _pairs(texts: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    return (text.partition("=") for text in texts)
