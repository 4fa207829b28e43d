"""Kind XI: a program that does not start, and what to do about it."""

from __future__ import annotations

import pytest

from tests.streamed import failing, stored, streamed

ONCE = ["-D", "mapreduce.map.maxattempts=1"]
#: {what the file begins with: what must be said}
SCRIPTS = {
    b"#!/usr/bin/python3\r\nprint(1)\r\n": ("/usr/bin/python3", "CR LF"),
    b"#!/usr/bin/env python3\r\nprint(1)\r\n": ("python3", "CR LF"),
    b"print(1)\n": ("#!",),
    b"\xef\xbb\xbf#!/usr/bin/python3\nprint(1)\n": ("byte order mark", "#!"),
    b"#!/usr/bin/no-such-python\nprint(1)\n": ("/usr/bin/no-such-python",),
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_case_42_a_first_line_that_is_wrong_is_named(hadoop, tmp_path, script):
    (tmp_path / "m.py").write_bytes(script)
    errors = failing(hadoop, b"x\n", *ONCE, "-files", "m.py", "-mapper", "m.py", cwd=tmp_path)
    for word in ("m.py", *SCRIPTS[script]):
        assert word in errors
    if b"no-such" not in script:  # which a node may have
        assert "Running job" not in errors


@pytest.mark.parametrize("script", SCRIPTS)
def test_case_42_of_a_file_of_the_store_the_attempt_says_it(hadoop, script):
    hadoop.run("hadoop", "fs", "-rm", "/scripts/m.py")
    stored(hadoop, script, "/scripts/m.py")
    errors = failing(hadoop, b"x\n", *ONCE, "-files", "hdfs:///scripts/m.py", "-mapper", "m.py")
    for word in ("m.py", *SCRIPTS[script]):
        assert word in errors


def test_case_42_a_file_that_was_not_shipped(hadoop, tmp_path):
    (tmp_path / "m.py").write_text("#!/bin/sh\ncat\n")
    for mapper in ("m.py", "python3 m.py"):
        errors = failing(hadoop, b"x\n", "-mapper", mapper, cwd=tmp_path)
        assert "-files m.py" in errors
        assert "Running job" not in errors
    errors = failing(hadoop, b"x\n", *ONCE, "-mapper", "no-such.py", cwd=tmp_path)
    assert "-files no-such.py" in errors


def test_case_42_a_shipped_file_has_no_folder(hadoop, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "m.py").write_text("#!/bin/sh\ncat\n")
    words = ["-files", "d/m.py", "-mapper"]
    for mapper in ("d/m.py", "sh d/m.py"):
        errors = failing(hadoop, b"x\n", *words, mapper, cwd=tmp_path)
        assert "m.py, in the working folder" in errors
        assert "Running job" not in errors
    assert streamed(hadoop, b"x\n", *words, "m.py", cwd=tmp_path) == b"x\n"
    assert streamed(hadoop, b"x\n", *words, "./m.py", cwd=tmp_path) == b"x\n"
