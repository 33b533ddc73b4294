"""Bytes of caches: what a model keeps of a token, how many sequences fit, and whether it is so."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.verbs import _flags as flags
from assay.verbs._kv_quality import COMPARE, QUALITY, compare, quality
from assay.verbs._kv_sizes import bytes_of, lengths_of
from assay.verbs._kv_splice import SPLICE, splice
from assay.verbs._running import finish

if TYPE_CHECKING:
    from assay.models.cached_layers import CachedModel

SIZES = "Example: assay kv sizes GPT2_MLA --length 1024,8192"
FIT = "Example: assay kv fit model/config.json --memory 24GiB --weights 3GiB --length 4096"
VERIFY = "Example: assay kv verify GPT2,GPT2_MLA --layout dense,k16v8,mla_latent --out caches"
RECIPE = "Example: assay kv recipe path/to/model --layout k16v8"
LENGTHS = "256,512,1024"

Model = Annotated[
    str,
    typer.Argument(help="A variant such as GPT2_MLA, or a Hugging Face config.json or its folder."),
]
Layout = Annotated[
    str | None,
    typer.Option("--layout", help="Layouts, comma between; by default the model's and all others."),
]
Dtype = Annotated[
    str,
    typer.Option(
        "--dtype",
        callback=flags.full_dtype,
        help="What the model computes in: bfloat16, float16 or float32.",
    ),
]
Length = Annotated[str, typer.Option("--length", help="Tokens of a sequence, comma between.")]
Residual = Annotated[
    int, typer.Option("--residual", min=0, help="Newest tokens of a sequence that stay whole.")
]


def command() -> typer.Typer:
    app = typer.Typer(no_args_is_help=True, add_completion=False, help=f"{__doc__} {SIZES}")
    app.command(help=f"{sizes.__doc__} {SIZES}")(sizes)
    app.command(help=f"{fit.__doc__} {FIT}")(fit)
    app.command(help=f"{verify.__doc__} {VERIFY}")(verify)
    app.command(help=f"{quality.__doc__} {QUALITY}")(quality)
    app.command(help=f"{compare.__doc__} {COMPARE}")(compare)
    app.command(help=f"{splice.__doc__} {SPLICE}")(splice)
    app.command(help=f"{recipe.__doc__} {RECIPE}")(recipe)
    return app


def sizes(
    model: Model,
    layout: Layout = None,
    dtype: Dtype = "bfloat16",
    length: Length = LENGTHS,
    residual: Residual = 0,
    as_json: flags.Json = False,
) -> None:
    """Count the bytes that a cache keeps: of a token, and of whole sequences."""
    from assay.kv.account import cache_bytes
    from assay.models.cached_layers import open_model
    from assay.reports.numerals import size_in_bytes

    opened, lengths = open_model(model), lengths_of(length)
    own = opened.layers(dtype=_known_dtype(dtype))
    rows, longest = [], max(lengths)
    for name, layers in _by_layout(opened, layout, dtype, residual=residual):
        token = sum(layer.per_token for layer in layers)
        each = {layer.per_token for layer in layers}
        row: dict[str, Any] = {
            "layout": name,
            "layers": len(layers),
            "bytes per token": _plain(token),
            "per layer": _plain(each.pop()) if len(each) == 1 else None,
            "share": cache_bytes(layers, longest) / cache_bytes(own, longest),
        }
        rows.append(row | {f"{n} tokens": cache_bytes(layers, n) for n in lengths})
    shown = {"share": "{:.4f}".format} | {f"{n} tokens": size_in_bytes for n in lengths}
    note = (
        f"The share is of the bytes of the model's own layout, {opened.layout}, at {longest:,} "
        f"tokens.{_windows(own)}"
    )
    least = min(rows, key=lambda row: row["bytes per token"])
    answer = (
        f"{opened.name}: {rows[0]['bytes per token']:,} bytes per token in {rows[0]['layout']}, "
        f"{dtype}; the least are {least['bytes per token']:,}, in {least['layout']}"
    )
    title = f"Cache of {opened.name}, {dtype}"
    _show(title, rows, shown, answer=answer, note=note, as_json=as_json)


def fit(
    model: Model,
    memory: Annotated[str, typer.Option("--memory", help="Room in all, such as 24GiB.")],
    weights: Annotated[
        str | None,
        typer.Option("--weights", help="Bytes of the weights; of a variant they are counted."),
    ] = None,
    reserve: Annotated[
        str, typer.Option("--reserve", help="Room for activations, logits and the rest.")
    ] = "0",
    layout: Layout = None,
    dtype: Dtype = "bfloat16",
    length: Length = LENGTHS,
    residual: Residual = 0,
    as_json: flags.Json = False,
) -> None:
    """Count the sequences whose caches fit into memory beside the weights."""
    from assay.errors import BadInput
    from assay.kv.account import cache_bytes, sequences_that_fit
    from assay.models.cached_layers import open_model
    from assay.records.schema import ELEMENT_BYTES
    from assay.reports.numerals import size_in_bytes

    opened = open_model(model)
    if weights is None and opened.parameters is None:
        raise BadInput(f"{opened.name} does not say how many weights there are; give --weights")
    taken = (
        bytes_of(weights, "--weights")
        if weights is not None
        else (opened.parameters or 0) * ELEMENT_BYTES[_known_dtype(dtype)]
    )
    room = bytes_of(memory, "--memory") - taken - bytes_of(reserve, "--reserve")
    if room <= 0:
        raise BadInput(
            f"--memory {memory}: weights and reserve take {size_in_bytes(-room)} more than that; "
            "give more memory, or fewer weights"
        )
    rows = []
    for name, layers in _by_layout(opened, layout, dtype, residual=residual):
        for tokens in lengths_of(length):
            each = cache_bytes(layers, tokens)
            count = sequences_that_fit(layers, room=room, tokens=tokens)
            rows.append({
                "layout": name, "tokens": tokens, "bytes per sequence": each, "sequences": count,
                "left over": max(0, room) - count * each,
            })  # fmt: skip
    shown = {"bytes per sequence": size_in_bytes, "left over": size_in_bytes}
    note = (
        f"Of {size_in_bytes(bytes_of(memory, '--memory'))} the weights take {size_in_bytes(taken)} "
        f"and {size_in_bytes(bytes_of(reserve, '--reserve'))} are set aside; activations and what "
        f"an allocator rounds up are not counted.{_windows(opened.layers(dtype=dtype))}"
    )
    most = max(rows, key=lambda row: (row["tokens"], row["sequences"]))
    answer = (
        f"{opened.name}: {most['sequences']:,} sequences of {most['tokens']:,} tokens fit into "
        f"{memory} with {most['layout']}, of these layouts the most"
    )
    title = f"Sequences of {opened.name} that fit, {dtype}"
    _show(title, rows, shown, answer=answer, note=note, as_json=as_json)


def verify(
    model: Annotated[
        str, typer.Argument(help="Variants, comma between; of --layout each takes what it can.")
    ],
    layout: Layout = None,
    dtype: Dtype = "float32",
    length: Length = LENGTHS,
    as_json: flags.Json = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="A folder for the rows and figures of them.")
    ] = None,
) -> None:
    """Fill real caches of variants and hold their tensors against the formula."""
    from assay.models.cache_check import check_caches, longer_caches
    from assay.models.cached_layers import open_model
    from assay.reports.cache_charts import require_print, write_caches
    from assay.reports.numerals import size_in_bytes

    if out:
        require_print()
    models = [open_model(name) for name in model.split(",")]
    lengths, rows, longer = lengths_of(length), [], []
    for opened in models:
        stated = ",".join(opened.possible(layout.split(","))) if layout and models[1:] else layout
        names = [name for name, _ in _by_layout(opened, stated, dtype)]
        rows += check_caches(opened, names, dtype=dtype, lengths=lengths, beside=rows)
        longer += longer_caches(opened, names, rows)
    shown = {"measured": size_in_bytes, "formula": size_in_bytes, "share": "{:.4f}".format}
    wrong = [row for row in rows if row["verdict"] != "ok"]
    answer = f"PASS  {model}: {len(rows)} of {len(rows)} caches have the bytes of the formula"
    if wrong:
        answer = f"FAIL  {model}: {len(wrong)} of {len(rows)} caches differ from the formula"
    _show(f"Real caches of {model}, {dtype}", rows, shown, answer=answer, as_json=as_json)
    if out:
        write_caches(out, [*rows, *longer])
    finish(1 if wrong else 0)


def recipe(
    model: Model,
    layout: Annotated[str, typer.Option("--layout", help="The layout to serve.")] = "k16v8",
    vllm: Annotated[
        str | None, typer.Option("--vllm", help="Version of vLLM; by default what is installed.")
    ] = None,
    flashinfer: Annotated[
        str | None, typer.Option("--flashinfer", help="Version of FlashInfer, likewise.")
    ] = None,
    as_json: flags.Json = False,
) -> None:
    """Print the commands that serve a model with vLLM and FlashInfer; nothing is run."""
    import json

    from assay.integrations import vllm_recipe

    made = vllm_recipe.make(model, layout=layout, vllm=vllm, flashinfer=flashinfer)
    print(json.dumps(made.as_json()) if as_json else made.text())


def _by_layout(
    model: "CachedModel", stated: str | None, dtype: str, *, residual: int = 0
) -> list[tuple[str, Any]]:
    """Layers by layout: those that are stated, or the model's own and all that may take its
    place; others are named on stderr with the reason of the first."""
    import sys

    from assay import plugins
    from assay.errors import BadInput
    from assay.studies import lists

    _known_dtype(dtype)
    if stated:
        return [
            (name, model.layers(dtype=dtype, layout=name, residual=residual))
            for name in lists.some_entries(stated)
        ]
    listed = {model.layout: model.layers(dtype=dtype)}
    left_out: dict[str, BadInput] = {}
    for name in plugins.listing("layouts"):
        try:
            listed.setdefault(name, model.layers(dtype=dtype, layout=name, residual=residual))
        except BadInput as error:
            left_out[name] = error
    if left_out:
        reason = next(iter(left_out.values()))
        print(f"left out: {', '.join(left_out)} ({reason})", file=sys.stderr)
    return list(listed.items())


def _windows(layers: Sequence[Any]) -> str:
    """A sentence on layers that no layout makes smaller, after a space; empty without them."""
    from assay.kv.account import windowed_layers

    if not (count := windowed_layers(layers)):
        return ""
    return (
        f" {count} of {len(layers)} layers have a window: they keep one token less than that, "
        "whole in every layout."
    )


def _plain(count: Any) -> int | float:
    """A whole number where it is one: tokens that share a scale have a part of its bytes each."""
    return int(count) if count == int(count) else float(count)


def _known_dtype(dtype: str) -> str:
    from assay.errors import BadInput, did_you_mean
    from assay.workloads.spec import DTYPES

    if dtype not in DTYPES:
        parts = (f"--dtype is {dtype!r};", did_you_mean(dtype, DTYPES))
        raise BadInput(" ".join(filter(None, (*parts, f"wanted one of {', '.join(DTYPES)}"))))
    return dtype


def _show(
    title: str,
    rows: Sequence[dict[str, Any]],
    shown: dict[str, Any],
    *,
    answer: str,
    as_json: bool,
    note: str = "",
) -> None:
    """The answer in a line, then the rows as a table; or the rows as JSON."""
    from assay.reports.row_files import print_rows
    from assay.reports.table import Table
    from assay.reports.terminal import console, show

    if as_json:
        print_rows(rows)
        return

    def text(column: str, value: Any) -> str:
        if value is None:
            return "differs"
        return shown[column](value) if column in shown else str(value)

    columns = tuple(rows[0])
    table = Table(
        title=title,
        columns=columns,
        rows=tuple(tuple(text(column, row[column]) for column in columns) for row in rows),
        note=note,
    )
    print(answer)
    show(table, console())
