"""Files by which Hadoop's clients find the gateway: for HADOOP_CONF_DIR and HDFSCLI_CONFIG."""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

from railyard.cluster.processes.users import user_name


def write_client_files(folder: Path, url: str) -> None:
    """Write core-, yarn- and mapred-site.xml and hdfscli.cfg to a folder, which is made."""
    folder.mkdir(exist_ok=True)
    address = url.removeprefix("http://")
    files = {
        "core-site.xml": _xml({"fs.defaultFS": f"webhdfs://{address}"}),
        "yarn-site.xml": _xml(
            {
                "yarn.resourcemanager.webapp.address": address,
                "yarn.web-proxy.address": address,
            }
        ),
        "mapred-site.xml": _xml({"mapreduce.jobhistory.webapp.address": address}),
        "hdfscli.cfg": f"[global]\ndefault.alias = railyard\n\n[railyard.alias]\nurl = {url}\n"
        f"user = {user_name()}\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def _xml(properties: dict[str, str]) -> str:
    lines = [
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in properties.items()
    ]
    return "\n".join(['<?xml version="1.0"?>', "<configuration>", *lines, "</configuration>", ""])
