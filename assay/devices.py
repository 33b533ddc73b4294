"""Devices of this machine: the CPU, NVIDIA devices through NVML, AMD devices through amdsmi.

No framework is imported. Devices are numbered as the frameworks number them, so those that
CUDA_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES hide are left out.
"""

import os
import platform
import re
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path

NVIDIA_DRIVER = Path("/proc/driver/nvidia")


@dataclass(frozen=True, kw_only=True)
class Device:
    """A CPU or an accelerator; `kind` is cpu, cuda or rocm."""

    kind: str
    index: int
    name: str
    memory_bytes: int | None
    driver: str | None = None
    uuid: str | None = None

    @property
    def label(self) -> str:
        """The name users and records call it by; ROCm devices answer to torch as cuda."""
        return "cpu" if self.kind == "cpu" else f"cuda:{self.index}"

    @property
    def words(self) -> str:
        """Its name, and of an accelerator memory and driver, where they are known."""
        known = [self.name]
        if self.kind != "cpu" and self.memory_bytes:
            known.append(f"{self.memory_bytes / 2**30:.1f} GiB")
        return ", ".join([*known, *([f"driver {self.driver}"] if self.driver else [])])


def find(unknown: dict[str, str]) -> tuple[Device, ...]:
    """The CPU first, then accelerators; `unknown` gets the reason where none can be looked for."""
    nvidia = _shown(_nvidia(unknown), "nvidia", "CUDA_VISIBLE_DEVICES", unknown)
    amd = _shown(_amd(unknown), "amd", "HIP_VISIBLE_DEVICES", unknown)
    return (_cpu(), *nvidia, *amd)


def _shown(
    devices: list[Device], maker: str, variable: str, unknown: dict[str, str]
) -> tuple[Device, ...]:
    shown = visible(devices, os.environ, variable)
    if devices and not shown:
        unknown[maker] = f"{variable}={os.environ[variable]!r} hides every device"
    return shown


def memory_bytes() -> int:
    """Physical memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def visible(
    devices: list[Device], environment: Mapping[str, str], variable: str
) -> tuple[Device, ...]:
    """The devices that the environment variable `variable` shows, renumbered from 0.

    As the drivers read it: indices or prefixes of UUIDs, up to the first that names no device.
    """
    if variable not in environment:
        return tuple(devices)
    shown: list[Device] = []
    for entry in environment[variable].split(","):
        matches = [device for device in devices if _is_named(device, entry.strip())]
        if len(matches) != 1:
            break
        shown.append(replace(matches[0], index=len(shown)))
    return tuple(shown)


def _is_named(device: Device, entry: str) -> bool:
    if entry.isdigit():
        return device.index == int(entry)
    return bool(entry) and bool(device.uuid) and str(device.uuid).startswith(entry)


def _cpu() -> Device:
    return Device(kind="cpu", index=0, name=_cpu_name(), memory_bytes=memory_bytes())


def _cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        match = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(), re.MULTILINE)
        if match:
            return match.group(1)
    return platform.processor() or platform.machine()


def _nvidia(unknown: dict[str, str]) -> list[Device]:
    try:
        import pynvml
    except ModuleNotFoundError:
        unknown["nvidia"] = "package nvidia-ml-py is not installed"
        return nvidia_from_driver(NVIDIA_DRIVER)
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        unknown["nvidia"] = f"NVML: {error}"
        return []
    try:
        driver = _text(pynvml.nvmlSystemGetDriverVersion())
        handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
        return [
            Device(
                kind="cuda",
                index=index,
                name=_text(pynvml.nvmlDeviceGetName(handle)),
                memory_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
                driver=driver,
                uuid=_text(pynvml.nvmlDeviceGetUUID(handle)),
            )
            for index, handle in enumerate(handles)
        ]
    finally:
        pynvml.nvmlShutdown()


def nvidia_from_driver(folder: Path) -> list[Device]:
    """NVIDIA devices as the driver's files describe them, without their memory."""
    file = folder / "version"
    version = re.search(r"\b(\d{3,}\.[\d.]+)\b", file.read_text()) if file.is_file() else None
    devices = []
    for index, file in enumerate(sorted(folder.glob("gpus/*/information"))):
        facts = dict(re.findall(r"^([\w ]+):\s*(.+?)\s*$", file.read_text(), re.MULTILINE))
        devices.append(
            Device(
                kind="cuda",
                index=index,
                name=facts.get("Model", "NVIDIA device"),
                memory_bytes=None,
                driver=version[1] if version else None,
                uuid=facts.get("GPU UUID"),
            )
        )
    return devices


def _amd(unknown: dict[str, str]) -> list[Device]:
    try:
        with redirect_stdout(StringIO()):  # it prints where it looked for its library
            import amdsmi
    except ModuleNotFoundError:
        unknown["amd"] = "package amdsmi is not installed (it comes with ROCm)"
        return []
    except (ImportError, OSError, KeyError) as error:
        unknown["amd"] = f"amdsmi cannot be loaded: {error}"
        return []
    try:
        amdsmi.amdsmi_init()
    except amdsmi.AmdSmiException as error:
        unknown["amd"] = f"amdsmi: {error}"
        return []
    try:
        return [
            Device(
                kind="rocm",
                index=index,
                name=amdsmi.amdsmi_get_gpu_asic_info(handle)["market_name"],
                memory_bytes=amdsmi.amdsmi_get_gpu_memory_total(
                    handle, amdsmi.AmdSmiMemoryType.VRAM
                ),
                driver=amdsmi.amdsmi_get_gpu_driver_info(handle)["driver_version"],
                uuid=amdsmi.amdsmi_get_gpu_device_uuid(handle),
            )
            for index, handle in enumerate(amdsmi.amdsmi_get_processor_handles())
        ]
    finally:
        amdsmi.amdsmi_shut_down()


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
