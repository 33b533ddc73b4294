"""Settings of all tests: Hypothesis gives no verdict on how fast this machine is at the moment, and
without a GPU Triton interprets, whichever library imports it first."""

import os
from importlib.util import find_spec

from hypothesis import HealthCheck, settings

settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

if find_spec("torch"):
    import torch

    if not torch.cuda.is_available():
        os.environ.setdefault("TRITON_INTERPRET", "1")
