"""What holds for all tests."""

import os

from hypothesis import HealthCheck, settings

from tests.examples import examples

# How quick a machine is must not decide a test; and what CI finds must be what everybody finds.
_UNHURRIED = (HealthCheck.too_slow, HealthCheck.data_too_large)
_COMMON = {"deadline": None, "suppress_health_check": _UNHURRIED, "max_examples": examples(100)}
settings.register_profile("here", **_COMMON)
settings.register_profile("ci", **_COMMON, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")
