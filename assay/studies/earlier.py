"""Records that were made before: those of earlier stages by subject, and those that cells of this
stage streamed by attempt, without a pass over all of them for each cell."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import overload

from assay.records import log
from assay.records.schema import Record


class EarlierRecords(Sequence[Record]):
    """A sequence of records that each cell of a stage asks for those about its own subjects."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._records: list[Record] = []
        self._of_stage: defaultdict[tuple[str, str], list[Record]] = defaultdict(list)
        self._on_workload: defaultdict[tuple[str, str], list[Record]] = defaultdict(list)
        self.extend(records)

    def extend(self, records: Iterable[Record]) -> None:
        """Add the records of one more stage."""
        for record in records:
            self._records.append(record)
            self._of_stage[record.stage, record.subject].append(record)
            if record.workload:
                self._on_workload[record.workload.name, record.subject].append(record)

    def of_stage(self, stage: str, subject: str) -> Sequence[Record]:
        """Records of a subject in a stage, in their order."""
        return self._of_stage.get((stage, subject), ())

    def on_workload(self, name: str, subject: str) -> Sequence[Record]:
        """Records of a subject on a workload in any stage, in their order."""
        return self._on_workload.get((name, subject), ())

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | list[Record]:
        return self._records[index]


class StreamedRecords:
    """Batches that cells append to their stage's log while it runs, each read once."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read_bytes, self._read_lines = 0, 0
        self._of: defaultdict[tuple[str, int], list[Record]] = defaultdict(list)

    def of(self, cell: str, attempt: int) -> list[Record]:
        """All records of an attempt that are in the log by now."""
        content, _ = log.complete_content(self._file, start=self._read_bytes)
        records = log.records_in(content, self._file, first_line=self._read_lines + 1)
        self._read_bytes += len(content)
        self._read_lines += len(records)
        for record in records:
            self._of[record.cell, record.attempt].append(record)
        return self._of[cell, attempt]
