"""The table of docs/kernels/hopper.md is that of the run beside it."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("torch")
if find_spec("triton") is None:  # not imported: what interprets must be said before
    pytest.skip("needs triton", allow_module_level=True)

from benchmarks.hopper_prefill import others, table

PAGE = Path(__file__).parents[2] / "docs/kernels/hopper.md"


def test_the_page_shows_the_run() -> None:
    rows = json.loads((PAGE.parent / "hopper-h200.json").read_text())["rows"]
    _, shown = PAGE.read_text().split("<!-- table: prefill -->\n")
    assert shown.partition("\n<!-- end -->")[0] == table(rows) + "\n\n" + others(rows)
    rows[0]["ms"]["flash_hopper"] = [1.01 * ms for ms in rows[0]["ms"]["flash_hopper"]]
    assert shown.partition("\n<!-- end -->")[0] != table(rows) + "\n\n" + others(rows)
