"""Collections in processes that a large parent has forked."""

import subprocess
import sys

import pytest

#: A parent with many objects freezes them; then there is garbage that two collections have not
#: found, as of what was in use meanwhile.  Says how many full collections there were since.
_GARBAGE = """
import gc
{freeze}

class Ring:
    def __init__(self):
        self.me = self

many = [[] for _ in range(200_000)]
freeze()
before = gc.get_stats()[2]["collections"]
in_use = []
for _ in range(400_000):
    in_use.append(Ring())
    if len(in_use) > 300:
        del in_use[0]
print(gc.get_stats()[2]["collections"] - before)
"""
_OURS = "from railyard.cluster.processes.memory import freeze_objects as freeze"
_WITHOUT = """
def freeze():
    gc.collect()
    gc.freeze()
"""


def _full_collections(freeze):
    script = _GARBAGE.format(freeze=freeze)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="3.14 collects in increments")
def test_a_child_of_few_objects_collects_its_garbage_although_its_parent_has_many():
    assert _full_collections(_OURS) >= 2
    assert _full_collections(_WITHOUT) == 0, "or there is nothing to be done about it any more"
