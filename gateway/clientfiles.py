"""Files by which Hadoop's clients find the gateway: for HADOOP_CONF_DIR and HDFSCLI_CONFIG."""

from __future__ import annotations

import time
from pathlib import Path
from xml.sax.saxutils import escape

from railyard.cluster.processes.users import user_name
from railyard.gateway.http.access import Access


def write_client_files(folder: Path, url: str, access: Access) -> None:
    """Write core-, yarn- and mapred-site.xml and hdfscli.cfg to a folder, which is made.

    Where a token is needed, HdfsCLI has a delegation token, and the command ``hadoop`` reads the
    file ``token``.  Only their owner can read these files.
    """
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
        "hdfscli.cfg": f"[global]\ndefault.alias = railyard\n\n[railyard.alias]\nurl = {url}\n",
    }
    if access.token:
        issued = access.tokens.issue(user_name(), user_name(), int(time.time() * 1000))
        files["hdfscli.cfg"] += f"client = TokenClient\ntoken = {issued}\n"
        files["token"] = access.token
    else:
        files["hdfscli.cfg"] += f"user = {user_name()}\n"
    for name, text in files.items():
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(text, encoding="utf-8")


def _xml(properties: dict[str, str]) -> str:
    lines = [
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in properties.items()
    ]
    return "\n".join(['<?xml version="1.0"?>', "<configuration>", *lines, "</configuration>", ""])
