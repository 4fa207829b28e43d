"""A method that looks like a hook of a job and is none is refused when the job is loaded."""

import pytest

from railyard import Job
from railyard.cluster.errors import UsageError
from railyard.jobs.package import pack_file

JOB = """
from railyard import Job

class Words(Job):
    def map(self, line):
        for word in line.split():
            yield word, 1

    def reduce(self, word, counts):
        yield word, sum(counts)
"""


def packed(tmp_path, more, text=JOB):
    file = tmp_path / "words.py"
    file.write_text(f"{text}\n{more}\n")
    return pack_file(file)


def refusal(tmp_path, more, text=JOB):
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
