"""Caches of whole keys and values for the peers of decode kernels, and how they are judged."""

import pytest
import torch

from assay import plugins
from benchmarks.decode_errors import errors

SCALE = 0.2
LENGTHS = [0, 1, 63, 113]
DTYPES = pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.bfloat16], ids=["float32", "float16", "bfloat16"]
)


def made(*, batch=4, heads=4, kv_heads=2, new=1, keys=113, dim=64, dtype=torch.float32):
    """Queries and a cache of random numbers."""
    torch.manual_seed(keys * dim + heads)
    shapes = {"q": (batch, heads, new, dim)} | {n: (batch, kv_heads, keys, dim) for n in "kv"}
    tensors = {name: torch.randn(shape, dtype=dtype) for name, shape in shapes.items()}
    return tensors.pop("q"), tensors


def forget(streams, lengths):
    """The cache with NaN behind every length."""
    streams = {name: tensor.clone() for name, tensor in streams.items()}
    for tensor in streams.values():
        for sequence, length in enumerate(lengths):
            tensor[sequence, :, length:] = float("nan")
    return streams


def hold(out, q, streams, lengths=None) -> None:
    """Assert that an output is within the budget of the check."""
    assert out.dtype == q.dtype and out.shape == q.shape
    lengths = [streams["k"].shape[2]] * len(q) if lengths is None else lengths
    arrays = {name: tensor.double().cpu().numpy() for name, tensor in streams.items()}
    measured = errors(
        out.double().cpu().numpy(), None, q=q.double().cpu().numpy(), **arrays,
        lengths=torch.tensor(lengths).numpy(), scale=SCALE,
        dtype=str(q.dtype).removeprefix("torch."),
    )  # fmt: skip
    assert measured["out"] <= 1, f"budgets: {measured}"


def counted(lengths, device="cpu"):
    return torch.tensor(lengths, dtype=torch.int32, device=device)


def on_gpu(name):
    """The decode function of a file, or a skip with the reason."""
    file = plugins.listing("decode")[name]
    if not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")
    if file.missing:
        pytest.skip(f"needs {', '.join(file.missing)}")
    return plugins.load(file).decode


def hold_on_gpu(name, keys, kv_heads) -> None:
    """Assert the same of a file on a GPU, over whole sequences and with lengths."""
    decode = on_gpu(name)
    sizes = {"heads": 8, "kv_heads": kv_heads, "keys": keys, "dim": 128, "dtype": torch.bfloat16}
    q, streams = made(**sizes)
    for lengths in (None, LENGTHS):
        given = streams if lengths is None else forget(streams, lengths)
        given = {n: tensor.cuda() for n, tensor in given.items()}
        counts = None if lengths is None else counted(lengths, "cuda")
        hold(decode(q.cuda(), given, scale=SCALE, lengths=counts), q, streams, lengths)
