"""``railyard completion``: the script that lets a shell complete commands, options and values."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    split_arg_string,
)

from railyard.scripts.terminal.request import Command

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


class _Ours(ShellComplete):
    """Completions from our lists, which are found without importing the commands."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        from railyard.scripts.commands.lists.words import kept_words
        from railyard.scripts.terminal.completion import complete

        return [
            CompletionItem(item.value, type=item.type, help=item.help or None)
            for item in complete(kept_words(), args, incomplete)
        ]


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
        kept = max((incomplete.rfind(letter) + 1 for letter in breaks), default=0)
        return [CompletionItem(item.value[kept:], type=item.type) for item in found]


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
    from railyard.scripts.commands.lists.words import kept_words

    kept_words()  # so that the first key is answered at once
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
