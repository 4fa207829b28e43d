"""Entry point of ``railyard``: turns errors into a message and an exit status.

Which status there is for which failure is in ``exitstatus``.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import TYPE_CHECKING, NoReturn

from railyard.terminal import interrupts

if TYPE_CHECKING:
    import click


#: Errors repeat the user's input; longer lines are cut.
_LETTERS_MAX = 2000
#: Set by a shell that asks what completes a word.
_COMPLETION = "_RAILYARD_COMPLETE"
_SIGNAL = 128  # ``Status.SIGNAL``, which may not be imported yet when a signal comes


def main() -> NoReturn:
    """Run the command that the process was started with."""
    interrupts.install()
    try:
        status = run()
    except interrupts.Interrupted as interrupt:
        status = _say(_SIGNAL + interrupt.number, f"interrupted ({interrupt})")
    interrupts.ignore()
    sys.exit(status)


def run() -> int:
    """Run the command in ``sys.argv``; returns its exit status.  Handles no interrupts."""
    # Imported here, where interrupts are handled already.
    if _COMPLETION in os.environ:
        from railyard.cli.commands.completion import answer

        return answer()
    import click

    from railyard.cli.commands.registry import railyard
    from railyard.cli.exitstatus import Status

    try:
        status = railyard.main(prog_name="railyard", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:  # as of "railyard fs"
        click.echo(error.format_message(), err=True)
        return Status.USAGE
    except BrokenPipeError:  # as in "railyard fs cat ... | head"
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Status.FAILED
    except Exception as error:
        return _report(error)
    return status if isinstance(status, int) else Status.OK


def _report(error: Exception) -> int:
    """Print what went wrong; returns the exit status.  Our own mistakes get a traceback."""
    import click

    from railyard.cli.exitstatus import Status, status_of
    from railyard.cluster.errors import RailyardError, UsageError, printable, printable_lines
    from railyard.cluster.machine import exhausted

    if isinstance(error, click.UsageError):
        return _say(Status.USAGE, printable(_in_one_line(error), _LETTERS_MAX))
    status = status_of(error)
    if isinstance(error, UsageError):
        return _say(status, printable(str(error), _LETTERS_MAX))
    if isinstance(error, RailyardError):
        return _say(status, printable_lines(str(error)))
    if words := exhausted(error):
        return _say(status, printable(words, _LETTERS_MAX))
    traceback.print_exception(error)  # see docs/decisions/processes.md
    return status


def _say(status: int, words: str) -> int:
    print(f"railyard: {words}", file=sys.stderr)
    return status


def _in_one_line(error: click.UsageError) -> str:
    """click's message with the command it is about, and the nearest right option."""
    import click

    from railyard.cluster.errors import unknown_name

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
