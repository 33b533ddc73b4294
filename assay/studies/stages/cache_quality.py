"""Quality through the cache: a text read through each layout of CACHE_LAYOUTS, proofs first.

A layout whose proof fails, or of which other bytes were read than the formula says, has no figures.
"""

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, median
from typing import Any

from assay.errors import BadInput, CannotRunHere
from assay.kv.contract import KIND as LAYOUTS
from assay.models.gpt2 import variants
from assay.models.pretrained import sample_text
from assay.records.schema import Measurement, WorkloadIdentity
from assay.studies import lists
from assay.studies.cell import Cell
from assay.studies.study import Study
from assay.subjects.outcome import Begin

AFTER = ("host",)
REQUIRES = ("torch",)
USES = ("torch",)
DENSE = "dense"
FIGURES = ("cache_nll", "cache_agreement", "cache_divergence", "cache_margin", "cache_needles")


def cells(study: Study) -> list[Cell]:
    """One for each model of CACHE_MODEL, with all layouts: each is held against the dense cache on
    the same tokens. A variant that keeps latents has its own layout alone."""
    from assay import plugins

    layouts = tuple(dict.fromkeys((DENSE, *study.cache_layouts)))
    folders = study.plugin_folders
    paths = {name: plugins.find(LAYOUTS, name, folders).path for name in layouts}
    own = {name: str(path) for name, path in paths.items() if not _is_ours(path)}
    return [
        Cell(
            name=model,
            subjects=_own_layout(model) or layouts,
            device=study.device,
            kind="",
            files=tuple(paths.values()),
            options={
                "text": study.cache_text,
                "tokens": study.cache_tokens,
                "window": study.cache_window,
                "residual": study.cache_residual,
                "dtype": study.cache_dtype,
                "needles": study.cache_needles,
                "paths": own,
            },
        )
        for model in lists.entries(study.cache_model)
    ]


def _is_ours(path: Path) -> bool:
    return path.is_relative_to(Path(__file__).parents[2])


def _own_layout(model: str) -> tuple[str, ...]:
    """The layout of a variant that keeps latents; empty for every other model."""
    if model.endswith(".safetensors") and Path(model).is_file():
        from assay.models.gpt2 import checkpoint

        model = checkpoint.identity(model).variant
    if not model.startswith("GPT2"):
        return ()
    variant = variants.parse(model)
    return ("splice" if "splice" in variant.parts else "mla_latent",) if variant.latent else ()


def run(cell: Cell) -> Iterator[Begin | Measurement]:
    """Yield proof, loss, choices, distance and needles of every layout."""
    from assay.quality import readers

    options, device = cell.options, cell.device
    try:
        text = sample_text.read_given(options["text"] or None)
        reader = readers.open_reader(cell.name, dtype=options["dtype"], device=device)
        ids = reader.token_ids(text.text)
        windows = readers.windows_of(
            ids, tokens=options["tokens"], window=options["window"], source=text.source
        )
    except BadInput as error:
        yield from _without_value(cell, "failed", str(error))
        return
    except CannotRunHere as error:
        yield from _without_value(cell, "skipped", str(error))
        return
    if too_long := readers.why_too_long(reader, options["window"]):
        yield from _without_value(cell, "unsupported", too_long)
        return
    residual = options["residual"]
    workload = WorkloadIdentity(
        name=(
            f"{cell.name} in {options['dtype']}, {windows.numel():,} {reader.unit} in windows of "
            f"{windows.shape[1]:,}" + (f", newest {residual:,} whole" if residual else "")
        ),
        spec={
            "model": cell.name, "weights": reader.weights, "text": text.source,
            "dtype": options["dtype"], "window": windows.shape[1], "windows": len(windows),
            "residual": residual, "device": device,
        },
        content=text.digest,
    )  # fmt: skip
    for measurement in _measure(cell, reader, ids, windows):
        yield measurement if isinstance(measurement, Begin) else _of(measurement, workload)


