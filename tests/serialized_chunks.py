"""Chunks for tests: of every layout, with tensors of random bits."""

import numpy as np
import torch

from assay.kv import contract, header, wire
from assay.kv.chunk import Chunk, identity
from assay.kv.contract import KVSpec
from assay.kv.quantised import Quantised

LATENTS = ("mla_latent", "splice")
SPEC = KVSpec(
    dtype="bfloat16", head_dim=64, key_heads=2, value_heads=2, latents=(48,), codes=(24,),
    rope_dims=8,
)  # fmt: skip


def chunk_of(layout, *, tokens, sequences=1, spec=SPEC):
    """A chunk of so many tokens, or blocks of them."""
    loaded = contract.load(layout)
    return Chunk(
        layout=loaded,
        spec=spec,
        model="tiny@1",
        rope=identity({"theta": 10000.0}),
        layer=0,
        first_token=0,
        tokens=tokens * loaded.block,
        sequences=sequences,
    )


def tensors_of(chunk, seed=0):
    """Tensors of the streams that a chunk keeps, every bit pattern alike."""
    draw = np.random.default_rng(seed)
    return {
        stream.name: torch.from_numpy(draw.integers(0, 256, chunk.stream_bytes(stream), np.uint8))
        .view(getattr(torch, stream.dtype))
        .view(chunk.shape(stream))
        for stream in chunk.kept
    }


def encoded(chunk, tensors):
    buffer = bytearray(header.encoded_bytes(chunk))
    assert wire.encode_into(buffer, chunk=chunk, tensors=tensors) == len(buffer)
    return buffer


def raw(tensor):
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


def frozen_layout(values):
    """Keys as they are, values with scales that are known before and not in a chunk."""
    own = Quantised(values=values)
    return contract.Layout(
        name="k16v8_frozen", exact=False, scales=values.description, streams=own.streams,
        encode=own.encode, decode=own.decode,
    )  # fmt: skip
