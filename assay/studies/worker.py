"""The process in which one cell runs: `python -m assay.studies.worker REQUEST RESULT`.

Measurements go to the file RESULT as they come, one JSON object per line, so that what was
complete before a crash is kept. `{"begin": SUBJECT}` says whose fault a crash would be.
"""

import ctypes
import os
import signal
import sys
from pathlib import Path

import msgspec

from assay import plugins
from assay.bench.loop import Begin
from assay.studies import cell as cells


def main(request: str, result: str) -> None:
    """Run the cell described in the file `request`."""
    _end_with_parent()
    stage_name, cell = cells.decode(Path(request).read_bytes())
    stage = plugins.load(plugins.find("stages", stage_name, cell.plugin_folders))
    with open(result, "wb", buffering=0) as file:
        subject = None
        for item in stage.run(cell):
            if not isinstance(item, Begin):
                file.write(msgspec.json.encode(item) + b"\n")
            elif item.subject != subject:
                subject = item.subject
                file.write(msgspec.json.encode({"begin": subject}) + b"\n")


def _end_with_parent() -> None:
    """Where the study is killed, its cell must not go on and disturb the next start."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
        if os.getppid() == 1:  # it ended before we asked
            os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
