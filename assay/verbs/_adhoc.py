"""A study from flags: the same machinery as a defconfig, under results/<verb>."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assay.studies.study import Study


def run_adhoc(verb: str, study: "Study", *, out: Path, as_json: bool, dry_run: bool) -> int:
    """Run `study` into results/<verb>, or the folder of its own name where it has one."""
    from assay import host
    from assay.studies import session
    from assay.verbs import _running

    if dry_run:
        _running.show_plan(study, as_json=as_json)
        return 0
    name = verb if study.study == "unnamed" else study.study
    begun = session.started(study, host.inspect(), out, name)
    return _running.run(begun, as_json=as_json, results=True)
