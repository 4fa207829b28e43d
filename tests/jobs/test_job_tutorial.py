"""docs/tutorials/write-a-job.md as a reader follows it: what it shows is what is run here."""

import re
import sys

from tests.command_line import ROOT

PAGE = (ROOT / "docs" / "tutorials" / "write-a-job.md").read_text(encoding="utf-8")


def test_the_job_and_its_tests(tmp_path, monkeypatch):
    files = dict(re.findall(r"^`(\S+)`\n\n```\w+\n(.*?)^```$", PAGE, re.M | re.S))
    assert list(files) == ["weather.py", "test_weather.py"]
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, object] = {}
    try:
        exec(compile(files["test_weather.py"], "test_weather.py", "exec"), names)
        tests = [one for name, one in names.items() if name.startswith("test_") and callable(one)]
        assert len(tests) == 2
        for one in tests:
            one()
        [by_continent] = re.findall(r"```python\n(class ByContinent.*?)```", PAGE, re.S)
        exec(compile(by_continent, "weather.py", "exec"), names)
        job = names["ByContinent"]()
        assert job.partition("oslo", 4) == ord("o") % 4
    finally:
        sys.modules.pop("weather", None)
