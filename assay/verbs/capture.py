"""Take attention inputs out of a running model, and exchange them as files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.verbs import _flags as flags

if TYPE_CHECKING:
    from assay.captures.manifest import RunSummary

RUN = "Example: assay capture run --hf smollm2 --tokens 512 --decode 8 --to captures/smollm2"
EXPORT = "Example: assay capture export captures/smollm2 layer=3 --to exchange"
IMPORT = "Example: assay capture import exchange/*.npz --to captures/theirs"

To = Annotated[Path, typer.Option("--to", help="The store; created if it does not exist.")]


def command() -> typer.Typer:
    app = typer.Typer(no_args_is_help=True, add_completion=False, help=f"{__doc__} {RUN}")
    app.command(help=f"{run.__doc__} {RUN}")(run)
    app.command(help=f"{export.__doc__} {EXPORT}")(export)
    app.command("import", help=f"{import_.__doc__} {IMPORT}")(import_)
    return app


def run(
    hf: Annotated[
        str,
        typer.Option(
            "--hf",
            help="smollm2, random:llama, random:qwen3, random:gpt2, a folder that transformers "
            "reads, PATH.gguf, or a name on the Hugging Face hub.",
        ),
    ],
    to: To,
    text: Annotated[
        str | None,
        typer.Option("--text", help="A file, or - for stdin; else prose that comes with Python."),
    ] = None,
    tokens: Annotated[
        int, typer.Option("--tokens", min=1, help="Number of tokens of the text to read.")
    ] = 512,
    decode: Annotated[
        int, typer.Option("--decode", min=0, help="Number of tokens to decode after it.")
    ] = 8,
    layers: Annotated[
        str | None, typer.Option("--layers", help="Layers to capture: 0,3,7 or 0:4 or ::4.")
    ] = None,
    every: Annotated[
        int,
        typer.Option("--every", min=1, help="Only steps divisible by this; the text is 0."),
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
        str,
        typer.Option(
            "--dtype",
            callback=flags.full_dtype,
            help="Of the weights: float32, bfloat16 or float16.",
        ),
    ] = "float32",
) -> None:
    """Run a language model on a text, and capture the inputs of its attention."""
    from assay.captures.recording.options import CaptureOptions
    from assay.studies.stages.capture import TextCapture, best_device, capture

    request = TextCapture(
        model=hf,
        to=to,
        text=text,
        tokens=tokens,
        decode=decode,
        dtype=dtype,
        device=best_device() if device == "auto" else device,
        attention=attention,
        options=CaptureOptions(layers=layers, every=every, mode=mode),
    )
    print(
        f"capturing {hf} in {dtype} on {request.device}: {tokens} tokens of "
        f"{text or 'sample text'}, then {decode} decoded, into {to}"
    )
    _print_report(to, capture(request))


def _print_report(to: Path, report: "RunSummary") -> None:
    """Print what was captured and dropped, and what to do next."""
    from collections import Counter

    from assay.captures.store import Store

    print(report.sentence())
    records = [r for r in Store.open(to).manifest().records if r.key.run == report.run]
    if not records:
        print("nothing was captured: no step or layer was selected, or all calls were dropped")
        return
    layers = len({record.key.layer for record in records})
    phases = Counter(record.phase for record in records)
    counts = ", ".join(f"{count} {phase}" for phase, count in phases.items())
    print(f"run {report.run}: {layers} layers, {counts}")
    print(f"inspect them: assay inspect {to}")
    if any(record.mode == "full" for record in records):
        print(f"run every implementation on them: assay replay {to} --impl all")


def export(
    path: Annotated[Path, typer.Argument(help="A store of captures.")],
    records: Annotated[
        str | None,
        typer.Argument(help="Some of its records: a name, a pattern, or step=0,layer=3:5."),
    ] = None,
    to: Annotated[Path, typer.Option("--to", help="Folder for the files.")] = Path("exchange"),
) -> None:
    """Write records as attention_inputs_<time>_<key>.npz, each complete in itself."""
    from assay.captures import exchange
    from assay.captures.store import Store
    from assay.errors import BadInput

    store = Store.open(path)
    selected = store.find(records) if records else store.manifest().records
    full = [record for record in selected if record.mode == "full"]
    if not full:
        held = f"only {selected[0].mode}" if selected else "no records"
        raise BadInput(f"{path} has {held}; wanted records with tensors, captured with --mode full")
    files = exchange.export(store, full, to)
    skipped = len(selected) - len(full)
    note = f"; {skipped} without tensors were left out" if skipped else ""
    print(f"wrote {len(files)} files to {to}{note}")


def import_(
    files: Annotated[list[Path], typer.Argument(help="The .npz files.")],
    to: To,
    foreign: Annotated[
        bool, typer.Option("--foreign", help="Files of plain q, k and v, written by others.")
    ] = False,
    order: Annotated[
        str, typer.Option("--order", help="Axes of foreign q, k, v and out: BHSD or BSHD.")
    ] = "BHSD",
    dtype: Annotated[
        str | None,
        typer.Option(
            "--dtype",
            callback=flags.full_dtype,
            help="Of foreign arrays of bits, such as bfloat16.",
        ),
    ] = None,
    scale: Annotated[
        float | None, typer.Option("--scale", help="Of foreign calls; else 1 / sqrt(head_dim).")
    ] = None,
    causal: Annotated[
        bool | None, typer.Option(help="Foreign calls are causal; else as the file says, or not.")
    ] = None,
    alignment: Annotated[
        str | None,
        typer.Option("--alignment", help="Of foreign causal calls: bottom-right or top-left."),
    ] = None,
) -> None:
    """Import files into a store: what `export` wrote, or plain q, k and v with --foreign."""
    import sys

    from assay.captures.exchange import import_files, read_exported
    from assay.captures.foreign import ForeignSettings, reader
    from assay.captures.store import Store
    from assay.errors import BAD_INPUT

    settings = ForeignSettings(
        order=order, dtype=dtype, scale=scale, causal=causal, alignment=alignment
    )
    read = reader(settings) if foreign else read_exported
    report = import_files(Store.create(to), files, read)
    for path, names in report.ignored.items():
        print(f"left out of {path}: {', '.join(names)}")
    for path, name in report.added.items():
        print(f"imported {path}: {name}")
    for path, name in report.present.items():
        print(f"already present {path}: {name}")
    for path, why in report.refused.items():
        print(f"assay: refused {path}: {why}", file=sys.stderr)
    if report.refused:
        raise typer.Exit(BAD_INPUT)
