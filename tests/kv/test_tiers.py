"""Tiers: every byte where the placement says, counted exactly, and durable in whole files."""

import os
import re
from dataclasses import replace
from fractions import Fraction

import pytest

torch = pytest.importorskip("torch")

from serialized_chunks import SPEC, chunk_of, frozen_layout, raw, tensors_of

from assay import plugins
from assay.errors import BadInput
from assay.host import CHECKOUT
from assay.kv import contract
from assay.kv.frozen import FrozenFloat8
from assay.kv.header import Corrupt, encoded_bytes
from assay.kv.tiers import TierBytes, TieredStore

WIDE = replace(SPEC, head_dim=128)
K16V8 = chunk_of("k16v8", tokens=16, spec=WIDE)
DENSE_BYTES = chunk_of("dense", tokens=16, spec=WIDE).payload_bytes
KEYS_BYTES = encoded_bytes(K16V8.split()[0])


def files(folder):
    return sorted(path for path in folder.iterdir())


def on_disk(folder):
    return sum(path.stat().st_size for path in files(folder))


@pytest.mark.parametrize("placement", ["memory", "file", "split"])
@pytest.mark.parametrize("name", plugins.listing("layouts"))
def test_every_layout_comes_back_from_every_tier(tmp_path, name, placement):
    store = TieredStore(tmp_path / "tier", placement=placement)
    chunk = chunk_of(name, tokens=5)
    if placement == "split" and name in ("mla_latent", "splice"):
        with pytest.raises(BadInput, match="no values apart from keys"):
            store.put("a", chunk=chunk, tensors=tensors_of(chunk))
        assert not files(tmp_path / "tier") and store.counts() == TierBytes()
        return
    for number in range(3):
        store.put(str(number), chunk=chunk, tensors=tensors_of(chunk, seed=number))
    for number in range(3):
        fetched, tensors = store.get(str(number)).tensors, tensors_of(chunk, seed=number)
        assert {n: raw(t) for n, t in fetched.items()} == {n: raw(t) for n, t in tensors.items()}
    counts = store.counts()
    assert counts.memory + counts.file == 3 * chunk.payload_bytes
    assert counts.file + counts.file_headers == on_disk(tmp_path / "tier")


@pytest.mark.parametrize(("layout", "placement", "in_file", "in_memory"), [
    ("dense", "file", Fraction(1), Fraction(0)),
    ("dense", "split", Fraction(1, 2), Fraction(1, 2)),
    ("k16v8", "file", Fraction(386, 512), Fraction(0)),
    ("k16v8", "split", Fraction(130, 512), Fraction(1, 2)),
    ("k16v8", "memory", Fraction(0), Fraction(386, 512)),
    ("k8v8", "split", Fraction(130, 512), Fraction(130, 512)),
    ("frozen", "file", Fraction(3, 4), Fraction(0)),
    ("frozen", "split", Fraction(1, 4), Fraction(1, 2)),
])  # fmt: skip
def test_ratios_to_dense_are_exact(tmp_path, layout, placement, in_file, in_memory):
    """With a scale for each token and head 130 bytes of 512, with frozen scales a quarter."""
    own = FrozenFloat8("float8_e4m3fn", torch.tensor(0.01))
    chosen = frozen_layout(own) if layout == "frozen" else contract.load(layout)
    chunk = replace(K16V8, layout=chosen)
    store = TieredStore(tmp_path / "tier", placement=placement)
    counts = store.put("a", chunk=chunk, tensors=tensors_of(chunk))
    assert Fraction(counts.file, DENSE_BYTES) == in_file
    assert Fraction(counts.memory, DENSE_BYTES) == in_memory
    assert counts.file + counts.file_headers == on_disk(tmp_path / "tier")


