"""Pages: sequences of different lengths in one pool, read as if each had a cache of its own."""

import pytest

pytest.importorskip("torch")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from assay import plugins
from assay.errors import BadInput
from assay.kv import contract
from assay.kv.encoded import EncodedLayer
from assay.kv.encoding import Encoding, encodings
from assay.kv.key_bias import KeyBias
from assay.kv.pages import PagedCache

SPEC = contract.KVSpec(dtype="bfloat16", head_dim=32, key_heads=2, value_heads=2)
LAYERS = 2
LAYOUTS = [
    name
    for name in plugins.listing("layouts")
    if "v" in {stream.name for stream in contract.load(name).streams(SPEC)}
    and contract.load(name).block == 1
    and not contract.load(name).frozen
]


def kept(name):
    biases = [KeyBias(bias=torch.randn(2, 32)) for _ in range(LAYERS)]
    return encodings(name, LAYERS, key_biases=biases)


def new_tokens(sequences, count, seed):
    generator = torch.Generator().manual_seed(seed)
    shape = (sequences, 2, count, 32)
    return [
        {n: torch.randn(shape, generator=generator).to(torch.bfloat16) for n in "kv"}
        for _ in range(LAYERS)
    ]


def check(cache, encoding, sequence, written):
    """The sequence has the bytes and the values of a cache of its own."""
    for layer in range(LAYERS):
        alone = EncodedLayer(encoding[layer])
        values = {n: torch.cat([w[layer][n] for w in written], dim=-2)[None] for n in "kv"}
        right = alone.update(values)
        read = cache.read(layer, sequence)
        for name in "kv":
            assert torch.equal(read[name].to(torch.bfloat16), right[name][0]), (layer, name)


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("page_size", [1, 16, 24])
def test_ragged_sequences_have_exact_bytes_and_their_own_values(name, page_size):
    encoding = kept(name)
    cache = PagedCache(encoding, SPEC, pages=200, page_size=page_size)
    sequences = [cache.add() for _ in range(3)]
    written = {sequence: [] for sequence in sequences}
    for seed, counts in enumerate([(5, 0, 31), (1, 1, 1), (0, 17, 16), (1, 1, 0)]):
        layers = new_tokens(3, max(counts), seed)
        cache.append(sequences, layers, counts)
        for index, (sequence, count) in enumerate(zip(sequences, counts, strict=True)):
            part = [{n: v[index, :, :count] for n, v in layer.items()} for layer in layers]
            written[sequence].append(part)
    lengths = [7, 19, 48]
    per_token = LAYERS * contract.load(name).bytes_per_token(SPEC)
    pages = [-(-length // page_size) for length in lengths]
    assert cache.lengths(sequences).tolist() == lengths
    assert cache.nbytes == sum(lengths) * per_token
    assert cache.page_bytes == sum(pages) * page_size * per_token
    tables = cache.tables(sequences)
    used = tables[tables >= 0].tolist()
    assert len(used) == len(set(used)) == sum(pages)
    for sequence in sequences:
        check(cache, encoding, sequence, written[sequence])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=20), st.integers(1, 5))
def test_pages_that_are_released_are_used_again(steps, page_size):
    """Whatever comes and goes: each sequence keeps its own, and pages are never lost."""
    encoding = kept("k16v8")
    cache = PagedCache(encoding, SPEC, pages=24, page_size=page_size)
    written = {}
    for seed, (action, count) in enumerate(steps):
        if action == 0 or not written:
            written[cache.add()] = []
            continue
        sequence = sorted(written)[seed % len(written)]
        if action == 1:
            cache.release(sequence)
            del written[sequence]
            continue
        layers = new_tokens(1, count, seed)
        before = cache.nbytes
        try:
            cache.append([sequence], layers, [count])
        except BadInput as error:
            assert "pages" in str(error) and cache.nbytes == before
            continue
        written[sequence].append([{n: v[0] for n, v in layer.items()} for layer in layers])
    for sequence, parts in written.items():
        if parts:
            check(cache, encoding, sequence, parts)
    for sequence in list(written):
        cache.release(sequence)
    assert cache.nbytes == cache.page_bytes == 0 and len(cache._free) == 24


def test_what_does_not_fit_is_refused():
    cache = PagedCache(kept("k16v8"), SPEC, pages=2, page_size=4)
    sequence = cache.add()
    with pytest.raises(BadInput, match="3 more pages of 4 tokens are wanted and 2 are free"):
        cache.append([sequence], new_tokens(1, 9, 0), [9])
    assert cache.nbytes == 0 and cache.page_bytes == 0
    with pytest.raises(BadInput, match="there is no sequence 7"):
        cache.read(0, 7)
    with pytest.raises(BadInput, match="one of them twice"):
        cache.append([sequence, sequence], new_tokens(2, 1, 0), [1, 1])
    narrow = [{n: v[..., :16] for n, v in layer.items()} for layer in new_tokens(1, 1, 0)]
    with pytest.raises(BadInput, match=r"wanted .* in torch\.bfloat16"):
        cache.append([sequence], narrow, [1])
    with pytest.raises(BadInput, match="1 layers and counts"):
        cache.append([sequence], new_tokens(1, 1, 0)[:1], [1])
    with pytest.raises(BadInput, match="k16v8_block encodes blocks of 16"):
        PagedCache(kept("k16v8_block"), SPEC, pages=2, page_size=16)
    with pytest.raises(BadInput, match="behind a window of 4"):
        residual = [Encoding(layout=contract.load("k16v8"), residual=4)]
        PagedCache(residual, SPEC, pages=2, page_size=16)
    with pytest.raises(BadInput, match="0 pages of 16"):
        PagedCache(kept("k16v8"), SPEC, pages=0, page_size=16)
