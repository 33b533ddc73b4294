"""`assay inspect` as a user meets it: tables, JSON, a page, a comparison, refusals."""

import json
import shutil

import captured_calls as made
import pytest
from command_line import assay

from assay.captures import tensor_files
from assay.captures.manifest import CaptureRun, DroppedCalls
from assay.captures.store import Store
from assay.captures.tensor import Tensor


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return made.planted(tmp_path_factory.mktemp("inspect") / "store")


def words(done):
    return " ".join(done.stdout.split())


def test_sentences_and_tables(store, tmp_path):
    done = assay("inspect", store.path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = words(done)
    assert "9 captured calls of 3 attention layers" in told
    assert "layer 1 (" in told and "): 2 key channels are up to" in told
    assert f"of the weight of head {made.SINK_HEAD} is on the first key" in told
    assert "Runs" in told and made.RUN in told and "Tensors" in told
    assert "1×4×24×32" in told and "bfloat16" in told


def test_many_calls_are_told_by_site(tmp_path):
    store = made.planted(tmp_path / "long", steps=22)
    told = words(assay("inspect", "long", cwd=tmp_path))
    assert "66 captured calls of 6 sites and phases" in told
    assert len(store.manifest().records) == 66


def test_some_records_as_json(store, tmp_path):
    done = assay("inspect", store.path, "layer=1,phase=prefill", "--json", cwd=tmp_path)
    (found,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert (found["layer"], found["step"], found["phase"]) == (1, 0, "prefill")
    outliers = found["tensors"]["k"]["channels"]["outliers"]
    assert [(o["head"], o["channel"]) for o in outliers] == [(1, 17), (1, 29)]
    assert len(found["attention"]["entropy"]) == 4
    every = assay("inspect", store.path, "--json", cwd=tmp_path).stdout.splitlines()
    assert len(every) == 9


def test_a_page(store, tmp_path):
    done = assay("inspect", store.path, "--html", "page.html", "--head", "2", cwd=tmp_path)
    assert done.returncode == 0 and "page: page.html" in done.stdout, done.stderr
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!doctype html>") and "Head 2 of" in page
    assert page.index("key channels are up to") < page.index("<svg")


def test_one_file(tmp_path):
    tensor_files.write(tmp_path / "one.npz", made.call(plant=made.plant_outliers))
    done = assay("inspect", "one.npz", "--html", "page.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 key channels" in words(done) and "does not say scale" in words(done)


def test_statistics_alone(tmp_path):
    made.planted(tmp_path / "stats", steps=1, mode="stats")
    done = assay("inspect", "stats", "--html", "page.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "need whole tensors" in words(done) and "captured as stats" in words(done)


def test_an_empty_store(tmp_path):
    Store.create(tmp_path / "empty")
    done = assay("inspect", "empty", "--html", "page.html", cwd=tmp_path)
    assert done.returncode == 0 and "no captured calls" in done.stdout
    assert "Nothing was captured" in (tmp_path / "page.html").read_text()
    assert assay("inspect", "empty", "--json", cwd=tmp_path).stdout == ""


def test_a_run_that_was_killed_and_what_it_dropped_are_told(tmp_path):
    store = Store.create(tmp_path / "store")
    made.add(store, made.call())
    store.append([DroppedCalls(run=made.RUN, rank=0, counts={"the queue was full": 7})])
    told = words(assay("inspect", "store", cwd=tmp_path))
    assert "did not end: it was killed or is still running" in told
    assert "dropped calls that were wanted: 7 the queue was full" in told


def test_equal_stores_exit_0_and_one_flipped_bit_1(store, tmp_path):
    equal = assay("inspect", "--diff", store.path, store.path, cwd=tmp_path)
    assert equal.returncode == 0 and "Equal, bit for bit: 9 calls" in equal.stdout
    other = Store.create(tmp_path / "other")
    for record in store.manifest().records:
        tensors = store.read(record)
        if (record.key.step, record.key.layer) == (0, 2):
            bits = tensors["out"].bits.copy()
            bits[0, 3, 11, 5] ^= 1
            tensors["out"] = Tensor("bfloat16", bits)
        key = record.key
        made.add(other, tensors, step=key.step, layer=key.layer, phase=record.phase, run="again")
    done = assay("inspect", store.path, "other", "--diff", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    told = words(done)
    assert "1 tensor of 1 call differ; 8 of 9 equal" in told
    assert "step 0 layer 2" in told and "[0, 3, 11, 5]" in told and "1 of 3,072" in told
    lines = assay("inspect", "--diff", store.path, "other", "--json", cwd=tmp_path).stdout
    unequal = [json.loads(line) for line in lines.splitlines() if not json.loads(line)["equal"]]
    assert [t["max_ulps"] for t in unequal[0]["tensors"]] == [1] and len(unequal) == 1
    chosen = assay("inspect", "--diff", store.path, "other", "layer=0:2", cwd=tmp_path)
    assert chosen.returncode == 0 and "6 calls" in chosen.stdout


BAD_INPUT = {
    "a path that is not there": (["nowhere"], "there is no nowhere"),
    "a folder that is no store": (["."], "is not a store of captures"),
    "a file of another kind": (["text.txt"], "ends in neither"),
    "a file cut short": (["short.npz"], "short.npz"),
    "a foreign file": (["foreign.npz"], "was not written by assay"),
    "records that are not there": (["store", "layer=77"], "has no record 'layer=77'"),
    "a selection that says nothing": (["store", "depth=1"], "'depth' is not"),
    "a changed record": (["store"], "checksum"),
    "a manifest that was changed": (["edited"], "not a line of a manifest"),
    "a head that is not there": (["whole", "--head", "9"], "head 9 is not one of"),
    "one store to compare": (["store", "--diff"], "--diff compares two"),
    "two without --diff": (["store", "layer=1", "whole"], "compared with --diff"),
    "a store and a file": (["--diff", "store", "short.npz"], "two stores, or two files"),
    "a page that cannot be written": (["whole", "--html", "no/such/page.html"], "no/such"),
}


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory):
    """A folder with everything that can be wrong."""
    import numpy as np

    folder = tmp_path_factory.mktemp("spoiled")
    (folder / "text.txt").write_text("q")
    made.planted(folder / "whole", steps=1)
    store = made.planted(folder / "store", steps=1)
    path = store.path / store.manifest().records[1].file
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    tensor_files.write(folder / "short.npz", made.call())
    whole = (folder / "short.npz").read_bytes()
    (folder / "short.npz").write_bytes(whole[: len(whole) // 2])
    np.savez(folder / "foreign.npz", q=np.zeros(3))
    shutil.copytree(folder / "whole", folder / "edited")
    manifest = folder / "edited" / "manifest.jsonl"
    manifest.write_text(manifest.read_text().replace('"phase":"prefill"', '"phase":"later"'))
    return folder


@pytest.mark.parametrize("what", BAD_INPUT)
def test_bad_input_exits_2_with_a_sentence(what, spoiled):
    arguments, message = BAD_INPUT[what]
    done = assay("inspect", *arguments, cwd=spoiled)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert message in " ".join(done.stderr.split())


def test_markup_in_names_stays_text(tmp_path):
    """A site's name is anyone's: it must not become part of the page or of the terminal."""
    store = Store.create(tmp_path / "store")
    store.claim("evil", 0)
    told = {"config": {}, "versions": {}, "options": {}, "host": "", "pid": 1, "rank": 0}
    model = {"name": "<script>alert(1)</script>[red]"}
    run = CaptureRun(run="evil", time="2026-01-01T00:00:00Z", model=model, **told)
    store.append([run])
    made.add(store, made.call(), run="evil")
    done = assay("inspect", "store", "--html", "page.html", cwd=tmp_path)
    assert done.returncode == 0 and "<script>alert(1)</script>[red]" in words(done)
    assert "<script>alert" not in (tmp_path / "page.html").read_text()
