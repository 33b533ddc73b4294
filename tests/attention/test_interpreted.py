"""Triton's interpreter is wrong in bfloat16: no user's kernel is blamed for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from assay.attention import interpreted

KERNEL = '''"""Attention with its last product by a Triton kernel, which gets bfloat16 as it is."""
import torch
import triton
import triton.language as tl


@triton.jit
def times(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * tl.load(y + at, mask=at < n), mask=at < n)


def scaled(x, scale):
    flat, out = x.contiguous().view(-1), torch.empty_like(x.contiguous())
    n, factor = flat.numel(), torch.full_like(flat, scale)
    times[(triton.cdiv(n, 64),)](flat, factor, out.view(-1), n, BLOCK=64)
    return out.view_as(x)
'''
WRAPPER = '''"""A wrapper that imports its kernel from a neighbour."""
import torch
from kernel_of_others import scaled

BACKWARD = False


def attention(q, k, v, *, causal, scale):
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().mT)
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool)
    seen = seen.tril(k.shape[2] - q.shape[2]) if causal else seen
    weights = scores.masked_fill(~seen, -3e38).softmax(-1).masked_fill(~seen, 0.0)
    return scaled((weights.to(v.dtype) @ v), 1.0)
'''
CHECK = """
import assay
verdict = assay.check("wrapper.py", quick=True, cases=12, probes=["accuracy", "shapes"])
print(verdict)
from assay.attention import contract
print(contract.load("eager").interpreted)
assert not assay.check("wrapper.py", quick=True, probes=["accuracy"], dtypes=["bfloat16"]).failures
"""


@pytest.mark.slow
def test_bfloat16_under_the_interpreter_is_refused_once_and_the_verdict_says_so(tmp_path):
    """The public kernel of a library was told to be wrong in bfloat16; on a GPU it is right."""
    (tmp_path / "kernel_of_others.py").write_text(KERNEL)
    (tmp_path / "wrapper.py").write_text(WRAPPER)
    root = Path(__file__).parents[2]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(root)}
    ended = subprocess.run(
        [sys.executable, "-c", CHECK],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert "PASS  wrapper: 2 probes" in ended.stdout
    words = "bfloat16 was not examined: Triton's interpreter computes bfloat16 wrongly"
    assert ended.stdout.count(words) == 1
    assert ended.stdout.endswith("False\n")  # a file without Triton is none of its business


def test_the_package_itself_is_not_followed():
    """It hands out names of all its rooms: once `assay.check` was used, sdpa, which asks where
    assay lies, was taken for a kernel of Triton."""
    assert not interpreted._is_followed("assay") and interpreted._is_followed("assay.host")
