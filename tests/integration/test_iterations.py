"""A job of several steps on a real cluster: alone and in a mix; ratings that it cannot use."""

import json
from pathlib import Path

SMALL = Path(__file__).parent / "small.toml"


def test_kmeans_runs_in_iterations_beside_another_job(railyard, tmp_path):
    said = railyard.ok(
        *("run", "kmeans,size=300MB,param.k=4,param.iterations=2,skew=1", "wordcount,size=300MB"),
        *("--topology", SMALL, "--out", tmp_path / "both"),
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
    run = ("run", "kmeans", "--topology", SMALL, "--input")
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
