"""Shipping jobs as text: they arrive as sent, and mistakes are reported with their line."""

from __future__ import annotations

import re
import sys
import traceback
from pathlib import Path
from textwrap import dedent

import pytest

from railyard import Job
from railyard.cluster.errors import UsageError
from railyard.cluster.ids import JobId
from railyard.cluster.messages import JobPackage, LoadJob
from railyard.cluster.messaging.wire import Vocabulary, pack, unpack
from railyard.jobs.local import run_locally
from railyard.jobs.package import load_job, pack_file, pack_job
from railyard.jobs.samples.terasort import TeraSort
from tests.command_line import ROOT

JOB = '''
    """Zählt Wörter."""
    from __future__ import annotations
    from railyard import Job

    class LongWords(Job):
        """Counts the words of at least `min_letters` letters: ä, ß, 語."""
        min_letters: int = 8
        sign: str = "語"
        ratio: float = 0.5
        loud: bool = False
        mark: bytes = b"\\x00\\xff"
        marks: list[bytes] = []

        def map(self, line: str):
            for word in line.split():
                if len(word) >= self.min_letters:
                    yield word + self.sign, 1

        def reduce(self, word, counts):
            yield word, sum(counts)

        combine = reduce
'''

FUNCTIONS = """
    min_letters: int = 3

    def map(line):
        for word in line.split():
            if len(word) >= min_letters:
                yield word, 1

    def reduce(word, counts):
        yield word, sum(counts)

    combine = reduce
"""


@pytest.fixture
def write(tmp_path):
    def write_file(text: str, name: str = "my_job.py") -> Path:
        file = tmp_path / name
        file.write_text(dedent(text), encoding="utf-8")
        return file

    return write_file


def over_the_wire(package: JobPackage) -> JobPackage:
    header = pack(LoadJob(job=JobId("j0"), package=package))
    _, message = unpack(header, Vocabulary([LoadJob]))
    assert isinstance(message, LoadJob)
    return message.package


def test_a_package_brings_code_and_parameters_of_every_type(write):
    params = {
        "min_letters": 4,
        "sign": "ö\n",
        "ratio": 1.5,
        "loud": True,
        "mark": b"\x00\xfe",
        "marks": [b"", b"\xff"],
    }
    file = write(JOB)
    package = over_the_wire(pack_file(file, params=params))
    file.unlink()  # the other side does not have it
    job = load_job(package)
    assert {name: getattr(job, name) for name in params} == params
    run = run_locally(job, {"/in": "Straße ist Straße 語語語語".encode()})
    assert run.outputs["r"] == ["Straßeö\n\t2\n語語語語ö\n\t1\n".encode()]


def test_defaults_are_shipped_as_they_are_at_submission(write):
    package = pack_file(write(JOB))
    assert package.job_class == "LongWords"
    assert package.params["min_letters"] == 8
    assert package.params["mark"] == b"\x00\xff"


def test_functions_do_as_well_as_a_class(write):
    job = load_job(over_the_wire(pack_file(write(FUNCTIONS), params={"min_letters": "5"})))
    run = run_locally(job, {"/in": b"three words there\nthree"}, split_bytes=6)
    assert run.outputs["r"] == [b"there\t1\nthree\t2\nwords\t1\n"]


def test_two_packages_of_one_module_keep_their_own_parameters(write):
    file = write(FUNCTIONS)
    few, many = (load_job(pack_file(file, params={"min_letters": n})) for n in (1, 6))
    assert run_locally(few, {"/in": b"one"}).outputs["r"] == [b"one\t1\n"]
    assert run_locally(many, {"/in": b"one"}).outputs["r"] == [b""]


def test_a_job_of_railyard_travels_by_name():
    package = over_the_wire(pack_job(TeraSort, {"cuts": [b"0123456789"]}))
    assert (package.module, package.source) == ("railyard.jobs.samples.terasort", b"")
    assert load_job(package).cuts == [b"0123456789"]


