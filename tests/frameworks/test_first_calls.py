"""First calls of oneMKL's functions: made in one thread, before any of a user's code."""

import os
import sys
from subprocess import run

import pytest

_IMPORTED = """
import os
import torch
calls, threads = [], os.listdir("/proc/self/task") if os.path.isdir("/proc/self/task") else []
for name in ("exp", "log", "sqrt", "tanh"):
    def counted(number, name=name, kept=getattr(torch, name)):
        calls.append((name, str(number.dtype), number.numel()))
        return kept(number)
    setattr(torch, name, counted)
import assay.frameworks.torch
assert len(calls) == 8 and len(set(calls)) == 8 and {size for *_, size in calls} == {1}, calls
after = os.listdir("/proc/self/task") if threads else []
assert after == threads, "a thread was started, and a fork of it may hang"
"""

_FORKS = """
import os
import numpy as np
import torch
import assay.frameworks.torch
torch.set_num_threads(16)
numbers = torch.from_numpy(np.linspace(0.5, 2, 131072, dtype=np.float32))  # without threads
for _ in range(600):
    if not (fork := os.fork()):
        os._exit(0 if torch.log(numbers).equal(torch.log(numbers)) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]) == 0, "the first call was another"
"""


def test_the_framework_makes_the_first_calls_when_it_is_imported() -> None:
    run([sys.executable, "-c", _IMPORTED], check=True)


@pytest.mark.slow  # 40 s; without the first calls 1 in 160 forks differs
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_the_first_call_in_a_fork_equals_the_second() -> None:
    run([sys.executable, "-c", _FORKS], check=True, timeout=300)
