"""Whole jobs as a newcomer runs them: what they print, leave and count."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

from railyard.cluster.ids import rack_of
from tests.command_line import ROOT, SMALL, interrupt
from tests.waiting import wait_for


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


# Several jobs at once on one cluster: all verified, all in one summary; nothing is left behind.


def test_jobs_run_together_and_share_their_inputs(railyard, tmp_path):
    said = railyard.ok(
        *("run", "terasort,size=500MB,times=2,user=ann", "wordcount,size=400MB,submit=300ms"),
        *("--topology", SMALL, "--out", tmp_path / "all"),
    )
    assert said.count("verified") == 3
    summary = json.loads((tmp_path / "all" / "summary.json").read_text())
    assert summary["verified"] is True
    jobs = {job["name"]: job for job in summary["jobs"]}
    assert list(jobs) == ["terasort-1", "terasort-2", "wordcount"]
    assert all(job["ok"] for job in jobs.values())
    assert jobs["wordcount"]["input_bytes"] == 400 * 10**6
    together = max(job["submitted_s"] for job in jobs.values())
    assert together < min(job["finished_s"] for job in jobs.values())
    assert jobs["wordcount"]["submitted_s"] - jobs["terasort-1"]["submitted_s"] > 0.2
    events = (tmp_path / "all" / "events.jsonl").read_text().splitlines()
    submitted = [row for row in map(json.loads, events) if row["type"] == "job-submitted"]
    names = Counter(row["name"] for row in submitted)
    assert names["teragen"] == names["terachecksum"] == 1
    assert {row["user"] for row in submitted if row["name"] == "terasort-2"} == {"ann"}
    assert railyard.nothing_left()


def test_skewed_inputs_lie_on_real_disks_as_in_the_simulator(railyard, tmp_path):
    place = tmp_path / "alone.toml"
    place.write_text(SMALL.read_text().replace("[storage]", "[storage]\nreplication = 1"))
    word = "terasort,size=3GB,skew=2"
    asked = ("--topology", place, "--seed", 3)
    railyard.ok("run", word, *asked, "--out", tmp_path / "wall")
    railyard.ok("simulate", "--workload", word, *asked, "--out", tmp_path / "virtual")
    wall, virtual = (_racks_read(tmp_path / clock) for clock in ("wall", "virtual"))
    assert wall == virtual
    counts = [count for _, count in Counter(wall).most_common()]
    assert len(wall) == 12
    assert counts == [9, 2, 1], "3 GB are 12 blocks: 73 %, 18 % and 8 %"
    assert railyard.nothing_left()


def _racks_read(results: Path) -> list[str]:
    """The rack of each block that the terasort in a run reads, in their order."""
    events = map(json.loads, (results / "events.jsonl").read_text().splitlines())
    [job] = [e for e in events if e["type"] == "job-submitted" and e["name"] == "terasort"]
    maps = job["stages"][0]["inputs"]
    return [rack_of(task["nodes"][0]) for task in maps]


def test_an_interrupt_ends_all_jobs(railyard):
    railyard.ok("up", "--topology", SMALL)
    words = ("terasort,size=1GB,times=3", "wordcount,size=2GB,submit=1h")
    running = railyard.start("run", *words)
    wait_for(lambda: "terasort-3" in railyard.ok("status"), 60, "the jobs run")
    status, said = interrupt(running)
    assert status == 130, said
    left = railyard.ok("status")
    railyard.ok("down")
    assert left.count("interrupted by its user") + left.count("failed") >= 3, left
    assert railyard.nothing_left()


def test_a_refused_job_is_reported_and_ends_the_others(railyard):
    words = ("terasort,size=500MB", "wordcount,size=500MB,queue=none")
    done = railyard.run("run", *words, "--topology", SMALL, "--scheduler", "capacity")
    assert done.returncode == 1
    assert 'unknown queue "none"' in done.stderr
    assert railyard.nothing_left()


# A job of several steps on a real cluster: alone and in a mix; ratings that it cannot use.


SMALL_RACKS = Path(__file__).parent / "small.toml"


def test_kmeans_runs_in_iterations_beside_another_job(railyard, tmp_path):
    said = railyard.ok(
        *("run", "kmeans,size=300MB,param.k=4,param.iterations=2,skew=1", "wordcount,size=300MB"),
        *("--topology", SMALL_RACKS, "--out", tmp_path / "both"),
    )
    assert said.count("verified") == 2
    summary = json.loads((tmp_path / "both" / "summary.json").read_text())
    kmeans, wordcount = summary["jobs"]
    assert (kmeans["name"], len(kmeans["steps"])) == ("kmeans", 2)
    assert "steps" not in wordcount
    events = (tmp_path / "both" / "events.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in events]
    submitted = {row["job"]: row for row in rows if row["type"] == "job-submitted"}
    steps = [submitted[step] for step in kmeans["steps"]]
    assert [step["name"] for step in steps] == ["kmeans", "kmeans.2"]
    assert kmeans["submitted_s"] == steps[0]["at_s"] < steps[1]["at_s"] < kmeans["finished_s"]
    committed = {row["job"]: row["at_s"] for row in rows if row["type"] == "job-committed"}
    assert committed[kmeans["steps"][0]] <= steps[1]["at_s"]
    assert committed[kmeans["steps"][1]] == kmeans["finished_s"]
    maps = [len(step["stages"][0]["inputs"]) for step in steps]
    assert kmeans["maps"] == sum(maps)
    assert railyard.nothing_left()


def test_kmeans_of_the_users_ratings_and_of_too_few(railyard, tmp_path):
    rows = [f"{movie}:{movie % 3}_5,{9 + movie % 5}_1\n" for movie in range(200)]
    (tmp_path / "r.txt").write_text("".join(rows))
    (tmp_path / "bad.txt").write_text("".join([*rows[:20], "7:5_9\n", *rows[20:]]))
    (tmp_path / "empty.txt").write_text("")
    run = ("run", "kmeans", "--topology", SMALL_RACKS, "--input")
    for status, file, param, words in (
        (2, "r.txt", "k=201", "k = 201: the ratings are of 200 movies: need at most as many"),
        (2, "r.txt", "iterations=0", "iterations = 0: need 1 to 1000"),
        (1, "bad.txt", "k=3", "bad.txt:21: '7:5_9': need movie:rater_rating,"),
        (1, "empty.txt", "k=3", "empty.txt: is empty: need at least one line of text"),
    ):
        done = railyard.run(*run, file, "--param", param, cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (status, 1), done.stderr
        assert words in done.stderr
    out = ("--get", "out", "--json", "s.json")
    said = railyard.ok(*run, "r.txt", "--param", "k=3", *out, cwd=tmp_path)
    assert "200 movies in 3 clusters, as computed independently" in said
    assert "(kmeans " in said, "the times of the steps"
    written = "".join(part.read_text() for part in (tmp_path / "out").glob("part-*"))
    members = [line.split("\t") for line in written.splitlines() if line[0] != "c"]
    by_genre = {(cluster, int(movie.split(":")[0]) % 3) for cluster, movie in members}
    assert len(by_genre) == 3, "those with a rater of 5 in common"
    [job] = json.loads((tmp_path / "s.json").read_text())["jobs"]
    assert len(job["steps"]) == 3
    assert railyard.nothing_left()


# A join of two inputs on a real cluster, compared with one that shares no code with it.


JOIN = '''
from railyard import Job, Map, Reduce, Stage


class Join(Job):
    """All pairs of an order and a customer with the same number."""

    def stages(self):
        return (
            Stage("o", Map(self.order), inputs=("orders",)),
            Stage("c", Map(self.customer), inputs=("customers",)),
            Stage("r", Reduce(self.pair), reads=("o", "c")),
        )

    def order(self, line):
        number, customer, amount = line.split(",")
        yield customer, ("order", number, amount)

    def customer(self, line):
        customer, name = line.split(",")
        yield customer, ("customer", name)

    def pair(self, customer, rows):
        rows = list(rows)
        for kind, *order in rows:
            for other, *name in rows:
                if kind == "order" and other == "customer":
                    yield customer, ",".join([*order, *name])
'''


def tables(dice):
    """Rows of orders and of customers; some numbers are in one of them only, some several times."""
    customers = [(str(dice.randrange(900)), f"name{at}") for at in range(700)]
    orders = [
        (f"o{at}", str(dice.randrange(900)), str(dice.randrange(10**6))) for at in range(9000)
    ]
    return orders, customers


def nested_loops(orders, customers):
    """The join as the plainest program has it."""
    return Counter(
        f"{customer}\t{number},{amount},{name}"
        for number, customer, amount in orders
        for other, name in customers
        if other == customer
    )


def test_a_join_of_two_inputs(railyard, tmp_path):
    orders, customers = tables(random.Random(11))
    (tmp_path / "join.py").write_text(JOIN)
    for file, rows in {"o1": orders[:4000], "o2": orders[4000:], "c=1": customers}.items():
        (tmp_path / file).write_text("".join(",".join(row) + "\n" for row in rows))
    given = ("--input", "orders=o1", "--input", "orders=o2", "--input", "customers=./c=1")
    # Blocks of 16 kB: orders have many, so both stages have several maps.
    place = tmp_path / "blocks.toml"
    place.write_text(SMALL.read_text().replace("256MB", "16MB"))
    railyard.ok(
        *("run", "./join.py", *given, "--reduces", "3", "--get", "out", "--topology", place),
        cwd=tmp_path,
    )
    parts = sorted((tmp_path / "out").glob("part-*"))
    assert len(parts) == 3
    found = Counter(line for part in parts for line in part.read_text().splitlines())
    assert found == nested_loops(orders, customers)
    assert railyard.nothing_left()


def test_a_join_with_an_input_of_the_cluster(railyard, tmp_path):
    orders, customers = tables(random.Random(12))
    (tmp_path / "join.py").write_text(JOIN)
    files = {"orders": orders, "o1": orders[:4000], "o2": orders[4000:], "customers": customers}
    for file, rows in files.items():
        (tmp_path / file).write_text("".join(",".join(row) + "\n" for row in rows))
    railyard.ok("up", "--topology", SMALL)
    for file in ("customers", "o1"):
        railyard.ok("fs", "put", file, f"/{file}", cwd=tmp_path)
    texts = ("orders=dfs:/o1", "orders=o2", "customers=dfs:/customers")
    given = [word for text in texts for word in ("--input", text)]
    railyard.ok("run", "./join.py", *given, "--get", "out", cwd=tmp_path)
    parts = (tmp_path / "out").glob("part-*")
    found = Counter(line for part in parts for line in part.read_text().splitlines())
    assert found == nested_loops(orders, customers)
    wrong = {
        ("orders=orders",): "reads orders, customers: need --input customers=FILE",
        ("orders",): "reads orders, customers: need --input orders=FILE",
        ("orders=orders", "customer=customers"): 'unknown input of ./join.py "customer"',
        ("orders=orders", "customers"): "others have names: need NAME=customers",
    }
    for texts, words in wrong.items():
        options = [word for text in texts for word in ("--input", text)]
        done = railyard.run("run", "./join.py", *options, cwd=tmp_path)
        assert done.returncode == 2
        assert words in done.stderr, done.stderr
    railyard.ok("down")
    assert railyard.nothing_left()


# The query on a real cluster: its bytes against nested loops, and tables that it cannot read.


def query_tables(dice):
    """Rows of both tables; some pages are ranked twice, and some not at all."""
    rankings = [(f"http://p{dice.randrange(60)}", dice.randrange(100)) for _ in range(50)]
    visits = [
        (
            f"10.0.0.{dice.randrange(40)}",
            f"http://p{dice.randrange(60)}",
            f"{dice.randrange(1975, 2020)}-07-{dice.randrange(1, 31):02}",
            f"{dice.randrange(1000)}.{dice.randrange(10**9):09}",
        )
        for _ in range(6000)
    ]
    return rankings, visits


def query_by_nested_loops(rankings, visits, most):
    """The first rows of the result, as the plainest program has it."""
    revenue, ranks = {}, {}
    for address, visited, day, earned in visits:
        for url, rank in rankings:
            if url == visited and "1980-01-01" <= day <= "2010-01-01":
                revenue[address] = revenue.get(address, Decimal(0)) + Decimal(earned)
                ranks.setdefault(address, []).append(rank)
    best = sorted(revenue, key=lambda address: (-revenue[address], address))[:most]
    return [
        (address, str(revenue[address]), float(sum(ranks[address]) / len(ranks[address])))
        for address in best
    ]


def test_the_query_over_tables_of_the_users(railyard, tmp_path):
    rankings, visits = query_tables(random.Random(5))
    rows = [f"{','.join(row)},Agent,DEU,de-DE,word,1\n" for row in visits]
    (tmp_path / "ranks.csv").write_text("".join(f"{url},{rank},3\n" for url, rank in rankings))
    for name, part in {"v1.csv": rows[:3500], "v2.csv": rows[3500:]}.items():
        (tmp_path / name).write_text("".join(part))
    (tmp_path / "bad.csv").write_text("".join([*rows[:4500], "10.0.0.1,page\n", *rows[4500:]]))
    # Blocks of 64 kB: the visits have several, so lines are counted over more than one.
    place = tmp_path / "blocks.toml"
    place.write_text(SMALL.read_text().replace("256MB", "64MB"))
    railyard.ok("up", "--topology", place)
    given = ("--input", "rankings=ranks.csv", "--input", "uservisits=v1.csv")
    more = ("--input", "uservisits=v2.csv", "--param", "most=7", "--reduces", "3")
    done = railyard.ok("run", "query", *given, *more, "--get", "out", cwd=tmp_path)
    assert "the first 7 of 40 rows, as computed independently" in done
    [part] = (tmp_path / "out").glob("part-*")
    found = [line.split("\t") for line in part.read_text().splitlines()]
    expected = query_by_nested_loops(rankings, visits, 7)
    assert [row[:2] for row in found] == [[address, total] for address, total, _ in expected]
    for (*_, mean), (*_, exact) in zip(found, expected, strict=True):
        assert abs(float(mean) - exact) <= 0.0005001
    # What is in the store already is read by the tasks only: they name the file and the line.
    railyard.ok("fs", "put", "bad.csv", "/bad.csv", cwd=tmp_path)
    done = railyard.run(
        *("run", "query", "--input", "rankings=ranks.csv", "--input", "uservisits=dfs:/bad.csv"),
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert "/bad.csv:4501: 2 columns: need the 9 of uservisits: sourceIP" in done.stderr
    railyard.ok("down")
    assert railyard.nothing_left()