def test_a_full_memory_refuses_and_keeps_nothing(tmp_path):
    store = TieredStore(tmp_path / "tier", placement="split", memory_bytes=2 * KEYS_BYTES)
    for key in "ab":
        store.put(key, chunk=K16V8, tensors=tensors_of(K16V8))
    before = store.counts(), files(tmp_path / "tier")
    with pytest.raises(BadInput, match=f"'c' needs {KEYS_BYTES} bytes of memory; 0 of "):
        store.put("c", chunk=K16V8, tensors=tensors_of(K16V8))
    assert (store.counts(), files(tmp_path / "tier")) == before
    store.demote("a")
    store.put("c", chunk=K16V8, tensors=tensors_of(K16V8))


def test_a_full_memory_demotes_where_that_was_chosen_and_counts_it(tmp_path):
    store = TieredStore(
        tmp_path / "tier", placement="split", memory_bytes=KEYS_BYTES, when_full="demote"
    )
    first = store.put("a", chunk=K16V8, tensors=tensors_of(K16V8))
    second = store.put("b", chunk=K16V8, tensors=tensors_of(K16V8, seed=1))
    assert first.demoted == 0 and first.memory == DENSE_BYTES // 2
    assert second.demoted == KEYS_BYTES and second.memory == second.memory_headers == 0
    assert Fraction(second.file, DENSE_BYTES) == Fraction(386, 512)
    assert store.counts() == first + second
    assert raw(store.get("b").tensors["k"]) == raw(tensors_of(K16V8, seed=1)["k"])


def test_demotion_moves_the_keys_to_a_file_of_their_own(tmp_path):
    store = TieredStore(tmp_path / "tier", placement="split")
    put = store.put("a", chunk=K16V8, tensors=tensors_of(K16V8))
    demoted = store.demote("a")
    assert demoted.memory == 0 and demoted.file == put.memory + put.file
    assert demoted.demoted == KEYS_BYTES and len(files(tmp_path / "tier")) == 2
    assert raw(store.get("a").tensors["k"]) == raw(tensors_of(K16V8)["k"])
    with pytest.raises(BadInput, match="nothing of 'a' is in memory"):
        store.demote("a")
    store.remove("a")
    assert not files(tmp_path / "tier") and store.counts() == TierBytes()


@pytest.mark.parametrize("harm", ["cut", "altered", "exchanged", "gone"])
def test_a_file_that_was_harmed_is_refused(tmp_path, harm):
    store = TieredStore(tmp_path / "tier", placement="split")
    store.put("a", chunk=K16V8, tensors=tensors_of(K16V8))
    store.put("b", chunk=replace(K16V8, layer=1), tensors=tensors_of(K16V8))
    first, second = files(tmp_path / "tier")
    content = bytearray(first.read_bytes())
    if harm == "cut":
        first.write_bytes(content[:-100])
    elif harm == "altered":
        content[1000] ^= 1
        first.write_bytes(content)
    elif harm == "exchanged":
        first.write_bytes(second.read_bytes())
    else:
        first.unlink()
    refusal = {
        "cut": "it was altered", "altered": "checksum", "exchanged": "layer 1; wanted 0",
        "gone": "No such file",
    }  # fmt: skip
    with pytest.raises(BadInput, match=refusal[harm]):
        store.get("a")
    assert raw(store.get("b").tensors["v"]) == raw(tensors_of(K16V8)["v"])


def test_keys_of_any_text_stay_in_the_folder(tmp_path):
    store = TieredStore(tmp_path / "tier", placement="file")
    for key in ("../escape", "/etc/passwd", "a\0b", ".", "", "x" * 5000):
        store.put(key, chunk=K16V8, tensors=tensors_of(K16V8))
        assert raw(store.get(key).tensors["v"]) == raw(tensors_of(K16V8)["v"])
    assert [path.name for path in files(tmp_path / "tier")] == [f"{n:08}.kv" for n in range(6)]
    assert files(tmp_path) == [tmp_path / "tier"]


