"""The examples: each job in this process and on a cluster, and the homework in virtual time."""

import re
from collections import Counter, defaultdict

import pytest

from railyard.jobs.local import run_locally
from railyard.jobs.package import load_job, pack_file
from tests.command_line import ROOT, SMALL

EXAMPLES = ROOT / "examples"
DATA = EXAMPLES / "data"
#: {example: {name of an input, "" if it has no name: its file}}
INPUTS = {
    "inverted_index": {"": "documents.txt"},
    "join": {"orders": "orders.csv", "customers": "customers.csv"},
    "page_rank": {"": "links.txt"},
}


def lines_of(example: str, reduces: int = 2, **params: str) -> list[str]:
    """Sorted lines of an example's output, run in this process in splits of 64 bytes."""
    inputs = INPUTS[example]
    job = load_job(pack_file(EXAMPLES / f"{example}.py", params=params))
    files = {file: (DATA / file).read_bytes() for file in inputs.values()}
    named = {name: [file] for name, file in inputs.items() if name}
    run = run_locally(job, files, reduces, split_bytes=64, inputs=named)
    return sorted(line for part in run.outputs.popitem()[1] for line in part.decode().splitlines())


def test_every_example_is_tested():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(INPUTS)
    assert {path.name for path in DATA.iterdir()} == {
        file for files in INPUTS.values() for file in files.values()
    }


def test_inverted_index():
    documents = [line.split("\t") for line in (DATA / "documents.txt").read_text().splitlines()]
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    for title, text in documents:
        for word in re.findall(r"\w{3,}", text.lower()):
            counted[word][title] += 1
    assert lines_of("inverted_index") == sorted(
        f"{word}\t"
        + " ".join(f"{t}:{n}" for t, n in sorted(c.items(), key=lambda i: (-i[1], i[0])))
        for word, c in counted.items()
    )
    assert not any(line.startswith("has\t") for line in lines_of("inverted_index", min_letters="4"))


def test_join():
    joined = ["c1 Ada\to1\t12.50", "c1 Ada\to3\t99.90", "c2 Grace\to2\t3.00", "c3 Edsger\t-\t0.00"]
    assert lines_of("join") == joined
    assert lines_of("join", outer="false") == [line for line in joined if "Edsger" not in line]


@pytest.mark.parametrize("rounds", [1, 3, 20])
def test_page_rank(rounds):
    links = {
        page: targets
        for page, *targets in map(str.split, (DATA / "links.txt").read_text().splitlines())
    }
    ranks = dict.fromkeys(links, 1.0)
    for _ in range(rounds):
        ranks = {
            page: 0.15 + 0.85 * sum(ranks[o] / len(to) for o, to in links.items() if page in to)
            for page in ranks
        }
    found = dict(line.split("\t") for line in lines_of("page_rank", rounds=str(rounds)))
    assert {page: float(rank) for page, rank in found.items()} == pytest.approx(ranks, abs=1e-6)


def test_rounds_run_on_a_cluster_as_they_do_here(railyard, tmp_path):
    given = ("--input", DATA / "links.txt", "--get", tmp_path / "ranks")
    railyard.ok("run", EXAMPLES / "page_rank.py", *given, "--topology", SMALL, "--reduces", "2")
    parts = sorted((tmp_path / "ranks").glob("part-*"))
    found = sorted(line for part in parts for line in part.read_text().splitlines())
    assert found == lines_of("page_rank")
    assert railyard.nothing_left()


def test_the_homework_as_its_sheet_says(railyard):
    sheet = (EXAMPLES / "homework" / "README.md").read_text()
    [line] = re.findall(r"^    scripts/(compare .*) --out homework-out$", sheet, re.M)
    assert "--seeds 10" in line
    printed = railyard.ok(*line.replace("--seeds 10", "--seeds 2").split(), cwd=ROOT)
    assert "against capacity" in printed
    for scheduler in ("fair", "delay"):  # each is measured against the first one
        assert re.search(rf"^{scheduler} +makespan .* to ", printed, re.M)
