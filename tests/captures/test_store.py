"""A store: what it lists is there and whole; what was changed from outside is refused."""

import json
import os
import re
import subprocess
import sys
import threading

import numpy as np
import pytest
from numpy_calls import call, captured_call, equal

from assay.captures import manifest
from assay.captures.manifest import Key
from assay.captures.recording import Recording
from assay.captures.store import Store, new_run_name
from assay.captures.tensor import Tensor, tensor_of
from assay.errors import BadInput
from assay.host import CHECKOUT


@pytest.fixture
def store(tmp_path):
    """Six records: three steps of two layers, with a mask that all share."""
    made = Store.create(tmp_path / "store")
    mask = {"mask": tensor_of(np.tri(16, dtype=bool))}
    with Recording(made, run="run") as recording:
        for step in range(3):
            for layer in range(2):
                recording.put(
                    captured_call(
                        recording,
                        call(seed=10 * step + layer) | mask,
                        step=step,
                        layer=layer,
                        site=f"model.layers.{layer}.self_attn",
                        phase="prefill" if step == 0 else "decode",
                    )
                )
    return made


def rewritten(store, change):
    """Change each line of the manifest, as an outsider would."""
    path = store.path / "manifest.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        change(line)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_store_is_made_once_and_opened_again(tmp_path, store):
    assert Store.create(store.path).manifest().records == store.manifest().records
    with pytest.raises(BadInput, match=r"no manifest\.jsonl"):
        Store.open(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    with pytest.raises(BadInput, match="other files in it"):
        Store.create(tmp_path / "mine")
    with pytest.raises(BadInput, match=r"a part of this path is a file|in the way"):
        Store.create(tmp_path / "mine" / "thesis.txt")


def test_many_make_one_store_at_once(tmp_path):
    trouble = []

    def make():
        try:
            Store.create(tmp_path / "new")
        except BadInput as error:
            trouble.append(error)

    threads = [threading.Thread(target=make) for _ in range(16)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not trouble and Store.open(tmp_path / "new").manifest().records == []


def test_records_are_found_by_name_pattern_and_condition(store):
    def selected(text):
        return [(r.key.step, r.key.layer) for r in store.find(text)]

    first = store.manifest().records[0]
    assert selected(first.name) == [(0, 0)]
    assert selected("*layers.1*") == [(0, 1), (1, 1), (2, 1)]
    assert selected("step=1:,layer=0") == [(1, 0), (2, 0)]
    assert selected("step=0:2,phase=decode") == [(1, 0), (1, 1)]
    assert selected("site=*.1.self_attn,step=2") == [(2, 1)]
    assert len(selected("run=run,rank=0,call=0")) == 6
    for text, message in (
        ("step=9", "no record"),
        ("step=a", "whole number"),
        ("colour=red", "'colour' is not"),
        ("nobody", "no record"),
    ):
        with pytest.raises(BadInput, match=message):
            store.find(text)


def test_a_file_cut_short_changed_or_gone_is_refused_and_others_are_read(store):
    first, second, third, *rest = store.manifest().records
    file = store.path / first.file
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(BadInput, match="cut short"):
        store.read(first)
    file = store.path / second.file
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(BadInput, match="content was changed"):
        store.read(second)
    (store.path / third.file).unlink()
    with pytest.raises(BadInput, match="cannot read"):
        store.read(third)
    assert all("q" in store.read(record) for record in rest)


def test_a_shared_file_that_was_changed_is_refused(store):
    (mask,) = store.path.glob("shared/*")
    content = bytearray(mask.read_bytes())
    content[-1] ^= 1
    mask.write_bytes(content)
    with pytest.raises(BadInput, match="content was changed"):
        store.read(store.manifest().records[0])


@pytest.mark.parametrize("which", ["record", "shared"])
@pytest.mark.parametrize("name", ["../outside.safetensors", "absolute", "link.safetensors"])
def test_a_manifest_that_names_a_file_outside_is_refused(store, name, which):
    outside = store.path.parent / "outside.safetensors"
    inside = store.path / store.manifest().records[0].file
    outside.write_bytes(inside.read_bytes())
    (store.path / "link.safetensors").symlink_to(outside)
    name = str(outside) if name == "absolute" else name

    def change(line):
        if line["kind"] == "record" and which == "record":
            line["file"] = name
        elif line["kind"] == "record":
            line["tensors"]["mask"]["file"] = name

    rewritten(store, change)
    with pytest.raises(BadInput, match="a path outside the store"):
        store.read(store.manifest().records[0])


def test_a_file_that_is_another_records_is_refused(store):
    _, second, *_ = store.manifest().records

    def change(line):
        if line["kind"] == "record":
            line["file"] = second.file

    rewritten(store, change)
    with pytest.raises(BadInput, match="content was changed"):
        store.read(store.manifest().records[0])


def test_shapes_that_are_not_those_of_the_file_are_refused(store):
    def change(line):
        if line["kind"] == "record":
            line["tensors"]["q"]["shape"] = [1 << 40, 1 << 40]

    rewritten(store, change)
    with pytest.raises(BadInput, match="the manifest says float32"):
        store.read(store.manifest().records[0])


def test_a_line_of_another_schema_or_kind_is_refused_by_its_number(store):
    rewritten(store, lambda line: line.update(schema=7))
    with pytest.raises(BadInput, match=r"manifest.jsonl:1: schema 7, this assay reads 1"):
        store.manifest()
    rewritten(store, lambda line: line.update(schema=1, kind="recipe"))
    with pytest.raises(BadInput, match=r"manifest.jsonl:1: not a line of a manifest"):
        store.manifest()


def test_a_torn_line_is_passed_over_and_ended(store):
    path = store.path / "manifest.jsonl"
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for keep in (1, len(lines[-1]) // 2, len(lines[-1]) - 1):
        path.write_bytes(b"".join(lines[:-1]) + lines[-1][:keep])
        listed = store.manifest()
        assert len(listed.records) == 6
        # Without its newline alone a line is complete; with less it is not.
        assert listed.torn_bytes == (0 if keep == len(lines[-1]) - 1 else keep)
        with Recording(store) as recording:
            recording.put(captured_call(recording, call()))
        assert len(store.manifest().records) == 7
    path.write_bytes(whole)


def test_the_first_record_of_a_key_counts(store):
    path = store.path / "manifest.jsonl"
    record = store.manifest().records[0]
    manifest.append(path, [record, record])
    assert len(store.manifest().records) == 6


def test_lines_of_two_processes_never_mix(tmp_path):
    """Appends of lines longer than any buffer, by threads that share nothing but the file."""
    path = tmp_path / "manifest.jsonl"
    store = Store.create(tmp_path / "s")
    with Recording(store, run="r", config={"text": "x" * 50_000}):
        pass
    line = store.manifest().runs[0]

    def work():
        for _ in range(20):
            manifest.append(path, [line, line])

    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    listed = manifest.read(path)
    assert len(listed.runs) == 160 and not listed.torn_bytes


def test_keys_give_names_that_differ_and_fit_a_file(tmp_path):
    sites = ["a/b", "a-b", "a b", "a.b", "x" * 300, "y" + "x" * 299, "ü", "", "../../x"]
    keys = [
        Key(run=run, step=step, layer=layer, site=site, rank=rank, call=call)
        for run in ("r", new_run_name())
        for step in (0, 1 << 40)
        for layer in (-1, 0)
        for site in sites
        for rank in (0, 1)
        for call in (0, 1)
    ]
    names = {key.name for key in keys}
    assert len(names) == len(keys)
    for name in names:
        assert len(name) < 200 and "/" not in name
        (tmp_path / name).touch()


def test_run_names_differ_and_sort_by_time():
    names = [new_run_name() for _ in range(200)]
    assert len(set(names)) == 200
    assert [n[:19] for n in names] == sorted(n[:19] for n in names)


def test_reading_writes_nothing(store):
    before = {file: os.stat(file).st_mtime_ns for file in store.path.rglob("*")}
    opened = Store.open(store.path)
    for record in opened.manifest().records:
        seed = 10 * record.key.step + record.key.layer
        tensors = opened.read(record)
        assert tensors.pop("mask").shape == (16, 16)
        assert equal(tensors, call(seed=seed))
    assert {file: os.stat(file).st_mtime_ns for file in store.path.rglob("*")} == before


def test_the_program_of_the_page_reads_a_store_without_assay(store):
    page = CHECKOUT / "docs/captures.md"
    programs = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    (program,) = [text for text in programs if "def checksum" in text]
    command = [sys.executable, "-I", "-c", program, str(store.path)]
    with Recording(store) as recording:
        odd = {"out": Tensor("bfloat16", np.arange(7, dtype=np.uint16))}
        recording.put(captured_call(recording, call(values=800) | odd, phase="train"))
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("'q': (1, 1, 16, 4)") == 6
    assert "'q': (1, 1, 200, 4)" in done.stdout and "'out': (7,)" in done.stdout
    file = store.path / store.manifest().records[1].file
    file.write_bytes(file.read_bytes()[:-1] + b"\1")
    done = subprocess.run(command, capture_output=True, text=True)
    assert "AssertionError" in done.stderr
