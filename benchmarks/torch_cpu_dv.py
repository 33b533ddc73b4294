"""Summation of dv by torch's CPU attention of half-precision inputs.

    python benchmarks/torch_cpu_dv.py

Compares its dv with emulations that round to bfloat16 after each block of queries, and with one
that accumulates in float64 and rounds once. The figures stand in docs/architecture.md.
"""

import torch
from torch.nn.functional import scaled_dot_product_attention

HEADS, LENGTH, HEAD_DIM = 4, 512, 64
BLOCKS = (16, 32, 64, 128, 256, LENGTH)


def main() -> None:
    """Print the largest error of each way, and how often an emulation equals torch bit for bit."""
    torch.manual_seed(0)
    shape = (1, HEADS, LENGTH, HEAD_DIM)
    q, k, v = (torch.randn(shape).bfloat16().requires_grad_() for _ in range(3))
    grad_out = torch.randn(shape).bfloat16()
    out = scaled_dot_product_attention(q, k, v, is_causal=True)
    (dv,) = torch.autograd.grad(out, v, grad_out)

    scores = q.detach().double() @ k.detach().double().mT * HEAD_DIM**-0.5
    future = ~torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
    weights = scores.masked_fill(future, float("-inf")).softmax(-1)
    exact = weights.mT @ grad_out.double()
    print(f"torch {torch.__version__}: largest error of dv {_error(dv, exact):.4f}")
    for block in BLOCKS:
        emulated = _accumulated(weights.bfloat16().double(), grad_out.double(), block)
        equal = (emulated == dv).double().mean().item()
        print(f"rounded every {block:3} queries: {_error(emulated, exact):.4f}, equal {equal:.1%}")


def _accumulated(weights: torch.Tensor, grad_out: torch.Tensor, block: int) -> torch.Tensor:
    """dv with the running sum rounded to bfloat16 after every `block` queries."""
    total = torch.zeros_like(grad_out).bfloat16()
    for start in range(0, LENGTH, block):
        rows = slice(start, start + block)
        part = weights[:, :, rows].mT @ grad_out[:, :, rows]
        total = (total.double() + part).bfloat16()
    return total


def _error(actual: torch.Tensor, exact: torch.Tensor) -> float:
    return (actual.double() - exact).abs().max().item()


if __name__ == "__main__":
    main()
