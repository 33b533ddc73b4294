"""Devices as frameworks number them, also where NVML cannot be asked."""

import pytest

from assay.devices import Device, find, nvidia_from_driver, visible

THREE = [
    Device(kind="cuda", index=i, name=f"gpu {i}", memory_bytes=1, uuid=f"GPU-{i}{i}aa")
    for i in range(3)
]


@pytest.mark.parametrize(
    "value, names",
    [
        (None, ["gpu 0", "gpu 1", "gpu 2"]),
        ("", []),
        ("-1", []),
        ("2,0", ["gpu 2", "gpu 0"]),
        ("1,7,0", ["gpu 1"]),
        ("GPU-22", ["gpu 2"]),
        ("GPU-", []),
    ],
)
def test_hidden_devices_are_left_out_and_the_others_renumbered(value, names):
    environment = {} if value is None else {"CUDA_VISIBLE_DEVICES": value}
    seen = visible(THREE, environment, "CUDA_VISIBLE_DEVICES")
    assert [device.name for device in seen] == names
    assert [device.label for device in seen] == [f"cuda:{i}" for i in range(len(names))]


def test_without_nvml_the_drivers_files_are_read(tmp_path):
    """A GPU must not vanish, and its machine count as a CPU, because a package is missing."""
    (tmp_path / "version").write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n"
    )
    folder = tmp_path / "gpus" / "0000:00:05.0"
    folder.mkdir(parents=True)
    (folder / "information").write_text(
        "Model: \t\t NVIDIA H200\nIRQ:   \t\t 0\nGPU UUID: \t GPU-ab12\nVideo BIOS: \t ??\n"
    )
    (device,) = nvidia_from_driver(tmp_path)
    assert (device.name, device.driver, device.uuid) == ("NVIDIA H200", "580.159.04", "GPU-ab12")
    assert device.memory_bytes is None and device.label == "cuda:0"
    assert nvidia_from_driver(tmp_path / "nowhere") == []


def test_no_accelerator_has_a_reason():
    unknown: dict[str, str] = {}
    kinds = {device.kind for device in find(unknown)}
    assert "cpu" in kinds
    assert "cuda" in kinds or unknown.get("nvidia")


def test_devices_that_are_all_hidden_are_told(monkeypatch):
    monkeypatch.setattr("assay.devices._nvidia", lambda unknown: THREE)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    unknown: dict[str, str] = {}
    assert [device.kind for device in find(unknown)] == ["cpu"]
    assert unknown["nvidia"] == "CUDA_VISIBLE_DEVICES='' hides every device"
