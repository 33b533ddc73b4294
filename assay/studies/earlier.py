"""Records of the stages before one, looked up by subject without a pass over all of them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import overload

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
