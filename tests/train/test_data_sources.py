"""Prepared data from the standard library, from a hub, and from files of a user's own."""

import sys
import sysconfig
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from assay.errors import BadInput, CannotRunHere
from assay.train import data
from assay.train.data import open_prepared, prepare


@pytest.fixture
def stories(tmp_path):
    def call(tokenizer="byte", **options):
        return prepare(
            "tinystories", tokenizer, validation_percent=20, folder=tmp_path / "data", **options
        )

    return call


def test_the_standard_library_is_the_offline_default(tmp_path, monkeypatch):
    for name in ("a.py", "b.py", "test/c.py"):
        (tmp_path / "lib" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "lib" / name).write_text(f"# {name}\n" * 50)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / "lib"))
    made = prepare("stdlib", "byte", folder=tmp_path / "data")
    assert len(made.train) + len(made.validation) == 2 * (7 * 50 + 2)  # an end in both parts


@pytest.fixture
def hub(monkeypatch):
    """A hub with 200 rows, which counts those that were asked for."""
    package = ModuleType("datasets")
    package.__spec__ = ModuleSpec("datasets", None)
    package.asked = []

    def load_dataset(*args, **options):
        for number in range(200):
            package.asked.append(number)
            yield {"text": f"story {number:03d}"}

    package.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", package)
    monkeypatch.setattr("assay.models.pretrained.hub.answers", lambda: True)
    return package


def test_a_limit_ends_a_stream_with_the_document_that_reaches_it(stories, hub):
    made = stories(most_tokens=600)
    assert sum(made.description.tokens.values()) == 600  # 60 stories of 9 bytes and the end
    assert sum(made.description.documents.values()) == 60 and max(hub.asked) == 59
    hub.asked.clear()
    assert stories(most_tokens=600).path == made.path and not hub.asked
    assert stories(most_tokens=700).path != made.path


def test_a_tokenizer_learns_from_no_more_than_what_is_encoded(stories, hub):
    pytest.importorskip("tokenizers")
    made = stories("bpe", most_tokens=600, vocabulary=262)
    assert sum(made.description.tokens.values()) >= 600
    assert hub.asked.index(0, 1) <= 61  # the first of two passes ended there


def test_a_stream_without_validation_is_refused(stories, hub):
    with pytest.raises(BadInput, match=r"of 1 documents .* none is in .*larger most_tokens"):
        stories(most_tokens=1)


def test_a_dataset_of_the_hub_says_offline_what_to_do(stories, monkeypatch):
    monkeypatch.setattr(data.plugins, "installed", lambda package: package != "datasets")
    with pytest.raises(CannotRunHere, match=r"pip install datasets, or .* the dataset folder"):
        stories()


def test_a_users_dataset_and_tokenizer_are_files_of_theirs(tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "poems.py").write_text(
        "from assay.train.documents import Document\n\n\ndef documents(place):\n"
        "    return iter([Document(name='a', text='roses')])\n"
    )
    (mine / "shifted.py").write_text(
        "from assay.train.tokenizers import byte\n\n\ndef make(texts, size):\n"
        "    return byte.make(texts, size)\n\n\ndef load(state):\n    return byte.load(state)\n"
    )
    made = prepare("poems", "shifted", folder=tmp_path / "data", folders=[mine])
    assert made.path.name.startswith("poems-shifted-") and made.tokenizer.size == 257
    by_path = prepare(str(mine / "poems.py"), str(mine / "shifted.py"), folder=tmp_path / "2")
    assert by_path.tokenizer.decode([114]) == "r"
    assert open_prepared(by_path.path, folders=[mine]).tokenizer.decode([114]) == "r"
    with pytest.raises(BadInput, match="give the folder of its file with --plugins"):
        _ = open_prepared(by_path.path).tokenizer


def test_a_tokenizer_that_leaves_its_vocabulary_is_refused(tmp_path):
    (tmp_path / "loose.py").write_text(
        "from assay.train.tokenizers.byte import ByteTokenizer\n\n\ndef make(texts, size):\n"
        "    return ByteTokenizer(size=90, end=10)\n\n\ndef load(state): ...\n"
    )
    with pytest.raises(BadInput, match="its vocabulary has 90; mend the tokenizer"):
        prepare("stdlib", str(tmp_path / "loose.py"), folder=tmp_path / "data")
