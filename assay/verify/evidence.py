"""Evidence: the small, compressed records behind claims that this machine cannot re-measure.

evidence/<name>/ holds `run.json` as the run left it and `metrics.jsonl.gz`, the lines of all its
logs unchanged.

    python -m assay.verify.evidence RUN NAME        keeps the records of a run as evidence/NAME
"""

import gzip
import sys
from pathlib import Path

from assay.errors import BadInput
from assay.host import CHECKOUT
from assay.records import log
from assay.records.durable import make_folder, write_atomically
from assay.records.identity import current
from assay.records.run import RUN_FILE, RunFolder, archived_records, open_run
from assay.records.schema import Record

FOLDER = CHECKOUT / "evidence"


def keep(run: Path, name: str) -> Path:
    """Copy a run's records to evidence/<name>; every log must be whole."""
    folder, _ = open_run(run)
    lines = whole_lines(folder)
    target = make_folder(FOLDER / name)
    write_atomically(RunFolder(path=target).archive, gzip.compress(lines, mtime=0))
    write_atomically(target / RUN_FILE, folder.run_file.read_bytes())
    return target


def whole_lines(folder: RunFolder) -> bytes:
    """The lines of all logs of a run, or of its archive; every log must be whole."""
    if folder.archive.exists():
        return gzip.decompress(folder.archive.read_bytes())
    lines = b""
    for path in folder.logs():
        if log.read(path).torn_bytes:
            raise BadInput(f"{path} ends in an unfinished cell; resume the run first")
        lines += path.read_bytes()
    return lines


def load(name: str) -> list[Record]:
    """The records of evidence/<name>: each cell's last attempt."""
    return current(archived_records(RunFolder(path=FOLDER / name)))


if __name__ == "__main__":
    print(keep(Path(sys.argv[1]), sys.argv[2]))
