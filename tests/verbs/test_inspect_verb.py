"""`assay inspect` as a user meets it: tables, JSON, a page, a comparison, refusals.

One test of each kind starts a process; the others call the verb here, which is the same but faster.
"""

import json
import re
import shutil
from pathlib import Path

import captured_calls as made
import numpy as np
import pytest
import typer
from command_line import assay

from assay.captures import tensor_files
from assay.captures.manifest import CaptureRun, DroppedCalls
from assay.captures.store import Store
from assay.captures.tensor import Tensor
from assay.errors import BadInput
from assay.verbs.inspect import inspect


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return made.planted(tmp_path_factory.mktemp("inspect") / "store")


@pytest.fixture
def run(capsys):
    """Call the verb: returns its exit code and the text it printed."""

    def called(path, *rest, **options):
        try:
            inspect(path, *rest, **options)
            code = 0
        except typer.Exit as exit:
            code = exit.exit_code
        return code, capsys.readouterr().out

    return called


def words(text):
    return " ".join(text.split())


def test_sentences_tables_and_a_page(store, tmp_path):
    done = assay("inspect", store.path, "--html", "page.html", "--head", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    printed = words(done.stdout)
    assert "page: page.html" in printed and "9 captured calls of 3 attention layers" in printed
    assert "layer 1 (" in printed and "): 2 key channels are up to" in printed
    assert f"of the weight of head {made.SINK_HEAD} is on the first key" in printed
    assert "Runs" in printed and made.RUN in printed and "Tensors" in printed
    assert "1×4×24×32" in printed and "bfloat16" in printed
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!doctype html>") and "Head 2 of" in page


def test_many_calls_are_grouped_by_site(tmp_path, run):
    store = made.planted(tmp_path / "long", steps=22)
    assert len(store.manifest().records) == 66
    assert "66 captured calls of 6 sites and phases" in words(run(store.path)[1])


def test_some_records_as_json(store, run):
    _, lines = run(store.path, "layer=1,phase=prefill", as_json=True)
    (call,) = [json.loads(line) for line in lines.splitlines()]
    assert (call["layer"], call["step"], call["phase"]) == (1, 0, "prefill")
    outliers = call["tensors"]["k"]["channels"]["outliers"]
    assert [(o["head"], o["channel"]) for o in outliers] == [(1, 17), (1, 29)]
    assert len(call["attention"]["entropy"]) == 4
    assert len(run(store.path, as_json=True)[1].splitlines()) == 9


def test_one_file(tmp_path, run):
    path = tmp_path / "one.npz"
    tensor_files.write(path, made.call(plant=made.plant_outliers))
    printed = words(run(path, html=tmp_path / "page.html")[1])
    assert "2 key channels" in printed and "does not say scale" in printed


def test_statistics_alone(tmp_path, run):
    store = made.planted(tmp_path / "stats", steps=1, mode="stats")
    printed = words(run(store.path, html=tmp_path / "page.html")[1])
    assert "need whole tensors" in printed and "captured as stats" in printed


def test_an_empty_store(tmp_path, run):
    store = Store.create(tmp_path / "empty")
    assert "no captured calls" in words(run(store.path, html=tmp_path / "page.html")[1])
    assert "Nothing was captured" in (tmp_path / "page.html").read_text()
    assert run(store.path, as_json=True) == (0, "")


def test_a_killed_run_and_what_it_dropped_are_reported(tmp_path, run):
    store = Store.create(tmp_path / "store")
    made.add(store, made.call())
    store.append([DroppedCalls(run=made.RUN, rank=0, counts={"the queue was full": 7})])
    printed = words(run(store.path)[1])
    assert "did not end: it was killed or is still running" in printed
    assert "dropped calls that were wanted: 7 the queue was full" in printed


def test_equal_stores_exit_0_and_one_flipped_bit_1(store, tmp_path, run):
    code, printed = run(store.path, str(store.path), diff=True)
    assert code == 0 and "Equal, bit for bit: 9 calls" in printed
    other = Store.create(tmp_path / "other")
    for record in store.manifest().records:
        tensors, key = store.read(record), record.key
        if (key.step, key.layer) == (0, 2):
            bits = tensors["out"].bits.copy()
            bits[0, 3, 11, 5] ^= 1
            tensors["out"] = Tensor("bfloat16", bits)
        made.add(other, tensors, step=key.step, layer=key.layer, phase=record.phase, run="again")
    done = assay("inspect", store.path, "other", "--diff", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    printed = words(done.stdout)
    assert "1 tensor of 1 call differ; 8 of 9 equal" in printed
    assert "step 0 layer 2" in printed and "[0, 3, 11, 5]" in printed and "1 of 3,072" in printed
    code, lines = run(store.path, str(other.path), diff=True, as_json=True)
    unequal = [call for call in map(json.loads, lines.splitlines()) if not call["equal"]]
    assert code == 1 and len(unequal) == 1
    assert [tensor["max_ulps"] for tensor in unequal[0]["tensors"]] == [1]
    code, printed = run(store.path, str(other.path), "layer=0:2", diff=True)
    assert code == 0 and "6 calls" in printed


BAD_INPUT = {
    "a path that is not there": ({"path": "nowhere"}, "there is no nowhere"),
    "a folder that is no store": ({"path": "."}, "is not a store of captures"),
    "a file of another kind": ({"path": "text.txt"}, "ends in neither"),
    "a file cut short": ({"path": "short.npz"}, "short.npz"),
    "a foreign file": ({"path": "foreign.npz"}, "was not written by assay"),
    "a file with records": ({"path": "whole.npz", "records": "layer=1"}, "is one file"),
    "records that are not there": ({"path": "whole", "records": "layer=77"}, "has no record"),
    "a selection that says nothing": ({"path": "whole", "records": "depth=1"}, "'depth' is not"),
    "a changed record": ({"path": "changed"}, "checksum"),
    "a manifest that was changed": ({"path": "edited"}, "not a line of a manifest"),
    "a head that is not there": ({"path": "whole", "head": "9"}, "head 9 is not one of the 4"),
    "a head of no layer": ({"path": "whole", "head": "7.0"}, "no layer 7 with tensors"),
    "a head that a layer has not": ({"path": "whole", "head": "1.9"}, "head 9 is not one of the 4"),
    "a head in words": ({"path": "whole", "head": "first"}, "such as 3.7"),
    "half a head": ({"path": "whole", "head": "1."}, "such as 3.7"),
    "a head of a file": ({"path": "whole.npz", "head": "1.0"}, "is one file"),
    "a picture of nothing": ({"path": "whole", "png": "a.png"}, "name it, such as --head 3.7"),
    "one store to compare": ({"path": "whole", "diff": True}, "--diff compares two"),
    "a page of a comparison": (
        {"path": "whole", "records": "whole", "diff": True, "html": "page.html"}, "leave out",
    ),
    "two without --diff": (
        {"path": "whole", "records": "layer=1", "chosen": "whole"}, "compared with --diff",
    ),
    "a store and a file": (
        {"path": "whole", "records": "short.npz", "diff": True}, "two stores, or two files",
    ),
    "a page that cannot be written": ({"path": "whole", "html": "no/such/page.html"}, "no/such"),
}  # fmt: skip


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory):
    """A folder with everything that can be wrong."""
    folder = tmp_path_factory.mktemp("spoiled")
    (folder / "text.txt").write_text("q")
    made.planted(folder / "whole", steps=1)
    store = made.planted(folder / "changed", steps=1)
    path = store.path / store.manifest().records[1].file
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    tensor_files.write(folder / "whole.npz", made.call())
    whole = (folder / "whole.npz").read_bytes()
    (folder / "short.npz").write_bytes(whole[: len(whole) // 2])
    np.savez(folder / "foreign.npz", q=np.zeros(3))
    shutil.copytree(folder / "whole", folder / "edited")
    manifest = folder / "edited" / "manifest.jsonl"
    manifest.write_text(manifest.read_text().replace('"phase":"prefill"', '"phase":"later"'))
    return folder


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_refused_with_a_sentence(case, spoiled, monkeypatch):
    arguments, message = BAD_INPUT[case]
    monkeypatch.chdir(spoiled)
    paths = {name: Path(arguments[name]) for name in ("path", "html") if name in arguments}
    with pytest.raises(BadInput, match=re.escape(message)):
        inspect(**{**arguments, **paths})


def test_bad_input_exits_2(spoiled):
    done = assay("inspect", "changed", cwd=spoiled)
    assert done.returncode == 2 and "checksum" in done.stderr


def test_markup_in_names_stays_text(tmp_path, run):
    """A model's name is anyone's: it must not become part of the page or of the terminal."""
    store = Store.create(tmp_path / "store")
    store.claim("evil", 0)
    model = {"name": "<script>alert(1)</script>[red]"}
    facts = {"config": {}, "versions": {}, "options": {}, "host": "", "pid": 1, "rank": 0}
    run_line = CaptureRun(run="evil", time="2026-01-01T00:00:00Z", model=model, **facts)
    store.append([run_line])
    made.add(store, made.call(), run="evil")
    _, printed = run(store.path, html=tmp_path / "page.html")
    assert "<script>alert(1)</script>[red]" in words(printed)
    assert "<script>alert" not in (tmp_path / "page.html").read_text()
