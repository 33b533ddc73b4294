"""The table of docs/models.md is what the models are."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from tiny_gpt2 import single_parts

from assay.models.gpt2 import variants
from assay.models.gpt2.config import GPTConfig

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
HEADING = "| name | parts | parameters | bytes per token | of GPT2's |\n|---|---|---|---|---|\n"


def row(variant: variants.Variant) -> str:
    with torch.device("meta"):
        model = variants.model_class(variant)(variants.config_class(variant)())
        base = variants.model_class("GPT2")(GPTConfig())
    half = torch.float16
    per_token = model.cache_bytes(1, 2, half) - model.cache_bytes(1, 1, half)
    share = per_token / base.cache_bytes(1, 1, half)
    parts = ", ".join(variant.tags) or "none"
    millions = f"{model.get_num_params() / 1e6:.2f} M"
    return f"| {variant.name} | {parts} | {millions} | {per_token:,} | {share:.3f} |\n"


def table() -> str:
    names = dict.fromkeys([*variants.NAMED, *single_parts()])
    return HEADING + "".join(row(variants.parse(name)) for name in names)


def test_the_composition_table_is_true():
    text = PAGE.read_text()
    written = text[text.index(HEADING) : text.index("<!-- end -->")]
    assert written == table()


if __name__ == "__main__":
    text = PAGE.read_text()
    start = text.index(HEADING.splitlines()[0])
    PAGE.write_text(text[:start] + table() + text[text.index("<!-- end -->") :])