def test_a_chunk_that_cannot_be_written_leaves_nothing(tmp_path):
    store = TieredStore(tmp_path / "tier", placement="split")
    with pytest.raises(BadInput, match="given are tensors k, v; wanted k, v, v_scale"):
        store.put("a", chunk=K16V8, tensors={n: tensors_of(K16V8)[n] for n in "kv"})
    values = K16V8.split()[1]
    with pytest.raises(BadInput, match="given are tensors k, v, v_scale; wanted v, v_scale"):
        store.put("a", chunk=values, tensors=tensors_of(K16V8))
    (tmp_path / "tier").rmdir()
    with pytest.raises(BadInput, match="cannot write"):
        store.put("a", chunk=K16V8, tensors=tensors_of(K16V8))
    assert store.counts() == TierBytes()


def test_a_read_says_if_it_came_from_the_page_cache(tmp_path):
    store = TieredStore(tmp_path / "tier", placement="split")
    store.put("a", chunk=K16V8, tensors=tensors_of(K16V8))
    files(tmp_path / "tier")[0].read_bytes()
    warm, cold = store.get("a"), store.get("a", cold=True)
    if warm.cold is None:
        assert warm.reason
    else:
        assert warm.cold is False and "page cache" in warm.reason
    assert cold.cold is not None or cold.reason  # a system may keep what it was asked to forget
    assert warm.read == cold.read == store.counts("a")
    in_memory = TieredStore(tmp_path / "other", placement="memory")
    in_memory.put("a", chunk=K16V8, tensors=tensors_of(K16V8))
    fetched = in_memory.get("a", cold=True)
    assert fetched.cold is None and fetched.reason == "nothing was read from a file"


def test_without_the_means_to_ask_cold_is_unknown_with_a_reason(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "RWF_NOWAIT", raising=False)
    monkeypatch.delattr(os, "posix_fadvise", raising=False)
    store = TieredStore(tmp_path / "tier", placement="file")
    store.put("a", chunk=K16V8, tensors=tensors_of(K16V8))
    fetched = store.get("a", cold=True)
    assert fetched.cold is None and "does not say" in fetched.reason


def test_what_a_store_cannot_be_is_refused(tmp_path):
    with pytest.raises(BadInput, match="placement is 'nvme'; wanted one of memory, file, split"):
        TieredStore(tmp_path / "tier", placement="nvme")
    with pytest.raises(BadInput, match="when_full is 'drop'; wanted one of refuse, demote"):
        TieredStore(tmp_path / "tier", placement="file", when_full="drop")
    with pytest.raises(BadInput, match="memory_bytes is -1"):
        TieredStore(tmp_path / "tier", placement="file", memory_bytes=-1)
    (tmp_path / "a file").write_text("")
    with pytest.raises(BadInput, match="is not empty"):
        TieredStore(tmp_path, placement="file")
    store = TieredStore(tmp_path / "tier", placement="file")
    with pytest.raises(BadInput, match="'a' is not in this store of 0 chunks"):
        store.get("a")
    store.put("a", chunk=K16V8, tensors=tensors_of(K16V8))
    with pytest.raises(BadInput, match="'a' is in this store already"):
        store.put("a", chunk=K16V8, tensors=tensors_of(K16V8))


def test_the_examples_of_the_page_run(tmp_path, monkeypatch):
    page = (CHECKOUT / "docs" / "kv.md").read_text().partition("## Serialized form")[2]
    example = "".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(example, names)
    assert names["fetched"].tensors.keys() == {"k", "v", "v_scale"}
    assert names["store"].counts().file == on_disk(tmp_path / "chunks") - 648


def test_a_torn_write_is_refused(tmp_path):
    """A part of a file's bytes are still zeros, as after a crash of a system that reorders."""
    store = TieredStore(tmp_path / "tier", placement="file")
    store.put("a", chunk=K16V8, tensors=tensors_of(K16V8))
    path = files(tmp_path / "tier")[0]
    content = path.read_bytes()
    path.write_bytes(content[:4096] + bytes(len(content) - 4096))
    with pytest.raises(Corrupt):
        store.get("a")
