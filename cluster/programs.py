"""Programs as streaming jobs name them: a command's words, and what keeps a file from being run.

Imports nothing but Python's own library: the command ``hadoop`` checks programs by it, too.
"""

from __future__ import annotations

import shlex

#: Bytes of a file's beginning that ``first_line_fault`` looks at.
HEAD_BYTES = 4096
_MARK = b"\xef\xbb\xbf"
_LETTERS_MAX = 200


def command_words(command: str) -> tuple[str, ...]:
    """The words of a command, as Hadoop splits them; ``ValueError`` for a quote without its end.

    A space ends a word, quotes keep words together, and a backslash is a letter like any other.
    Left open there, chosen here: quotes within a word join, as in a shell.
    """
    words = shlex.shlex(command.strip(), posix=True)
    words.whitespace, words.whitespace_split = " ", True
    words.escape = words.commenters = ""
    return tuple(words)


def first_line_fault(name: str, head: bytes) -> str:
    """Why a file that begins so can't be run, and what to do; "" if that is not to be seen."""
    if head.startswith(_MARK + b"#!"):
        return f"{name} begins with a byte order mark, before #!: save it as UTF-8 without one"
    if head.startswith(b"#!"):
        line = head.partition(b"\n")[0]
        if not line.endswith(b"\r"):
            return ""
        right = f"need LF alone: sed -i 's/\\r$//' {name}"
        return f"the first line of {name}, #!{_shown(line)}, ends in CR LF: {right}"
    if b"\0" in head:
        return ""
    right = f"need #!/usr/bin/env python3, say, or a command such as 'python3 {name}'"
    return f"{name} has no first line with #! and its interpreter: {right}"


def interpreter_of(head: bytes) -> str:
    """The program that the first line of a file says; "" if it says none."""
    line = head.partition(b"\n")[0]
    return _shown(line).partition(" ")[0] if line.startswith(b"#!") else ""


def _shown(line: bytes) -> str:
    return line[2:].decode(errors="replace").strip()[:_LETTERS_MAX]
