"""Settings of all tests: nothing may be left behind, and hypothesis has no deadline."""

from hypothesis import settings

pytest_plugins = ("tests.leaks",)

# No deadline: how long an example takes depends on what else the machine does.
settings.register_profile("railyard", deadline=None)
settings.load_profile("railyard")