@pytest.mark.parametrize("module", ["os", "jobs.nothing", "jobsy", "railyard.jobs.formats"])
def test_a_package_cannot_name_any_other_module(module):
    package = JobPackage(module=module, file_name="", source=b"", job_class="X", params={})
    with pytest.raises(UsageError):
        load_job(package)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1\ndef map(line:\n    pass\n", r"my_job.py:2: .*never closed: def map\(line:"),
        ("x = 1\n\nprint(y)\n", r"my_job.py:3: NameError: name 'y' is not defined"),
        ("import nowhere_to_be_found\n", r"my_job.py:1: ModuleNotFoundError.*not beside the job"),
        ("x = 1\n", r"my_job.py: has no job: need a class derived from railyard.Job, or functions"),
        ("\0", r"my_job.py.*null bytes"),
        (
            "from railyard import Job\nclass A(Job):\n    pass\n",
            r"A: has no map: need map\(record\), or stages",
        ),
        (
            "from railyard import Job\nclass A(Job): pass\nclass B(Job): pass\n",
            r"my_job.py: has 2 jobs: choose one of A, B",
        ),
        ("import sys\nsys.exit(0)\n", r"my_job.py:2: SystemExit: 0"),
        ("raise ValueError('a' * 10**6)", r"my_job.py:1: ValueError: a{300}\.\.\. "),
        (
            "def setup():\n    raise RuntimeError('no\\nway')\ndef map(line): pass\n",
            r"my_job.py:2: RuntimeError: no$",
        ),
        (
            "from railyard import Job\nclass A(Job):\n    def stages(self): return self.x\n",
            r"my_job.py:3: AttributeError: .* no attribute 'x'",
        ),
        (
            "from railyard import Job\nclass A(Job):\n    def stages(self): return 5\n",
            r"my_job.py: TypeError: .*int",
        ),
    ],
    ids=[
        "syntax",
        "name",
        "import",
        "no job",
        "null",
        "no map",
        "two jobs",
        "exit",
        "long error",
        "setup",
        "stages",
        "no stages",
    ],
)
def test_a_wrong_file_is_reported_in_one_line(write, source, message):
    with pytest.raises(UsageError, match=message) as error:
        pack_file(write(source))
    assert "\n" not in str(error.value)


def test_a_file_that_is_missing_or_no_text_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"none.py: cannot be read: No such file"):
        pack_file(tmp_path / "none.py")
    odd = tmp_path / "odd.py"
    odd.write_bytes(b"x = '\xff\xfe'\n")
    with pytest.raises(UsageError, match=r"odd.py"):
        pack_file(odd)


def test_a_class_is_chosen_by_its_name(write):
    file = write(
        """
        from railyard import Job
        class Base(Job):
            def map(self, line):
                yield line, None
        class Loud(Base):
            def map(self, line):
                yield line.upper(), None
        """
    )
    job = load_job(pack_file(file, "Loud"))
    assert run_locally(job, {"/in": b"ab\n"}).outputs["m"] == [b"AB\n"]
    with pytest.raises(UsageError, match=r'unknown job in .*my_job.py "Lout": did you mean "Loud"'):
        pack_file(file, "Lout")


def test_an_error_in_users_code_shows_their_file_and_line(write):
    file = write(
        """
        from railyard import Job
        class Broken(Job):
            def map(self, line):
                yield line, 1 / int(line)
        """
    )
    package = pack_file(file)
    file.unlink()
    with pytest.raises(ZeroDivisionError) as error:
        run_locally(load_job(package), {"/in": b"1\n0\n"})
    shown = "".join(traceback.format_exception(error.value))
    assert f'File "{file}", line 5, in map' in shown
    assert "yield line, 1 / int(line)" in shown


def test_a_failed_module_is_forgotten(write):
    before = set(sys.modules)
    with pytest.raises(UsageError):
        pack_file(write("1 / 0\n"))
    assert set(sys.modules) == before


def test_an_error_without_a_message_is_reported_too(tmp_path):
    file = tmp_path / "mute.py"
    file.write_text("class Mute(Exception):\n def __str__(self): raise self\nraise Mute()")
    with pytest.raises(UsageError, match=r"mute.py:3: Mute: \(what it says cannot be shown\)"):
        pack_file(file)


def test_modules_and_packages_beside_a_job_are_shipped(write, tmp_path):
    (tmp_path / "words" / "inner").mkdir(parents=True)
    write("from .inner.loud import loud\n", "words/__init__.py")
    write("def loud(word):\n    return word.upper()\n", "words/inner/loud.py")  # no __init__.py
    write("BY_NAME = 1\n", "words/found_by_name.py")
    write("import suffixes\ndef ended(word):\n    return word + suffixes.END\n", "endings.py")
    write("END = '!'\n", "suffixes.py")
    write("raise RuntimeError('nobody imports this')\n", "other.py")
    write("raise RuntimeError('the standard library comes first')\n", "random.py")
    file = write(
        """
        import importlib, random
        from railyard import Job
        from words import loud
        class Own(Job):
            def map(self, line):
                import endings
                by_name = importlib.import_module("words.found_by_name")
                yield endings.ended(loud(line)), by_name.BY_NAME
        """
    )
    package = over_the_wire(pack_file(file))
    assert sorted(package.modules) == [
        "endings.py",
        "suffixes.py",
        "words/__init__.py",
        "words/found_by_name.py",
        "words/inner/loud.py",
    ]
    for path in sorted(tmp_path.rglob("*.py")):
        path.unlink()  # the other side does not have them
    assert run_locally(load_job(package), {"/in": b"ab\n"}).outputs["m"] == [b"AB!\t1\n"]


