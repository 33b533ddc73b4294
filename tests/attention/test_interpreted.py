"""Triton's interpreter is wrong in bfloat16: no user's kernel is blamed for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from assay.attention import interpreted
from assay.devices import Device

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


FIRST = "import triton, os\nos.environ['TRITON_INTERPRET'] = '1'\n"  # too late for triton's own
MAXIMUM = """
import torch
import triton
import triton.language as tl

BACKWARD = False


@triton.jit
def times_largest(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    largest = tl.max(tl.load(y + at, mask=at < n, other=0.0), 0)
    tl.store(out + at, tl.load(x + at, mask=at < n) * largest, mask=at < n)


def attention(q, k, v, *, causal, scale):
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool)
    seen = seen.tril(k.shape[2] - q.shape[2]) if causal else seen
    scores = (scale * (q.float() @ k.float().mT)).masked_fill(~seen, -3e38)
    x = (scores.softmax(-1).masked_fill(~seen, 0.0).to(v.dtype) @ v).contiguous()
    out, ones = torch.empty_like(x), torch.ones_like(x)
    times_largest[(triton.cdiv(x.numel(), 1024),)](x, ones, out, x.numel(), BLOCK=1024)
    return out
"""


def ran(arguments, folder, **variables):
    """Run Python on a machine without a GPU, on which nobody has set the variable."""
    hidden = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
    known = {k: v for k, v in os.environ.items() if k != interpreted.VARIABLE} | hidden
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**known, "PYTHONPATH": str(Path(__file__).parents[2]), **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize("before", ["", FIRST], ids=["unset", "set late"])
def test_a_worker_without_a_gpu_interprets_whatever_a_file_sets(before, tmp_path):
    """Sound kernels FAILED with "0 active drivers", and where a wrapper imported triton first with
    "Cannot call @triton.jit'd outside of the scope of a kernel"."""
    (tmp_path / "mine.py").write_text(before + MAXIMUM)
    check = ["-m", "assay", "check", "mine.py", "--quick", "--probe", "accuracy"]
    ended = ran(check, tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "PASS  mine: 1 probe" in ended.stdout and "bfloat16" in ended.stdout


def test_a_kernel_that_is_not_to_be_interpreted_is_not_run(tmp_path):
    """It exited with 1, and blamed the kernel in every probe."""
    (tmp_path / "mine.py").write_text(MAXIMUM)
    (tmp_path / "asks.py").write_text(
        "import triton, torch\nDEVICE = triton.runtime.driver.active\n"
        "def attention(q, k, v, *, causal, scale):\n    return q\n"
    )
    check = ["-m", "assay", "check", "mine.py,asks.py", "--quick", "--probe", "accuracy"]
    ended = ran(check, tmp_path, TRITON_INTERPRET="0")
    assert ended.returncode == 3, ended.stdout + ended.stderr
    assert (
        "NOT RUN  mine: 12 cases unsupported: Triton finds no GPU; set TRITON_INT" in ended.stdout
    )
    assert "NOT RUN  asks: Triton finds no GPU; set TRITON_INTERPRET=1 before" in ended.stdout
    assert "FAIL  " not in ended.stdout


IN_PROCESS = """
import assay, {first}, mine
result = assay.check(mine.attention, quick=True, probes="accuracy", backward=False)
print(result.answer)
print(assay.check("mine.py", quick=True, probes="accuracy").answer)
"""


def test_a_function_whose_triton_was_imported_too_early_is_not_run(tmp_path):
    """In the caller's process nothing can be set any more: the answer names the variable."""
    (tmp_path / "mine.py").write_text(MAXIMUM)
    ended = ran(["-c", IN_PROCESS.format(first="triton")], tmp_path)
    assert ended.stdout.count("set TRITON_INTERPRET=1 before anything imports triton") == 2
    assert ended.stdout.count("NOT RUN") == 2, ended.stdout + ended.stderr


def test_a_function_is_examined_in_the_dtypes_that_the_interpreter_gets_right(tmp_path):
    """A file's kernels had no case in bfloat16, a function's had, and were wrong in it."""
    (tmp_path / "mine.py").write_text(MAXIMUM)
    code = IN_PROCESS.format(first="os") + "print(result.conditions)"
    ended = ran(["-c", code], tmp_path, TRITON_INTERPRET="1")
    assert ended.stdout.count("PASS") == 2 and "bfloat16 was not examined" in ended.stdout


def test_a_file_of_a_fresh_process_is_interpreted(tmp_path):
    (tmp_path / "mine.py").write_text(MAXIMUM)
    code = 'import assay; print(assay.check("mine.py", quick=True, probes="accuracy").answer)'
    assert "PASS  mine" in ran(["-c", code], tmp_path).stdout


def test_the_interpreter_is_chosen_without_a_gpu_alone(monkeypatch):
    gpu = Device(kind="cuda", index=0, name="", memory_bytes=None)
    cpu = Device(kind="cpu", index=0, name="", memory_bytes=None)
    monkeypatch.delenv(interpreted.VARIABLE, raising=False)
    assert interpreted.chosen([cpu]) == {interpreted.VARIABLE: "1"}
    assert interpreted.chosen([cpu, gpu]) == {}
    monkeypatch.setenv(interpreted.VARIABLE, "0")
    assert interpreted.chosen([cpu]) == {}


def test_a_call_of_a_kernel_without_its_grid_is_the_kernels_own_mistake():
    """Only an interpreted kernel that meets a compiled function tells of the order of imports."""
    words = "Cannot call @triton.jit'd outside of the scope of a kernel"
    error = type("InterpreterError", (Exception,), {})(f'RuntimeError("{words}")')
    assert "triton was imported before" in interpreted.refusal_of(error)
    assert interpreted.refusal_of(RuntimeError(words)) is None


