"""A language model is run on a text and its attention captured: `assay capture run`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.workloads.manifest import CaptureRecord
    from assay.workloads.tally import Report

EXAMPLE = "Example: assay capture run --hf smollm2 --tokens 512 --decode 8 --to captures/smollm2"


def run(
    hf: Annotated[
        str,
        typer.Option(
            "--hf",
            help="smollm2, random:llama, random:qwen3, random:gpt2, a folder that transformers "
            "reads, PATH.gguf, or a name on the Hugging Face hub.",
        ),
    ],
    to: Annotated[Path, typer.Option("--to", help="The store; it is made where there is none.")],
    text: Annotated[
        str | None,
        typer.Option("--text", help="A file, or - for stdin; else prose that Python comes with."),
    ] = None,
    tokens: Annotated[
        int, typer.Option("--tokens", min=1, help="How many tokens of the text are read.")
    ] = 512,
    decode: Annotated[
        int, typer.Option("--decode", min=0, help="How many tokens the model adds, one at a time.")
    ] = 8,
    layers: Annotated[
        str | None, typer.Option("--layers", help="Which attentions: 0,3,7 or 0:4 or ::4.")
    ] = None,
    every: Annotated[
        int, typer.Option("--every", min=1, help="Only steps that this divides; the text is 0.")
    ] = 1,
    mode: Annotated[
        str, typer.Option("--mode", help="full, stats (no tensors) or shapes (neither).")
    ] = "full",
    attention: Annotated[
        str, typer.Option("--attention", help="transformers' attn_implementation.")
    ] = "sdpa",
    device: Annotated[
        str, typer.Option("--device", help="cpu, cuda, cuda:N, or auto (the best there is).")
    ] = "auto",
    dtype: Annotated[
        str, typer.Option("--dtype", help="Of the weights: float32, bfloat16 or float16.")
    ] = "float32",
) -> None:
    """Run a language model on a text, and capture the inputs of its attention."""
    from assay.models.language_models import open_model
    from assay.models.loaded import require
    from assay.workloads.selection import Options
    from assay.workloads.store import Store

    options = Options(layers=layers, every=every, mode=mode)
    words, source = _text(text)
    require(("torch", "transformers"), purpose=f"to capture from {hf}")
    from assay.capture.language_model import capture_text

    opened = open_model(hf, dtype=dtype, device=_device(device), attention=attention)
    ids = _read(opened.token_ids(words), tokens, source)
    store = Store.create(to)
    print(
        f"capturing {hf} ({opened.identity.architecture}, {dtype}, on {opened.model.device}): "
        f"{tokens} tokens of {source}, then {decode} decoded, into {to}"
    )
    about = {"name": hf, "digest": opened.identity.digest, "text": source}
    report = capture_text(opened.model, ids, store, options, decode=decode, about=about)
    _tell(to, report, [r for r in store.manifest().records if r.key.run == report.run])


def _text(given: str | None) -> tuple[str, str]:
    """The text, and what to call it."""
    import sys

    from assay.errors import BadInput

    if given is None:
        from assay.models import sample_text

        sample = sample_text.read()
        return sample.text, sample.source
    try:
        content = sys.stdin.buffer.read() if given == "-" else Path(given).read_bytes()
        return content.decode(), "stdin" if given == "-" else given
    except OSError as error:
        raise BadInput(f"cannot read --text {given}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"--text {given} is not UTF-8 text: {error}") from error


def _read(ids: "Sequence[int]", wanted: int, source: str) -> "Sequence[int]":
    from assay.errors import BadInput

    if len(ids) < wanted:
        raise BadInput(
            f"{source} has {len(ids)} tokens, {wanted} were asked for; give a longer text, or "
            f"--tokens {len(ids)}"
            if ids
            else f"{source} is empty; give a text to read"
        )
    return ids[:wanted]


def _device(name: str) -> str:
    if name != "auto":
        return name
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _tell(to: Path, report: "Report", records: "Sequence[CaptureRecord]") -> None:
    """What was captured, what was lost, and what to do with it."""
    from collections import Counter

    phases = Counter(record.phase for record in records)
    told = ", ".join(f"{count} {phase}" for phase, count in phases.items())
    layers = len({record.key.layer for record in records})
    print(report.sentence())
    if not records:
        print(f"nothing in {to} is of this run: no step or layer was wanted, or all were dropped")
        return
    print(f"run {report.run}: {layers} layers, {told}")
    print(f"look at them: assay inspect {to}")
    if any(record.mode == "full" for record in records):
        print(f"run every implementation on them: assay replay {to} --impl all")
