"""Settings of hypothesis for these tests."""

from hypothesis import settings

# No deadline: how long an example takes depends on what else the machine does.
settings.register_profile("netemu", deadline=None)
settings.load_profile("netemu")
