"""``railyard``: finds the command, and turns whatever goes wrong into words and an exit status.

0 done and verified; 1 the job or the cluster failed; 2 the command was wrong, one line says how;
130 Ctrl-C.  A command's module is imported when it is asked for: ``railyard --help`` needs none.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import NoReturn

import click

from cluster.errors import RailyardError, UsageError, unknown_name
from scripts.interrupts import Interrupted, install

#: command -> (module that has it as ``command``, one line of help)
COMMANDS = {
    "run": ("scripts.run", "Run a job and verify its output."),
    "up": ("scripts.up", "Start a cluster and leave it running."),
    "down": ("scripts.down", "Stop the cluster that is up."),
    "status": ("scripts.status", "Show the cluster that is up: daemons, slots, jobs, files."),
    "fs": ("scripts.fs", "Work with the files of the cluster that is up."),
    "schedulers": ("scripts.listings", "List the schedulers, and the papers they come from."),
    "topologies": ("scripts.listings", "List the topologies that come with Railyard."),
    "bench": ("scripts.bench", "Run the benchmarks."),
}


class CommandList(click.Group):
    """The commands, each imported when it is used."""

    def list_commands(self, _: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            raise unknown_name("command", name, COMMANDS)
        command = getattr(importlib.import_module(COMMANDS[name][0]), name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.command(
    cls=CommandList,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="railyard", message="railyard %(version)s")
@click.pass_context
def railyard(context: click.Context) -> None:
    """A data centre that fits in a laptop.

    Real MapReduce jobs, in real processes, under network-aware schedulers, over an emulated
    network.  Start with: railyard run terasort
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main() -> NoReturn:
    """Entry point of ``railyard``."""
    install()
    try:
        status = railyard.main(prog_name="railyard", standalone_mode=False)
        sys.stdout.flush()
    except click.UsageError as error:
        _end(2, _in_one_line(error))
    except UsageError as error:
        _end(2, str(error))
    except click.Abort:
        _end(130, "interrupted")
    except Interrupted as interrupt:
        _end(128 + interrupt.number, f"interrupted ({interrupt})")
    except BrokenPipeError:  # as in "railyard fs cat ... | head"
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except RailyardError as error:
        _end(1, str(error))
    sys.exit(status if isinstance(status, int) else 0)


def _end(status: int, words: str) -> NoReturn:
    print(f"railyard: {words}", file=sys.stderr)
    sys.exit(status)


def _in_one_line(error: click.UsageError) -> str:
    """click's message with the command it is about, and the nearest right option."""
    where = error.ctx.command_path if error.ctx else "railyard"
    where = where.removeprefix("railyard").strip()
    if isinstance(error, click.NoSuchOption):
        known = [] if error.ctx is None else error.ctx.command.params
        names = [name for option in known for name in option.opts if name.startswith("--")]
        words = str(unknown_name("option", error.option_name, [*names, "--help"]))
    else:
        words = " ".join(error.format_message().split())
        words = words[:1].lower() + words[1:]
    return f"{where}: {words}" if where else words


if __name__ == "__main__":
    main()
