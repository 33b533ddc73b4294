"""A folder of this machine or a share: folder:PATH keeps the bundle in PATH/NAME."""

import shutil
from pathlib import Path

from assay.errors import BadInput
from assay.records.durable import explained, make_folder


def place(address: str, name: str) -> str:
    target = Path(address) / name
    if target.exists():
        raise BadInput(f"{target} is there already, and is not written over; rename the bundle")
    return str(target)


def send(bundle: Path, address: str, name: str) -> None:
    target = Path(place(address, name))
    unfinished = target.with_name(f".{name}.unfinished")
    make_folder(target.parent)
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        with explained(target):
            shutil.copytree(bundle, unfinished)
            unfinished.rename(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def fetch(address: str, name: str, target: Path) -> str | None:
    shutil.copytree(Path(address) / name, target)
    return None
