"""The tables of docs/results/kv.md, from evidence alone: `python benchmarks/kv_page.py`.

It writes them between the page's marks; a test fails where the page says something else.
"""

from dataclasses import replace
from functools import partial

from assay.host import CHECKOUT
from assay.reports.markdown import table_lines
from assay.reports.table import Table
from assay.reports.tables import cache_decode, cache_quality
from assay.verify import evidence
from assay.verify import marked_tables as tables

PAGE = CHECKOUT / "docs/results/kv.md"


def written(text: str) -> str:
    """The page with every marked table made anew."""
    return tables.written(text, TABLES)


def quality(folder: str) -> str:
    """Layouts by what they do to the loss."""
    made = cache_quality.tables("cache_quality", evidence.load(folder))
    return "\n".join(_lines(replace(table.without("perplexity"), note="")) for table in made)


def decoding(folder: str) -> str:
    """Layouts by the time of a token on the path that decodes all of the cache."""
    table, *_ = cache_decode.tables("cache_decode", evidence.load(folder))
    return _lines(replace(table.without("model", "loss above dense", "band"), note=""))


def _lines(table: Table) -> str:
    return "\n".join(table_lines(table, titled=False)) + "\n"


TABLES = {
    "float32": partial(quality, "kv-quality-float32-h200"),
    "bfloat16": partial(quality, "kv-quality-bfloat16-h200"),
    "decode": partial(decoding, "kv-decode-h200"),
}


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
