"""SQL that anyone may have written: one SELECT, which reaches the files of the records alone.

Other files, the network, extensions and settings are out of its reach.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from assay.errors import BadInput

# Nothing may be fetched because a query names it.
CONFIG = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
_WANTED = (
    "wanted one SELECT over `records`, `attempts` and `runs`, which may read nothing else; "
    "--unsafe runs SQL of your own that does more"
)


def require_select(connection: Any, sql: str) -> None:
    """Refuse anything but one SELECT."""
    import duckdb

    kinds = [statement.type for statement in connection.extract_statements(sql)]
    if len(kinds) > 1:
        raise BadInput(f"the query is refused: it holds {len(kinds)} statements; {_WANTED}")
    for kind in kinds:
        if kind != duckdb.StatementType.SELECT:
            raise BadInput(f"the query is refused: it is a statement of {kind.name}; {_WANTED}")


def confine(connection: Any, files: Iterable[str]) -> None:
    """Leave a connection access to `files`, as SQL literals, and to nothing else, for good."""
    connection.execute(f"SET allowed_paths = [{', '.join(files)}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


@contextmanager
def refusals_explained() -> Iterator[None]:
    """Say of what DuckDB refuses here how it can be asked for."""
    import duckdb

    try:
        yield
    except duckdb.PermissionException as error:
        reason = str(error).partition("\n")[0]
        raise BadInput(f"the query is refused: {reason}; {_WANTED}") from error
