"""docs/captures.md: its program reads a store without assay."""

import re
import subprocess
import sys

import numpy as np
from numpy_calls import call, captured_call

from assay.captures.recording import Recording
from assay.captures.store import Store
from assay.captures.tensor import Tensor
from assay.host import CHECKOUT

PAGE = CHECKOUT / "docs/captures.md"


def test_the_program_of_the_page_reads_a_store(tmp_path):
    programs = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (program,) = [text for text in programs if "def checksum" in text]
    store = Store.create(tmp_path / "s")
    odd = {"out": Tensor("bfloat16", np.arange(7, dtype=np.uint16))}
    with Recording(store) as recording:
        for step in range(3):
            tensors = call(values=400 * step, seed=step) | odd
            recording.put(captured_call(recording, tensors, step=step, phase="train"))
    done = subprocess.run(
        [sys.executable, "-I", "-c", program, str(store.path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("'out': (7,)") == 3 and "'q': (1, 1, 200, 4)" in done.stdout
    record = store.manifest().records[1]
    file = store.path / record.file
    file.write_bytes(file.read_bytes()[:-1] + b"\1")
    done = subprocess.run(
        [sys.executable, "-I", "-c", program, str(store.path)], capture_output=True, text=True
    )
    assert "AssertionError" in done.stderr
