"""What this machine is, without a framework; what is not known has a reason."""

import subprocess
import sys

import pytest

from assay import host, peaks


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
    monkeypatch.setitem(peaks._SIDE, "cpu", 256)
    measured = {measurement.metric: measurement for measurement in peaks.measure("cpu")}
    assert set(measured) == set(peaks.UNITS)
    for measurement in measured.values():
        assert measurement.value == max(measurement.samples) and len(measurement.samples) == 7
        assert ("torch" if use_torch else "NumPy") in measurement.source
    assert 0 < measured["copy_bandwidth"].value < 5000
    assert 0 < measured["matmul_rate"].value < 1000


def test_unmeasured_peaks_are_null_with_a_reason():
    assert all(
        m.value is None and m.reason == "no device" for m in peaks.unmeasured("x", "no device")
    )


def test_a_copy_without_git_may_be_told_its_commit(tmp_path):
    import os
    import shutil

    shutil.copytree(host.CHECKOUT / "assay", tmp_path / "assay")
    code = "from assay import host; h = host.inspect(); print(h.commit, h.dirty, h.unknown)"
    clean = {k: v for k, v in os.environ.items() if k not in (host.COMMIT_VARIABLE, "PYTHONPATH")}

    def seen(**environment):
        return subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env={**clean, **environment},
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip

    assert seen().startswith("None None") and "not a git checkout" in seen()
    described = seen(ASSAY_COMMIT="c0ffee")
    assert described.startswith("c0ffee None") and "given by ASSAY_COMMIT" in described
