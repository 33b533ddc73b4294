"""Text files and parquet files of a local folder, or a single such file.

Each .txt, .md or .py file is a document, and each row of a .parquet file, whose texts are in the
column `text`. What begins with a dot is left out.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay.errors import BadInput
from assay.plugins import how_to_install
from assay.train.documents import Document, read_text

NEEDS_PLACE = True

_TEXTS = (".txt", ".md", ".py")
_PARQUET = ".parquet"
_COLUMN = "text"


def documents(place: str) -> Iterator[Document]:
    """Documents in the order of their paths below `place`; a row is named file#row."""
    root = Path(place)
    for path in _files(root):
        name = path.name if path == root else path.relative_to(root).as_posix()
        if path.suffix == _PARQUET:
            yield from _rows(path, name)
        else:
            yield Document(name=name, text=read_text(path))


def _files(root: Path) -> list[Path]:
    kinds = (*_TEXTS, _PARQUET)
    if root.is_file():
        if root.suffix not in kinds:
            raise BadInput(f"{root} is a file of another kind; wanted {', '.join(kinds)}")
        return [root]
    if not root.is_dir():
        raise BadInput(f"there is no folder or file {root}; give the path of your texts")
    relative = sorted(path.relative_to(root).as_posix() for path in root.rglob("*"))
    shown = [name for name in relative if not any(p.startswith(".") for p in name.split("/"))]
    files = [root / name for name in shown if (root / name).is_file()]
    wanted = [path for path in files if path.suffix in kinds]
    if not wanted:
        raise BadInput(
            f"the folder {root} holds none of the files that can be read, {', '.join(kinds)}; "
            "give the folder of your texts"
        )
    return wanted


def _rows(path: Path, name: str) -> Iterator[Document]:
    for row, text in enumerate(_texts(path)):
        if not isinstance(text, str):
            raise BadInput(
                f"row {row} of {path} has {type(text).__name__} in the column {_COLUMN!r}, "
                "wanted a text; leave out such rows"
            )
        yield Document(name=f"{name}#{row}", text=text)


def _texts(path: Path) -> Iterator[Any]:
    """The column of a parquet file, a few rows in memory at a time."""
    try:
        from pyarrow import lib, parquet
    except ImportError as error:
        raise BadInput(
            f"{path} is read with the package pyarrow, which is not installed here: "
            f"{how_to_install(['pyarrow'])}, or give text files ({', '.join(_TEXTS)})"
        ) from error
    try:
        file = parquet.ParquetFile(path)
        _require_column(path, file)
        for batch in file.iter_batches(columns=[_COLUMN]):
            yield from batch.column(0).to_pylist()
    except (OSError, lib.ArrowException) as error:
        raise BadInput(f"{path} is no whole parquet file ({error}); get it again") from error


def _require_column(path: Path, file: Any) -> None:
    if _COLUMN not in file.schema_arrow.names:
        raise BadInput(
            f"{path} has no column {_COLUMN!r}, but {', '.join(file.schema_arrow.names)}; "
            f"rename the column that holds the texts to {_COLUMN!r}"
        )
