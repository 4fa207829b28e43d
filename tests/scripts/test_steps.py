"""Progress of many like steps, where standard error is no terminal."""

from railyard.scripts.terminal.steps import steps_done


def test_a_line_for_each_tenth(capsys):
    with steps_done("simulating", "simulated", 25, "run") as advance:
        for _ in range(25):
            advance()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 10
    assert (lines[0], lines[-1]) == ("simulated 3 of 25 runs", "simulated 25 of 25 runs")


def test_a_single_step_says_nothing(capsys):
    with steps_done("simulating", "simulated", 1, "run") as advance:
        advance()
    assert capsys.readouterr().err == ""
