"""A little text as prepared data, once for all tests of training."""

import random

import pytest

pytest.importorskip("torch")

from assay.train import data

WORDS = ("the", "keys", "of", "a", "head", "are", "read", "by", "every", "query", "that", "sees")


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    draw = random.Random(0)
    for number in range(30):
        words = " ".join(draw.choice(WORDS) for _ in range(60))
        (folder / f"{number}.txt").write_text(words)
    return data.prepare(
        "folder", "byte", place=str(folder), folder=tmp_path_factory.mktemp("prepared")
    )
