"""``railyard completion``: scripts that let shells complete commands, options and values.

Finding all words takes all commands and schedulers, a second or two of CPU time.  So they are
cached in a file of the home, until a file of Railyard's or an installed package changes.  Whatever
finds them is imported within functions: a word that is completed from the file does without it.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import click
import msgspec
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    split_arg_string,
)

import railyard
from railyard.terminal.options import Command

#: Kinds whose values are lists with commas, and those of which each is.
_LISTS = {"schedulers": "scheduler", "faults": "fault", "kinds of fault": "kind of fault"}
#: Kinds with KEY=VALUE after the name, for which a file does, too.
_WITH_KEYS = ("job", "workload", "topology")
#: Beside the folder of clusters.
_FILE = "completion.json"

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
#: The variable that asks for completions: "bash_complete".
VARIABLE = "_RAILYARD_COMPLETE"
_NAME = "railyard"
_INSTALL = {
    "bash": "railyard completion bash > ~/.local/share/bash-completion/completions/railyard",
    "zsh": 'railyard completion zsh > "${fpath[1]}/_railyard"',
    "fish": "railyard completion fish > ~/.config/fish/completions/railyard.fish",
}
_AT_ONCE = {
    "bash": 'eval "$(railyard completion bash)"',
    "zsh": 'eval "$(railyard completion zsh)"',
    "fish": "railyard completion fish | source",
}


@dataclass(frozen=True)
class TypedOption:
    """An option of a command."""

    names: tuple[str, ...]
    kind: str  #: of its value; "flag": it has none
    help: str = ""


@dataclass(frozen=True)
class TypedCommand:
    """A command, or a group of them."""

    commands: dict[str, str] = field(default_factory=dict)  #: {name: help}
    options: tuple[TypedOption, ...] = ()
    arguments: tuple[str, ...] = ()  #: kinds of the arguments; the last one's for all further ones


@dataclass(frozen=True)
class Words:
    """All that can be typed."""

    commands: dict[str, TypedCommand]  #: {"fs put": ...}, "" = railyard itself
    values: dict[str, dict[str, str]]  #: {kind: {value: help}}
    keys: dict[str, dict[str, str]]  #: {job, workload or "topology": {"size=": help}}


def complete(words: Words, typed: Iterable[str], incomplete: str) -> list[CompletionItem[str]]:
    """What ``incomplete`` may become, after the words of a command line before it."""
    path, rest = _command(words, typed)
    command = words.commands[path]
    options = {name: option for option in command.options for name in option.names}
    awaited: TypedOption | None = None
    arguments: list[str] = []
    for word in rest:
        option = options.get(word)
        if awaited is not None:
            awaited = None
        elif option is not None and option.kind != "flag":
            awaited = option
        elif not word.startswith("-"):
            arguments.append(word)
    if awaited is not None:
        return list(_values(words, awaited.kind, incomplete, arguments))
    if incomplete.startswith("-"):
        return list(_options(words, options, incomplete, arguments))
    if command.commands:
        return list(_matching(command.commands, incomplete))
    if not command.arguments:
        return []
    kind = command.arguments[min(len(arguments), len(command.arguments) - 1)]
    return list(_values(words, kind, incomplete, arguments))


def _command(words: Words, typed: Iterable[str]) -> tuple[str, list[str]]:
    """(path of the command, the words after it)"""
    path: list[str] = []
    rest: list[str] = []
    for word in typed:
        if not rest and word in words.commands[" ".join(path)].commands:
            path.append(word)
        else:
            rest.append(word)
    return " ".join(path), rest


def _options(
    words: Words, options: dict[str, TypedOption], incomplete: str, arguments: list[str]
) -> Iterator[CompletionItem[str]]:
    name, equals, value = incomplete.partition("=")
    if equals and name in options:
        for item in _values(words, options[name].kind, value, arguments):
            yield CompletionItem(f"{name}={item.value}", item.type, item.help)
        return
    yield from _matching({each: option.help for each, option in options.items()}, incomplete)


def _values(
    words: Words, kind: str, incomplete: str, arguments: list[str]
) -> Iterator[CompletionItem[str]]:
    if kind in ("file", "dir"):
        yield CompletionItem(incomplete, kind)
        return
    if kind.startswith("choice:"):
        yield from _matching(dict.fromkeys(kind[7:].split("|"), ""), incomplete)
        return
    if kind == "figure":
        kind = f"figure of {arguments[0]}" if arguments else ""
    before, comma, last = incomplete.rpartition(",")
    known = words.values.get(_LISTS.get(kind, kind), {})
    if kind in _LISTS:
        yield from _matching(known, last, before + comma)
    elif comma and kind in _WITH_KEYS:
        name = "topology" if kind == "topology" else incomplete.split(",")[0].split(":")[0]
        yield from _matching(words.keys.get(name, {}), last, before + comma)
    else:
        found = list(_matching(known, incomplete))
        yield from found
        if not found and kind in _WITH_KEYS:
            yield CompletionItem(incomplete, "file")


def _matching(
    known: dict[str, str], incomplete: str, before: str = ""
) -> Iterator[CompletionItem[str]]:
    for value, text in known.items():
        if value.startswith(incomplete):
            yield CompletionItem(before + value, help=text or None)


class _Cache(msgspec.Struct, frozen=True):
    of: str  #: what it was made of
    words: Words


def cached_words() -> Words:
    """The words, found anew only if something has changed."""
    from railyard.runs.home import home

    file, of = home() / _FILE, _fingerprint()
    with suppress(OSError, msgspec.MsgspecError):
        if not file.is_symlink() and file.stat().st_uid == os.geteuid():
            cached = msgspec.json.decode(file.read_bytes(), type=_Cache)
            if cached.of == of:
                return cached.words
    words = find_words()
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = file.with_suffix(f".{os.getpid()}")
        new.write_bytes(msgspec.json.encode(_Cache(of, words)))
        new.replace(file)
    return words


def _fingerprint() -> str:
    """Changes with each file of ours, and when a package is installed or removed."""
    digest = hashlib.sha256()
    for part in sorted(Path(railyard.__file__).parent.iterdir()):
        for file in part.rglob("*.[pt][yo]*"):
            if file.suffix in (".py", ".toml"):
                found = file.stat()
                digest.update(f"{file} {found.st_mtime_ns} {found.st_size}\n".encode())
    packages = sysconfig.get_path("purelib")
    digest.update(f"{packages} {Path(packages).stat().st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _typed_commands(
    command: click.Command, path: tuple[str, ...]
) -> Iterator[tuple[str, TypedCommand]]:
    context = click.Context(command, info_name=path[-1] if path else "railyard")
    within: dict[str, str] = {}
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            sub = command.get_command(context, name)
            assert sub is not None
            within[name] = sub.get_short_help_str(70)
            yield from _typed_commands(sub, (*path, name))
    params = command.get_params(context)
    options = tuple(
        TypedOption(tuple(one.opts), _kind(one, path), _line(one))
        for one in params
        if isinstance(one, click.Option)
    )
    arguments = tuple(_kind(one, path) for one in params if isinstance(one, click.Argument))
    yield " ".join(path), TypedCommand(within, options, arguments)


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


@cache
def find_words() -> Words:
    """The words, by asking all commands and lists."""
    from railyard.api.listings import settings_of_recipe
    from railyard.cli.commands.bench import benchmark_names, parts_of
    from railyard.cli.commands.registry import railyard as every_command
    from railyard.cluster.acceptance import meanings
    from railyard.cluster.faults import FAULTS, GROUPS, KINDS
    from railyard.cluster.topology import load_topology, topology_names
    from railyard.cluster.topologyfile import SHORT, TABLES
    from railyard.experiments.papers import PAPERS, paper
    from railyard.jobs.samples.catalog import CATALOG
    from railyard.jobs.workloads.catalog import FAMILIES
    from railyard.jobs.workloads.mixes import MIX, option_names
    from railyard.netemu.schedulers import flow_schedulers
    from railyard.resourcemanager.schedulers import all_recipes
    from railyard.simulator.behaviour import Behaviour

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
    figures = {f"figure of {name}": dict.fromkeys(paper(name).figures(True), "") for name in PAPERS}
    tables = {
        f"{table}.{key}=": "" for table, keys in TABLES.items() if table != "rack" for key in keys
    }
    short = {f"{key}=": full for key, full in SHORT.items()}
    values: dict[str, dict[str, str]] = {
        "scheduler": {name: recipe.source for name, recipe in sorted(recipes.items())},
        "flow scheduler": dict.fromkeys(sorted(flow_schedulers()), ""),
        "topology": {name: load_topology(name).description for name in topology_names()},
        "network": short | tables,
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
    of_jobs = {
        name: {key if key.endswith(".") else f"{key}=": "" for key in option_names(name)}
        for name in (MIX, *CATALOG)
    }
    of_families = {
        name: {
            f"{key}=": f"default: {default}"
            for key, _, default in (text.partition("=") for text in family.defaults())
        }
        for name, family in FAMILIES.items()
    }
    keys = of_families | of_jobs | {"topology": short}
    return Words(dict(_typed_commands(every_command, ())), values, keys)


class _Ours(ShellComplete):
    """Completions from our lists, which are found without importing the commands."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        return complete(cached_words(), args, incomplete)


