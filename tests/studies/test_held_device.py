"""Failures beside others on a GPU: run again, and no kernel is blamed for what others did."""

import pytest

pytest.importorskip("torch")

from assay.instruments import out_of_memory
from assay.instruments.out_of_memory import _DeviceMemory, is_of_device, wait_for
from assay.studies import attempt, kconfig
from assay.verbs._running import run_adhoc

GIB = 1 << 30
FREE = _DeviceMemory(total=140 * GIB, free=139 * GIB, by_process={})
HELD = _DeviceMemory(total=140 * GIB, free=9 * GIB, by_process={1: 130 * GIB})
BUSY = _DeviceMemory(total=140 * GIB, free=139 * GIB, by_process={}, busy=90)

ALLOCATION = "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"
START = "Unable to initialize backend 'cuda': INTERNAL: no supported devices found"
KERNEL = '''"""Right, but in some processes."""
import os
import time
from pathlib import Path
from assay.attention.sequence import eager

BACKWARD = False
_USED = Path(__file__).with_name("processes")


def attention(q, k, v, *, causal, scale):
    known = _USED.read_text().split() if _USED.exists() else []
    if str(os.getpid()) not in known:
        known.append(str(os.getpid()))
        _USED.write_text(" ".join(known))
    if known.index(str(os.getpid())) in {FAILING}:
        {FAILS}
    return eager.attention(q, k, v, causal=causal, scale=scale)
'''


@pytest.fixture
def device(monkeypatch):
    """Readings of NVML, the last for good; a CPU stands for the GPU."""
    looks = []
    monkeypatch.setattr(
        out_of_memory, "_of", lambda name: looks.pop(0) if len(looks) > 1 else looks[0]
    )
    monkeypatch.setattr(out_of_memory, "_LETS_GO_S", 0)
    monkeypatch.setattr(attempt, "PATIENCE_S", 2.0)
    return looks


def checked(folder, *, fails, failing, probe="accuracy", **settings):
    """Check a kernel that fails in some of the processes that call it, numbered from 0."""
    file = folder / "mine.py"
    file.write_text(KERNEL.replace("{FAILING}", repr(failing)).replace("{FAILS}", fails))
    typed = [f"IMPLEMENTATIONS={file}", f"PROBES={probe}", "STAGES=suite", "SUITE_QUICK=y"]
    typed += ["DEVICE_CPU=y", "DTYPES=float32", *(f"{k}={v}" for k, v in settings.items())]
    study = kconfig.load(None, typed)
    return run_adhoc("check", study, out=folder, as_json=False, dry_run=False)


def raises(text):
    return f"raise RuntimeError({text!r})"


ENDS, HANGS = "os._exit(9)", "time.sleep(60)"


@pytest.mark.parametrize("look", [HELD, BUSY], ids=["memory", "busy"])
@pytest.mark.parametrize("fails", [raises(ALLOCATION), raises(START), ENDS])
def test_what_fails_beside_others_is_run_again_in_a_new_process(
    fails, look, device, tmp_path, capfd
):
    """Of 14 sound kernels that were checked at once, three FAILED."""
    device += [look, FREE]
    assert checked(tmp_path, fails=fails, failing=[0]) == 0
    shown = capfd.readouterr()
    assert "PASS  mine: 1 probe" in shown.out
    assert "other processes hold" in shown.err and "to run again suite/mine: mine, acc" in shown.err


def test_a_case_that_takes_too_long_beside_others_is_run_again(device, tmp_path, capfd):
    """Three wrong ones were said to hang."""
    device += [HELD, FREE]
    assert checked(tmp_path, fails=HANGS, failing=[0], CASE_TIMEOUT_S=4) == 0
    assert "PASS  mine: 1 probe" in capfd.readouterr().out


def test_a_second_process_that_cannot_start_is_not_the_kernels_doing(device, tmp_path, capfd):
    """It was said to work in the first process only."""
    device += [HELD, FREE]
    assert checked(tmp_path, fails=raises(START), failing=[1], probe="determinism") == 0
    assert "PASS  mine: 1 probe" in capfd.readouterr().out


@pytest.mark.parametrize("fails", [raises(ALLOCATION), ENDS])
def test_what_repeats_beside_others_is_not_examined(fails, device, tmp_path, capfd):
    device += [HELD]
    assert checked(tmp_path, fails=fails, failing=list(range(9))) == 3
    shown = capfd.readouterr().out
    assert "NOT RUN  mine: not examined: other processes hold 131.0 of the 140.0 GiB" in shown


def test_a_probe_that_was_not_examined_makes_the_check_incomplete(device, tmp_path, capfd):
    device += [HELD]
    again = {"probe": "accuracy,determinism", "fails": raises(START)}
    assert checked(tmp_path, failing=[1, 3], **again) == 3
    shown = capfd.readouterr().out
    assert "INCOMPLETE  mine:" in shown and "determinism not examined: other proc" in shown


@pytest.mark.parametrize("fails", [raises(ALLOCATION), ENDS])
def test_what_repeats_on_a_free_device_fails(fails, device, tmp_path, capfd):
    device += [HELD, FREE]
    assert checked(tmp_path, fails=fails, failing=list(range(9))) == 1
    assert "FAIL  mine: " in capfd.readouterr().out


def test_alone_on_a_device_nothing_is_run_again(device, tmp_path, capfd):
    device += [FREE]
    assert checked(tmp_path, fails=raises(ALLOCATION), failing=[0]) == 1
    shown = capfd.readouterr()
    assert "FAIL  mine: " in shown.out and "waiting" not in shown.err


def test_a_wrong_value_is_not_excused_by_others(device, tmp_path, capfd):
    device += [HELD]
    assert checked(tmp_path, fails="return q", failing=list(range(9))) == 1
    assert "waiting" not in capfd.readouterr().err


def test_the_wait_ends_with_the_memory_that_is_needed(device):
    device += [HELD, _DeviceMemory(total=140 * GIB, free=60 * GIB, by_process={})]
    wait_for("cuda:0", 30 * GIB, patience_s=20)
    assert out_of_memory.free_bytes("cuda:0") == 60 * GIB


@pytest.mark.parametrize("text", [ALLOCATION, START, "CUDA out of memory. Tried to allocate"])
def test_errors_of_a_device(text):
    assert is_of_device(RuntimeError(text))
    wrapped = ValueError("mine.py fails on import")
    wrapped.__cause__ = RuntimeError(text)
    assert is_of_device(wrapped) and not is_of_device(ValueError("no"))
