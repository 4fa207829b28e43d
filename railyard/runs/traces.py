"""Public traces: fetched from the repositories that publish them, checked against known sums."""

from __future__ import annotations

import hashlib
import os
import tempfile
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import click

from railyard.cluster.errors import UsageError, printable
from railyard.cluster.units import format_size
from railyard.terminal.options import Command

_GITHUB = "https://raw.githubusercontent.com"
_WAIT_S = 60.0
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class PublicTrace:
    """A file that somebody else publishes."""

    name: str  #: where it is kept, below the folder of traces
    url: str
    sha256: str
    about: str


#: Each at a fixed revision with known contents.
TRACES = (
    PublicTrace(
        "coflow-benchmark/FB2010-1Hr-150-0.txt",
        f"{_GITHUB}/coflow/coflow-benchmark/90fc587167b8501ecc42d581577a7d0fc8491c7e"
        "/FB2010-1Hr-150-0.txt",
        "cdd0d94d26c6ab10ce3634cf6a0f836859578e914de6b6faa980a245237dbc6e",
        "526 coflows in one hour on 150 racks, Facebook 2010",
    ),
    PublicTrace(
        "swim/FB-2009_samples_24_times_1hr_0.tsv",
        f"{_GITHUB}/SWIMProjectUCB/SWIM/87d76d4720d6518ccecf29b374a870878c741bc6"
        "/workloadSuite/FB-2009_samples_24_times_1hr_0.tsv",
        "5033ea98faed398b132957e4555c9ba88653d1ffaac470f370b761b79cd44c19",
        "5,894 jobs in 24 hours on 600 machines, Facebook 2009",
    ),
    PublicTrace(
        "swim/FB-2010_samples_24_times_1hr_0.tsv",
        f"{_GITHUB}/SWIMProjectUCB/SWIM/290681f7a299f07eca8fb120fc2d42cc3fef9db1"
        "/workloadSuite/FB-2010_samples_24_times_1hr_0.tsv",
        "65f758ecd0495955de30c560b2d57fc351c9b2c89117b82f16b2f8f30fb4e9d9",
        "24,442 jobs in 24 hours on 3,000 machines, Facebook 2010",
    ),
)


def traces_folder() -> Path:
    """Where traces are put, and looked for."""
    return Path(os.environ.get("RAILYARD_TRACES", "traces"))


@click.command(cls=Command)
@click.option(
    "--into",
    type=click.Path(file_okay=False, path_type=Path),
    default=traces_folder,
    help="The folder of traces. Default: $RAILYARD_TRACES, or traces.",
)
def fetch(into: Path) -> None:
    """Fetch the public traces that workloads and benchmarks read.

    A file that is there already, and whole, is not fetched again.
    """
    for trace in TRACES:
        target = into / trace.name
        if target.is_file() and _sha256(target) == trace.sha256:
            click.echo(f"{printable(str(target))}: is there")
            continue
        _fetch(trace, target)
        click.echo(f"{printable(str(target))}: {format_size(target.stat().st_size)}, {trace.about}")


def _fetch(trace: PublicTrace, target: Path) -> None:
    """Fetch a trace whole or not at all; raises ``UsageError``."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with (
            urllib.request.urlopen(trace.url, timeout=_WAIT_S) as source,
            tempfile.NamedTemporaryFile(dir=target.parent) as partly,
        ):
            while chunk := source.read(_CHUNK_BYTES):
                partly.write(chunk)
            partly.flush()
            found = _sha256(Path(partly.name))
            if found != trace.sha256:
                right = f"need one that ends in {trace.sha256[-12:]}"
                raise UsageError(f"{trace.url}: its SHA-256 ends in {found[-12:]}: {right}")
            Path(partly.name).chmod(0o644)
            if os.path.lexists(target) and not _begins(Path(partly.name), target):
                raise UsageError(f"{target}: is another file than the one published: move it away")
            target.unlink(missing_ok=True)
            target.hardlink_to(partly.name)
    except urllib.error.URLError as error:
        right = f"fetch it by hand and put it at {target}"
        raise UsageError(f"{trace.url}: {error.reason}: {right}") from None
    except OSError as error:
        raise UsageError(f"{target}: {error.strerror or error}") from None


def _begins(whole: Path, part: Path) -> bool:
    """Whether a file is the beginning of another, as a download that was cut short."""
    if part.is_symlink() or not part.is_file():
        return False
    data = part.read_bytes()
    with whole.open("rb") as file:
        return file.read(len(data)) == data


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