class _Bash(_Ours, BashComplete):
    """Bash splits words at colons and equals signs; we take the line as it was typed."""

    source_template = """\
%(complete_func)s() {
    local IFS=$'\\n' response completion type value
    response=$(env COMP_TYPED="${COMP_LINE:0:COMP_POINT}" COMP_BREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1")
    for completion in $response; do
        IFS=',' read -r type value <<< "$completion"
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=,:] ]]; then compopt -o nospace; fi
    return 0
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ["COMP_TYPED"]
        words = split_arg_string(line)
        incomplete = "" if not line or line[-1].isspace() else words.pop()
        return words[1:], incomplete

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        found = super().get_completions(args, incomplete)
        breaks = set(os.environ.get("COMP_BREAKS", "")) & set(":=@")
        cached = max((incomplete.rfind(letter) + 1 for letter in breaks), default=0)
        return [CompletionItem(item.value[cached:], type=item.type) for item in found]


class _Zsh(_Ours, ZshComplete):
    """What ends in "=", ":" or a comma goes on: no space follows it."""

    source_template = (
        ZshComplete.source_template.replace(
            "local -a response\n", "local -a response\n    local -a suffix\n"
        )
        .replace(
            """if [[ "$type" == "plain" ]]; then\n""",
            """if [[ "$type" == "plain" ]]; then\n"""
            """            if [[ "$key" == *[=:,] ]]; then suffix=(-S ""); fi\n""",
        )
        .replace(
            "completions_with_descriptions -U", 'completions_with_descriptions "${suffix[@]}" -U'
        )
        .replace("compadd -U", 'compadd "${suffix[@]}" -U')
    )


class _Fish(_Ours, FishComplete):
    """A value may have commas."""

    source_template = FishComplete.source_template.replace(
        'string split ","', 'string split -m 1 ","'
    )


_SHELLS: dict[str, type[_Ours]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(list(_SHELLS)))
def completion(shell: str) -> None:
    """Print the script that lets a shell complete commands, options and their values.

    Its first lines say where to put it.
    """
    cached_words()  # so that the first key is answered at once
    script = _of(shell).source().strip()
    first = "#compdef railyard\n" if shell == "zsh" else ""
    how = (
        f"# Completion of railyard for {shell}.  To install it, once:\n"
        f"#     {_INSTALL[shell]}\n"
        f"# and open a new shell; or only for this one: {_AT_ONCE[shell]}\n"
    )
    click.echo(first + how + re.sub(r"^#compdef.*\n", "", script))


def answer() -> int:
    """Print the completions that the script asks for; returns the exit status."""
    shell, _, asked = os.environ[VARIABLE].partition("_")
    if shell not in _SHELLS or asked != "complete":
        print(f"railyard: {VARIABLE}: need bash_complete, zsh_complete or ...", file=sys.stderr)
        return 2
    click.echo(_of(shell).complete())
    return 0


def _of(shell: str) -> _Ours:
    made: Any = _SHELLS[shell](click.Command(_NAME), {}, _NAME, VARIABLE)
    assert isinstance(made, _Ours)
    return made
