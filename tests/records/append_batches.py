"""A process that appends batches to a log: `append_batches.py LOG NAME COUNT SIZE PADDING`.

Batch i is called NAME-i and has 1 + i % SIZE records. A COUNT of 0 means until killed. It says
`ready`, and begins when a line (or the end) comes on its standard input.
"""

import sys
from itertools import count
from pathlib import Path

from made_records import batch

from assay.records.log import Log


def main(path: str, name: str, number: str, size: str, padding: str) -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    with Log(Path(path)) as log:
        for index in range(int(number)) if int(number) else count():
            log.append(batch(f"{name}-{index}", 1 + index % int(size), source="x" * int(padding)))


if __name__ == "__main__":
    main(*sys.argv[1:])
