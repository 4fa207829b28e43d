"""The options of ``hadoop jar``: what is sent for them, and what is refused."""

from __future__ import annotations

import pytest

from railyard.cluster.errors import UsageError
from railyard.gateway.shell.jaroptions import JarOptions, Shipped

NEEDED = ["-input", "/in", "-output", "/out", "-mapper", "cat"]


def test_options_become_a_request(tmp_path):
    (tmp_path / "job.xml").write_text(
        "<configuration><property><name>a</name><value>file</value></property>"
        "<property><name>b</name><value>file</value></property></configuration>"
    )
    typed = (
        f"-D a=1=2 -Dc=d -jobconf e=f -conf {tmp_path}/job.xml -files x#y,hdfs:///z"
        " -archives a.zip -cacheArchive /lib.zip#lib -file local.py -input /in/{a,b}*,/other"
        " -input /more -output /out"
        " -mapper mapper -combiner c -reducer r -numReduceTasks 3 -cmdenv K=v -partitioner P"
        " -inputformat I -outputformat O -fs webhdfs://h:1 -verbose -background"
    )
    options = JarOptions(typed.split())
    assert options.settings == {"a": "1=2", "b": "file", "c": "d", "e": "f"}
    assert options.inputs == ["/in/{a,b}*", "/other", "/more"]
    assert options.files == [
        Shipped("x#y"),
        Shipped("hdfs:///z"),
        Shipped("a.zip", unpacked=True),
        Shipped("/lib.zip#lib", unpacked=True, stored=True),
        Shipped("local.py"),
    ]
    assert [shipped.name for shipped in options.files] == ["y", "z", "a.zip", "lib", "local.py"]
    assert options.environment == {"K": "v"}
    assert options.background
    assert options.request == {
        "output": "/out",
        "mapper": "mapper",
        "combiner": "c",
        "reducer": "r",
        "reduces": "3",
        "partitioner": "P",
        "input_format": "I",
        "output_format": "O",
    }


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (NEEDED[2:], "Missing required option: input"),
        (NEEDED[:4], "Missing required option: mapper"),
        ([*NEEDED, "-libjars", "x.jar"], "-libjars: not supported: Java classes are not run"),
        ([*NEEDED, "-reducer", "a", "-reducer", "b"], "-reducer b: is given twice: need it once"),
        ([*NEEDED, "-reducer"], "-reducer: need a value"),
        ([*NEEDED, "-D", "novalue"], "-D novalue: need NAME=VALUE"),
        ([*NEEDED, "-cmdenv", "=x"], "-cmdenv =x: need NAME=VALUE"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(words, why):
    with pytest.raises(UsageError) as raised:
        JarOptions(words)
    assert str(raised.value) == why
