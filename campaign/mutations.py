"""Altered files of every format, each read once: read, refused in words, or a finding."""

import base64
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from campaign.formats import FileFormat, formats
from campaign.hostile import CANARY
from campaign.mutators import mutated
from campaign.watched import HANG_S, OUTCOMES, ReadOutcome, outcomes

CHILD_INPUTS = 200
_KEPT_BYTES = 2_000  # of an input, in a finding


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """The sample of a format on disk, and a copy of it whose files are altered in turn."""

    form: FileFormat
    seed: int
    sample: Path
    work: Path

    @property
    def files(self) -> list[Path]:
        """Files that may be altered, from the root of the sample."""
        there = sorted(p for p in self.sample.glob(self.form.altered) if p.is_file())
        return [path.relative_to(self.sample) for path in there]

    def place(self, index: int, folder: Path | None = None) -> tuple[Path, bytes]:
        """Lay the input of a number into the work folder, or another; return its file and bytes."""
        draw = random.Random(f"{self.form.name} {self.seed} {index}")
        folder = folder or self.work
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.sample, folder, symlinks=True)
        name = draw.choice(self.files)
        content = mutated(name.name, (self.sample / name).read_bytes(), draw)
        (folder / name).write_bytes(content)
        if self.form.reseal and draw.random() < 0.5:
            with suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError, OSError):
                self.form.reseal(folder, draw)  # what cannot be read cannot be sealed either
        return name, (folder / name).read_bytes()

    def read(self) -> None:
        self.form.read(self.work)


@dataclass(kw_only=True)
class FormatResult:
    """Counts of one format, and its distinct findings."""

    format: str
    seconds: float = 0.0
    ended: Counter[str] = field(default_factory=Counter)
    findings: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, outcome: ReadOutcome, corpus: Corpus) -> None:
        self.ended[outcome.kind] += 1
        if outcome.kind in OUTCOMES:
            return
        key = f"{outcome.kind}: {outcome.reason.partition(': ')[0]}"
        if key in self.findings:
            self.findings[key]["times"] += 1
            return
        # Beside the folder in which the child goes on.
        name, content = corpus.place(outcome.index, corpus.sample.with_name("kept"))
        self.findings[key] = {
            "part": "mutations",
            "format": self.format,
            "finding": outcome.kind,
            "reason": outcome.reason,
            "times": 1,
            "file": str(name),
            "input": base64.b64encode(content[:_KEPT_BYTES]).decode(),
            "input_bytes": len(content),
            "repeat": f"python -m campaign mutations --formats {self.format} --seed {corpus.seed} "
            f"--first {outcome.index} --inputs 1",
        }

    def line(self, seed: int) -> dict[str, Any]:
        """The line of the format in the results."""
        return {
            "part": "mutations",
            "format": self.format,
            "seed": seed,
            "inputs": self.ended.total(),
            "seconds": round(self.seconds, 2),
            **{kind: self.ended[kind] for kind in OUTCOMES},
            "findings": self.ended.total() - sum(self.ended[kind] for kind in OUTCOMES),
            "distinct": len(self.findings),
        }


def run_format(
    form: FileFormat,
    *,
    seed: int,
    first: int = 0,
    inputs: int | None = None,
    seconds: float = 60.0,
    hang_s: float = HANG_S,
) -> FormatResult:
    """Read so many inputs of a format, or as many as the seconds allow."""
    result, start = FormatResult(format=form.name), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="campaign-") as root:
        folder = Path(root).resolve()
        (folder / CANARY).write_text("not for you")
        corpus = Corpus(form=form, seed=seed, sample=folder / "sample", work=folder / "in/work")
        corpus.sample.mkdir()
        form.make(corpus.sample)
        corpus.work.parent.mkdir()
        shutil.copytree(corpus.sample, corpus.work)
        form.read(corpus.work)  # as it is it must be read; and all is imported before the forks
        start, position = time.monotonic(), first
        while (inputs is not None and position < first + inputs) or (
            inputs is None and time.monotonic() - start < seconds
        ):
            end = position + CHILD_INPUTS
            numbers = range(position, end if inputs is None else min(end, first + inputs))
            for outcome in outcomes(corpus.place, corpus.read, numbers, corpus.work, hang_s=hang_s):
                result.add(outcome, corpus)
                if inputs is None and time.monotonic() - start > seconds:
                    break
            position = numbers.stop
    result.seconds = time.monotonic() - start
    return result


def run(
    *,
    seed: int,
    seconds: float,
    inputs: int | None,
    first: int,
    names: list[str],
    emit: Callable[[dict[str, Any]], None],
) -> bool:
    """Run all formats, or those named, with a line for each; True where nothing was found."""
    chosen = _chosen(names)
    clean = True
    for form in chosen:
        result = run_format(
            form, seed=seed, first=first, inputs=inputs, seconds=seconds / len(chosen)
        )
        for finding in result.findings.values():
            emit(finding)
        emit(result.line(seed))
        clean = clean and not result.findings
    return clean


def _chosen(names: list[str]) -> list[FileFormat]:
    known = formats()
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"no format {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in names] or list(known.values())
