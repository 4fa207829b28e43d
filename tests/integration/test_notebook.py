"""``examples/study.ipynb``, cell by cell, as a notebook runs it."""

import json
import linecache
import sys
from types import ModuleType

import pytest

from tests.command_line import ROOT

NOTEBOOK = ROOT / "examples" / "study.ipynb"


def cells():
    """The text of each cell of code."""
    made = json.loads(NOTEBOOK.read_text())["cells"]
    return ["".join(cell["source"]) for cell in made if cell["cell_type"] == "code"]


def shown(source, name, names):
    """Run a cell; the value of the expression at its end, which a notebook shows."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    *lines, last = source.splitlines(keepends=True)
    try:
        value = compile(last, name, "eval")
    except SyntaxError:
        exec(compile(source, name, "exec"), names)
        return None
    exec(compile("".join(lines), name, "exec"), names)
    return eval(value, names)


def test_a_study_in_thirty_lines(railyard, monkeypatch, capfd):
    pytest.importorskip("pandas", reason="pip install railyard[pandas]")
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setenv("RAILYARD_HOME", str(railyard.home))
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")  # workers cost more to start than they save
    monkeypatch.chdir(NOTEBOOK.parent)
    sources = cells()
    values = []
    for number, source in enumerate(sources):
        values.append(shown(source, f"<cell {number} of study>", vars(main)))
    assert sum(bool(line.strip()) for source in sources for line in source.splitlines()) <= 30
    _, run, frame, cdf, bars, said = values
    text = " ".join(path.read_text() for path in ROOT.glob("*.md"))
    words = {word.lower() for word in text.split() if len(word) >= 12}
    assert {line.split("\t")[0] for line in main.counted} == words
    assert run.ok
    assert "long_words" in run._repr_html_()
    assert sorted(set(zip(frame.scheduler, frame.clock, strict=True))) == sorted(
        (scheduler, clock)
        for scheduler in ("fair", "delay", "local-shuffle", "shufflewatcher")
        for clock in ("wall", "virtual")
    )
    assert (frame.makespan_s > 0).all()
    assert all(picture._repr_png_().startswith(b"\x89PNG") for picture in (cdf, bars))
    assert len(said) == 6
    assert capfd.readouterr() == ("", "")
    assert railyard.nothing_left()
