"""Claims measured again: the command of each, run once for all claims that share it."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from assay.instruments.start_method import finding_us, own_python

if TYPE_CHECKING:
    from assay.verify.claim import Claim
    from assay.verify.remeasured import RepeatedFigure

_LOG_LINES = 3  # of a command that failed


def measure_again(claims: "Mapping[str, Claim]", *, as_json: bool) -> bool:
    """Run the commands of some claims, show what came of them, and say whether all hold."""
    from assay.reports.table import Table
    from assay.reports.terminal import console, show

    repeated: dict[str, RepeatedFigure] = {}
    for command in dict.fromkeys(stated.again for stated in claims.values() if stated.again):
        print(f"measuring again: assay {command}", file=sys.stderr)
        repeated |= _repeated(command, {n: c for n, c in claims.items() if c.again == command})
    if as_json:
        for name, figure in repeated.items():
            print(json.dumps({"claim": name, **asdict(figure)}))
    else:
        words = [figure.word for figure in repeated.values()]
        counts = ", ".join(f"{words.count(word)} {word}" for word in sorted(set(words)))
        print(f"{'PASS' if _all_hold(repeated) else 'FAIL'}  measured again: {counts or 'nothing'}")
        rows = tuple(
            (f.word, name, _number(f.before), _number(f.again), f.reason)
            for name, f in sorted(repeated.items(), key=lambda item: (item[1].word, item[0]))
        )
        columns = ("verdict", "claim", "recorded", "again", "why")
        show(Table(title="Measured again", columns=columns, rows=rows), console())
    return _all_hold(repeated)


def _repeated(command: str, claims: "Mapping[str, Claim]") -> "dict[str, RepeatedFigure]":
    from assay.errors import BadInput
    from assay.records.run import load_records, newest_run
    from assay.verify.remeasured import RepeatedFigure, judge

    with TemporaryDirectory(prefix="assay-again-") as folder:
        arguments = own_python("assay", *shlex.split(command), "--out", folder)
        done = subprocess.run(
            arguments, env=finding_us(os.environ), capture_output=True, text=True, check=False
        )
        try:
            records = load_records(newest_run(Path(folder)))
        except BadInput:
            last = " ".join(done.stderr.strip().splitlines()[-_LOG_LINES:])
            reason = f"it ended with {done.returncode} and no records: {last}"
            return {name: RepeatedFigure(word="not tested", reason=reason) for name in claims}
        return {name: judge(stated, records) for name, stated in claims.items()}


def _all_hold(repeated: "Mapping[str, RepeatedFigure]") -> bool:
    return all(f.word in ("confirmed", "not comparable") for f in repeated.values())


def _number(value: float | None) -> str:
    return "—" if value is None else f"{value:.4g}"