def _measure(
    cell: Cell, reader: Any, ids: list[int], windows: Any
) -> Iterator[Begin | dict[str, Any]]:
    from assay.kv.account import cache_bytes
    from assay.quality import needle, proofs, scoring

    residual = cell.options["residual"]
    # By name, or by the path of a user's file; records have the name of either.
    layouts = {name: cell.options["paths"].get(name, name) for name in cell.subjects}
    proven = []
    if DENSE not in cell.subjects:
        (name,) = cell.subjects
        reason = "its latents are its own cache: no dense one of these weights to hold it against"
        yield _entry(name, "cache_proof", None, "", status="unsupported", reason=reason)
        return
    for name in cell.subjects:
        yield Begin(name, probe="proof")
        try:
            layers = reader.layers(layouts[name], residual=residual)
            proof = proofs.prove(reader, layouts[name], windows, residual=residual)
        except BadInput as error:
            yield _entry(name, "cache_proof", None, "", status="unsupported", reason=str(error))
            continue
        window = windows.shape[1]
        yield from _proof(name, proof, cache_bytes(layers, window) / window)
        proven += [name] if not proof.problem else []
    if DENSE not in proven:
        return
    yield Begin(cell.name, probe="scores")
    given = [layouts[name] for name in proven]
    scored_by = scoring.score(reader, given, windows, dense=DENSE, residual=residual)
    scores = {name: scored_by[layouts[name]] for name in proven}
    for name in proven:
        yield from _read(name, scores[name], tokens=windows.numel())
        if sum(scores[name].reads.values()) != scores[name].expected_reads:
            del scores[name]
    stacks = None
    if cell.options["needles"]:
        needles, window = cell.options["needles"], windows.shape[1]
        stacks = needle.haystacks(reader, ids, needles=needles, window=window)
    yield from _by_head(reader, {name: layouts[name] for name in scores}, windows)
    for name, scored in scores.items():
        yield Begin(name, probe="figures")
        yield from _figures(name, scored, scores[DENSE], window=windows.shape[1])
        if not stacks:
            reason = "none were asked for (CACHE_NEEDLES)"
            yield _entry(name, "cache_needles", None, "share", reason=reason)
        else:
            right = needle.retrieved(reader, layouts[name], stacks, residual=residual)
            samples = [float(each) for each in right]
            yield _entry(name, "cache_needles", fmean(samples), "share", samples=samples)


def _proof(name: str, proof: Any, bytes_per_token: float) -> Iterator[dict[str, Any]]:
    failed = {"status": "failed", "reason": proof.problem} if proof.problem else {}
    source = "zeros in the place of keys or values, the lesser"
    yield _entry(name, "cache_proof", proof.moved, "of the largest logit", source=source, **failed)
    source = "formula, of a whole window"
    yield _entry(name, "cache_bytes_per_token", bytes_per_token, "B", source=source)
    yield _entry(name, "cache_step_s", proof.step_seconds, "s", source="clock, one sequence")
    if proof.difference is not None:
        yield _entry(name, "cache_step_difference", proof.difference, "of the mean loss")


def _read(name: str, scored: Any, *, tokens: int) -> Iterator[dict[str, Any]]:
    read, wanted = sum(scored.reads.values()), scored.expected_reads
    wrong = {"status": "failed", "reason": f"{read:,} bytes were read, {wanted:,} by formula"}
    data = {"streams": dict(scored.reads)}
    yield _entry(
        name, "cache_read_bytes", read, "B", data=data, **({} if read == wanted else wrong)
    )
    yield _entry(name, "cache_pass_s", scored.seconds / tokens, "s", source="clock, batched")


def _figures(name: str, scored: Any, dense: Any, *, window: int) -> Iterator[dict[str, Any]]:
    from assay.quality.bands import band_of_windows

    rows, plain = scored.by_window, dense.by_window
    nll, agreement = fmean(rows["nll"]), fmean(rows["agrees"])
    band, more = band_of_windows(plain["nll"], rows["nll"], rows["agrees"])
    data = {"band": band, "more_tokens": None if more is None else more * window}
    yield _entry(name, "cache_nll", nll, "nats", samples=rows["nll"], data=data)
    yield _entry(name, "cache_agreement", agreement, "share", samples=rows["agrees"])
    divergence = rows["divergence"]
    yield _entry(name, "cache_divergence", fmean(divergence), "nats", samples=divergence)
    margins = [margin for margin in scored.margins if margin is not None]
    if margins:
        yield _entry(name, "cache_margin", median(margins), "logits", samples=margins)
    else:
        reason = "no window has another choice than with the dense cache"
        yield _entry(name, "cache_margin", None, "logits", reason=reason)


def _by_head(reader: Any, layouts: dict[str, str], windows: Any) -> Iterator[dict[str, Any]]:
    """The worst head of each layout, for models whose attention can be replaced."""
    from assay.quality.by_head import head_errors
    from assay.quality.readers import PretrainedReader

    if not isinstance(reader, PretrainedReader):
        reason = "only models of transformers let their attention be looked into"
        for name in layouts:
            yield _entry(name, "cache_head_error", None, "relative L2", reason=reason)
        return
    measured = head_errors(reader, list(layouts.values()), windows[:1])
    for name, layout in layouts.items():
        errors = measured[layout]
        layer, head = divmod(int(errors.argmax()), errors.shape[1])
        layers = [[round(float(value), 6) for value in row] for row in errors]
        data = {"layer": layer, "head": head, "layers": layers}
        yield _entry(name, "cache_head_error", float(errors.max()), "relative L2", data=data)


def _entry(name: str, metric: str, value: float | None, unit: str, **rest: Any) -> dict[str, Any]:
    return {"subject": name, "metric": metric, "value": value, "unit": unit, **rest}


def _of(entry: dict[str, Any], workload: WorkloadIdentity) -> Measurement:
    return Measurement(level="model", workload=workload, **entry)


def _without_value(cell: Cell, status: Any, reason: str) -> Iterator[Measurement]:
    for name in cell.subjects:
        entry = _entry(name, "cache_proof", None, "", status=status, reason=reason)
        yield Measurement(level="model", **entry)
