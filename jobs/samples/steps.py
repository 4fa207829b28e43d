"""The steps that plans are made of, and the text that a check reads.

Not here: which steps a sample has (``catalog``).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from railyard.cluster.messages.execution import JobPackage
from railyard.jobs.samples.sample import Files, Request, Step

_READ_BYTES = 2**22


def measured_step(name: str, source: str, request: Request, package: JobPackage) -> Step:
    """The step of the requested job."""
    return Step(
        name=name,
        input=source,
        inputs=request.inputs,
        output=output_of(request),
        reduces=request.reduces,
        pack=lambda _: package,
        measured=True,
    )


def generating_step(
    name: str,
    request: Request,
    package: JobPackage,
    stored_bytes: int,
    folder: str = "input",
    of: str = "",
) -> Step:
    """A step that generates about ``stored_bytes`` of input, skewed if that is asked for.

    ``folder``: its output below the folder of the run, if it is not shared with other runs; ``of``:
    what it makes that of, the output of another such step.
    """
    what = "-".join([name, *map(str, package.params.values()), *([Path(of).name] if of else [])])
    if request.skew is not None:
        what += f"-{request.skew}"
    if request.shared:
        drawn_for, output = what, f"{request.shared}/{what}"
    else:
        drawn_for, output = f"{what} {Path(request.folder).name}", f"{request.folder}/{folder}"
    return Step(
        name=name,
        input=of,
        output=output,
        reduces=1,
        pack=lambda _: package,
        shares=request.skew.shares(request.racks, drawn_for) if request.skew is not None else (),
        generated_bytes=stored_bytes,
    )


def helping_step(name: str, source: str, output: str, package: JobPackage) -> Step:
    """A step that prepares or checks, with one reduce."""
    return Step(name=name, input=source, output=output, reduces=1, pack=lambda _: package)


def output_of(request: Request) -> str:
    """The folder that the requested job writes."""
    return request.output or f"{request.folder}/output"


def text_of(files: Files, source: str) -> Iterator[bytes]:
    """The text of a folder's files, in pieces that end at the end of a line or of a file."""
    for path in files.list(source):
        file, unfinished = files.open(path), b""
        for offset in range(0, file.stored_bytes, _READ_BYTES):
            data = unfinished + bytes(file.read(offset, _READ_BYTES))
            end = data.rfind(b"\n") + 1
            yield data[:end]
            unfinished = data[end:]
        yield unfinished


def lines_of(files: Files, folder: str) -> Iterator[bytes]:
    """The lines of a folder's files, without their ends."""
    for text in text_of(files, folder):
        yield from text.removesuffix(b"\n").split(b"\n") if text else ()


def decoded(text: bytes) -> str:
    """The text, with lone surrogates for bytes that are not UTF-8."""
    return text.decode("utf-8", "surrogateescape")
