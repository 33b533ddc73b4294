"""Real inputs: a language model reads a text, and its attention calls become workloads."""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from assay import host
from assay.captures.manifest import TOKENS, CaptureRun, RunSummary
from assay.captures.recording.options import CaptureOptions
from assay.captures.store import MANIFEST, Store
from assay.errors import BadInput, CannotRunHere
from assay.models.pretrained import catalog, sample_text
from assay.models.pretrained.language_model import require_packages
from assay.records.identity import digest
from assay.records.schema import Measurement
from assay.studies import lists
from assay.studies.cell import Cell
from assay.studies.study import Study
from assay.subjects.outcome import Begin
from assay.workloads.spec import DTYPES

AFTER = ("host",)
SUPPLIES = True
USES = ("torch",)
_WAIT_S = 60.0  # nobody waits for this model, so it may wait for the disk


@dataclass(frozen=True, kw_only=True)
class TextCapture:
    """A text, the model that reads it and decodes further tokens, and what is captured where."""

    model: str
    to: Path
    text: str | None = None  # a file, - for stdin, None for text that every machine has
    tokens: int
    decode: int
    dtype: str = "float32"
    device: str = "cpu"
    attention: str = "sdpa"
    options: CaptureOptions = field(default_factory=CaptureOptions)

    @property
    def run_name(self) -> str:
        """Name of the run made from the settings, so that the same capture is not made twice."""
        settings = {n: str(v) for n, v in asdict(self).items() if n not in ("to", "options")}
        settings["options"] = self.options.described()
        settings["content"] = sample_text.read_given(self.text).digest
        model = re.sub(r"[^A-Za-z0-9.-]+", "-", self.model)
        return f"{model}-{digest(settings)[:8]}"


def cells(study: Study) -> list[Cell]:
    """One, where the study names a model and captures at all."""
    if not (study.capture and study.capture_model):
        return []
    options = {
        "to": study.capture_to,
        "text": study.capture_text,
        "tokens": study.capture_tokens,
        "decode": study.capture_decode,
        "layers": study.capture_layers,
        "dtype": study.capture_dtype,
    }
    name = study.capture_model
    return [Cell(name=name, subjects=(name,), device=study.device, options=options)]


def run(cell: Cell) -> Iterator[Begin | Measurement]:
    """Yield the number of records in the store, their bytes, and the calls that were dropped."""
    (model,) = cell.subjects
    yield Begin(model)
    settings = dict(cell.options)
    options = CaptureOptions(layers=settings.pop("layers") or None, wait_s=_WAIT_S)
    settings |= {"to": Path(settings["to"]), "text": settings["text"] or None}
    request = TextCapture(model=model, device=cell.device, options=options, **settings)
    try:
        report = capture_once(request)
    except BadInput as error:
        yield _measurement(model, "load", None, "", status="failed", reason=str(error))
        return
    except CannotRunHere as error:
        reason = str(error)
        yield _measurement(model, "captured_records", None, "", status="skipped", reason=reason)
        return
    yield _measurement(model, "captured_records", report.records, "count")
    yield _measurement(model, "captured_bytes", report.bytes, "B")
    dropped = sum(report.dropped.values())
    outcome = {"status": "failed", "reason": report.sentence()} if dropped else {}
    yield _measurement(model, "dropped_records", dropped, "count", **outcome)


def best_device() -> str:
    """The accelerator where torch can use one, else the CPU."""
    require_packages(("torch",), purpose="to capture from a language model")
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def capture(request: TextCapture, *, run: str | None = None) -> RunSummary:
    """Load the model, and capture one reading of the text."""
    lists.word(request.dtype, allowed=DTYPES)  # before anything is loaded
    if request.to.is_file():
        raise BadInput(f"{request.to} is a file; name a folder for the store, a new one or a store")
    require_packages(("torch", "transformers"), purpose=f"to capture from {request.model}")
    from assay.captures.capturing import capture_text

    text = sample_text.read_given(request.text)
    loaded = catalog.open_model(
        request.model, dtype=request.dtype, device=request.device, attention=request.attention
    )
    token_ids = loaded.token_ids(text.text)
    if len(token_ids) < request.tokens:
        raise BadInput(
            f"{text.source} has {len(token_ids)} tokens, {request.tokens} were asked for; give a "
            "longer text, or ask for fewer tokens"
        )
    about = {
        "name": request.model,
        "digest": loaded.identity.digest,
        "text": text.source,
        "text_digest": text.digest,
        TOKENS: json.dumps(loaded.tokens(token_ids[: request.tokens]), ensure_ascii=False),
    }
    return capture_text(
        loaded.model,
        token_ids[: request.tokens],
        Store.create(request.to),
        request.options,
        decode=request.decode,
        about=about,
        run=run,
    )


def capture_once(request: TextCapture) -> RunSummary:
    """The same, unless the store has this very capture already; BadInput where it has another."""
    name = request.run_name
    if (request.to / MANIFEST).exists():
        manifest = Store.open(request.to).manifest()
        ended = {end.run for end in manifest.ends}
        for previous in manifest.runs:
            _check_same(previous, name, request.to, ended=previous.run in ended)
        for end in manifest.ends:
            return end
        if manifest.runs:
            shutil.rmtree(request.to)  # of this very capture, whose process ended before it did
    return capture(request, run=name)


def _check_same(previous: CaptureRun, name: str, store: Path, *, ended: bool) -> None:
    """Refuse a store that holds another capture, or one that is still being written."""
    if previous.run != name:
        raise BadInput(
            f"{store} holds {previous.run}, a capture with other settings than these ({name}); "
            "remove that folder, or name another one in CAPTURE_TO"
        )
    here = previous.host == host.inspect().fingerprint
    if not ended and (not here or Path(f"/proc/{previous.pid}").exists()):
        where = "" if here else " of another machine"
        raise BadInput(
            f"{store} holds a capture that process {previous.pid}{where} began and has not ended; "
            "wait for it, or remove that folder"
        )


def _measurement(
    model: str, metric: str, value: float | None, unit: str, **outcome: Any
) -> Measurement:
    return Measurement(
        subject=model,
        metric=metric,
        value=value,
        unit=unit,
        source="manifest of the store",
        level="model",
        **outcome,
    )
