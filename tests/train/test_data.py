"""Prepared data: prepared once, split by document, and refused where it is not whole."""

import json
import sys

import numpy as np
import pytest

from assay.errors import BadInput
from assay.train import data, shards
from assay.train.data import open_prepared, prepare
from assay.train.documents import split_of

PERCENT = 20


@pytest.fixture
def texts(tmp_path):
    """A folder of 60 documents, of which some are validation."""
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(60):
        (folder / f"{number:02d}.txt").write_text(f"document {number}\n" * 3)
    return folder


@pytest.fixture
def prepared(texts, tmp_path):
    def call(dataset="folder", tokenizer="byte", **options):
        options = {"place": str(texts), "validation_percent": PERCENT, **options}
        return prepare(dataset, tokenizer, folder=tmp_path / "data", **options)

    return call


def documents_of(prepared_data, split):
    """The texts of a split, separated at its end tokens."""
    tokens = getattr(prepared_data, split)
    stream = tokens.window(0, len(tokens))
    ends = np.flatnonzero(stream == prepared_data.description.end) + 1
    assert ends[-1] == len(stream)
    parts = np.split(stream, ends[:-1])
    return [prepared_data.tokenizer.decode(part.tolist()) for part in parts]


def no_work(*args, **options):
    raise AssertionError("prepared again")


@pytest.mark.parametrize("tokenizer, vocabulary", [("byte", 0), ("bpe", 270)])
def test_all_documents_are_there_in_their_order_split_by_name(
    prepared, texts, tokenizer, vocabulary
):
    if tokenizer == "bpe":
        pytest.importorskip("tokenizers")
    made = prepared(tokenizer=tokenizer, vocabulary=vocabulary)
    assert made.vocabulary == (vocabulary or 257)
    for split in ("train", "validation"):
        paths = [p for p in sorted(texts.iterdir()) if split_of(p.name, PERCENT) == split]
        assert documents_of(made, split) == [path.read_text() for path in paths]
        assert made.description.documents[split] == len(paths) > 3
        assert made.description.tokens[split] == len(getattr(made, split))


def test_the_description_says_what_it_is_made_of(prepared, texts):
    made = prepared()
    stored = json.loads((made.path / "data.json").read_text())
    assert (stored["dataset"], stored["place"]) == ("folder", str(texts))
    assert (stored["tokenizer"], stored["dtype"], stored["end"]) == ("byte", "uint16", 256)
    assert "sha256 of its name, modulo 10,000, is below 20 * 100" in stored["split"]
    assert stored["digest"] == made.digest and stored["python"] == sys.version.split()[0]
    assert made.path.name.startswith("folder-byte-")
    assert sorted(path.name for path in made.path.iterdir()) == [
        "data.json", "train-00000.bin", "validation-00000.bin",
    ]  # fmt: skip


def test_data_is_prepared_once(prepared, monkeypatch):
    first = prepared()
    monkeypatch.setattr(data, "encode", no_work)
    again = prepared()
    assert again.path == first.path and again.description == first.description
    assert open_prepared(first.path).digest == first.digest
    with pytest.raises(AssertionError, match="prepared again"):
        prepared(validation_percent=30)


def test_another_folder_with_the_same_texts_gives_the_same_data(prepared, texts, tmp_path):
    first = prepared()
    moved = texts.rename(tmp_path / "moved")
    assert prepared(place=str(moved)).path == first.path
    (moved / "07.txt").write_text("another text")
    other = prepared(place=str(moved))
    assert other.path != first.path and other.digest != first.digest


def test_the_split_of_a_file_does_not_move_when_another_is_added(prepared, texts):
    before = {split: documents_of(prepared(), split) for split in ("train", "validation")}
    (texts / "00-first.txt").write_text("a new text")
    after = {split: documents_of(prepared(), split) for split in ("train", "validation")}
    added = {split: [t for t in after[split] if t != "a new text"] for split in after}
    assert added == before and sum(map(len, after.values())) == 61


