"""Load, save, check and list the configuration that `make` runs."""

from pathlib import Path
from typing import Annotated

import typer

from assay.verbs import _completion as completion
from assay.verbs import _flags as flags

File = Annotated[Path, typer.Option("--file", help="The configuration file.")]
DEFAULT_FILE = Path(".config")


def command() -> typer.Typer:
    app = typer.Typer(
        add_completion=False,
        no_args_is_help=True,
        help=f"{__doc__} Example: assay config load quickstart",
    )
    app.command()(load)
    app.command()(save)
    app.command()(check)
    app.command(name="list")(list_defconfigs)
    return app


def load(
    name: Annotated[
        str,
        typer.Argument(autocompletion=completion.defconfigs, help="A file's name in defconfigs/."),
    ],
    sets: flags.Set = None,
    file: File = DEFAULT_FILE,
) -> None:
    """Write defconfigs/NAME out in full. Example: assay config load quickstart --set ROUNDS=50"""
    from assay.studies import kconfig

    kconfig.write_config(kconfig.load(kconfig.defconfig(name), sets or ()).config, file)
    print(f"{file} is now {name}")


def save(
    target: Annotated[Path, typer.Argument(help="The minimal file to write.")] = Path("defconfig"),
    file: File = DEFAULT_FILE,
) -> None:
    """Write only what differs from the defaults. Example: assay config save defconfigs/mine"""
    from assay.records.durable import write_atomically
    from assay.studies import kconfig

    write_atomically(target, kconfig.minimal(kconfig.load(file)).encode())
    print(f"wrote {target}")


def check(file: File = DEFAULT_FILE) -> None:
    """Refuse a file with anything wrong in it. Example: assay config check --file mine"""
    from assay.studies import kconfig

    kconfig.load(file)
    print(f"PASS  {file}: nothing is wrong with it; run it with: assay study run --config {file}")


def list_defconfigs() -> None:
    """Name every study in defconfigs/, with its first comment. Example: assay config list"""
    from assay.studies import kconfig

    for name, path in kconfig.defconfigs().items():
        first = path.read_text().partition("\n")[0]
        print(f"{name:<24} {first.removeprefix('#').strip() if first.startswith('#') else ''}")
