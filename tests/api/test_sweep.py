"""Many runs at once: in order, wherever they are; errors and wrong places are reported."""

import sys

import pytest

from railyard.cluster.errors import UsageError
from railyard.runs.requests import parse_on
from railyard.runs.simulation import sweep


def double(number):
    if number == 13:
        raise UsageError("13: need another number")
    return 2 * number


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_the_order_of_the_runs(workers, capsys):
    assert sweep(double, range(12), workers=workers) == [2 * n for n in range(12)]
    assert capsys.readouterr().err.splitlines()[-1] == "simulated 12 of 12 runs"


def test_a_single_run_needs_no_progress(capsys):
    assert sweep(double, [4]) == [8]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("workers", [1, 2])
def test_what_a_run_raises_comes_through(workers):
    with pytest.raises(UsageError, match="13: need another"):
        sweep(double, [1, 13, 2], workers=workers)


WRONG = {
    "kind": ("dusk:x", 'unknown place for --on "dusk": did you mean "dask"?'),
    "no address": ("dask", "--on dask: need an address, as in dask:tcp://"),
}


@pytest.mark.parametrize(("on", "words"), WRONG.values(), ids=WRONG)
def test_wrong_places(on, words):
    with pytest.raises(UsageError) as refused:
        parse_on(on)
    assert words in str(refused.value)


@pytest.mark.parametrize(("on", "library"), [("dask:tcp://x:1", "distributed"), ("ray:x", "ray")])
def test_a_library_that_is_missing_is_named_in_one_line(on, library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(UsageError, match=r"needs (Dask|Ray): pip install"):
        sweep(double, [1, 2], on=parse_on(on))
