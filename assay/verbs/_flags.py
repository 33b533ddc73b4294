"""Flags that mean the same in every verb, and the settings they stand for."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from assay.studies.study import Study

NAMES = "Names or files; or all. decode/NAME and decode/FILE.py are kernels that read a cache."
Impl = Annotated[
    str | None,
    typer.Option(
        "--impl", help="Implementations: names and paths of files, comma between; or all."
    ),
]
Workload = Annotated[
    str | None,
    typer.Option("--workload", help="Workloads by name, comma between: b1_h8_kv2_q113_k1023_d64."),
]
Probe = Annotated[str | None, typer.Option("--probe", help="Probes, comma between; or all.")]
Device = Annotated[
    str | None, typer.Option("--device", help="cpu, cuda, cuda:N, or auto (the best there is).")
]
Dtype = Annotated[
    str | None, typer.Option("--dtype", help="float32, float16, bfloat16; comma between.")
]
Seed = Annotated[int | None, typer.Option("--seed", help="Seed of the inputs.")]
Config = Annotated[
    Path | None, typer.Option("--config", help="A configuration file, or a defconfig's name.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="SYMBOL=VALUE, over the file and the flags; repeatable."),
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
    typer.Option("--trust-plugins", help="Load the code that the run itself names: it is run."),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Fewer cases, or fewer rounds on smaller workloads.")
]
IsolatedJudge = Annotated[
    bool,
    typer.Option("--isolated-judge", help="Compare values in a process that never loads the code."),
]
Json = Annotated[bool, typer.Option("--json", help="Records as JSON lines instead of tables.")]
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
        config = kconfig.defconfig(config.name)
    overridden = {entry.partition("=")[0] for entry in sets or ()}
    last = {entry.partition("=")[0]: entry for entry in flags}
    from_flags = [entry for symbol, entry in last.items() if symbol not in overridden]
    return kconfig.load(config, [*from_flags, *(sets or ())], plugins or ())


def as_settings(
    *,
    impl: str | None = None,
    workload: str | None = None,
    probe: str | None = None,
    device: str | None = None,
    dtype: str | None = None,
    seed: int | None = None,
    quick: bool = False,
) -> list[str]:
    """The SYMBOL=VALUE entries that the shared flags stand for."""
    named = {
        "IMPLEMENTATIONS": impl,
        "WORKLOADS": workload,
        "PROBES": probe,
        "DTYPES": dtype,
        "SEED": None if seed is None else str(seed),
    }
    settings = [f"{symbol}={value}" for symbol, value in named.items() if value is not None]
    return [*(QUICK if quick else ()), *settings, *(_device(device) if device else ())]


def _device(device: str) -> list[str]:
    from assay.errors import BadInput

    kind, _, index = device.partition(":")
    if kind not in ("auto", "cpu", "cuda") or (index and (kind != "cuda" or not index.isdigit())):
        raise BadInput(f"--device {device} is not understood; wanted auto, cpu, cuda or cuda:N")
    chosen = [f"DEVICE_{kind.upper()}=y"]
    return [*chosen, f"DEVICE_INDEX={int(index)}"] if index else chosen
