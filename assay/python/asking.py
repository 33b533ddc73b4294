"""`assay.query(sql)`: the rows of a SELECT over the records of many runs."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from assay.python.tabular import Tabular, distinct
from assay.records.query import QueryResult, Records


class QueryRows(Tabular, Sequence[tuple[Any, ...]]):
    """Rows of a query: a sequence of tuples, with the names of their columns."""

    def __init__(self, result: QueryResult) -> None:
        self.columns = distinct(result.columns)
        self.rows = result.rows
        self.torn = result.torn

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: Any) -> Any:
        return self.rows[place]

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)

    def _columns(self) -> dict[str, list[Any]]:
        return {name: [row[i] for row in self.rows] for i, name in enumerate(self.columns)}

    def _answer(self) -> list[str]:
        from assay.reports.numerals import counted

        left_out = [
            f"{path}: {count} bytes after the last complete batch are left out"
            for path, count in self.torn.items()
        ]
        return [counted(len(self.rows), "row"), *left_out]


def query(sql: str, results: str | Path = "results", *, unsafe: bool = False) -> QueryRows:
    """The answer to one SELECT over `records`, `attempts` and `runs` below a results folder.

    It reads records and nothing else; with `unsafe` it may be any SQL.
    """
    return QueryRows(Records(Path(results)).query(sql, unsafe=unsafe))