def test_two_jobs_have_modules_of_one_name(write, tmp_path):
    packages = []
    for sign in "12":
        (tmp_path / sign).mkdir()
        write(f"SIGN = {sign}\n", f"{sign}/sign.py")
        text = "def map(line):\n    import sign\n    yield sign.SIGN, line\n"
        packages.append(pack_file(write(text, f"{sign}/job.py")))
    for sign, package in zip("12", packages, strict=True):
        run = run_locally(load_job(package), {"/in": b"a\n"})
        assert run.outputs["m"] == [f"{sign}\ta\n".encode()]
    load_job(pack_file(write(FUNCTIONS)))
    assert "sign" not in sys.modules


@pytest.mark.parametrize(
    ("helper", "message"),
    [
        ("def f(:\n", r"helper.py:1: .*: def f\(:$"),
        ("x = 1\ny = x.z\n", r"helper.py:2: AttributeError: .*'z'$"),
        ("import nowhere\n", r"helper.py:1: ModuleNotFoundError: .* \(it is not installed, and"),
    ],
    ids=["syntax", "error", "import"],
)
def test_a_mistake_in_a_module_beside_a_job_is_shown_there(write, helper, message):
    write(helper, "helper.py")
    with pytest.raises(UsageError, match=message) as error:
        pack_file(write("import helper\ndef map(line): pass\n"))
    assert "\n" not in str(error.value)


def test_a_module_beside_a_job_cannot_stand_in_for_one_that_railyard_uses(write):
    write("", "msgspec.py")
    with pytest.raises(UsageError, match=r"msgspec.py: msgspec is imported from .*another name"):
        pack_file(write("import msgspec\ndef map(line): pass\n"))


def test_a_package_that_is_too_large_to_ship_is_refused(write, tmp_path, monkeypatch):
    monkeypatch.setattr("railyard.jobs.package.FILES_MAX", 2)
    (tmp_path / "many").mkdir()
    for number in range(3):
        write("", f"many/m{number}.py")
    with pytest.raises(UsageError, match=r"my_job.py: imports 3 files or more, .* at most 2 files"):
        pack_file(write("import many.m0\ndef map(line): pass\n"))


# A method that looks like a hook of a job and is none is refused when the job is loaded.


WORDS_JOB = """
from railyard import Job

class Words(Job):
    def map(self, line):
        for word in line.split():
            yield word, 1

    def reduce(self, word, counts):
        yield word, sum(counts)
"""


def packed(tmp_path, more, text=WORDS_JOB):
    file = tmp_path / "words.py"
    file.write_text(f"{text}\n{more}\n")
    return pack_file(file)


def refusal(tmp_path, more, text=WORDS_JOB):
    with pytest.raises(UsageError) as error:
        packed(tmp_path, more, text)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("cleanup", "nothing is called at a task's end: yield from map or reduce as you go"),
        ("close", "nothing is called at a task's end"),
        ("mapper_final", "nothing is called at a task's end"),
        ("mapper", "need map, combine and reduce"),
        ("reducer", "need map, combine and reduce"),
        ("configure", "need annotated fields, which are parameters"),
        ("configure_args", "need annotated fields"),
        ("reducer_init", "need setup()"),
        ("getPartition", "need partition(key, partitions)"),
        ("sort", "values come in any order: sort them in it"),
        ("set_up", 'did you mean "setup"?'),
        ("partitions", 'did you mean "partition"?'),
    ],
)
def test_a_method_that_nobody_would_call(tmp_path, name, right):
    said = refusal(tmp_path, f"    def {name}(self, *more):\n        return ()")
    assert said.startswith(f"Words: {name} would never be called: ")
    assert right in said


def test_a_setting_of_another_framework(tmp_path):
    assert "SORT_VALUES would never be called" in refusal(tmp_path, "    SORT_VALUES = True")


def test_what_the_job_calls_itself_is_its_own_business(tmp_path):
    packed(
        tmp_path,
        "    def cleanup(self, word):\n        return word.strip()\n"
        "    def combine(self, word, counts):\n        yield self.cleanup(word), sum(counts)",
    )


def test_functions_of_a_module_in_place_of_a_class(tmp_path):
    functions = "def map(line):\n    yield line, 1\n"
    said = refusal(tmp_path, "def cleanup():\n    yield 'a', 1", functions)
    assert "words.py: cleanup would never be called" in said
    packed(
        tmp_path, "def close(x):\n    return x\ndef reduce(k, v):\n    yield k, close(1)", functions
    )


def test_a_class_that_is_used_at_once():
    class Own(Job):
        def map(self, line):
            yield line, 1

        def cleanup(self):
            yield "last", 1

    with pytest.raises(UsageError, match="Own: cleanup would never be called"):
        Own()


# docs/tutorials/write-a-job.md as a reader follows it: what it shows is what is run here.


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
