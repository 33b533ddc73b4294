"""Speed of encoding into serialized chunks on a CPU, against torch's own cast and copy.

    python benchmarks/kv_encode.py [--rounds 41] [--tokens 4096] [--no-fused] [--json FILE]

Values [1, 8, tokens, 128] go with frozen scales into FP8 e4m3 in the memory of a chunk, beside
`x.to(torch.float8_e4m3fn)`, which does not scale. Keys go there as they are, beside
`copy_` of the same bytes: as `encode_into` does it, and by it with header and checksum.

Every round has each way once, in an order that alternates; a ratio is of two ways of one round,
above 1 where ours is faster. One thread is timed by its CPU time, so that others on the machine do
not count; all threads by the clock. The figures stand in docs/kv.md.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch

from assay.errors import CannotRunHere
from assay.kv import contract, wire
from assay.kv.chunk import Chunk
from assay.kv.contract import KVSpec
from assay.kv.frozen import FrozenFloat8
from assay.kv.header import encoded_bytes
from assay.kv.quantised import Quantised
from assay.laws.pairs import interval_of_median
from assay.performance.rounds import Turns

HEADS, HEAD_DIM = 8, 128
DTYPES = ("bfloat16", "float32", "float16")
FP8 = torch.float8_e4m3fn
# Ours, and what each is compared with.
PEERS = {
    "values, by rows": "cast",
    "values, fused": "cast",
    "keys": "copy",
    "keys, with header and checksum": "copy",
}


def main() -> None:
    """Measure every dtype with one thread and with all; print a table, and JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--no-fused", action="store_true", help="leave out torch.compile")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results = [
        measured(dtype, threads, arguments.tokens, arguments.rounds, not arguments.no_fused)
        for threads in sorted({1, len(os.sched_getaffinity(0))})
        for dtype in DTYPES
    ]
    print("threads | dtype    | way                            |      ms | of torch (95 %)")
    for result in results:
        for name, way in result["ways"].items():
            ratio = "" if name not in PEERS else "{:.2f} ({:.2f} to {:.2f})".format(*way["ratio"])
            print(f"{result['threads']:7} | {result['dtype']:8} | {name:30} | "
                  f"{median(way['seconds']) * 1e3:7.2f} | {ratio}".rstrip())  # fmt: skip
        print(f"{result['threads']:7} | {result['dtype']:8} | {result['fused']}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


def measured(dtype: str, threads: int, tokens: int, rounds: int, fused: bool) -> dict:
    """Seconds of each way in each round, and the ratios to its peer with their intervals."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    ways, state = _ways(dtype, tokens, fused)
    clock = time.process_time if threads == 1 else time.perf_counter
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number, name in Turns(ways, rounds=rounds + 2):
        start = clock()
        ways[name]()
        elapsed_s = clock() - start
        if number > 1:  # the first two warm up
            seconds[name].append(elapsed_s)
    result = {"threads": threads, "dtype": dtype, "tokens": tokens, "fused": state, "ways": {}}
    for name, samples in seconds.items():
        result["ways"][name] = way = {"seconds": samples}
        if name in PEERS:
            pairs = zip(seconds[PEERS[name]], samples, strict=True)
            ratios = tuple(theirs / ours for theirs, ours in pairs)
            way["ratio"] = (median(ratios), *map(float, interval_of_median(ratios)))
    return result


def _ways(dtype: str, tokens: int, fused: bool) -> tuple[dict[str, Callable[[], object]], str]:
    """Functions to time, shown to give the same bits, and what became of the fused one."""
    shape, kind = (1, HEADS, tokens, HEAD_DIM), getattr(torch, dtype)
    keys, values = (torch.randn(shape).to(kind) for _ in range(2))
    scale = values.float().abs().amax((0, 2, 3)).view(HEADS, 1, 1) / torch.finfo(FP8).max
    plain = (values.float() * (1 / scale)).to(FP8)
    copied = torch.empty_like(keys)
    ours, state = _encoders(values, scale, fused)
    key_chunk, value_chunk = _chunk(dtype, tokens, ours["by rows"]).split()
    buffers = [bytearray(encoded_bytes(chunk)) for chunk in (key_chunk, value_chunk)]

    def keys_in_place() -> None:
        wire.stream_views(buffers[0], chunk=key_chunk)["k"].copy_(keys)

    def values_in_place(own: FrozenFloat8) -> None:
        own.encode_into(wire.stream_views(buffers[1], chunk=value_chunk)["v"], values)

    ways: dict[str, Callable[[], object]] = {"cast": lambda: values.to(FP8)}
    for name, own in ours.items():
        ways[f"values, {name}"] = lambda own=own: values_in_place(own)
        values_in_place(own)
        written = wire.stream_views(buffers[1], chunk=value_chunk)["v"]
        assert torch.equal(written.view(torch.uint8), plain.view(torch.uint8)), name
    ways["copy"] = lambda: copied.copy_(keys)
    ways["keys"] = keys_in_place
    ways["keys, with header and checksum"] = lambda: wire.encode_into(
        buffers[0], chunk=key_chunk, tensors={"k": keys}
    )
    return ways, state


def _encoders(
    values: torch.Tensor, scale: torch.Tensor, fused: bool
) -> tuple[dict[str, FrozenFloat8], str]:
    """By rows, and fused where that is asked for and can be; the second is compiled here."""
    encoders = {"by rows": FrozenFloat8("float8_e4m3fn", scale)}
    if not fused:
        return encoders, "fused: left out"
    compiled = FrozenFloat8("float8_e4m3fn", scale, fused=True)
    start = time.perf_counter()
    try:
        compiled.encode(values)
    except CannotRunHere as error:
        return encoders, f"fused: unavailable: {error}"
    return encoders | {"fused": compiled}, f"fused: first call {time.perf_counter() - start:.1f} s"


def _chunk(dtype: str, tokens: int, own: FrozenFloat8) -> Chunk:
    quantised = Quantised(values=own)
    layout = contract.Layout(
        name="k16v8_frozen", exact=False, scales=own.description, streams=quantised.streams,
        encode=quantised.encode, decode=quantised.decode,
    )  # fmt: skip
    spec = KVSpec(dtype=dtype, head_dim=HEAD_DIM, key_heads=HEADS, value_heads=HEADS)
    return Chunk(
        layout=layout, spec=spec, model="none", rope="none", layer=0, first_token=0, tokens=tokens
    )


if __name__ == "__main__":
    main()
