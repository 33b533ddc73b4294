"""A language model is run on a text and its attention captured: `assay capture run`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.captures.manifest import CaptureRecord
    from assay.captures.recording.counts import RecordingReport

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
    from assay.captures.recording.options import CaptureOptions
    from assay.captures.store import Store
    from assay.studies.text_capture import TextCapture, carry_out

    asked = TextCapture(
        model=hf,
        to=to,
        text=text,
        tokens=tokens,
        decode=decode,
        dtype=dtype,
        device=_device(device),
        attention=attention,
        options=CaptureOptions(layers=layers, every=every, mode=mode),
    )
    print(
        f"capturing {hf} in {dtype} on {asked.device}: {tokens} tokens of "
        f"{text or 'sample text'}, then {decode} decoded, into {to}"
    )
    report = carry_out(asked)
    _tell(to, report, [r for r in Store.open(to).manifest().records if r.key.run == report.run])


def _device(name: str) -> str:
    if name != "auto":
        return name
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _tell(to: Path, report: "RecordingReport", records: "Sequence[CaptureRecord]") -> None:
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
