"""Pictures of runs that are out of the ordinary."""


def test_case_46_jobs_of_no_time_are_drawn_without_a_warning(railyard, tmp_path):
    (tmp_path / "s.tsv").write_text("job0\t0\t0\t0\t0\t0\njob1\t1\t1\t0\t0\t0\n")
    words = ("--schedulers", "fair,delay", "--topology", "flat-4x4", "--clock", "virtual")
    workload = f"swim:{tmp_path / 's.tsv'},start=0s"
    done = railyard.run("compare", workload, *words, "--seeds", "2", "--out", tmp_path / "D")
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stdout + done.stderr
    assert (tmp_path / "D" / "plots" / "completion-times.svg").is_file()
