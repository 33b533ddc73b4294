"""Altered files of every format, each read once: read, refused in words, or a finding."""

import base64
import math
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.errors import CannotRunHere
from campaign.formats import FileFormat, formats
from campaign.hostile import CANARY
from campaign.mutators import mutated
from campaign.spread import Effort, Notes, spread
from campaign.watched import HANG_S, OUTCOMES, ReadOutcome, outcomes

CHILD_INPUTS = 200
_MANY = 10_000_000  # more inputs than any time allows
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
        name, content = corpus.place(outcome.index, corpus.work.with_name("kept"))
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

    def merge(self, later: "FormatResult") -> None:
        """Add the counts and findings of inputs with higher numbers."""
        self.ended += later.ended
        self.seconds += later.seconds
        for key, finding in later.findings.items():
            if key in self.findings:
                self.findings[key]["times"] += finding["times"]
            else:
                self.findings[key] = finding

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


def made(form: FileFormat, folder: Path) -> Path:
    """The sample of a format in a new folder; as it is it must be read, which imports all."""
    folder.mkdir(parents=True)
    form.make(folder)
    form.read(folder)
    return folder


def read_inputs(
    form: FileFormat,
    sample: Path,
    numbers: range,
    *,
    seed: int,
    seconds: float = math.inf,
    hang_s: float = HANG_S,
) -> FormatResult:
    """Read the inputs of these numbers, or as many as the seconds allow."""
    result, start = FormatResult(format=form.name), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="campaign-") as root:
        folder = Path(root).resolve()
        (folder / CANARY).write_text("not for you")
        corpus = Corpus(form=form, seed=seed, sample=sample, work=folder / "in/work")
        corpus.work.parent.mkdir()
        for position in range(numbers.start, numbers.stop, CHILD_INPUTS):
            some = range(position, min(position + CHILD_INPUTS, numbers.stop))
            for outcome in outcomes(corpus.place, corpus.read, some, corpus.work, hang_s=hang_s):
                result.add(outcome, corpus)
                if time.monotonic() - start > seconds:
                    break
            if time.monotonic() - start > seconds:
                break
    result.seconds = time.monotonic() - start
    return result


def run(effort: Effort, emit: Callable[[dict[str, Any]], None]) -> bool:
    """Run all formats, or those named, with a line for each; True where nothing was found."""
    notes, chosen = Notes("mutations"), _chosen(effort.names)
    with tempfile.TemporaryDirectory(prefix="campaign-") as root:
        samples: dict[str, Path] = {}
        for form in chosen:
            try:
                samples[form.name] = made(form, Path(root).resolve() / form.name)
            except (ImportError, CannotRunHere) as error:
                emit({"part": "mutations", "format": form.name, "unavailable": str(error)})
        forms = {form.name: form for form in chosen if form.name in samples}
        results = {name: FormatResult(format=name) for name in forms}
        rounds = max(1, -(-len(forms) // effort.processes))
        seconds = math.inf if effort.count else effort.seconds / rounds

        def read(task: tuple[str, range]) -> FormatResult:
            name, numbers = task
            return read_inputs(
                forms[name], samples[name], numbers, seed=effort.seed, seconds=seconds
            )

        for group in spread(read, _tasks(list(forms), effort), effort.processes):
            results[group.format].merge(group)
            inputs = sum(result.ended.total() for result in results.values())
            findings = sum(len(result.findings) for result in results.values())
            notes.note(f"{inputs:,} inputs, {findings} distinct findings")
    for result in results.values():
        for finding in result.findings.values():
            emit(finding)
        emit(result.line(effort.seed))
    return not any(result.findings for result in results.values())


def _tasks(names: list[str], effort: Effort) -> list[tuple[str, range]]:
    """Inputs in groups, the formats in turn; where time ends them, one group of each format."""
    if effort.count is None:
        return [(name, range(effort.first, effort.first + _MANY)) for name in names]
    tasks = []
    for place, name in enumerate(names):
        share = effort.count // len(names) + (place < effort.count % len(names))
        starts = range(effort.first, effort.first + share, CHILD_INPUTS)
        tasks += [(name, range(s, min(s + CHILD_INPUTS, effort.first + share))) for s in starts]
    return sorted(tasks, key=lambda task: task[1].start)


def _chosen(names: Sequence[str]) -> list[FileFormat]:
    known = formats()
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"no format {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in names] or list(known.values())
