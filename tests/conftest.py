"""Settings of hypothesis for all tests."""

from hypothesis import settings

# No deadline: how long an example takes depends on what else the machine does.
settings.register_profile("railyard", deadline=None)
settings.load_profile("railyard")
