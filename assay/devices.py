"""What computes here: the CPU, NVIDIA devices through NVML, AMD devices through amdsmi.

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
    """Something that computes: `kind` is cpu, cuda or rocm."""

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


def find(unknown: dict[str, str]) -> tuple[Device, ...]:
    """The CPU first, then accelerators; `unknown` gets the reason where none can be looked for."""
    nvidia = visible(_nvidia(unknown), os.environ, "CUDA_VISIBLE_DEVICES")
    amd = visible(_amd(unknown), os.environ, "HIP_VISIBLE_DEVICES")
    return (_cpu(), *nvidia, *amd)


def memory_bytes() -> int:
    """Physical memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def visible(
    devices: list[Device], environment: Mapping[str, str], variable: str
) -> tuple[Device, ...]:
    """Those devices that a program sees, numbered as it sees them.

    As the drivers do it: indices or prefixes of UUIDs, and the list ends at the first that names
    no device.
    """
    if variable not in environment:
        return tuple(devices)
    seen: list[Device] = []
    for entry in environment[variable].split(","):
        found = [d for d in devices if _is_named(d, entry.strip())]
        if len(found) != 1:
            break
        seen.append(replace(found[0], index=len(seen)))
    return tuple(seen)


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
    """Where NVML cannot be asked, what the driver says in files: all but the memory."""
    told = folder / "version"
    version = re.search(r"\b(\d{3,}\.[\d.]+)\b", told.read_text()) if told.is_file() else None
    found = []
    for index, file in enumerate(sorted(folder.glob("gpus/*/information"))):
        facts = dict(re.findall(r"^([\w ]+):\s*(.+?)\s*$", file.read_text(), re.MULTILINE))
        found.append(
            Device(
                kind="cuda",
                index=index,
                name=facts.get("Model", "NVIDIA device"),
                memory_bytes=None,
                driver=version[1] if version else None,
                uuid=facts.get("GPU UUID"),
            )
        )
    return found


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
