"""The list of commands; a command's module is imported when it is asked for."""

from __future__ import annotations

import importlib

import click

from railyard.cluster.errors import unknown_name

#: command -> (module below ``commands`` that has it, one line of help)
COMMANDS = {
    "run": ("runs", "Run a job and verify its output."),
    "up": ("runs", "Start a cluster and leave it running."),
    "down": ("cluster", "Stop the cluster that is up."),
    "status": ("status", "Show the cluster that is up: daemons, slots, jobs, files."),
    "logs": ("cluster", "Show what jobs' attempts and the daemons have written."),
    "kill": ("cluster", "End jobs of the cluster that is up."),
    "fs": ("fs", "Work with the files of the cluster that is up."),
    "network": ("status", "See and change the links of the cluster that is up."),
    "nodes": ("status", "See the nodes of the cluster that is up, and drain some."),
    "slots": ("status", "See and change the slots of the cluster that is up."),
    "schedulers": ("listings", "List the schedulers, and the papers they come from."),
    "topologies": ("listings", "List the topologies that come with Railyard."),
    "workloads": ("listings", "List the workloads of jobs, and what they are like."),
    "compare": ("runs", "Run the same jobs under several schedulers, and compare."),
    "simulate": ("runs", "Run a workload in virtual time: jobs, or coflows alone."),
    "reproduce": ("runs", "Run a paper's experiments again, beside its own numbers."),
    "validation": ("runs", "Set published numbers beside recorded ones of ours."),
    "replay": ("history", "Check that a run's events lead to the same once more."),
    "explain": ("history", "Say why a task, job, flow or file of a run went where it did."),
    "view": ("history", "Show a finished run in the browser, at any time of it."),
    "plan": ("plan", "Plan ahead which racks each job of a workload gets, and when."),
    "completion": ("completion", "Let a shell complete commands, options and values."),
    "chaos": ("runs", "Run a job while things fail by seed, and compare its output."),
    "bench": ("bench", "Run the benchmarks."),
}


class CommandList(click.Group):
    """The commands, each imported when it is used."""

    def list_commands(self, _: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            raise unknown_name("command", name, COMMANDS)
        module = importlib.import_module(f"railyard.cli.commands.{COMMANDS[name][0]}")
        command = getattr(module, name)
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
