"""A process that appends until there is no room, makes room, and appends again.

`fill_disk.py FOLDER ballast` frees a file that took space; `fill_disk.py FOLDER limit` works under
RLIMIT_FSIZE and lifts it; `fill_disk.py FOLDER nothing` is for folders that may not be written.
Prints as JSON what happened.
"""

import json
import resource
import sys
from itertools import count
from pathlib import Path

from made_records import batch

from assay.errors import BadInput
from assay.records.durable import make_folder, write_atomically
from assay.records.log import Log, read

LIMIT_BYTES = 50_000


def fill(path: Path, *, make_room) -> dict:
    with Log(path) as log:
        for index in count():
            before = path.read_bytes()
            try:
                log.append(batch(f"b{index}", 20, source="x" * 100))
            except BadInput as error:
                after, message = path.read_bytes(), str(error)
                break
        make_room()
        log.append(batch("later", 3))
    records = read(path).records
    return {
        "batches": index,
        "message": message,
        "as_before": before == after,
        "sequence": [record.sequence for record in records],
        "last": records[-1].cell,
        "torn": path.with_name(path.name + ".torn").exists(),
    }


def refusals(folder: Path) -> list[str]:
    """What is said about a folder that may not be written."""
    attempts = [
        lambda: Log(folder / "metrics.jsonl"),
        lambda: Log(folder / "new.jsonl"),
        lambda: write_atomically(folder / "run.json", b"{}"),
        lambda: make_folder(folder / "stages" / "bench"),
    ]
    return [_message(attempt) for attempt in attempts]


def _message(attempt) -> str:
    try:
        attempt()
    except BadInput as error:
        return str(error)
    return ""


def main(folder: Path, means: str) -> None:
    path = folder / "metrics.jsonl"
    if means == "nothing":
        report = refusals(folder)
    elif means == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, resource.RLIM_INFINITY))
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        report = fill(path, make_room=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, unlimited))
    else:
        ballast = folder / "ballast"
        ballast.write_bytes(b"x" * 20_000)
        report = fill(path, make_room=ballast.unlink)
    print(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
