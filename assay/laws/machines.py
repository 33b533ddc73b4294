"""The machine that a run measured on, as run.json describes it."""

from collections.abc import Sequence
from typing import Any

from assay.laws.rates import Quantity
from assay.records.schema import Run


def host_of(run: Run) -> str:
    """Fingerprint that the records of a run's last session carry."""
    return str(run.sessions[-1].host.get("fingerprint", run.host))


def device_name(run: Run) -> str | None:
    """Name of the device measured on; None where run.json does not say."""
    return (_device(run) or {}).get("name")


def capacities(runs: Sequence[Run]) -> dict[str, Quantity]:
    """Bytes of accelerator memory of each host of some runs, as records name hosts."""
    sizes: dict[str, Quantity] = {}
    for run in runs:
        size = capacity(run)
        if not isinstance(size, str) or host_of(run) not in sizes:
            sizes[host_of(run)] = size
    return sizes


def capacity(run: Run) -> Quantity:
    """Bytes of memory of the accelerator that a run measured on."""
    label, device = _label(run), _device(run)
    if label is None or label == "cpu":
        return f"the run measured on {label or 'a device not named'}, not on an accelerator"
    if device is None:
        return f"run.json does not describe {label}"
    return device.get("memory_bytes") or f"the memory of {label} is not known"


def _label(run: Run) -> str | None:
    """Label of the device measured on: cpu or cuda:N."""
    return run.devices[0] if run.devices else None


def _device(run: Run) -> dict[str, Any] | None:
    """Description of the device measured on; None where run.json has none."""
    for device in run.sessions[-1].host.get("devices", ()):
        label = "cpu" if device.get("kind") == "cpu" else f"cuda:{device.get('index')}"
        if label == _label(run):
            return device
    return None
