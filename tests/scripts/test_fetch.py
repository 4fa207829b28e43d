"""Public traces come whole or not at all.  The publisher is a folder here."""

import hashlib

import pytest
from click.testing import CliRunner

from railyard.cluster.errors import UsageError
from railyard.scripts.simulating import fetch as fetching

TEXT = b"1\t2\t3\n"


@pytest.fixture
def published(tmp_path, monkeypatch):
    """The only trace that there is; its file can be changed."""
    source = tmp_path / "published.tsv"
    source.write_bytes(TEXT)
    trace = fetching.PublicTrace(
        "swim/jobs.tsv", source.as_uri(), hashlib.sha256(TEXT).hexdigest(), "3 numbers"
    )
    monkeypatch.setattr(fetching, "TRACES", (trace,))
    return source


def fetch(into):
    result = CliRunner().invoke(fetching.fetch, ["--into", str(into)], catch_exceptions=True)
    if result.exception is not None:
        raise result.exception
    return result.output


def test_a_trace_is_fetched_once(published, tmp_path):
    into = tmp_path / "traces"
    assert "swim/jobs.tsv: 6 B, 3 numbers" in fetch(into)
    assert (into / "swim/jobs.tsv").read_bytes() == TEXT
    published.unlink()
    assert "is there" in fetch(into)
    assert [path.name for path in (into / "swim").iterdir()] == ["jobs.tsv"]


def test_a_trace_that_was_cut_short_is_fetched_again(published, tmp_path):
    target = tmp_path / "traces" / "swim/jobs.tsv"
    target.parent.mkdir(parents=True)
    target.write_bytes(TEXT[:3])
    fetch(tmp_path / "traces")
    assert target.read_bytes() == TEXT


def other_contents(target):
    target.write_bytes(b"1\t2\t4")


def longer(target):
    target.write_bytes(TEXT + b"4\t5\t6\n")


def link(target):
    target.symlink_to("elsewhere")


@pytest.mark.parametrize("make", [other_contents, longer, link])
def test_a_users_own_version_is_not_replaced(published, tmp_path, make):
    target = tmp_path / "traces" / "swim/jobs.tsv"
    target.parent.mkdir(parents=True)
    make(target)
    before = target.lstat()
    with pytest.raises(UsageError, match=r"jobs.tsv: is another file than .*: move it away"):
        fetch(tmp_path / "traces")
    assert target.lstat() == before
    assert [path.name for path in target.parent.iterdir()] == ["jobs.tsv"]


def test_other_contents_than_the_known_ones_are_refused(published, tmp_path):
    published.write_bytes(b"something else")
    with pytest.raises(UsageError, match=r"its SHA-256 ends in .*: need one that ends in"):
        fetch(tmp_path / "traces")
    assert not list((tmp_path / "traces" / "swim").iterdir())


def test_what_can_t_be_reached_is_one_line(published, tmp_path):
    published.unlink()
    with pytest.raises(UsageError, match=r"No such file.*: fetch it by hand and put it at"):
        fetch(tmp_path / "traces")


def test_a_folder_that_can_t_be_made_is_one_line(published, tmp_path):
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "swim").write_text("a file")
    with pytest.raises(UsageError, match=r"swim/jobs.tsv: File exists"):
        fetch(tmp_path / "traces")


def test_sums_and_places_are_reported_for_every_trace():
    for trace in fetching.TRACES:
        assert len(trace.sha256) == 64
        assert trace.url.endswith(trace.name.rpartition("/")[2])
        assert trace.about
