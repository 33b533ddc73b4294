"""A study from flags: the same machinery as a defconfig, under results/<verb>."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assay.studies.study import Study
    from assay.verbs._running import Judge, Show


def run_adhoc(
    verb: str,
    study: "Study",
    *,
    out: Path,
    as_json: bool,
    dry_run: bool,
    judge: "Judge | None" = None,
    show: "Show | None" = None,
) -> int:
    """Run `study` into results/<verb>, or the folder of its own name where it has one.

    `judge` says more of the records, and gives an exit code of its own; `show` tells of the run in
    its own way.
    """
    from assay import host
    from assay.studies import session
    from assay.verbs import _running

    if dry_run:
        _running.show_plan(study, as_json=as_json)
        return 0
    name = verb if study.study == "unnamed" else study.study
    begun = session.started(study, host.inspect(), out, name)
    return _running.run(begun, as_json=as_json, results=True, judge=judge, show=show)
