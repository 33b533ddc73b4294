"""Clock, power, temperature and utilisation of a device, where its driver reports them.

Utilisation is the share of the driver's last sample period, up to a second, in which a kernel ran:
it says that the device was not idle, not that it was full. Power is a mean over about as long.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median

from assay.host import Host
from assay.records.schema import Measurement

UNITS = {"sm_clock_mhz": "MHz", "power_w": "W", "temperature_c": "°C", "utilisation": "%"}

Readings = dict[str, float]


class Telemetry:
    """Read once in each round, never while something is timed."""

    def __init__(self, host: Host, device: str) -> None:
        self._device = device
        self._rounds: list[Readings] = []
        self._source, self._read = _reader(host, device)

    def read(self) -> None:
        if self._read:
            self._rounds.append(self._read())

    def latest(self) -> Readings:
        """The last readings; empty where there are none."""
        return self._rounds[-1] if self._rounds else {}

    def measurements(self) -> list[Measurement]:
        """A sample of each reading for every round; unknown with the reason where there is none."""
        measurements = []
        for metric, unit in UNITS.items():
            samples = [readings[metric] for readings in self._rounds if metric in readings]
            known = bool(samples)
            measurements.append(
                Measurement(
                    subject=self._device,
                    metric=metric,
                    value=median(samples) if known else None,
                    unit=unit,
                    samples=samples,
                    source=self._source if known else None,
                    reason=None if known else f"unavailable: {self._source}",
                )
            )
        return measurements


def _reader(host: Host, device: str) -> tuple[str, Callable[[], Readings] | None]:
    """Return the source of readings and a function; None and the reason where there are none."""
    known = next((d for d in host.devices if d.label == device), None)
    if known is None:
        return f"there is no device {device}", None
    if known.kind == "cpu":
        return _cpu()
    if known.kind == "cuda":
        return _nvidia(known.uuid)
    return "readings of AMD devices are not taken", None


def _cpu() -> tuple[str, Callable[[], Readings] | None]:
    """Mean clock of the cores, as the kernel reports it."""
    text = Path("/proc/cpuinfo")

    def read() -> Readings:
        clocks = re.findall(r"^cpu MHz\s*:\s*([\d.]+)$", text.read_text(), re.MULTILINE)
        return {"sm_clock_mhz": sum(map(float, clocks)) / len(clocks)} if clocks else {}

    if not text.is_file() or not read():
        return "the kernel reports no clock of the cores", None
    return "/proc/cpuinfo, mean over the cores", read


def _nvidia(uuid: str | None) -> tuple[str, Callable[[], Readings] | None]:
    try:
        import pynvml
    except ModuleNotFoundError:
        return "package nvidia-ml-py is not installed", None
    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    except (pynvml.NVMLError, TypeError) as error:
        return f"NVML: {error}", None

    def read() -> Readings:
        readers = {
            "sm_clock_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
            "power_w": lambda: pynvml.nvmlDeviceGetPowerUsage(handle) / 1e3,
            "temperature_c": lambda: pynvml.nvmlDeviceGetTemperature(
                handle, pynvml.NVML_TEMPERATURE_GPU
            ),
            "utilisation": lambda: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu,
        }
        readings = {}
        for name, ask in readers.items():
            with suppress(pynvml.NVMLError):  # a reading that this device does not give
                readings[name] = float(ask())
        return readings

    return "NVML, between rounds", read
