"""Every call of a store, or of one file, looked at one after another."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from assay.capture.look import Look, look, look_at_file
from assay.errors import BadInput
from assay.workloads import tensor_files
from assay.workloads.manifest import CaptureRecord
from assay.workloads.store import Store

SUFFIXES = tuple(f".{form}" for form in tensor_files.FORMS)


def is_file(path: Path) -> bool:
    """Whether `path` is one file of tensors rather than a store."""
    if path.is_file() and path.suffix not in SUFFIXES:
        raise BadInput(f"{path} ends in neither {' nor '.join(SUFFIXES)}; give one, or a store")
    return path.is_file()


def looks(
    store: Store,
    records: Sequence[CaptureRecord],
    *,
    with_maps: bool = False,
    head: int | None = None,
) -> Iterator[Look]:
    """A look at each record, site after site.

    The steps of one site follow each other, because a cache may be stored as what changed in each.
    """
    for record in in_reading_order(records):
        tensors = store.read(record) if record.mode == "full" else {}
        yield look(record, tensors, with_map=with_maps, head=head)


def file_look(path: Path) -> Look:
    """A look at one .npz or .safetensors file."""
    tensors = tensor_files.read(path)
    return look_at_file(path.name, tensors, stored_bytes=path.stat().st_size)


def in_reading_order(records: Sequence[CaptureRecord]) -> list[CaptureRecord]:
    """Run by run and site by site, each from its first step on."""
    return sorted(records, key=_place)


def _place(record: CaptureRecord) -> tuple[str, int, int, str, int, int]:
    key = record.key
    return (key.run, key.rank, key.layer, key.site, key.step, key.call)
