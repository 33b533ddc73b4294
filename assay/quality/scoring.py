"""Teacher-forced scores of a text through a cache: every token's loss, choice and distance.

The text is given, each token is predicted from those before it as the cache gives them back. In one
pass a layer writes all tokens of a window and reads them all decoded: the same that steps of one
token read, where tokens are encoded one by one (`proofs.py` shows it before it is believed). Other
encodings are scored by steps.

W windows, T tokens of a window.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from assay.kv.account import CachedLayer, cache_bytes
from assay.kv.encoding import Kept
from assay.quality.readers import Reader

_LOGITS_BYTES = {"cpu": 1 << 28, "cuda": 1 << 32}  # of a batch of windows, in float32


@dataclass(kw_only=True)
class CacheScores:
    """Scores of a layout, of every window and every token but its first, [W, T - 1], and what
    was read of the cache for them."""

    nll: list[np.ndarray] = field(default_factory=list)  # nats
    agrees: list[np.ndarray] = field(default_factory=list)  # the choice is that of the dense cache
    divergence: list[np.ndarray] = field(default_factory=list)  # KL from the dense cache, nats
    # Of each window, how far the dense cache's first choice was ahead, in logits, where the layout
    # first chooses another token; None where it never does.
    margins: list[float | None] = field(default_factory=list)
    reads: Counter[str] = field(default_factory=Counter)  # bytes by stream
    expected_reads: int = 0  # bytes by formula
    seconds: float = 0.0

    @property
    def by_window(self) -> dict[str, list[float]]:
        """Means over the tokens of each window."""
        names = ("nll", "agrees", "divergence")
        return {name: [float(row.mean()) for row in getattr(self, name)] for name in names}


def read_text(
    reader: Reader, layout: Kept, ids: torch.Tensor, *, residual: int = 0, by_steps: bool = False
) -> tuple[torch.Tensor, Counter[str]]:
    """Return the logits [W, T, vocabulary] of windows through one cache, in float32, and the bytes
    that were read of it."""
    cache = reader.new_cache(layout, batch=len(ids), residual=residual)
    parts = [
        reader.logits(part, cache).float()
        for part in ids.split(1 if by_steps else ids.shape[1], dim=1)
    ]
    logits = torch.cat(parts, dim=1)
    if logits.is_cuda:
        torch.cuda.synchronize(logits.device)  # whoever holds a clock means the end of the work
    return logits, reader.reads(cache)


def expected_reads(
    layers: Sequence[CachedLayer], *, batch: int, tokens: int, by_steps: bool
) -> int:
    """Return the bytes that are read by formula: all that is kept, in every pass. Layers with a
    window are not encoded and not counted."""
    encoded = [layer for layer in layers if layer.kept_tokens is None]
    lengths = range(1, tokens + 1) if by_steps else (tokens,)
    return batch * sum(cache_bytes(encoded, length) for length in lengths)


def is_by_token(layout: str, residual: int) -> bool:
    """True where a pass reads what steps read."""
    from assay.kv import contract

    return not residual and contract.load(layout).block == 1


@torch.no_grad()
def score(
    reader: Reader, layouts: Sequence[str], windows: torch.Tensor, *, dense: str, residual: int = 0
) -> dict[str, CacheScores]:
    """Return the scores of each layout on windows [W, T]; `dense` is the one that the others are
    held against, among them."""
    scores = {name: CacheScores() for name in layouts}
    size = _batch_size(reader, windows)
    for ids in windows.split(size):
        reference, _ = read_text(reader, dense, ids)
        for name, scored in scores.items():
            by_steps = not is_by_token(name, residual)
            begun = time.perf_counter()
            logits, reads = read_text(reader, name, ids, residual=residual, by_steps=by_steps)
            scored.seconds += time.perf_counter() - begun
            scored.reads += reads
            scored.expected_reads += expected_reads(
                reader.layers(name, residual=residual),
                batch=len(ids),
                tokens=ids.shape[1],
                by_steps=by_steps,
            )
            _add(scored, logits, reference, ids)
    return scores


def _add(
    scored: CacheScores, logits: torch.Tensor, reference: torch.Tensor, ids: torch.Tensor
) -> None:
    targets = ids[:, 1:, None].to(logits.device)
    for row in range(len(ids)):  # one window at a time: the vocabulary is large
        ours, dense = (each[row, :-1].log_softmax(-1) for each in (logits, reference))
        agrees = ours.argmax(-1) == dense.argmax(-1)
        scored.nll.append(_numbers(-ours.gather(-1, targets[row]))[:, 0])
        scored.agrees.append(_numbers(agrees))
        scored.divergence.append(_numbers((dense.exp() * (dense - ours)).sum(-1)))
        first, second = reference[row, :-1].topk(2, dim=-1).values.unbind(-1)
        other = (~agrees).nonzero()
        place = int(other[0]) if len(other) else None
        scored.margins.append(None if place is None else float(first[place] - second[place]))


def nll_of(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Return the loss of every token but the first, [W, T - 1], in nats."""
    targets = ids[:, 1:, None].to(logits.device)
    return -logits[:, :-1].log_softmax(-1).gather(-1, targets)[..., 0]


def _batch_size(reader: Reader, windows: torch.Tensor) -> int:
    logits, _ = read_text(reader, "dense", windows[:1, :1])
    kind = "cpu" if logits.device.type == "cpu" else "cuda"
    return max(1, _LOGITS_BYTES[kind] // (4 * windows.shape[1] * logits.shape[-1]))


def _numbers(tensor: torch.Tensor) -> np.ndarray:
    return tensor.float().cpu().numpy()
