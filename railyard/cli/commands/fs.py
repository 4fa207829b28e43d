"""``railyard fs``: the block store of the cluster that is up, with commands like a shell's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from railyard.cluster.errors import NotDone, Refused, UsageError, printable
from railyard.cluster.units import format_count, format_size
from railyard.dfs.client import DfsClient
from railyard.runs.clusters import running_session
from railyard.runs.files import STANDARD_STREAM, copy_out, store_file, store_of
from railyard.terminal.options import Commands

#: As messages have it; the NameNode knows how many nodes there are.
_REPLICAS_MAX = 65_536


def stored(_: click.Context, __: click.Parameter, value: str | tuple[str, ...]) -> Any:
    """Paths in the block store are text, as the local file system's need not be."""
    for path in (value,) if isinstance(value, str) else value:
        try:
            path.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{path}: need a path that is UTF-8") from None
    return value


@contextmanager
def _store() -> Iterator[DfsClient]:
    with running_session() as session, store_of(session) as store:
        yield store


@click.group(cls=Commands)
def fs() -> None:
    """Work with the files of the cluster that is up; paths start with a slash."""


@fs.command()
@click.argument("path", callback=stored, default="/")
def ls(path: str) -> None:
    """List a folder, or a file: replication, real bytes, path."""
    with _store() as store:
        for entry in store.list(path):
            kind = "-" if entry.folder else str(entry.replication)
            size = "-" if entry.folder else str(entry.stored_length)
            shown = printable(entry.path)
            click.echo(f"{kind:>2} {size:>14}  {shown}{'/' if entry.folder else ''}")


@fs.command()
@click.argument("local", type=click.Path())
@click.argument("path", callback=stored)
@click.option("--overwrite", is_flag=True, help="Replace a file that exists.")
@click.option("--replication", type=click.IntRange(min=1, max=_REPLICAS_MAX), default=None)
def put(local: str, path: str, overwrite: bool, replication: int | None) -> None:
    """Store a local file, or "-": standard input; in PATH if that is a folder."""
    with running_session() as session:
        with store_of(session) as store:
            name = "" if local == STANDARD_STREAM else printable(Path(local).name)
            path = _in_folder(store, path, name)
        status = store_file(session, local, path, overwrite=overwrite, replication=replication or 0)
        size = format_count(status.stored_length, "byte")
        click.echo(f"{printable(status.path)}: {size} in {format_count(status.blocks, 'block')}")


@fs.command()
@click.argument("path", callback=stored)
@click.argument("local", type=click.Path(path_type=Path))
def get(path: str, local: Path) -> None:
    """Fetch a file, or a folder with all its files, to a new local path or into a folder.

    "-" is standard output.
    """
    with _store() as store:
        if str(local) == STANDARD_STREAM:
            _write_out(store, path)
        else:
            copy_out(store, path, local / Path(path).name if local.is_dir() else local)


@fs.command()
@click.argument("paths", callback=stored, nargs=-1, required=True)
def cat(paths: tuple[str, ...]) -> int:
    """Write files to standard output."""
    with _store() as store:
        return _each(paths, lambda path: _write_out(store, path))


@fs.command()
@click.argument("paths", callback=stored, nargs=-1, required=True)
def mkdir(paths: tuple[str, ...]) -> int:
    """Make folders, and the folders above them."""
    with _store() as store:
        return _each(paths, store.mkdir)


@fs.command()
@click.argument("paths", callback=stored, nargs=-1, required=True)
@click.option("-r", "--recursive", is_flag=True, help="Folders with all in them.")
def rm(paths: tuple[str, ...], recursive: bool) -> int:
    """Remove files, and folders."""
    with _store() as store:
        return _each(paths, lambda path: store.remove(path, recursive=recursive))


@fs.command()
@click.argument("source", callback=stored)
@click.argument("target", callback=stored)
def mv(source: str, target: str) -> None:
    """Rename a file or a folder, or move it into TARGET if that is a folder."""
    with _store() as store:
        store.rename(source, _in_folder(store, target, Path(source).name))


@fs.command()
@click.argument("path", callback=stored, default="/")
def du(path: str) -> None:
    """Say how much a folder holds, once and with all replicas."""
    with _store() as store:
        usage = store.usage(path)
        click.echo(
            f"{printable(path)}: {format_count(usage.files, 'file')}, "
            f"{format_count(usage.blocks, 'block')}, {usage.stored_bytes} bytes, "
            f"{usage.stored_disk_bytes} with replicas"
        )


@fs.command()
@click.argument("path", callback=stored, default="/")
def fsck(path: str) -> int:
    """Check that every block has its replicas; exit status 1 if not."""
    with _store() as store:
        report = store.check(path)
    for kind, troubles in (("MISSING", report.missing), ("FEW", report.under_replicated)):
        for block in troubles:
            nodes = ", ".join(block.nodes) or "no node"
            found = f"{len(block.nodes)} of {block.wanted} replicas: {nodes}"
            corrupt = f"; damaged or gone on {', '.join(block.corrupt)}" if block.corrupt else ""
            doubt = f"; being looked at on {', '.join(block.suspect)}" if block.suspect else ""
            shown = printable(block.path)
            click.echo(f"{kind:<8}{shown} block {block.block}: {found}{corrupt}{doubt}")
    lost = f"; nodes lost: {', '.join(report.nodes_lost)}" if report.nodes_lost else ""
    click.echo(
        f"{printable(path)}: {'healthy' if report.healthy else 'NOT HEALTHY'}: "
        f"{format_count(report.files, 'file')}, {format_count(report.blocks, 'block')}, "
        f"{format_count(report.replicas, 'replica')}, "
        f"{format_size(report.stored_bytes)} on {report.nodes_alive} nodes{lost}"
    )
    return 0 if report.healthy else 1


@fs.command()
@click.argument("path", callback=stored)
def locations(path: str) -> None:
    """Show on which nodes each block of a file is."""
    with _store() as store:
        for block in store.locations(path):
            nodes: Any = " ".join(block.nodes) or "LOST"
            click.echo(f"{block.stored_offset:>14} {block.stored_length:>12}  {nodes}")


def _each(paths: Iterable[str], action: Callable[[str], Any]) -> int:
    """Carry out a request for each path, also after one is refused; returns the exit status."""
    status = 0
    for path in paths:
        try:
            action(path)
        except Refused as refused:
            click.echo(f"railyard: {printable(str(refused))}", err=True)
            status = max(status, 1 if isinstance(refused, NotDone) else 2)
    return status


def _in_folder(store: DfsClient, path: str, name: str) -> str:
    """``path``, or that of ``name`` in it if it is a folder, as a shell's commands take it."""
    if not (name and store.exists(path) and store.status(path).folder):
        return path
    return f"{path.rstrip('/')}/{name}"


def _write_out(store: DfsClient, path: str) -> None:
    for piece in store.read(path):
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
