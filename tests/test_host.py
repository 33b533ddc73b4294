"""What this machine is, without a framework; what is not known has a reason."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from assay import commit_files, host, peaks


def test_inspecting_loads_no_framework():
    code = "import sys; from assay import host; host.inspect(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_fingerprint_is_stable_across_processes():
    code = "from assay import host; print(host.inspect().fingerprint)"
    runs = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
        for _ in range(2)
    }
    assert runs == {f"{host.inspect().fingerprint}\n".encode()}


def test_the_cpu_is_a_device_with_memory():
    cpu = host.inspect().devices[0]
    assert cpu.label == "cpu" and cpu.name and cpu.memory_bytes > 1 << 28


def test_what_is_unknown_has_a_reason():
    here = host.inspect()
    assert (here.commit is None) == ("commit" in here.unknown)
    for name in ("numpy", "torch", "triton", "jax"):
        assert (name in here.versions) != (name in here.unknown)
    assert all(here.unknown.values())


def test_the_fingerprint_ignores_commit_and_versions():
    from dataclasses import replace

    here = host.inspect()
    moved = replace(here, commit="0" * 40, dirty=True, versions={})
    assert moved.fingerprint == here.fingerprint
    assert replace(here, cores=here.cores + 1).fingerprint != here.fingerprint


@pytest.mark.parametrize("use_torch", [True, False])
def test_peaks_have_samples_a_source_and_sane_values(use_torch, monkeypatch):
    monkeypatch.setattr(peaks, "installed", lambda _: use_torch)
    monkeypatch.setitem(peaks._BYTES, "cpu", 16 << 20)
    monkeypatch.setitem(peaks._PRODUCTS, "cpu", {256: 7, 64: 7})
    calibration, *ceilings = peaks.measure("cpu")
    assert calibration.metric == "calibration.bandwidth" and calibration.value
    measured = {measurement.metric: measurement for measurement in ceilings}
    cached = {f"read_bandwidth.{kib}" for kib in (64, 1024, 16384)}
    assert set(measured) == set(peaks.UNITS) | cached
    for measurement in measured.values():
        assert measurement.value == max(measurement.samples) and len(measurement.samples) == 7
        assert ("torch" if use_torch else "NumPy") in measurement.source
    assert 0 < measured["copy_bandwidth"].value < 5000
    assert 0 < measured["matmul_rate"].value < 1000
    assert re.search(r" of (256x256|64x64) float32$", measured["matmul_rate"].source)


def test_of_products_of_two_sizes_the_faster_counts(monkeypatch):
    """On a busy machine a short product may have the cores for itself, and a long one never."""
    monkeypatch.setitem(peaks._BYTES, "cpu", 16 << 20)
    monkeypatch.setitem(
        peaks._PRODUCTS, "cpu", {256: 2, 64: 30}
    )  # of many short ones some are undisturbed
    slow = {256: 0.05, 64: 0.0}
    torch = pytest.importorskip("torch")
    matmul = torch.matmul

    def delayed(a, b, **out):
        time.sleep(slow[len(a)])
        return matmul(a, b, **out)

    monkeypatch.setattr(torch, "matmul", delayed)
    rate = next(m for m in peaks.measure("cpu") if m.metric == "matmul_rate")
    assert rate.source.endswith("matmul of 64x64 float32") and len(rate.samples) == 30


def test_unmeasured_peaks_are_null_with_a_reason():
    assert all(
        m.value is None and m.reason == "no device" for m in peaks.unmeasured("x", "no device")
    )


@pytest.fixture
def copy(tmp_path):
    """A small checkout with one commit, its list of files, and a copy of both without git."""
    checkout, copied = tmp_path / "checkout", tmp_path / "copy"
    shutil.copytree(host.CHECKOUT / "assay", checkout / "assay", ignore=_no_caches)
    (checkout / "assay.txt").write_text("sorts between assay and assay/")
    for arguments in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "first"],
    ):
        subprocess.run(["git", "-C", checkout, *arguments], check=True)
    commit_files.write(checkout)
    shutil.copytree(checkout, copied, ignore=shutil.ignore_patterns(".git"))
    head = ["git", "-C", checkout, "rev-parse", "HEAD"]
    return copied, subprocess.check_output(head, text=True).strip()


_no_caches = shutil.ignore_patterns("__pycache__")


def seen(folder: Path) -> str:
    """Commit and state, by a process that has only this copy."""
    code = "from assay import host; h = host.inspect(); print(h.commit, h.dirty, h.unknown)"
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [sys.executable, "-c", code]
    return subprocess.check_output(command, cwd=folder, env=clean, text=True)


def test_a_copy_proves_its_commit_by_its_files(copy):
    folder, commit = copy
    assert seen(folder).startswith(f"{commit} False")


def test_a_file_that_differs_is_an_uncommitted_change(copy):
    folder, commit = copy
    (folder / "assay" / "errors.py").write_text("# changed\n" + ERRORS)
    assert seen(folder).startswith(f"{commit} True")
    assert "1 files differ, such as assay/errors.py" in seen(folder)
    (folder / "assay" / "errors.py").write_text(ERRORS)
    (folder / "assay" / "one_more.py").write_text("")
    assert "such as assay/one_more.py" in seen(folder)


ERRORS = (host.CHECKOUT / "assay" / "errors.py").read_text()


def test_a_list_that_was_changed_proves_nothing(copy):
    folder, _ = copy
    file = folder / commit_files.FILE
    content = file.read_bytes()
    for changed in (content.replace(b"assay.txt", b"assay.txu"), content[:50], b"", b"\xff" * 99):
        file.write_bytes(changed)
        assert seen(folder).startswith("None None")
        assert "does not list the files" in seen(folder) or "not a list" in seen(folder)
    file.unlink()
    assert seen(folder).startswith("None None") and "not a git checkout" in seen(folder)


def test_a_repository_around_a_copy_says_nothing_about_it(copy):
    """A copy in a folder that git keeps for another purpose took that folder's commit for its own,
    as an environment inside a user's project would."""
    folder, commit = copy
    (folder / commit_files.FILE).unlink()
    assert (folder.parent / "checkout" / ".git").is_dir()
    (folder.parent / "checkout" / ".git").rename(folder.parent / ".git")
    assert commit not in seen(folder) and seen(folder).startswith("None None")
