"""A language model reads a text and decodes some tokens while its attention is captured."""

import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from assay.errors import BadInput
from assay.models import language_models, sample_text
from assay.models.loaded import require
from assay.records.identity import digest
from assay.workloads.recording.selection import Options
from assay.workloads.recording.tally import Report
from assay.workloads.store import MANIFEST, Store


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What is read, by which model, and what of it is captured where."""

    model: str
    to: Path
    text: str | None = None  # a file, - for stdin, None for text that every machine has
    tokens: int
    decode: int
    dtype: str = "float32"
    device: str = "cpu"
    attention: str = "sdpa"
    options: Options = field(default_factory=Options)


def carry_out(reading: Reading, *, run: str | None = None) -> Report:
    """Open the model, and capture one reading of the text."""
    require(("torch", "transformers"), purpose=f"to capture from {reading.model}")
    from assay.capture.language_model import capture_text

    text = sample_text.read_given(reading.text)
    opened = language_models.open_model(
        reading.model, dtype=reading.dtype, device=reading.device, attention=reading.attention
    )
    ids = _first(opened.token_ids(text.text), reading.tokens, text.source)
    about = {
        "name": reading.model,
        "digest": opened.identity.digest,
        "text": text.source,
        "text_digest": text.digest,
    }
    store = Store.create(reading.to)
    decode, options = reading.decode, reading.options
    return capture_text(opened.model, ids, store, options, decode=decode, about=about, run=run)


def carry_out_once(reading: Reading) -> Report:
    """The same, unless the store has this very capture already; one with another is refused."""
    name = run_name(reading)
    if (reading.to / MANIFEST).exists():
        manifest = Store.open(reading.to).manifest()
        others = sorted({run.run for run in manifest.runs} - {name})
        if others:
            raise BadInput(
                f"{reading.to} holds {others[0]}, a capture with other settings than these "
                f"({name}); remove that folder, or name another one in CAPTURE_TO"
            )
        for end in manifest.ends:
            return Report(
                run=name,
                rank=end.rank,
                records=end.records,
                bytes=end.bytes,
                dropped=end.dropped,
                duplicates=end.duplicates,
            )
        shutil.rmtree(reading.to)  # of this very capture, which was interrupted
    return carry_out(reading, run=name)


def run_name(reading: Reading) -> str:
    """Names a capture by its settings, so that the same one is not made twice."""
    told = {
        **{name: str(value) for name, value in asdict(reading).items() if name != "options"},
        "options": reading.options.described(),
        "content": sample_text.read_given(reading.text).digest,
    }
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", reading.model)
    return f"{name}-{digest(told)[:8]}"


def _first(ids: Sequence[int], wanted: int, source: str) -> Sequence[int]:
    if len(ids) < wanted:
        raise BadInput(
            f"{source} has {len(ids)} tokens, {wanted} were asked for; give a longer text, or ask "
            "for fewer tokens"
        )
    return ids[:wanted]
