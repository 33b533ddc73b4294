"""Attention of one head as a page and a picture: the right weights beside the right tokens."""

import json
import re

import captured_calls as made
import numpy as np
import pytest

from assay.captures.inspect.pattern import (
    MOST_PLACES,
    parse_head,
    pattern,
    write_pattern_page,
    write_picture,
)
from assay.captures.manifest import TOKENS, CaptureRun
from assay.captures.store import Store
from assay.captures.tensor import tensor_of

TEXT = ["The", " cat", "\n", "sat", "Ġdown", "<b>", "extraordinary"]
SHARP = 1000.0  # a score that leaves the others no weight


def store_of(path, *, queries, keys, tokens=None, heads=2, **scalars):
    """Layer 3: each query of head 0 looks at the key before it, each of head 1 at the first."""
    store = Store.create(path)
    store.claim(made.RUN, 0)
    facts = {"config": {}, "options": {}, "host": "here", "pid": 1, "versions": {}}
    model = {"name": "made"} | ({TOKENS: json.dumps(tokens)} if tokens else {})
    store.append([CaptureRun(run=made.RUN, rank=0, model=model, time="2026-01-01", **facts)])
    k = np.zeros((1, heads, keys, keys), np.float32)
    q = np.zeros((1, heads, queries, keys), np.float32)
    k[0, :] = np.eye(keys)
    for query in range(queries):
        q[0, 0, query, max(0, query + keys - queries - 1)] = SHARP
        q[0, 1, query, 0] = SHARP
    tensors = {"q": tensor_of(q), "k": tensor_of(k), "v": tensor_of(k)}
    made.add(store, tensors, layer=3, causal=True, scale=1.0, **scalars)
    return store


def test_weights_and_tokens_are_where_they_belong(tmp_path):
    size = len(TEXT)
    store = store_of(tmp_path / "store", queries=size, keys=size, tokens=TEXT)
    drawn = pattern(store, None, layer=3, head=0)
    before = np.maximum(np.arange(size) - 1, 0)
    assert (drawn.weights(0).argmax(axis=1) == before).all()
    assert (drawn.weights(1).argmax(axis=1) == 0).all()
    np.testing.assert_allclose(drawn.weights(0).sum(axis=1), 1.0)
    assert drawn.query_names == drawn.names(drawn.keys)
    assert drawn.query_names == ("The", "␣cat", "⏎", "sat", "␣down", "<b>", "extrao…")


def test_a_page_has_every_head_and_shows_the_one_asked_for(tmp_path):
    size = len(TEXT)
    store = store_of(tmp_path / "store", queries=size, keys=size, tokens=TEXT)
    write_pattern_page(pattern(store, "layer=3", layer=3, head=1), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "<option selected>head 1</option>" in page and "<option>head 0</option>" in page
    assert len(re.findall('<svg class="drawing"', page)) == 2
    assert "<title>sat to The: 1.000</title>" in page, "of head 1, which looks at the first key"
    assert "&lt;b&gt;" in page and "<b>" not in page


def test_a_step_of_decoding_shows_its_newest_keys(tmp_path):
    keys = MOST_PLACES + 10
    tokens = [f"t{n}" for n in range(keys)]
    store = store_of(tmp_path / "store", queries=1, keys=keys, tokens=tokens)
    drawn = pattern(store, None, layer=3, head=0)
    assert drawn.keys == range(10, keys) and drawn.query_names == (f"t{keys - 1}",)
    assert drawn.weights(0).argmax() == keys - 2 - 10
    assert f"keys 10 to {keys - 1} of {keys}" in drawn.note


def test_a_long_text_shows_its_beginning_by_numbers_where_tokens_are_not_known(tmp_path):
    size = MOST_PLACES + 4
    drawn = pattern(store_of(tmp_path / "store", queries=size, keys=size), None, layer=3, head=0)
    assert drawn.queries == drawn.keys == range(MOST_PLACES)
    assert drawn.query_names[:2] == ("0", "1") and "tokens were not captured" in drawn.note


def test_a_picture(tmp_path):
    pytest.importorskip("matplotlib")
    store = store_of(tmp_path / "store", queries=7, keys=7, tokens=TEXT)
    write_picture(pattern(store, None, layer=3, head=0), tmp_path / "head.png")
    assert (tmp_path / "head.png").read_bytes().startswith(b"\x89PNG")
    write_picture(pattern(store, None, layer=3, head=0), tmp_path / "head.svg")
    assert "Layer 3, step 0, head 0" in (tmp_path / "head.svg").read_text()


def test_layer_and_head():
    assert parse_head("3.7") == (3, 7)
