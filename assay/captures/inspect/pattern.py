"""Attention of the heads of one layer, pair by pair: rows are queries, columns are keys.

A page shows every head of the layer, one at a time; a picture shows one. Tokens stand along the
sides where the capture knows them.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from assay.captures.inspect.drawing import HeatMap, heat_map
from assay.captures.inspect.overview import Figure, FigurePanel
from assay.captures.inspect.page import PageHead, section
from assay.captures.inspect.scores import AttentionCall, attention_call
from assay.captures.manifest import TOKENS, CaptureRecord, Manifest
from assay.captures.store import Store
from assay.errors import BadInput, CannotRunHere
from assay.plugins import how_to_install, installed
from assay.records.durable import write_atomically
from assay.reports.html import document

MOST_PLACES = 96  # along a side: more cannot be told apart
_MOST_HINTS = 64 * 64  # cells that say their pair and weight
_MOST_LETTERS = 7  # of a token beside a row


@dataclass(frozen=True, kw_only=True, eq=False)
class Pattern:
    """The first row of one call; `queries` and `keys` are the places that are drawn."""

    record: CaptureRecord
    call: AttentionCall
    head: int  # that was asked for
    queries: range
    keys: range
    tokens: tuple[str, ...]  # of the text, from its beginning; empty where they are not known

    @property
    def heads(self) -> int:
        return self.call.sizes[1]

    @cached_property
    def title(self) -> str:
        return f"Layer {self.record.key.layer}, step {self.record.key.step}"

    def weights(self, head: int) -> np.ndarray:
        """Weights of the drawn pairs, [queries, keys]; a query that sees no key has zeros."""
        scores, shown = self.call.scores(0, head, np.array(self.queries))
        scores = np.where(shown, scores, -np.inf)
        highest = scores.max(axis=-1, keepdims=True)
        powers = np.exp(scores - np.where(np.isfinite(highest), highest, 0.0))
        total = powers.sum(axis=-1, keepdims=True)
        return (powers / np.where(total > 0, total, 1.0))[:, self.keys.start : self.keys.stop]

    def names(self, places: range, *, ahead: int = 0) -> tuple[str, ...]:
        """Tokens at some places, or their numbers where one is not known; `ahead` is where the
        first query stands among the keys."""
        at = [place + ahead for place in places]
        known = self.tokens if at and at[0] >= 0 and at[-1] < len(self.tokens) else ()
        return tuple(_visible(known[place]) if known else str(place) for place in at)

    @property
    def query_names(self) -> tuple[str, ...]:
        """The last query stands beside the last key, as in a cache."""
        _, _, queries, keys = self.call.sizes
        return self.names(self.queries, ahead=keys - queries)

    @property
    def note(self) -> str:
        _, _, queries, keys = self.call.sizes
        cut = ""
        if len(self.queries) < queries or len(self.keys) < keys:
            cut = (
                f" Drawn are queries {self.queries.start} to {self.queries[-1]} of {queries:,} and "
                f"keys {self.keys.start} to {self.keys[-1]} of {keys:,}."
            )
        known = "" if self.tokens else " Its tokens were not captured; places are numbers."
        return f"Weights after the softmax of the first row of {self.record.name}.{cut}{known}"


def parse_head(text: str) -> tuple[int, int]:
    """Layer and head of LAYER.HEAD."""
    layer, _, head = text.partition(".")
    if not (layer.isdecimal() and head.isdecimal()):
        raise BadInput(f"--head is {text!r}; wanted HEAD, or LAYER.HEAD such as 3.7")
    return int(layer), int(head)


def pattern(store: Store, records: str | None, *, layer: int, head: int) -> Pattern:
    """The largest call of a layer, the earliest of several, of the records that are selected."""
    manifest = store.manifest()
    selected = store.find(records) if records else manifest.records
    of_layer = [r for r in selected if r.key.layer == layer and r.mode == "full" and _pairs(r)]
    if not of_layer:
        layers = sorted({r.key.layer for r in selected if r.mode == "full" and _pairs(r)})
        there = f"there are {', '.join(map(str, layers))}" if layers else "no call has q and k"
        raise BadInput(f"{store.path} has no layer {layer} with tensors; {there}")
    record = max(of_layer, key=lambda r: (_pairs(r), -r.key.step))
    call = attention_call(store.read(record), record.scalars)
    _, heads, queries, keys = call.sizes
    if head >= heads:
        raise BadInput(f"head {head} is not one of the {heads} heads of layer {layer}, from 0 on")
    recent = queries <= MOST_PLACES < keys  # a step of decoding: what came last is of interest
    first = keys - MOST_PLACES if recent else 0
    return Pattern(
        record=record,
        call=call,
        head=head,
        queries=range(min(queries, MOST_PLACES)),
        keys=range(first, min(keys, first + MOST_PLACES)),
        tokens=_tokens(manifest, record),
    )


def write_pattern_page(drawn: Pattern, path: Path) -> None:
    """Write a page with every head of the layer, the one that was asked for first."""
    panels = tuple(_panel(drawn, head) for head in range(drawn.heads))
    shown = panels[drawn.head].name
    figure = Figure(title=drawn.title, panels_of="heads", panels=panels, shown=shown)
    opening = PageHead(
        title=f"Attention of {drawn.title.lower()}",
        verdict=f"head {drawn.head} of {drawn.heads}",
        tone="ok",
        facts=(drawn.record.phase, drawn.record.key.site),
        headlines=(drawn.note,),
        problems=(),
    )
    body = section("pattern", "Rows are queries, columns are keys", [figure])
    write_atomically(path, document(opening, body).encode())


def write_picture(drawn: Pattern, path: Path) -> None:
    """Write one head as a picture, in the format that the file's name ends in."""
    if not installed("matplotlib"):
        raise CannotRunHere(
            f"a picture takes matplotlib: {how_to_install(['matplotlib'])}; --html needs none"
        )
    from matplotlib.figure import Figure as Picture

    side = 2.5 + 0.11 * max(len(drawn.queries), len(drawn.keys))
    picture = Picture(figsize=(side, side), dpi=150, layout="constrained")
    axes = picture.subplots()
    image = axes.imshow(drawn.weights(drawn.head), cmap="Blues", vmin=0.0, vmax=1.0)
    axes.set_xticks(range(len(drawn.keys)), drawn.names(drawn.keys), rotation=90, fontsize=6)
    axes.set_yticks(range(len(drawn.queries)), drawn.query_names, fontsize=6)
    axes.set(xlabel="key", ylabel="query", title=f"{drawn.title}, head {drawn.head}")
    picture.colorbar(image, shrink=0.6, label="weight")
    try:
        picture.savefig(path)
    except ValueError as error:
        raise BadInput(f"{path} cannot be written: {error}") from error


