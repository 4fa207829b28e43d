"""How many random combinations each interface is given: 100, or as many as RAILYARD_DRAWS says.

``RAILYARD_DRAWS=250 scripts/run-tests tests/accepted -k any`` draws 250 for each of the nine.
"""

import os


def pytest_generate_tests(metafunc):
    """A test of a random combination has the argument ``seed``."""
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(int(os.environ.get("RAILYARD_DRAWS", "100"))))
