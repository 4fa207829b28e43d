"""Kind VI: configuration files are XML, with all that XML has."""

from __future__ import annotations

import pytest

from tests.streamed import failing, streamed, submitted


def conf(tmp_path, text):
    (tmp_path / "c.xml").write_text(f"<?xml version='1.0'?>\n{text}")
    return ["-conf", tmp_path / "c.xml"]


def parts(hadoop, at):
    listed, _ = hadoop.ok("hadoop", "fs", "-ls", "-C", f"{at}/out/part-*")
    return len(listed.splitlines())


def test_case_28_what_is_in_a_comment_is_not_set(hadoop, tmp_path):
    words = conf(
        tmp_path,
        "<configuration><!-- <property><name>mapreduce.job.reduces</name><value>3</value>"
        "</property> --></configuration>",
    )
    at, status, errors = submitted(hadoop, b"x\n", *words, "-mapper", "cat", "-reducer", "cat")
    assert status == 0, errors
    assert parts(hadoop, at) == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<property><value>v</value><name>my.key</name></property>", b"v"),
        ("<property><name> my.key </name><value><![CDATA[<v&>]]></value></property>", b"<v&>"),
        ("<property><name>my.key</name><value>a&amp;b &#x6771;</value></property>", "a&b 東"),
        ('<property name="my.key" value="v"/>', b"v"),
        (
            "<property><name>my.key</name><value>v</value><final>true</final></property>"
            "<property><name>my.key</name><value>w</value></property>",
            b"v",
        ),
        (
            "<property><name>my.key</name><value>${my.other}-${no.such}-${user.name}</value>"
            "</property><property><name>my.other</name><value>v</value></property>",
            b"v-${no.such}-ann",
        ),
        (
            "<property><name>my.key</name><!-- c --><value>v</value></property>"
            "<property><name>my.key</name></property>",
            b"v",
        ),
    ],
)
def test_case_28_a_value_is_what_xml_says(hadoop, tmp_path, text, value):
    words = conf(tmp_path, f"<configuration>{text}</configuration>")
    out = streamed(hadoop, b"x\n", *words, "-mapper", "printenv my_key")
    assert out.rstrip(b"\n") == (value if isinstance(value, bytes) else value.encode())


@pytest.mark.parametrize(
    "text",
    [
        "no XML",
        "<configuration><property></configuration>",
        "<other/>",
        '<configuration xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="x"/>'
        "</configuration>",
        '<!DOCTYPE c [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><configuration>&b;</configuration>',
        '<!DOCTYPE c [<!ENTITY a SYSTEM "/etc/passwd">]><configuration>&a;</configuration>',
    ],
)
def test_case_28_what_is_no_configuration_is_said_in_a_line(hadoop, tmp_path, text):
    errors = failing(hadoop, b"x\n", *conf(tmp_path, text), "-mapper", "cat")
    assert "c.xml: " in errors
    assert len(errors.splitlines()) == 2  # the last one is "Streaming Command Failed!"


def test_case_29_a_default_in_a_comment_is_none(hadoop, tmp_path):
    hadoop.put(b"x\n", "/seen")
    address = hadoop.url.removeprefix("http://")
    one = "<property><name>fs.defaultFS</name><value>webhdfs://{}</value></property>"
    (tmp_path / "core-site.xml").write_text(
        f"<configuration><!-- {one.format('127.0.0.1:1')} -->{one.format(address)}</configuration>"
    )
    out, _ = hadoop.ok("hadoop", "--config", tmp_path, "fs", "-cat", "/seen")
    assert out == b"x\n"
    before = hadoop.environment
    hadoop.environment = before | {"HADOOP_CONF_DIR": str(tmp_path)}
    try:
        assert hadoop.get("/seen") == b"x\n"
    finally:
        hadoop.environment = before
