"""Settings of all tests: Hypothesis gives no verdict on how fast this machine is at the moment."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")
