"""The process that was started by names alone is the one that the cells of the study ask."""

import subprocess
import sys

import pytest
from new_process import environment

from assay import host
from assay.instruments import forks
from assay.instruments.start_method import can_fork
from assay.studies import kconfig, launching, plan
from assay.studies.worker_environment import begin_frameworks

pytestmark = pytest.mark.skipif(not can_fork(), reason="forking is not safe here")


@pytest.fixture(autouse=True)
def no_servers():
    yield
    for server in list(forks._servers.values()):
        forks._forget(server)


def processes() -> set[int]:
    return {server.process.pid for key, server in forks._servers.items() if key[1]}


@pytest.mark.parametrize("device", [None, "cpu"])
def test_names_and_the_study_start_one_process(tmp_path, device):
    file = tmp_path / "mine.py"
    file.write_text("import torch\ndef attention(q, k, v, *, causal, scale): ...\n")
    before = processes()
    begin_frameworks(["sdpa", str(file), "no_such_name"], device)
    (early,) = processes() - before
    chosen = ["DEVICE_CPU=y"] if device else []
    study = kconfig.load(None, [f"IMPLEMENTATIONS=sdpa,{file}", "STAGES=host,bench", *chosen])
    launching.begin_imports(plan.on_device(study, host.inspect(commit=False)))
    assert processes() - before == {early}


def test_names_without_a_framework_start_none():
    before = processes()
    begin_frameworks(["no_such_name", "decode/eager"], None)
    assert processes() == before


def test_little_is_imported_before_it():
    code = "import sys, assay.studies.worker_environment as w; print('numpy' in sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True
    )
    assert ended.stdout.split() == ["False"]