def test_a_tokenizer_never_sees_a_validation_document(prepared, texts, monkeypatch):
    pytest.importorskip("tokenizers")
    from assay.train.tokenizers import bpe

    seen = []
    make = bpe.make

    def watched(texts, size):
        seen.extend(texts)
        return make(iter(seen), size)

    monkeypatch.setattr(bpe, "make", watched)
    made = prepared(tokenizer="bpe", vocabulary=270)
    assert seen == documents_of(made, "train")
    assert not set(seen) & set(documents_of(made, "validation"))


@pytest.mark.parametrize("others", [0, 1])
def test_where_names_leave_a_split_empty_the_end_of_every_document_is_validation(
    prepared, tmp_path, others
):
    """It was the end of the last one: of 21 files 0.13 % of the text, and four windows."""
    folder = tmp_path / "few"
    folder.mkdir()
    for number in range(others):
        (folder / f"{number}.txt").write_text("a" * 199)
    (folder / "x.txt").write_text("0123456789" * 100)
    made = prepared(place=str(folder), validation_percent=1)
    assert "the last 1 % of the tokens of every document" in made.description.split
    assert len(made.validation) == 2 * others + 10  # characters and the end
    assert made.tokenizer.decode(made.validation.window(2 * others, 10).tolist()) == "123456789"
    assert len(made.train) == 199 * others + 992  # each with an end of its own
    assert made.train.window(len(made.train) - 1, 1)[0] == made.tokenizer.end
    assert made.description.documents == {"train": others + 1, "validation": others + 1}


def test_a_tokenizer_does_not_learn_from_the_end_that_is_validation(prepared, tmp_path):
    pytest.importorskip("tokenizers")
    (tmp_path / "x.txt").write_text("ab " * 95 + "zq " * 5)
    place = str(tmp_path / "x.txt")
    options = {"place": place, "validation_percent": 5, "tokenizer": "bpe"}
    with pytest.raises(BadInput, match="give a vocabulary of 259 tokens"):  # ab and Ġab, no zq
        prepared(**options, vocabulary=260)
    made = prepared(**options, vocabulary=259)
    assert len(made.tokenizer.encode(" ab")) == 1 and len(made.tokenizer.encode("zq")) == 2


def spoil(path, how):
    content = path.read_bytes()
    if how == "missing":
        path.unlink()
    elif how == "cut":
        path.write_bytes(content[:-2])
    else:
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


