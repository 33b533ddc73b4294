"""Datasets: documents in a fixed order with names of their own; what cannot be read is refused."""

import socket
import sys
import sysconfig
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from assay import plugins
from assay.errors import BadInput, CannotRunHere
from assay.train.documents import Document, split_of, survey

LISTED = plugins.listing("datasets")
HUB = [name for name, plugin in LISTED.items() if plugin.literals["NETWORK"]]
SPEECHES = "".join(f"Speaker {n}:\n{'word ' * 60}\n\n" for n in range(30)) + "The end.\n"
ARTICLES = (
    " \n = First = \n \n Some text . \n \n = = Section = = \n \n a\n = 2 b = \n c\n = 3 d = \n"
    " \n = <unk> = \n \n More . \n \n = <unk> = \n \n Last . \n"
)


def read(name, place="") -> list[Document]:
    return list(plugins.load(LISTED[name]).documents(str(place)))


@pytest.fixture
def library(tmp_path, monkeypatch) -> Path:
    """A small standard library."""
    folder = tmp_path / "library"
    for name in (
        "zlast.py", "abc.py", "json/decoder.py", "json/notes.txt", "test/test_abc.py",
        "json/tests/x.py", "idlelib/idle_test/x.py", "lib2to3/tests/x.py", "lib2to3/main.py",
        "site-packages/numpy/x.py", "__pycache__/x.py", "config-3.11-x86/python-config.py",
        "_sysconfigdata__linux.py",
    ):  # fmt: skip
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(f"# {name}\r\n".encode())
    (folder / "latin.py").write_bytes(b"# -*- coding: latin-1 -*-\n# \xe9\n")
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(folder))
    return folder


@pytest.fixture
def places(tmp_path, library) -> dict[str, Path | str]:
    """A place for every dataset that needs none of the hub."""
    (tmp_path / "shakespeare.txt").write_text(SPEECHES)
    (tmp_path / "wiki.txt").write_text(ARTICLES)
    return {
        "stdlib": "",
        "folder": library,
        "shakespeare": tmp_path / "shakespeare.txt",
        "wikitext": tmp_path / "wiki.txt",
    }


@pytest.mark.parametrize("name", sorted(set(LISTED) - set(HUB)))
def test_every_local_dataset_gives_named_documents_in_a_fixed_order(name, places):
    (places["folder"] / "latin.py").unlink()  # which the dataset folder refuses
    documents = read(name, places[name])
    assert len(documents) > 1 and documents == read(name, places[name])
    assert len({document.name for document in documents}) == len(documents)
    assert all(isinstance(document, Document) and document.text for document in documents)
    assert LISTED[name].literals["NEEDS_PLACE"] == bool(places[name])


def test_the_standard_library_comes_without_tests_packages_and_what_a_build_wrote(library):
    names = [document.name for document in read("stdlib")]
    assert names == ["abc.py", "json/decoder.py", "lib2to3/main.py", "zlast.py"]
    assert read("stdlib")[0].text == "# abc.py\r\n"


def test_the_real_standard_library_has_no_test_folder():
    documents = plugins.load(LISTED["stdlib"]).documents("")
    names = [document.name for document in documents]
    assert len(names) > 500 and names == sorted(names) and "json/decoder.py" in names
    parts = {part for name in names for part in name.split("/")[:-1]}
    assert not parts & {"test", "tests", "idle_test", "site-packages", "__pycache__"}


@pytest.mark.parametrize("name", ["stdlib", *HUB])
def test_a_place_where_none_is_taken_is_refused(name):
    with pytest.raises(BadInput, match=r"takes no place, got '/texts'; use the dataset folder"):
        read(name, "/texts")


def test_a_folder_is_read_with_all_below_it(tmp_path):
    for name in ("b.txt", "a/z.md", "a/y.py", "c.bin", ".git/x.txt", "a/.hidden.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode() + b"\r\n")
    documents = read("folder", tmp_path)
    assert [document.name for document in documents] == ["a/y.py", "a/z.md", "b.txt"]
    assert documents[2].text == "b.txt\r\n"
    assert read("folder", tmp_path / "b.txt") == documents[2:]


def test_a_folder_that_cannot_be_read_is_refused_in_words(tmp_path):
    with pytest.raises(BadInput, match=r"there is no folder or file .*none; give the path"):
        read("folder", tmp_path / "none")
    with pytest.raises(BadInput, match=r"holds none of the files that can be read, \.txt"):
        read("folder", tmp_path)
    (tmp_path / "x.bin").write_text("x")
    with pytest.raises(BadInput, match=r"x\.bin is a file of another kind; wanted \.txt, \.md"):
        read("folder", tmp_path / "x.bin")
    (tmp_path / "x.txt").write_bytes(b"good \xff")
    with pytest.raises(BadInput, match=r"x\.txt is not UTF-8 text .* at byte 5\); convert it"):
        read("folder", tmp_path)


def test_parquet_without_its_package_says_how_to_install_it(tmp_path, monkeypatch):
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(BadInput, match=r"x\.parquet is read with .*: pip install pyarrow"):
        read("folder", tmp_path)


def test_rows_of_parquet_are_documents(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"text": ["a", "b"], "n": [1, 2]}), tmp_path / "x.parquet")
    names = [(document.name, document.text) for document in read("folder", tmp_path)]
    assert names == [("x.parquet#0", "a"), ("x.parquet#1", "b")]
    parquet.write_table(pyarrow.table({"words": ["a"]}), tmp_path / "x.parquet")
    with pytest.raises(BadInput, match="no column 'text', but words; rename"):
        read("folder", tmp_path)
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(BadInput, match="no whole parquet file"):
        read("folder", tmp_path)
    parquet.write_table(pyarrow.table({"text": ["keys and values"] * 999}), tmp_path / "x.parquet")
    harmed = bytearray((tmp_path / "x.parquet").read_bytes())
    harmed[20:60] = bytes(40)  # in a page, whose footer is whole
    (tmp_path / "x.parquet").write_bytes(harmed)
    with pytest.raises(BadInput, match="no whole parquet file"):
        read("folder", tmp_path)


