"""The end of a log that another process appends to: what is new since the last look.

Only new bytes are read, so a look costs the same after a million records as after ten.
"""

from dataclasses import dataclass
from pathlib import Path

from assay.records import log
from assay.records.schema import Record


@dataclass(kw_only=True)
class LogTail:
    """A log and how far it was read; it may not exist yet. Nothing is locked or written."""

    path: Path
    offset: int = 0  # bytes of the batches that were read
    lines: int = 0  # and their lines

    def new_records(self) -> list[Record]:
        """The records of the batches that were completed since the last call, all attempts.

        BadInput where a line is no record, or the log is shorter than it was.
        """
        if not self.offset and not self.path.is_file():
            return []
        content, _ = log.complete_content(self.path, start=self.offset)
        records = log.records_in(content, self.path, first_line=self.lines + 1)
        self.offset += len(content)
        self.lines += len(records)
        return records
