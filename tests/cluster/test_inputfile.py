"""Input files named by users, and those that would block a reader or exhaust its memory."""

import os

import msgspec
import pytest

from railyard.cluster.errors import UsageError
from railyard.cluster.files.inputfile import read_file, read_json, read_text_file
from railyard.cluster.tomlfile import Rate, build, load_toml


def test_an_ordinary_file_is_read_through_links_too(tmp_path):
    (tmp_path / "it").write_bytes(b"bytes")
    (tmp_path / "link").symlink_to("it")
    assert read_file(tmp_path / "link") == b"bytes"


@pytest.mark.timeout(20)
def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(UsageError, match=r"pipe\.toml: is a pipe or a device: need an ordinary"):
        read_file(tmp_path / "pipe.toml")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/dev/zero", "/dev/zero: is a pipe or a device"),
        ("/", "/: cannot be read: Is a directory"),
        ("/none", "/none: cannot be read: No such file"),
        ("/no\0ne", r"/no.x00ne: cannot be read: embedded null byte"),
        ("/\udcff", r"/.xff: cannot be read: No such file"),
    ],
)
def test_what_is_no_file_is_told_in_a_line(path, why):
    with pytest.raises(UsageError, match=why) as error:
        read_file(path)
    assert str(error.value).isprintable()


def test_a_file_of_a_senseless_size_is_not_read(tmp_path):
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(UsageError, match=r"sparse: has 1.1 TB: need at most 1.07 GB"):
        read_file(tmp_path / "sparse")


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / "it").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="it: is no trace: need text in ASCII"):
        read_text_file(tmp_path / "it", "trace", "ascii")


class Anything(msgspec.Struct):
    a: float = 0.0
    b: dict[str, float] = {}
    rate: Rate | None = None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("a = " + "[" * 10**5 + "]" * 10**5, "nested too deeply", id="lists"),
        pytest.param("a = " + "{a=" * 5000 + "1" + "}" * 5000, "nested too deeply", id="tables"),
        pytest.param("a = " + "9" * 5000, "a number of thousands of digits", id="digits"),
        pytest.param("a = 1" + "0" * 400, "Number out of range", id="more than a float holds"),
        pytest.param("a = inf", "a = inf: need a number of at most", id="infinity"),
        pytest.param("b.c = nan", "b.c = nan: need a number of at most", id="no number"),
    ],
)
def test_a_file_of_toml_that_nothing_can_bear(tmp_path, text, why):
    path = tmp_path / "it.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=why) as error:
        load_toml(path, Anything)
    assert str(error.value).startswith(f"{path}: ")
    assert len(str(error.value)) < len(str(path)) + 200


def test_a_rate_may_be_unlimited_all_the_same():
    assert build({"rate": float("inf")}, Anything, "it").rate == float("inf")


@pytest.mark.parametrize("text", ["[" * 10**5, "{", "9" * 5000])
def test_what_is_no_json(tmp_path, text):
    (tmp_path / "it.json").write_text(text)
    with pytest.raises(UsageError, match=r"it\.json: is no JSON: "):
        read_json(tmp_path / "it.json")
