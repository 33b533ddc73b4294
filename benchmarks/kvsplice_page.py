"""The tables of docs/kvsplice.md, from its rows alone: `python benchmarks/kvsplice_page.py`.

It writes them between the page's marks; a test fails where the page says something else. The page
says which commands wrote the rows.
"""

from collections.abc import Callable
from functools import partial

from assay.host import CHECKOUT
from assay.models.splice_parameters import PRUNABLE
from assay.reports import cache_charts
from assay.reports.markdown import table_lines
from assay.reports.numerals import size_in_bytes
from assay.reports.row_files import read_rows
from assay.reports.splice_parameters import parameter_table
from assay.reports.table import tabulate
from assay.verify import marked_tables as tables

PAGE = CHECKOUT / "docs/kvsplice.md"
ROWS = CHECKOUT / "docs/results/kvsplice"
DTYPES = ("bfloat16", "float32")
TOKENS = 1024


def written(text: str) -> str:
    """The page with every marked table made anew."""
    return tables.written(text, TABLES)


def cache_bytes() -> str:
    """Measured bytes of TOKENS tokens and their share of the first cache, by dtype."""
    by_dtype = {
        dtype: [row for row in cache_rows(dtype) if row["tokens"] == TOKENS] for dtype in DTYPES
    }
    pairs = list(zip(*by_dtype.values(), strict=True))
    assert all(len({(row["model"], row["layout"]) for row in pair}) == 1 for pair in pairs)
    columns = {
        "model": lambda pair: f"`{pair[0]['model']}`",
        "layout": lambda pair: f"`{pair[0]['layout']}`",
    }
    for place, dtype in enumerate(DTYPES):
        columns[dtype] = partial(_size, place=place)
        columns[f"share, {dtype}"] = partial(_share, place=place)
    table = tabulate("", pairs, columns)
    lines = [table.columns, ["---"] * len(table.columns), *table.rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def parameters(example: str) -> str:
    """The codecs of an example, as `assay kv splice` shows them."""
    rows = read_rows(ROWS / example / "splice_parameters.jsonl")
    lines = table_lines(parameter_table("", rows, below=PRUNABLE, note=""), titled=False)
    return "\n".join(lines).rstrip() + "\n"


def cache_rows(dtype: str) -> list[dict]:
    return read_rows(ROWS / dtype / cache_charts.ROWS)


TABLES: dict[str, Callable[[], str]] = {
    "cache_bytes": cache_bytes,
    "learning": partial(parameters, "learning"),
    "stuck": partial(parameters, "stuck"),
}


def _size(pair: tuple[dict, ...], *, place: int) -> str:
    return size_in_bytes(pair[place]["measured"])


def _share(pair: tuple[dict, ...], *, place: int) -> str:
    return f"{pair[place]['share']:.4f}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