def test_shakespeare_comes_in_pieces_of_whole_speeches(places):
    documents = read("shakespeare", places["shakespeare"])
    assert "".join(document.text for document in documents) == SPEECHES
    assert all(2000 <= len(document.text) < 2400 for document in documents[:-1])
    assert all(document.text.startswith("Speaker") for document in documents)


def test_wikitext_comes_in_articles(places):
    """A formula on a line of its own, ` = 2 b = `, is no title, whatever lies before or after."""
    documents = read("wikitext", places["wikitext"])
    assert "".join(document.text for document in documents) == ARTICLES
    assert [d.name for d in documents] == ["00000 First", "00001 <unk>", "00002 <unk>"]


def test_wikitext_without_an_article_is_refused(tmp_path):
    (tmp_path / "x.txt").write_text("no title\n")
    with pytest.raises(BadInput, match="has no line of the form ' = Title = '"):
        read("wikitext", tmp_path / "x.txt")
    with pytest.raises(BadInput, match=r"No such file.*give the path of a text file"):
        read("wikitext", tmp_path / "none")


def fake_hub(monkeypatch, load_dataset):
    listener = socket.create_server(("127.0.0.1", 0))  # for the first try, before the package
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{listener.getsockname()[1]}")
    monkeypatch.delenv("http_proxy", raising=False)
    package = ModuleType("datasets")
    package.__spec__ = ModuleSpec("datasets", None)
    package.load_dataset, package.listener = load_dataset, listener
    monkeypatch.setitem(sys.modules, "datasets", package)


def unreachable(*args, **options):
    raise ConnectionError("no route to host")


def broken_stream(*args, **options):
    yield {"text": "a"}
    raise OSError("connection reset")


@pytest.mark.parametrize("name", HUB)
def test_a_dataset_of_the_hub_without_its_package_says_what_to_do(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(CannotRunHere, match=r"pip install datasets, or .* the dataset folder"):
        read(name)


@pytest.mark.parametrize("load, reason", [(unreachable, "no route"), (broken_stream, "reset")])
@pytest.mark.parametrize("name", HUB)
def test_a_hub_that_does_not_answer_is_a_refusal_in_words(name, load, reason, monkeypatch):
    fake_hub(monkeypatch, load)
    with pytest.raises(CannotRunHere, match=rf"did not give .*{reason}.*the dataset folder"):
        read(name)


@pytest.mark.parametrize("name", HUB)
def test_rows_of_the_hub_are_documents(name, monkeypatch):
    calls = []

    def load_dataset(*args, **options):
        calls.append((args, options))
        return [{"text": "a", "id": 7}, {"text": "b", "id": 8}]

    fake_hub(monkeypatch, load_dataset)
    documents = read(name)
    assert [document.text for document in documents] == ["a", "b"]
    assert len({document.name for document in documents}) == 2
    [(args, options)] = calls
    assert options == {"split": "train", "streaming": True} and "/" in args[0]


def test_the_split_of_a_document_does_not_depend_on_others(tmp_path):
    for number in range(300):
        (tmp_path / f"{number:03d}.txt").write_text("x")
    before = {d.name: split_of(d.name, 20) for d in read("folder", tmp_path)}
    (tmp_path / "000-new.txt").write_text("y")
    after = {d.name: split_of(d.name, 20) for d in read("folder", tmp_path)}
    assert {name: after[name] for name in before} == before
    assert 30 < list(before.values()).count("validation") < 90


def test_a_larger_share_of_validation_only_adds_to_it():
    names = [f"{number}.py" for number in range(2000)]
    small, large = ({n for n in names if split_of(n, p) == "validation"} for p in (5, 10))
    assert small < large and 60 < len(small) < 140
    assert split_of("abc.py", 100) == "validation" and split_of("abc.py", 0) == "train"


def test_the_digest_of_documents_sees_names_texts_and_order():
    a, b = Document(name="a", text="bc"), Document(name="ab", text="c")
    digests = [survey(iter(d), 5).digest for d in ([a], [b], [a, b], [b, a], [])]
    assert len(set(digests)) == len(digests)
    assert survey(iter([a, b]), 5).total == 2