@pytest.mark.parametrize(
    "how, words", [("missing", "is missing"), ("cut", "bytes, wanted"), ("changed", "was changed")]
)
@pytest.mark.parametrize("name", ["train-00000.bin", "validation-00000.bin"])
def test_a_shard_that_is_not_as_written_is_refused(prepared, name, how, words):
    made = prepared()
    spoil(made.path / name, how)
    for attempt in (prepared, lambda: open_prepared(made.path)):
        with pytest.raises(BadInput, match=rf"{name} .*{words}.*remove the folder .* prepare"):
            attempt()


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"tokenizer_state": {"x": 1}}, "data.json was changed after it was written"),
        ({"version": 1}, "version 1, this assay reads assay-data version 2"),
        ({"vocabulary": "many"}, "is no description of prepared data"),
        ({"shards": {"train": [{"file": "../x", "tokens": 1, "sha256": ""}]}}, "names '../x'"),
        ({"shards": {}}, "has entries for no split, wanted train and validation"),
        ({"tokens": {"train": 5}}, "has entries for train, wanted train and validation"),
        ({"dtype": "/etc/passwd"}, "is no description of prepared data"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(prepared, changes, words):
    made = prepared()
    path = made.path / "data.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(BadInput, match=f"{words}.*remove the folder"):
        open_prepared(made.path)


def test_a_folder_without_a_description_was_never_finished(prepared, tmp_path):
    made = prepared()
    (made.path / "data.json").unlink()
    with pytest.raises(BadInput, match=r"data\.json cannot be read .*prepared to the end"):
        prepared()
    with pytest.raises(BadInput, match="holds no data that was prepared to the end"):
        open_prepared(tmp_path / "none")


def test_an_interrupted_preparation_is_not_taken_for_a_whole_one(prepared, tmp_path, monkeypatch):
    class Interrupting(shards.ShardWriter):
        def append(self, tokens):
            super().append(tokens)
            if self.tokens > 500:
                raise KeyboardInterrupt

    monkeypatch.setattr(shards, "ShardWriter", Interrupting)
    monkeypatch.setattr(data.shutil, "rmtree", lambda *args, **options: None)  # as if killed
    with pytest.raises(KeyboardInterrupt):
        prepared()
    [partial] = (tmp_path / "data").glob(".*.partial")
    assert (partial / "train-00000.bin").exists() and not (partial / "data.json").exists()
    with pytest.raises(BadInput, match="holds no data that was prepared to the end"):
        open_prepared(partial)
    monkeypatch.undo()
    made = prepared()
    assert len(made.train) > 500 and not partial.exists()


def test_documents_that_change_meanwhile_are_refused(prepared, texts, monkeypatch):
    encode = data.encode

    def edited(*args):
        (texts / "07.txt").write_text("edited")
        return encode(*args)

    monkeypatch.setattr(data, "encode", edited)
    with pytest.raises(BadInput, match="changed while they were being prepared"):
        prepared()


@pytest.mark.parametrize(
    "options, words",
    [
        ({"dataset": "nope"}, "no dataset 'nope'"),
        ({"tokenizer": "nope"}, "no tokenizer 'nope'"),
        ({"place": ""}, "the dataset folder is read from a local path; give it as place"),
        ({"validation_percent": 0}, "validation_percent 0 is not between 0 and 100"),
        ({"validation_percent": 100}, "is not between"),
        ({"vocabulary": 300}, "a vocabulary of 300 was asked of the tokenizer byte"),
        ({"most_tokens": 5}, "most_tokens 5 limits what is streamed from a hub"),
    ],
)
def test_what_cannot_be_prepared_is_refused_in_words(prepared, options, words, tmp_path):
    with pytest.raises(BadInput, match=words):
        prepared(**options)
    assert not list((tmp_path / "data").glob("folder-*"))


def test_a_tokenizer_that_a_description_names_by_its_path_is_not_run(tmp_path):
    """Prepared data may be anyone's: its description named a file once, which was then loaded."""
    place = tmp_path / "texts"
    place.mkdir()
    for number in range(30):
        (place / f"{number}.txt").write_text("keys and values " * 9)
    made = data.prepare("folder", "byte", place=str(place), folder=tmp_path / "prepared")
    trap = tmp_path / "trap.py"
    trap.write_text(
        f"open({str(tmp_path / 'sprung')!r}, 'w')\ndef make(t, s): ...\ndef load(s): ...\n"
    )
    file = made.path / "data.json"
    file.write_text(file.read_text().replace('"byte"', f'"{trap}"', 1))
    foreign = data.open_prepared(made.path)
    assert foreign.description.tokenizer == str(trap)
    with pytest.raises(BadInput, match="which is not known here"):
        _ = foreign.tokenizer
    assert not (tmp_path / "sprung").exists()


def test_a_description_is_a_line_for_a_report(prepared, tmp_path):
    folder = tmp_path / "thirty"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number}.txt").write_text("keys and values " * 9)
    made = prepared(place=str(folder))
    counts = made.description.documents
    assert made.description.words == (
        f"folder ({made.digest[:12]}), byte, train {len(made.train):,} tokens of documents: "
        f"{counts['train']}, validation {len(made.validation):,} tokens of documents: "
        f"{counts['validation']}"
    )
