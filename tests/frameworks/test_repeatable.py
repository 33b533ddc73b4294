"""Bits that do not depend on what a process ran before."""

import subprocess
import sys

import pytest
from new_process import environment

pytest.importorskip("torch")

# A float32 call before and after a bfloat16 one: the latter fails within oneDNN where a CPU of ARM
# has no instructions for it, and torch turns oneDNN off for the rest of the process.
CODE = """
import torch
from assay.frameworks import torch as framework
from bound_calls import bound

names = [f"b2_h4_kv4_q65_k129_d32_causal_{dtype}" for dtype in ("float32", "bfloat16")]
plain, half = (bound("eager", name) for name in names)
used = torch.backends.mkldnn.enabled
with framework.repeatable():
    first = framework.bits(plain())
    half.gradients()
    print(framework.bits(plain()) == first)
print(torch.backends.mkldnn.enabled == used)
"""


def test_a_call_in_another_dtype_changes_no_bits(request):
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env=environment(request.config.rootpath / "tests"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["True", "True"]
