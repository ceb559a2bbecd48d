"""What holds for all tests."""

import os

from hypothesis import HealthCheck, settings

# How quick a machine is must not decide a test; and what CI finds must be what everybody finds.
_UNHURRIED = (HealthCheck.too_slow, HealthCheck.data_too_large)
settings.register_profile("here", deadline=None, suppress_health_check=_UNHURRIED)
settings.register_profile("ci", deadline=None, suppress_health_check=_UNHURRIED, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")
