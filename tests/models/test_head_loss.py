"""The loss that makes its gradients as it goes, against torch's own and against float64."""

import os
import subprocess
import sys

import pytest
import torch
from torch.nn import functional as F

from assay.models.gpt2 import loss as losses
from assay.models.gpt2.loss import IGNORED, head_loss

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no GPU"))]  # fmt: skip


def drawn(rows, vocabulary, device, dtype, *, scale=1.0):
    draw = torch.Generator().manual_seed(rows)
    x = torch.randn(rows, 24, generator=draw, dtype=torch.float64) * scale
    weight = torch.randn(vocabulary, 24, generator=draw, dtype=torch.float64)
    targets = torch.randint(0, vocabulary, (rows,), generator=draw)
    targets[::5] = IGNORED
    tensors = (t.to(device, dtype).requires_grad_() for t in (x, weight))
    return (*tensors, targets.to(device))


def with_slopes(function, x, weight, targets):
    value = function(x, weight, targets)
    return (value, *torch.autograd.grad(3 * value, (x, weight)))


def plain(x, weight, targets):
    logits = x @ weight.T
    wide = torch.promote_types(logits.dtype, torch.float32)
    return F.cross_entropy(logits.to(wide), targets, ignore_index=IGNORED)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows, vocabulary, scale", [(2, 7, 1), (63, 257, 1), (113, 5003, 30)])
def test_errors_are_at_most_twice_those_of_torch(device, dtype, rows, vocabulary, scale):
    x, weight, targets = drawn(rows, vocabulary, device, dtype, scale=scale)
    exact = with_slopes(plain, x.double(), weight.double(), targets)
    own = with_slopes(head_loss, x, weight, targets)
    other = with_slopes(plain, x, weight, targets)
    for mine, torchs, truth in zip(own, other, exact, strict=True):
        error, theirs = ((t.double() - truth).abs().max() for t in (mine, torchs))
        ulp = truth.abs().max() * torch.finfo(mine.dtype).eps
        assert error <= 2 * max(theirs, ulp)


@pytest.mark.parametrize("device", DEVICES)
def test_parts_of_the_logits_give_what_all_at_once_do(device, monkeypatch):
    x, weight, targets = drawn(50, 101, device, torch.float64 if device == "cpu" else torch.float32)
    whole = with_slopes(head_loss, x, weight, targets)
    monkeypatch.setattr(losses, "_MOST_BYTES", 7 * 101 * x.element_size())
    parts = with_slopes(head_loss, x, weight, targets)
    for at_once, in_parts in zip(whole, parts, strict=True):
        torch.testing.assert_close(at_once, in_parts)


def test_without_counted_targets_the_loss_is_nan_as_torchs_is():
    x, weight, targets = drawn(4, 9, "cpu", torch.float32)
    nothing = torch.full_like(targets, IGNORED)
    assert head_loss(x, weight, nothing).isnan() and plain(x, weight, nothing).isnan()


@pytest.mark.parametrize("vocabulary", [7, 4096, 5003])
def test_the_kernel_gives_losses_and_slopes(vocabulary):
    """On a GPU, and elsewhere in Triton's interpreter; -inf among the logits, and ignored rows."""
    pytest.importorskip("triton")
    from assay.models.gpt2 import loss_kernel

    device = "cuda" if torch.cuda.is_available() else "cpu"
    draw = torch.Generator().manual_seed(1)
    logits = torch.randn(6, vocabulary, generator=draw) * 9
    logits[1, 3:] = -torch.inf
    targets = torch.randint(0, vocabulary, (6,), generator=draw)
    targets[1], targets[4] = 2, IGNORED
    share = torch.tensor(0.25)
    slopes = logits.clone()
    expected = losses._turn_to_slopes(slopes, targets, share)
    logits = logits.to(device)
    actual = loss_kernel.turn_to_slopes(logits, targets.to(device), share.to(device))
    torch.testing.assert_close(actual.cpu(), expected, atol=2e-5, rtol=2e-6)
    torch.testing.assert_close(logits.cpu(), slopes, atol=1e-6, rtol=2e-5)
    assert not logits[4].any() and actual[4] == 0


def test_the_kernel_is_exact_beside_large_logits():
    """A row's sum that is added to its largest logit, 700, loses all digits below 6e-5."""
    pytest.importorskip("triton")
    from assay.models.gpt2 import loss_kernel

    device = "cuda" if torch.cuda.is_available() else "cpu"
    logits = torch.tensor([[700.0, 699.0, 698.5, 0.0]], device=device)
    truth = logits.double().cpu().softmax(-1)
    targets, share = torch.tensor([1], device=device), torch.tensor(1.0, device=device)
    loss = loss_kernel.turn_to_slopes(logits, targets, share)
    assert abs(float(loss) + float(truth[0, 1].log())) < 3e-7
    torch.testing.assert_close(
        logits.cpu().double() + F.one_hot(targets.cpu(), 4), truth, atol=2e-7, rtol=0
    )


def test_a_target_outside_of_the_vocabulary_is_no_number_of_another_row():
    """The kernel read the logit of whatever lies there in memory."""
    pytest.importorskip("triton")
    from assay.models.gpt2 import loss_kernel

    device = "cuda" if torch.cuda.is_available() else "cpu"
    logits, share = torch.zeros(4, 9, device=device), torch.tensor(1.0, device=device)
    targets = torch.tensor([0, 9, -2, IGNORED], device=device)
    values = loss_kernel.turn_to_slopes(logits, targets, share).cpu()
    assert values.isnan().tolist() == [False, True, True, False] and values[3] == 0


COMPILED = """
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
import triton
from assay.models.gpt2 import loss_kernel

types = {"logits": "*bf16", "targets": "*i64", "share": "*fp32", "losses": "*fp32"}
types |= {"width": "i32", "stride": "i32", "PIECES": "constexpr"}
even = {(index,): [["tt.divisibility", 16]] for index in (0, 4, 5)}
source = ASTSource(loss_kernel._row, types, {"PIECES": loss_kernel._PIECES}, even)
options = {"num_warps": loss_kernel._WARPS}
compiled = triton.compile(source, GPUTarget("cuda", 90, 32), options)
assert "ld.global.v4" in compiled.asm["ptx"], "rows are read in short pieces"
print("compiled for sm_90")
"""


@pytest.mark.slow
def test_the_kernel_compiles_for_an_h200_without_one():
    pytest.importorskip("triton")
    environment = {**os.environ, "TRITON_INTERPRET": "0"}
    command = [sys.executable, "-c", COMPILED]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stdout == "compiled for sm_90\n", done.stderr
