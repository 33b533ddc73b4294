"""Generated tables of a page: what stands between `<!-- table: NAME -->` and `<!-- end -->`."""

import re
from collections.abc import Callable, Mapping

MARKED = re.compile(r"(<!-- table: ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def generated_tables(text: str) -> dict[str, str]:
    """The tables of a page by name."""
    return {mark[2]: mark[3] for mark in MARKED.finditer(text)}


def written(text: str, tables: Mapping[str, Callable[[], str]]) -> str:
    """The page with these tables made anew; those of other names stay as they are."""

    def anew(mark: re.Match[str]) -> str:
        return mark[1] + tables[mark[2]]() + mark[4] if mark[2] in tables else mark[0]

    return MARKED.sub(anew, text)
