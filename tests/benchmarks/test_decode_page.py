"""The table of docs/kernels/decode.md is that of the run beside it."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("torch")
if find_spec("triton") is None:  # not imported: what interprets must be said before
    pytest.skip("needs triton", allow_module_level=True)

from benchmarks.decode_bandwidth import table

PAGE = Path(__file__).parents[2] / "docs/kernels/decode.md"


def test_the_page_shows_the_run() -> None:
    rows = json.loads((PAGE.parent / "decode-h200.json").read_text())["rows"]
    _, shown = PAGE.read_text().split("<!-- table: bandwidth -->\n")
    assert shown.partition("\n<!-- end -->")[0] == table(rows)
    rows[0]["us"] *= 1.01
    assert shown.partition("\n<!-- end -->")[0] != table(rows)
