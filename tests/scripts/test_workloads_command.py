"""``railyard workloads`` as people type it."""


def test_the_list_names_sources_and_options(railyard):
    said = railyard.ok("workloads")
    for words in (
        "swim:FILE.tsv\n",
        "Chen et al., MASCOTS 2011",
        "corral-w1\n",
        "size_error=0.065",
        "block=256MB",
    ):
        assert words in said


def test_a_workload_is_shown_next_to_what_was_published(railyard):
    said = railyard.ok("workloads", "show", "corral-w3", "--seed", "3")
    [median] = [line for line in said.splitlines() if "input, p50" in line]
    assert median.split()[3:] == ["GB", "7.1", "GB", "Table", "1"]
    assert "missed" not in said


def test_what_is_not_as_published_is_said(railyard):
    said = railyard.ok("workloads", "show", "corral-w2,jobs=100")
    [jobs] = [line for line in said.splitlines() if line.split()[:1] == ["jobs"]]
    assert jobs.split()[:3] == ["jobs", "100", "400"]
    assert "missed; " in jobs


def test_a_wrong_name_is_one_line(railyard):
    done = railyard.run("workloads", "show", "corral-w4")
    assert done.returncode == 2
    assert done.stderr.startswith(
        'railyard: unknown workload "corral-w4": did you mean "corral-w3"'
    )
