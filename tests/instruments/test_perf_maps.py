"""Files for the profiler perf that a process would leave in /tmp."""

import os
from pathlib import Path

import pytest

from assay.instruments import forks
from assay.instruments.isolation import Limits

QUESTION = """
import os


def multiplies(request):
    import torch

    layer = torch.nn.Linear(64, 64).bfloat16()
    layer(torch.randn(4, 64).bfloat16())
    with open(request["to"], "w") as file:
        file.write(f"{os.getpid()} {os.environ['ONEDNN_JIT_PROFILE']}")
    yield from ()
"""


@pytest.mark.parametrize("asked", [None, "2"])
def test_a_worker_leaves_no_perf_map_unless_it_is_asked_for(tmp_path, asked):
    """oneDNN writes /tmp/perf-PID.map on ARM, where its default is that of a profiler at work."""
    pytest.importorskip("torch")
    (tmp_path / "multiplication.py").write_text(QUESTION)
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    surroundings = {**os.environ, "PYTHONPATH": path}
    surroundings.pop("ONEDNN_JIT_PROFILE", None)
    surroundings |= {"ONEDNN_JIT_PROFILE": asked} if asked else {}
    end = forks.run(
        "multiplication:multiplies",
        {"to": str(tmp_path / "answer")},
        environment=surroundings,
        stdout=tmp_path / "out",
        stderr=tmp_path / "err",
        limits=Limits(timeout_s=120),
    )
    assert end.ending == "finished", (tmp_path / "err").read_text()
    pid, profile = (tmp_path / "answer").read_text().split()
    file = Path(f"/tmp/perf-{pid}.map")
    assert asked or not file.exists()
    file.unlink(missing_ok=True)
    assert profile == (asked or "0")
