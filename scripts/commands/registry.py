"""The list of commands; a command's module is imported when it is asked for."""

from __future__ import annotations

import importlib

import click

from railyard.cluster.errors import unknown_name

#: command -> (module that has it as ``command``, one line of help)
COMMANDS = {
    "run": ("railyard.scripts.commands.run", "Run a job and verify its output."),
    "up": ("railyard.scripts.commands.up", "Start a cluster and leave it running."),
    "down": ("railyard.scripts.commands.down", "Stop the cluster that is up."),
    "status": (
        "railyard.scripts.commands.status",
        "Show the cluster that is up: daemons, slots, jobs, files.",
    ),
    "fs": ("railyard.scripts.commands.fs", "Work with the files of the cluster that is up."),
    "network": (
        "railyard.scripts.commands.network",
        "See and change the links of the cluster that is up.",
    ),
    "schedulers": (
        "railyard.scripts.commands.listings",
        "List the schedulers, and the papers they come from.",
    ),
    "topologies": (
        "railyard.scripts.commands.listings",
        "List the topologies that come with Railyard.",
    ),
    "workloads": (
        "railyard.scripts.commands.workloads",
        "List the workloads of jobs, and what they are like.",
    ),
    "compare": (
        "railyard.scripts.commands.compare",
        "Run the same jobs under several schedulers, and compare.",
    ),
    "simulate": (
        "railyard.scripts.commands.simulate",
        "Run a workload in virtual time: jobs, or coflows alone.",
    ),
    "reproduce": (
        "railyard.scripts.commands.reproduce",
        "Run a paper's experiments again, beside its own numbers.",
    ),
    "replay": (
        "railyard.scripts.commands.replay",
        "Check that a run's events lead to the same once more.",
    ),
    "plan": (
        "railyard.scripts.commands.plan",
        "Plan ahead which racks each job of a workload gets, and when.",
    ),
    "bench": ("railyard.scripts.commands.bench", "Run the benchmarks."),
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
