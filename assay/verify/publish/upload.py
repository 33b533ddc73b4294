"""A bundle sent to a destination, read back from there, and compared with its digest."""

import re
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

from assay import plugins
from assay.errors import BadInput, CannotRunHere
from assay.verify.publish.inspection import look
from assay.verify.publish.manifest import MANIFEST, digest_of, files_below

KIND = "destinations"


@dataclass(frozen=True, kw_only=True)
class SentBundle:
    """A bundle that went, or would go, to a place; files by name with their bytes."""

    place: str
    files: dict[str, int]
    digest: str
    dry_run: bool
    read_back: str = ""


def parse(destination: str) -> tuple[ModuleType, str]:
    """The plugin of a destination and its address; what it needs must be installed."""
    kind, colon, address = destination.partition(":")
    listed = plugins.listing(KIND)
    if not colon or not address or kind not in listed:
        forms = ", ".join(f"{name}:ADDRESS" for name in listed)
        raise BadInput(f"--upload {destination} is no destination; wanted one of {forms}")
    if missing := listed[kind].missing:
        raise CannotRunHere(
            f"--upload {kind}: needs {', '.join(missing)}; {plugins.how_to_install(missing)}"
        )
    return plugins.load(listed[kind]), address


def name_of(text: str) -> str:
    """A name that is one in every destination."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip(".-") or "bundle"


def send(bundle: Path, destination: str, *, name: str, dry_run: bool) -> SentBundle:
    """Send a bundle and read it back; a dry run only says what would go where."""
    module, address = parse(destination)
    files = {file: (bundle / file).stat().st_size for file in sorted(files_below(bundle))}
    files[MANIFEST] = (bundle / MANIFEST).stat().st_size
    digest = digest_of((bundle / MANIFEST).read_bytes())
    place = module.place(address, name)
    if dry_run:
        return SentBundle(place=place, files=files, digest=digest, dry_run=True)
    module.send(bundle, address, name)
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        untested = module.fetch(address, name, copy)
        read_back = f"not tested: {untested}" if untested else _compared(copy, digest, place)
    return SentBundle(place=place, files=files, digest=digest, dry_run=False, read_back=read_back)


def _compared(copy: Path, digest: str, place: str) -> str:
    wrong = [finding.reason for finding in look(copy, digest) if finding.verdict == "fails"]
    if wrong:
        raise CannotRunHere(
            f"what was read back from {place} is not what was sent: {'; '.join(wrong)}; send it "
            "again to another place"
        )
    return "read back: every file is as sealed"