def test_the_package_itself_is_not_followed():
    """It hands out names of all its rooms: once `assay.check` was used, sdpa, which asks where
    assay lies, was taken for a kernel of Triton."""
    assert not interpreted._is_followed("assay") and interpreted._is_followed("assay.host")


SPLIT_KV = '''"""One program for a query row, a head and a part of the keys; then a merge."""

import torch
import triton
import triton.language as tl

FRAMEWORK = "torch"
REQUIRES = ("triton",)
BACKWARD = False
BLOCK, SPLIT = 16, 32


@triton.jit
def _parts(
    Q, K, V, O, M, L, scale, sq, sk, group, splits,
    CAUSAL: tl.constexpr, D: tl.constexpr,
    DP: tl.constexpr, BLOCK: tl.constexpr, SPLIT: tl.constexpr,
):
    row, head, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    kv = head // group
    d = tl.arange(0, DP)
    inside = d < D
    q = tl.load(Q + (head * sq + row) * D + d, mask=inside, other=0.0).to(tl.float32)
    last = sk
    if CAUSAL:
        last = row + sk - sq + 1
    m = -float("inf")
    l = 0.0
    acc = tl.zeros([DP], tl.float32)
    for start in range(0, SPLIT, BLOCK):
        n = part * SPLIT + start + tl.arange(0, BLOCK)
        seen = (n < last) & (n < sk)
        at, mask = (kv * sk + n[:, None]) * D + d[None, :], seen[:, None] & inside[None, :]
        k = tl.load(K + at, mask=mask, other=0.0).to(tl.float32)
        v = tl.load(V + at, mask=mask, other=0.0).to(tl.float32)
        s = tl.sum(q[None, :] * k, axis=1) * scale
        s = tl.where(seen, s, -float("inf"))
        high = tl.maximum(m, tl.max(s, axis=0))
        safe = tl.where(high == -float("inf"), 0.0, high)
        p = tl.exp(s - safe)
        alpha = tl.exp(m - safe)
        l = l * alpha + tl.sum(p, axis=0)
        acc = acc * alpha + tl.sum(p[:, None] * v, axis=0)
        m = high
    place = (head * sq + row) * splits + part
    tl.store(O + place * D + d, acc, mask=inside)
    tl.store(M + place, m)
    tl.store(L + place, l)


def attention(q, k, v, *, causal: bool, scale: float):
    b, h, sq, d = q.shape
    g, sk = k.shape[1], k.shape[2]
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    splits = triton.cdiv(sk, SPLIT)
    out = torch.empty(b * h, sq, splits, d, device=q.device)
    m = torch.empty(b * h, sq, splits, device=q.device)
    l = torch.empty(b * h, sq, splits, device=q.device)
    _parts[(sq, b * h, splits)](
        q, k, v, out, m, l, scale, sq, sk, h // g, splits,
        CAUSAL=causal, D=d, DP=triton.next_power_of_2(d), BLOCK=BLOCK, SPLIT=SPLIT)
    top = m.amax(-1, keepdim=True)
    w = (m - top.masked_fill(top == -torch.inf, 0)).exp()
    total = (w * l).sum(-1)
    merged = (w[..., None] * out).sum(2) / total.masked_fill(total == 0, 1)[..., None]
    return merged.view(b, h, sq, d).to(q.dtype)
'''
PROGRAMS = """
from dataclasses import replace
import assay
from assay import host
from assay.attention import contract, limits
from assay.correctness.program_cost import PROGRAMS, ProgramCost
from assay.correctness.tested import TestedImplementation, case_generator

kernel = contract.load("split_kv.py")
tested = TestedImplementation(implementation=kernel, host=host.inspect(commit=False), device="cpu")
generator = case_generator(kernel, seed=0, count=24, quick=True, device="cpu", dtypes=("float32",))
cost = ProgramCost(bind=tested.bind)
PROGRAMS.watch()
small, large = (generator.spec(batch=1, length=n) for n in (5, 129))
assert cost.fits(large) and (cost.programs(small), cost.programs(large)) == (10, 1290)
assert PROGRAMS.run == 0, "what is counted is not run"
tested.bind(small)()
assert PROGRAMS.run == 10 and cost.program_s > 0
PROGRAMS.seconds = 0.01 * PROGRAMS.run  # as on a quiet machine
unequal = replace(large, query_length=33)
fitted = cost.fitted([small, large, unequal], limits.WorkloadLimits())
assert fitted[0] == small and large not in fitted and cost.made_smaller == 2, fitted
assert all(cost.programs(spec) <= 50 for spec in fitted)
assert fitted[-1].query_length < fitted[-1].key_length > 33, "several parts of the keys are left"
verdict = assay.check("split_kv.py", probes=["accuracy"], quick=True, budget_s=40)
print(verdict, verdict.conditions)
"""


def test_an_interpreted_kernel_is_checked_in_the_programs_that_there_is_time_for(tmp_path):
    """A program for each row, head and part of the keys: one case took more than 60 s, and the
    kernel was failed because "it hangs". Others were not through in seven minutes."""
    (tmp_path / "split_kv.py").write_text(SPLIT_KV)
    ended = ran(["-c", PROGRAMS], tmp_path, TRITON_INTERPRET="1")
    assert ended.returncode == 0, ended.stderr
    assert "PASS  split_kv: 1 probe" in ended.stdout, ended.stdout
    assert "Triton's interpreter took" in ended.stdout and "left to a GPU" in ended.stdout
