"""A process that captures until it is done or killed: `capture_calls.py STORE RUN COUNT VALUES`.

COUNT 0 goes on for ever. Prints `ready` and waits for stdin to end before it begins, so that
several can begin together; prints its report at the end.
"""

import json
import sys
from functools import cache
from itertools import count
from pathlib import Path

import numpy as np
from numpy_calls import captured_call

from assay.captures.recording import Recording
from assay.captures.recording.options import CaptureOptions
from assay.captures.store import Store
from assay.captures.tensor import tensor_of


@cache
def _drawn(run: str, values: int) -> np.ndarray:
    shape = (3, 1, 1, values // 4, 4)
    return np.random.default_rng([*run.encode()]).standard_normal(shape, dtype=np.float32)


def tensors_of(run: str, step: int, values: int):
    """Tensors of this run at this step, which any other process can compute too. Quick to make, so
    that it is the disk that is waited for."""
    made = {
        n: tensor_of(array + np.float32(step))
        for n, array in zip("qkv", _drawn(run, values), strict=True)
    }
    return made | {"mask": tensor_of(np.tri(8, 8, step % 3, dtype=bool))}


def main(path: Path, run: str, number: int, values: int) -> None:
    store = Store.create(path)
    options = CaptureOptions(wait_s=600.0, queue_bytes=8 << 20)
    with Recording(store, run=run, options=options) as recording:
        print("ready", flush=True)
        sys.stdin.read()
        for step in count() if number == 0 else range(number):
            recording.put(captured_call(recording, tensors_of(run, step, values), step=step))
    report = recording.report()
    print(json.dumps([report.records, report.dropped, report.duplicates]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
