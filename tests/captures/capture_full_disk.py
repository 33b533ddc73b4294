"""A process that captures onto a disk without room, makes room, and captures again.

`capture_full_disk.py FOLDER ballast|manifest|nothing`: where there is room for some records; where
there is none left but for files that are there already; where nothing may be written at all.
Prints as JSON what happened.
"""

import json
import os
import sys
from pathlib import Path

from numpy_calls import call, captured_call, equal

from assay.captures.recording import Recording
from assay.captures.recording.options import CaptureOptions
from assay.captures.store import Store
from assay.errors import BadInput

TENSORS = call(values=8000)  # 96 kB a record


def captured(store: Store, run: str, count: int) -> dict:
    with Recording(store, run=run, options=CaptureOptions(wait_s=600)) as recording:
        for step in range(count):
            recording.put(captured_call(recording, TENSORS, step=step, phase="train"))
    report = recording.report()
    return {"records": report.records, "dropped": report.dropped, "unlisted": recording.unlisted}


def fill(folder: Path) -> dict:
    ballast = folder / "ballast"
    ballast.write_bytes(b"x" * 800_000)
    store = Store.create(folder / "store")
    full = captured(store, "full", 40)
    left = [file.name for file in folder.glob("store/*/**/.*")]
    ballast.unlink()
    later = captured(store, "later", 3)
    whole = [equal(store.read(record), TENSORS) for record in store.manifest().records]
    listed = {record.file for record in store.manifest().records}
    files = {str(f.relative_to(store.path)) for f in store.path.glob("records/*/*")}
    return {
        "full": full,
        "later": later,
        "left": left,
        "whole": all(whole),
        "listed": len(whole),
        "unlisted_files": len(files - listed),
    }


def refusal(folder: Path) -> str:
    try:
        with Recording(Store.open(folder / "store")):
            pass
    except BadInput as error:
        return str(error)
    return ""


def main(folder: Path, means: str) -> None:
    if means == "make":
        captured(Store.create(folder / "store"), "first", 2)
        return
    if means == "nothing":
        store = Store.open(folder / "store")
        readable = [equal(store.read(record), TENSORS) for record in store.manifest().records]
        print(json.dumps({"message": refusal(folder), "readable": readable}))
        return
    print(json.dumps(fill(folder)))


if __name__ == "__main__":
    os.umask(0o022)
    main(Path(sys.argv[1]), sys.argv[2])
