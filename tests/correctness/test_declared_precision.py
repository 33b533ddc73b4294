"""FLOAT32 = "tf32": a kernel that declares it is held to TF32, one that does not to float32."""

import pytest

torch = pytest.importorskip("torch")

import assay
from assay.attention import contract
from assay.errors import BadInput
from assay.records.verdicts import CONDITIONS

FILE = '''"""Attention whose products of float32 are cut to TF32, forwards and backwards."""
import torch

FRAMEWORK = "torch"
DECLARED


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, left, right):
        ctx.save_for_backward(left, right)
        return cut(left) @ cut(right)

    @staticmethod
    def backward(ctx, grad):
        left, right = ctx.saved_tensors
        return cut(grad) @ cut(right).mT, cut(left).mT @ cut(grad)


def cut(x):
    return (x.contiguous().view(torch.int32) & ~(2**BITS - 1)).view(torch.float32)


def attention(q, k, v, *, causal, scale):
    group, dtype = q.shape[1] // k.shape[1], q.dtype
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    product = Product.apply if dtype == torch.float32 else torch.matmul
    q, k, v = q.float(), k.float(), v.float()
    scores = scale * product(q, k.mT)
    seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool)
    seen = seen.tril(k.shape[2] - q.shape[2]) if causal else seen
    weights = scores.masked_fill(~seen, -3e38).softmax(-1).masked_fill(~seen, 0.0)
    return product(weights, v).to(dtype)
'''


def written(path, *, declared, bits):
    """Write the file, which cuts off `bits` of the mantissa's 23; TF32 has 10."""
    path.write_text(FILE.replace("DECLARED", declared).replace("BITS", str(bits)))
    return str(path)


def test_what_is_declared_holds_and_every_verdict_says_so(tmp_path):
    file = written(tmp_path / "cut.py", declared='FLOAT32 = "tf32"', bits=13)
    verdict = assay.check(file, quick=True)
    assert verdict and "float32 through TF32, as declared" in str(verdict)
    assert all("through TF32" in m.source for m in verdict.holding if m.source)
    assert [m.metric for m in verdict.measurements if m.reason == verdict.conditions] == [
        CONDITIONS
    ]
    # The budget moves with the products: the largest error is neither far below nor beyond it.
    (worst,) = [max(m.samples) for m in verdict.holding if m.metric == "accuracy"]
    assert 0.2 < worst < 1


def test_what_is_not_declared_fails_and_is_told_how_to_declare_it(tmp_path):
    file = written(tmp_path / "cut.py", declared="", bits=13)
    verdict = assay.check(file, quick=True, probes=["accuracy", "gradients"])
    assert [m.metric for m in verdict.failures] == ["accuracy", "gradients"]
    for failure in verdict.failures:
        assert 'where those are intended, declare FLOAT32 = "tf32"' in failure.cause
        assert "float32" in failure.reason and failure.value > 10


def test_what_is_coarser_than_declared_fails(tmp_path):
    """Seven bits of mantissa are bfloat16, which is not TF32."""
    file = written(tmp_path / "coarse.py", declared='FLOAT32 = "tf32"', bits=16)
    verdict = assay.check(file, quick=True, probes=["accuracy", "gradients"])
    assert [m.metric for m in verdict.failures] == ["accuracy", "gradients"]
    assert all("FLOAT32" not in (m.cause or "") for m in verdict.failures)


def test_the_budget_of_halves_does_not_move(tmp_path):
    plain = assay.check("eager", quick=True, probes=["accuracy"], dtypes=["float16"])
    file = written(tmp_path / "cut.py", declared='FLOAT32 = "tf32"', bits=13)
    verdict = assay.check(file, quick=True, probes=["accuracy"], dtypes=["float16"])
    assert plain and verdict and verdict.conditions is None


@pytest.mark.parametrize("value", ["'fp8'", "True", "['tf32']"])
def test_other_values_are_refused_with_what_is_allowed(tmp_path, value):
    file = written(tmp_path / "odd.py", declared=f"FLOAT32 = {value}", bits=13)
    with pytest.raises(BadInput, match=r"odd.py: FLOAT32 is .*; wanted 'ieee', .* or 'tf32', "):
        contract.load(file)


def test_a_declaration_may_be_computed(tmp_path):
    """As LIMITS may; it was ignored without a word, and the advice was to declare it."""
    stated = 'FLOAT32 = "tf32" if torch.__version__ else "ieee"'
    path = tmp_path / "mine.py"
    written(path, declared=stated, bits=13)
    assert contract.load(str(path)).float32 == "tf32"
