"""Which machine a run measured on, as run.json describes it."""

from typing import Any

from assay.records.schema import Run


def host_of(run: Run) -> str:
    """The fingerprint that the records of a run's last session carry."""
    return str(run.sessions[-1].host.get("fingerprint", run.host))


def device_label(run: Run) -> str | None:
    """The label of the device measured on: cpu or cuda:N."""
    return run.devices[0] if run.devices else None


def device_of(run: Run) -> dict[str, Any] | None:
    """The description of that device; None where run.json has none."""
    for device in run.sessions[-1].host.get("devices", ()):
        label = "cpu" if device.get("kind") == "cpu" else f"cuda:{device.get('index')}"
        if label == device_label(run):
            return device
    return None


def device_name(run: Run) -> str | None:
    """What that device is called; None where run.json does not say."""
    return (device_of(run) or {}).get("name")
