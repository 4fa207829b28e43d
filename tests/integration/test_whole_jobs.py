"""Whole jobs as a newcomer runs them: what they print, leave and count."""

import json
import random
import re
from collections import Counter
from typing import Any

from tests.command_line import ROOT, SMALL


def documented_keys() -> set[str]:
    """The keys of every summary in the tables of docs/summary.md, those of two columns."""
    lines = (ROOT / "docs/summary.md").read_text().splitlines()
    rows = [row for row in (line.split("|")[1:-1] for line in lines) if len(row) == 2]
    always = [keys for keys, meaning in rows if not meaning.startswith(" only if")]
    return {key for keys in always for key in re.findall(r"`([^`]+)`", keys)}


def keys_of(summary: dict[str, Any]) -> set[str]:
    """Its keys, as docs/summary.md writes them."""
    within = {f"{table}.{key}" for table in ("fidelity", "machine") for key in summary[table]}
    return set(summary) | within | {f"jobs[].{key}" for key in summary["jobs"][0]}


def test_terasort_lists_every_process(railyard, tmp_path):
    said = railyard.ok("run", "terasort", "--size", "2GB", "--json", tmp_path / "t.json")
    assert "records in order" in said
    assert re.search(r"^machine +load at most [\d.]+ on \d+ CPUs?, ", said, re.M)
    summary = json.loads((tmp_path / "t.json").read_text())
    assert summary["verified"] is True
    assert summary["topology"] == "hybrid-8x4"
    roles = Counter(row["role"] for row in summary["processes"])
    daemons = {"ResourceManager": 1, "NameNode": 1, "NetworkEmulator": 1}
    daemons |= {"NodeManager": 8, "DataNode": 8}
    assert {role: roles[role] for role in daemons} == daemons
    assert documented_keys() <= keys_of(summary)
    assert {k for k in keys_of(summary) if k.startswith(("fidelity.", "machine."))} <= (
        documented_keys()
    )
    assert roles["Attempt"] >= summary["tasks"]["launched"]
    pids = [row["pid"] for row in summary["processes"]]
    assert len(pids) == len(set(pids))
    assert railyard.nothing_left()


def test_terasort_over_tcp_with_keys(railyard):
    said = railyard.ok(
        "run", "terasort", "--size", "500MB", "--topology", SMALL, "--transport", "tcp"
    )
    assert "5000 records in order" in said
    assert railyard.nothing_left()


def test_wordcount_counts_like_a_plain_count(railyard, tmp_path):
    dice = random.Random(7)
    words = ["a", "Straße", "naïve", "x" * 40, "don't", "--", "日本", "\x01odd", "tab"]
    text = "".join(dice.choice(words) + dice.choice(" \n\t \r\n") for _ in range(60_000))
    raw = text.encode() + b"\xff\xfe not utf-8 \x00 and no newline at the end"
    (tmp_path / "text").write_bytes(raw)
    out = tmp_path / "out"
    said = railyard.ok(
        "run", "wordcount", "--input", "text", "--get", "out", "--topology", SMALL, cwd=tmp_path
    )
    lines = [line for part in sorted(out.glob("part-*")) for line in part.read_bytes().split(b"\n")]
    counts = dict(line.rsplit(b"\t", 1) for line in lines if line)
    assert {word: int(n) for word, n in counts.items()} == Counter(raw.split())
    assert "as counted independently" in said


#: The job that the README shows.
LONG_WORDS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[0]


def test_job_from_a_users_file_with_parameters(railyard, tmp_path):
    (tmp_path / "long_words.py").write_text(LONG_WORDS)
    (tmp_path / "corpus.txt").write_text("Elephants never forget\nelephants are LARGE animals\n")
    said = railyard.ok(
        *("run", "./long_words.py", "--input", "corpus.txt", "--param", "min_letters=7"),
        *("--reduces", "2", "--get", "out", "--out", "all", "--topology", SMALL),
        cwd=tmp_path,
    )
    assert "long_words on small" in said
    out = b"".join(part.read_bytes() for part in (tmp_path / "out").glob("part-*"))
    assert sorted(out.decode().splitlines()) == ["animals\t1", "elephants\t2"]
    names = {path.name for path in (tmp_path / "all").iterdir()}
    records = {"summary.json", "events.jsonl", "trace.json", "network.jsonl"}
    records |= {"index.html", "origin.json"}
    assert names == records | {"logs", "attempts"}
    assert json.loads((tmp_path / "all" / "summary.json").read_text())["verified"] is None
    assert json.loads((tmp_path / "all" / "trace.json").read_text())["traceEvents"]


def test_jobs_and_files_of_a_cluster_that_is_up(railyard, tmp_path):
    text = b"to be or not to be\n" * 1000
    (tmp_path / "hamlet.txt").write_bytes(text)
    railyard.ok("up", "--topology", SMALL)
    railyard.ok("fs", "put", "hamlet.txt", "/hamlet.txt", cwd=tmp_path)
    assert railyard.run("fs", "cat", "/hamlet.txt").stdout.encode() == text
    railyard.ok("run", "wordcount", "--input", "dfs:/hamlet.txt", "--output", "/counts")
    counts = "".join(
        railyard.ok("fs", "cat", line.split()[-1])
        for line in railyard.ok("fs", "ls", "/counts").splitlines()
        if "part-" in line
    )
    assert sorted(counts.splitlines()) == ["be\t2000", "not\t1000", "or\t1000", "to\t2000"]
    assert railyard.ok("fs", "ls", "/counts").count("part-") == 1, "a reduce for its one block"
    missing = railyard.run("run", "wordcount", "--input", "dfs:/macbeth.txt")
    assert missing.returncode == 2
    assert "input dfs:/macbeth.txt: " in missing.stderr
    again = railyard.run("run", "wordcount", "--input", "dfs:/hamlet.txt", "--output", "/counts")
    assert again.returncode == 2
    assert "/counts: exists already" in again.stderr

    assert "r" in railyard.ok("fs", "locations", "/hamlet.txt")
    assert "healthy" in railyard.ok("fs", "fsck")
    railyard.ok("fs", "mv", "/hamlet.txt", "/moved.txt")
    assert "18 files" in railyard.ok("fs", "du") or "files" in railyard.ok("fs", "du")
    assert railyard.run("fs", "cat", "/hamlet.txt").returncode == 2
    assert railyard.run("fs", "mkdir", "/a/../b").returncode == 2
    railyard.ok("fs", "mkdir", "/empty")
    railyard.ok("fs", "rm", "-r", "/empty", "/counts")
    railyard.ok("fs", "get", "/moved.txt", "back.txt", cwd=tmp_path)
    assert (tmp_path / "back.txt").read_bytes() == text
    assert "wordcount" in railyard.ok("status")
    railyard.ok("down")
    assert railyard.nothing_left()
