"""Decode kernels on the command line: names that begin with decode/, and what a verb does then."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import BadInput

if TYPE_CHECKING:
    from assay.records.schema import Record
    from assay.studies.config_file import FlagSetting, Typed
    from assay.studies.study import Study

SUITE, STEPS = "decode_suite", "decode"  # the stages: cases of the kernels' own, and workloads
CHECK_PROBES = "accuracy,determinism,unwritten"  # of a workload that is named, where none are
QUICK = ("LENGTHS=1/255,2/63",)


def chosen(names: Sequence[str]) -> str | None:
    """The value of DECODERS that names stand for; None where none is a decode kernel. Each may be
    a list with commas; kernels beside implementations of sequences are refused."""
    from assay.subjects.decode.names import ALL, PREFIX

    entries = [entry for name in names for entry in name.split(",")]
    kernels = [entry for entry in entries if entry.startswith(PREFIX)]
    if not kernels:
        return None
    if others := [entry for entry in entries if not entry.startswith(PREFIX)]:
        raise BadInput(
            f"{', '.join(kernels)} read a cache, {', '.join(others)} whole sequences: they answer "
            "different questions; give one kind at a time"
        )
    plain = [kernel.removeprefix(PREFIX) for kernel in kernels]
    if ALL in plain and len(plain) > 1:
        raise BadInput(f"{PREFIX}{ALL} stands alone; wanted it, or a list of kernels")
    return ",".join(plain)


def setting(typed: "Typed") -> "FlagSetting":
    """The setting of decode kernels that flags and arguments name."""
    from assay.studies.config_file import FlagSetting
    from assay.subjects.decode.names import PREFIX

    plain = (text.replace(f",{PREFIX}", ",").removeprefix(PREFIX) for _, text in typed)
    return FlagSetting("DECODERS", typed, ",".join(plain))


def refuse_flags(values: Mapping[str, Any], why: str) -> None:
    """Refuse flags that mean nothing for decode kernels."""
    if given := [name for name, value in values.items() if value]:
        raise BadInput(f"{', '.join(given)}: {why}; leave it out for decode kernels")


def check_settings(
    decoders: "FlagSetting", workload: str | None, probe: str | None, folders: Sequence[Path]
) -> list[str]:
    """Settings of a check: cases of the kernels' own, or the workloads that are named, unless the
    probes that are named make cases."""
    from assay import plugins

    known = plugins.listing("probes", plugins.check_folders(folders))
    named = [known[name] for name in (probe or "").split(",") if name in known]
    makes_cases = any(plugin.literals["STAGE"] == SUITE for plugin in named)
    stage = STEPS if workload and not makes_cases else SUITE
    default = [] if probe or stage == SUITE else [f"PROBES={CHECK_PROBES}"]
    return [f"STAGES={stage}", decoders, *default]


def known_probes(study: "Study") -> list[str]:
    """The probes that say whether a decode kernel is right, on cases of its own or on workloads."""
    from assay import plugins
    from assay.correctness.decode.suite import SHARED

    if SUITE not in study.stages:
        return CHECK_PROBES.split(",")
    probes = plugins.listing("probes", study.plugin_folders)
    return [*(n for n, probe in probes.items() if probe.literals["STAGE"] == SUITE), *SHARED]


def check_code(records: "Sequence[Record]") -> int:
    """Exit code of a check on workloads: what could not be run for want of memory or time does not
    hold."""
    from assay.errors import DOES_NOT_HOLD, HOLDS
    from assay.records.verdicts import is_wrong

    return DOES_NOT_HOLD if any(map(is_wrong, records)) else HOLDS
