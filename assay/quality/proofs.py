"""Proofs that come before any figure: attention reads the cache, and a pass reads what steps read.

Results were published of codecs that nothing had passed through: compressed on write, while
attention read another cache; losses taken from a first pass that reads fresh values.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from assay.errors import BadInput
from assay.kv import contract
from assay.kv.account import refuse_windows_alone
from assay.kv.contract import Layout, sealed_tokens
from assay.quality.bands import TOLERANT_INCREASE
from assay.quality.readers import Reader
from assay.quality.scoring import expected_reads, is_by_token, nll_of, read_text

MOVES = 1e-3  # of the largest logit, at least, when keys or values are zeros; bypassed it is 0
STEPS_DIFFER = TOLERANT_INCREASE / 10  # of the mean loss, at most,
_STANDARD_ERRORS = 4.0  # or so many: rounding that falls otherwise has no direction
_STEPS = 128  # tokens that are read one by one, beside those that stay whole


@dataclass(frozen=True, kw_only=True)
class Proof:
    """Proof for one layout; `problem` is empty where it holds."""

    moved: float  # share of the largest logit that moves, of keys and values the lesser
    difference: float | None  # of the mean loss, between steps and a pass, where both are read
    step_seconds: float  # of one token, by steps of one token of one sequence
    problem: str = ""


@torch.no_grad()
def prove(reader: Reader, layout: str, ids: torch.Tensor, *, residual: int = 0) -> Proof:
    """Read the beginning of one window [1, T] intact, destroyed and by steps."""
    layers = reader.layers(layout, residual=residual)
    refuse_windows_alone(layers, reader.name)
    ids = ids[:1, : _STEPS + residual]
    if not sealed_tokens(ids.shape[1], residual=residual, block=contract.load(layout).block):
        raise BadInput(
            f"nothing of {ids.shape[1]} tokens is encoded in {layout} behind the newest {residual} "
            "that stay whole; give a longer window, or a smaller residual"
        )
    by_token = is_by_token(layout, residual)
    begun = time.perf_counter()
    stepped, reads = read_text(reader, layout, ids, residual=residual, by_steps=True)
    seconds = (time.perf_counter() - begun) / ids.shape[1]
    wanted = expected_reads(layers, batch=1, tokens=ids.shape[1], by_steps=True)
    problem = ""
    if sum(reads.values()) != wanted:
        problem = f"{sum(reads.values()):,} bytes were read of the cache, {wanted:,} by formula"
    difference, intact = None, stepped
    if by_token:
        intact, _ = read_text(reader, layout, ids)
        difference, allowed = _difference(nll_of(intact, ids), nll_of(stepped, ids))
        if not difference <= allowed:
            problem = problem or (
                f"a pass and steps differ by {difference:.2%} of the loss, {allowed:.2%} at most "
                "is accepted: score it by steps"
            )
    moved = min(_moved(reader, layout, ids, side, intact, residual=residual) for side in ("k", "v"))
    if not moved > MOVES:
        problem = f"zeros in the cache move the logits by {moved:.2g} of the largest: not read"
    return Proof(moved=moved, difference=difference, step_seconds=seconds, problem=problem)


def _difference(passed: torch.Tensor, stepped: torch.Tensor) -> tuple[float, float]:
    """The difference of two readings' mean loss as a share of it, and how much is accepted."""
    pairs, loss = stepped - passed, float(passed.mean())
    error = float(pairs.std()) / pairs.numel() ** 0.5
    allowed = max(STEPS_DIFFER, _STANDARD_ERRORS * error / loss)
    return abs(float(pairs.mean())) / loss, allowed


def zeroed(layout: Layout, side: str) -> Layout:
    """Return the layout with zeros written in the place of keys, "k", or values, "v"."""

    def encode(values: Mapping[str, Any], codecs: Sequence[Any] = ()) -> dict[str, Any]:
        zeros = {side: torch.zeros_like(values[side])} if side in values else {}
        return layout.encode({**values, **zeros}, codecs)

    return replace(layout, encode=encode)


def _moved(
    reader: Reader,
    layout: str,
    ids: torch.Tensor,
    side: str,
    intact: torch.Tensor,
    *,
    residual: int,
) -> float:
    destroyed = zeroed(contract.load(layout), side)
    by_steps = not is_by_token(layout, residual)
    logits, _ = read_text(reader, destroyed, ids, residual=residual, by_steps=by_steps)
    return float((logits - intact).abs().max() / intact.abs().max())
