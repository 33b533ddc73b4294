"""A language model reads a text and decodes some tokens while its attention is captured."""

import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from assay import host
from assay.captures.manifest import CaptureRun, RunEnd
from assay.captures.recording.counts import RecordingReport
from assay.captures.recording.options import CaptureOptions
from assay.captures.store import MANIFEST, Store
from assay.errors import BadInput
from assay.models.pretrained import language_models, sample_text
from assay.models.pretrained.loaded import require
from assay.records.identity import digest


@dataclass(frozen=True, kw_only=True)
class TextCapture:
    """What is read, by which model, and what of it is captured where."""

    model: str
    to: Path
    text: str | None = None  # a file, - for stdin, None for text that every machine has
    tokens: int
    decode: int
    dtype: str = "float32"
    device: str = "cpu"
    attention: str = "sdpa"
    options: CaptureOptions = field(default_factory=CaptureOptions)


def carry_out(asked: TextCapture, *, run: str | None = None) -> RecordingReport:
    """Open the model, and capture one reading of the text."""
    require(("torch", "transformers"), purpose=f"to capture from {asked.model}")
    from assay.captures.language_model import capture_text

    text = sample_text.read_given(asked.text)
    opened = language_models.open_model(
        asked.model, dtype=asked.dtype, device=asked.device, attention=asked.attention
    )
    ids = _first(opened.token_ids(text.text), asked.tokens, text.source)
    about = {
        "name": asked.model,
        "digest": opened.identity.digest,
        "text": text.source,
        "text_digest": text.digest,
    }
    store = Store.create(asked.to)
    decode, options = asked.decode, asked.options
    return capture_text(opened.model, ids, store, options, decode=decode, about=about, run=run)


def carry_out_once(asked: TextCapture) -> RecordingReport:
    """The same, unless the store has this very capture already; one with another is refused."""
    name = run_name(asked)
    if (asked.to / MANIFEST).exists():
        manifest = Store.open(asked.to).manifest()
        for run in manifest.runs:
            _refuse_others(run, name, asked.to)
        for end in manifest.ends:
            return _report(end)
        if manifest.runs:
            shutil.rmtree(asked.to)  # of this very capture, whose process ended before it did
    return carry_out(asked, run=name)


def _refuse_others(run: CaptureRun, wanted: str, store: Path) -> None:
    """What is in the store must be this capture, and nobody may be at it."""
    if run.run != wanted:
        raise BadInput(
            f"{store} holds {run.run}, a capture with other settings than these ({wanted}); remove "
            "that folder, or name another one in CAPTURE_TO"
        )
    ended = {end.run for end in Store.open(store).manifest().ends}
    here = run.host == host.inspect().fingerprint
    if run.run not in ended and (not here or Path(f"/proc/{run.pid}").exists()):
        where = "" if here else " of another machine"
        raise BadInput(
            f"{store} holds a capture that process {run.pid}{where} began and has not ended; wait "
            "for it, or remove that folder"
        )


def _report(end: RunEnd) -> RecordingReport:
    return RecordingReport(
        run=end.run,
        rank=end.rank,
        records=end.records,
        bytes=end.bytes,
        dropped=end.dropped,
        duplicates=end.duplicates,
    )


def run_name(asked: TextCapture) -> str:
    """Names a capture by its settings, so that the same one is not made twice."""
    told = {
        **{n: str(value) for n, value in asdict(asked).items() if n not in ("to", "options")},
        "options": asked.options.described(),
        "content": sample_text.read_given(asked.text).digest,
    }
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", asked.model)
    return f"{name}-{digest(told)[:8]}"


def _first(ids: Sequence[int], wanted: int, source: str) -> Sequence[int]:
    if len(ids) < wanted:
        raise BadInput(
            f"{source} has {len(ids)} tokens, {wanted} were asked for; give a longer text, or ask "
            "for fewer tokens"
        )
    return ids[:wanted]
