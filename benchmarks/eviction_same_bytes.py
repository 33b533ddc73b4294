"""Tokens dropped against bits dropped: presses of kvpress and layouts of ours at the same bytes.

    python benchmarks/eviction_same_bytes.py --model smollm2 --text FILE --environment DIR

The first half or more of each window is a context whose cache is pressed, or encoded in a layout
and decoded; the tokens behind it are scored through what is left. A press keeps as many tokens as
fit into the bytes of the layout. The figures stand in docs/kv-ecosystem.md.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import kvpress_adapter as kvpress
import kvpress_worker

from assay.kv import contract
from assay.models.pretrained.catalog import open_model

LAYOUTS = ("k16v8", "k8v8", "int4")


class LayoutPress:
    """Encodes and decodes the cache of a prefill, in the place where kvpress drops tokens."""

    def __init__(self, layout: str) -> None:
        self.layout = contract.load(layout)
        self.kept_bytes = 0

    @contextmanager
    def __call__(self, model: Any) -> Iterator[None]:
        layers = [layer.self_attn for layer in model.model.layers]
        hooks = [layer.register_forward_hook(self._encode, with_kwargs=True) for layer in layers]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _encode(self, module: Any, arguments: Any, named: dict[str, Any], output: Any) -> None:
        cached = named["past_key_values"].layers[module.layer_idx]
        kept = self.layout.encode({"k": cached.keys, "v": cached.values}, ())
        self.kept_bytes += sum(tensor.nbytes for tensor in kept.values())
        decoded = self.layout.decode(kept, ())
        cached.keys = decoded["k"].to(cached.keys.dtype)
        cached.values = decoded["v"].to(cached.values.dtype)


def encoded(
    model: Any, windows: list[list[int]], context: int, layouts: Sequence[str]
) -> list[dict[str, Any]]:
    """Return a row for each window and layout, as `evict_pairs` has them; bytes are counted."""
    rows = []
    for index, window in enumerate(windows):
        dense = kvpress_worker.score(model, window, context)
        for layout in layouts:
            press = LayoutPress(layout)
            scored = kvpress_worker.score(model, window, context, press)
            named = {"press": layout, "ratio": 0.0}
            row = kvpress_worker.row(index, named, dense, scored)
            rows.append(row | {"kept_bytes": press.kept_bytes})
    return rows


def show(budget: str, name: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print a line of the table: means over windows, and how far they may be off."""
    (kept,) = {row["kept_bytes"] for row in rows}
    rises = [row["nll"] - row["dense_nll"] for row in rows]
    print(
        f"| {budget} | {name} | {kept:,} | {mean(row['dense_nll'] for row in rows):.4f} | "
        f"{mean(rises):+.4f} ± {stdev(rises) / len(rises) ** 0.5:.4f} | "
        f"{mean(row['top1'] for row in rows):.3f} |",
        flush=True,
    )


def main() -> None:
    """Print the table: each layout, and every press within its bytes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--environment", type=Path, required=True, help="made where it is absent")
    parser.add_argument("--windows", type=int, default=8)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--context", type=int, default=384)
    parser.add_argument("--dtype", default="bfloat16")
    words = parser.parse_args()
    if not words.environment.exists():
        print(f"making {words.environment}, about 1.4 GB", file=sys.stderr)
        kvpress.make_environment(words.environment)

    opened = open_model(words.model, dtype=words.dtype)
    ids = opened.token_ids(words.text.read_text()[: 8 * words.windows * words.length])
    windows = [ids[n * words.length :][: words.length] for n in range(words.windows)]
    settings = {"context": words.context, "dtype": words.dtype}
    with tempfile.TemporaryDirectory() as folder:
        opened.model.save_pretrained(folder)
        matched = [kvpress.matched_ratio(folder, layout, **settings) for layout in LAYOUTS]
        print("| bytes of | method | kept bytes | dense NLL | rise | top-1 |")
        print("|---|---|---|---|---|---|")
        own = encoded(opened.model, windows, words.context, LAYOUTS)
        pairs = [(press, m.ratio) for m in matched for press in kvpress.CONTEXTS]
        rows = kvpress.evict_pairs(Path(folder), windows, pairs, words.environment, **settings)
    for budget in matched:
        of_layout = [row for row in own if row["press"] == budget.layout]
        assert of_layout[0]["kept_bytes"] == budget.layout_bytes, "bytes are not the formula's"
        show(budget.layout, budget.layout, of_layout)
        for press in kvpress.CONTEXTS:
            chosen = [asdict(r) for r in rows if (r.press, r.ratio) == (press, budget.ratio)]
            show(budget.layout, f"{press}, {budget.kept_tokens} tokens", chosen)


if __name__ == "__main__":
    main()
