"""Flags that mean the same in every verb, and the settings they stand for."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.verbs import _completion as completion

if TYPE_CHECKING:
    from assay.studies.config_file import Typed
    from assay.studies.study import Study

Names = Annotated[
    list[str] | None,
    typer.Argument(
        autocompletion=completion.implementations,
        help="Names or files; or all. decode/NAME and decode/FILE.py are kernels that read a "
        "cache.",
    ),
]
Impl = Annotated[
    str | None,
    typer.Option(
        "--impl",
        autocompletion=completion.implementations,
        help="Implementations: names and paths of files, comma between; or all.",
    ),
]
Workload = Annotated[
    str | None,
    typer.Option(
        "--workload",
        autocompletion=completion.workloads,
        help="Workloads by name, comma between: b1_h8_kv2_q113_k1023_d64.",
    ),
]
Probe = Annotated[
    str | None,
    typer.Option(
        "--probe", autocompletion=completion.probes, help="Probes, comma between; or all."
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device",
        autocompletion=completion.devices,
        help="cpu, cuda, cuda:N, or auto (the best there is).",
    ),
]
Dtype = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        autocompletion=completion.dtypes,
        help="float32, float16, bfloat16 (or fp32, fp16, bf16); comma between.",
    ),
]
Seed = Annotated[int | None, typer.Option("--seed", help="Seed of the inputs.")]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        autocompletion=completion.defconfigs,
        help="A configuration file, or a defconfig's name.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="SYMBOL=VALUE",
        help="A setting, such as ROUNDS=50, over the file and the flags; repeatable.",
    ),
]
Out = Annotated[Path, typer.Option("--out", help="The results folder.")]
StudyOut = Annotated[
    Path | None, typer.Option("--out", help="The results folder, over RESULTS of the study.")
]
Plugins = Annotated[
    list[Path] | None, typer.Option("--plugins", help="A folder with plugins of yours; repeatable.")
]
TrustPlugins = Annotated[
    bool,
    typer.Option("--trust-plugins", help="Load, and so run, the code that the run itself names."),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Fewer cases, or fewer rounds on smaller workloads.")
]
IsolatedJudge = Annotated[
    bool,
    typer.Option("--isolated-judge", help="Compare values in a process that never loads the code."),
]
Fresh = Annotated[
    bool,
    typer.Option("--fresh", help="Measure all anew: no ceilings or verdicts of the last day."),
]
Json = Annotated[bool, typer.Option("--json", help="Records as JSON lines instead of tables.")]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="All tables: memory, kernels, ceilings, laws, stages."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]

RESULTS = Path("results")
QUICK = ("ROUNDS=10", "WARMUP=2", "LENGTHS=64,113/255", "SUITE_QUICK=y")

Treatment = Annotated[
    str | None,
    typer.Option(
        "--treatment", help="Symbols that are meant to differ between two runs, comma between."
    ),
]
Explain = Annotated[
    list[str] | None,
    typer.Option(
        "--explain",
        metavar="NAME=WHY",
        help="Why another difference has no influence, such as versions.jax='no JAX here'.",
    ),
]


def load_study(
    *,
    config: Path | None,
    sets: Sequence[str] | None,
    plugins: Sequence[Path] | None,
    flags: Sequence[str] = (),
) -> "Study":
    """The study of a file (or Kconfig's defaults) with flags over it, later ones over earlier, and
    --set over all."""
    from assay.studies import kconfig

    if config is not None and not config.exists() and len(config.parts) == 1:
        config = kconfig.defconfig(config.name, wanted="configuration file or defconfig")
    overridden = {entry.partition("=")[0] for entry in sets or ()}
    last = {entry.partition("=")[0]: entry for entry in flags}
    from_flags = [entry for symbol, entry in last.items() if symbol not in overridden]
    return kconfig.load(config, [*from_flags, *(sets or ())], plugins or ())


def as_settings(
    *,
    impl: "str | Typed | None" = None,
    workload: str | None = None,
    probe: str | None = None,
    device: str | None = None,
    dtype: str | None = None,
    seed: int | None = None,
    quick: bool = False,
) -> list[str]:
    """The SYMBOL=VALUE entries that the shared flags stand for; of implementations there may be
    several flags and arguments."""
    settings = typed_settings({
        "WORKLOADS": ("--workload", workload),
        "PROBES": ("--probe", probe),
        "DTYPES": ("--dtype", dtype),
        "SEED": ("--seed", seed),
    })  # fmt: skip
    if impl is not None and impl != ():
        from assay.studies.config_file import FlagSetting

        typed = (("--impl", impl),) if isinstance(impl, str) else impl
        settings = [FlagSetting("IMPLEMENTATIONS", typed), *settings]
    return [*(QUICK if quick else ()), *settings, *([] if device is None else _device(device))]


def typed_settings(named: Mapping[str, tuple[str, object]]) -> list[str]:
    """The SYMBOL=VALUE entries of the flags that were given, each of which remembers its flag, an
    empty one for an argument."""
    from assay.studies.config_file import FlagSetting

    return [
        FlagSetting(symbol, ((flag, str(value)),))
        for symbol, (flag, value) in named.items()
        if value is not None
    ]


def full_dtype(text: str | None) -> str | None:
    """A dtype with its short name written out, of flags that no setting stands behind."""
    from assay.workloads.spec import full_dtypes

    return text if text is None else full_dtypes(text)


def _device(device: str) -> list[str]:
    from assay.errors import BadInput, did_you_mean
    from assay.studies.config_file import FlagSetting

    kind, _, index = device.partition(":")
    if kind not in ("auto", "cpu", "cuda") or (index and (kind != "cuda" or not index.isdigit())):
        hint = did_you_mean(kind, ("auto", "cpu", "cuda"))
        raise BadInput(
            f"--device {device} is not understood; {hint and f'{hint} '}wanted auto, cpu, cuda or "
            "cuda:N"
        )
    typed = (("--device", device),)
    chosen = [FlagSetting(f"DEVICE_{kind.upper()}", typed, "y")]
    return [*chosen, FlagSetting("DEVICE_INDEX", typed, str(int(index)))] if index else chosen
