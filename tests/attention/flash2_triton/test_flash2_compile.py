"""Every configuration compiles for real targets, without a GPU, and fits what they have."""

import subprocess
import sys

import pytest
from new_process import ROOT, environment

pytest.importorskip("torch")
pytest.importorskip("triton")

from assay.attention.sequence.flash2_triton import CONFIGS

MODULE = "tools.compile_ahead.flash2_triton"


def compiled(*options: str) -> str:
    command = [sys.executable, "-m", MODULE, *options]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


# In whole, without --quick, each takes a core five to ten minutes, gfx1100 twenty: by hand. What
# they add, other dtypes and head dimensions, an H200 compiles in test_on_gpu.py.
@pytest.mark.slow
def test_every_configuration_compiles_for_an_h200():
    report = compiled("--target", "sm_90", "--quick")
    assert all(f"\n{name} " in report for name in CONFIGS)
    assert "None" not in report  # registers, spills and shared memory are all known


@pytest.mark.slow
@pytest.mark.early
@pytest.mark.parametrize(
    ("target", "kernel"), [("sm_80", "dq"), ("gfx942", "dkdv"), ("gfx1100", "forward")]
)
def test_a_kernel_compiles_for_other_targets(target, kernel):
    report = compiled("--target", target, "--quick", "--kernel", kernel)
    named = {other for other in ("forward", "dkdv", "dq") if f"\n{other}_" in report}
    assert named == {kernel}