def _panel(drawn: Pattern, head: int) -> FigurePanel:
    weights = drawn.weights(head)
    queries, keys = drawn.query_names, drawn.names(drawn.keys)
    hinted = head == drawn.head and weights.size <= _MOST_HINTS
    chart = HeatMap(
        cells=tuple(map(tuple, weights.tolist())),
        low=0.0,
        high=1.0,
        low_text="0",
        high_text="1",
        row_label="" if drawn.tokens else "query",
        column_label="key",
        row_names=queries,
        column_names=keys,
        hints=_hints(weights, queries, keys) if hinted else (),
        square=True,
    )
    label = f"attention of head {head}, {drawn.title.lower()}"
    return FigurePanel(name=f"head {head}", svg=heat_map(chart, label=label), notes=())


def _hints(
    weights: np.ndarray, queries: Sequence[str], keys: Sequence[str]
) -> tuple[tuple[str, ...], ...]:
    return tuple(
        tuple(f"{query} to {key}: {weight:.3f}" for key, weight in zip(keys, row, strict=True))
        for query, row in zip(queries, weights, strict=True)
    )


def _pairs(record: CaptureRecord) -> int:
    """Pairs of query and key; 0 where the record has not both."""
    if not {"q", "k"} <= record.tensors.keys():
        return 0
    q, k = record.tensors["q"].shape, record.tensors["k"].shape
    return q[2] * k[2] if len(q) == len(k) == 4 else 0


def _tokens(manifest: Manifest, record: CaptureRecord) -> tuple[str, ...]:
    """Tokens of the text that a run read, where `assay capture run` wrote them down."""
    for run in manifest.runs:
        text = run.model.get(TOKENS)
        if run.run == record.key.run and isinstance(text, str):
            try:
                tokens = json.loads(text)
            except ValueError:
                return ()
            return tuple(map(str, tokens)) if isinstance(tokens, list) else ()
    return ()


def _visible(token: str) -> str:
    """A token in few letters, with its spaces and line ends as signs."""
    plain = token.replace("Ġ", "␣").replace("▁", "␣").replace(" ", "␣")
    plain = plain.replace("Ċ", "⏎").replace("\n", "⏎")
    shown = "".join(letter if letter.isprintable() else "·" for letter in plain) or "·"
    return shown if len(shown) <= _MOST_LETTERS else f"{shown[: _MOST_LETTERS - 1]}…"
