"""A little text for studies that train."""

import random
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    draw = random.Random(0)
    words = ("a", "head", "reads", "keys", "and", "values", "of", "its", "own")
    for number in range(30):
        (folder / f"{number}.txt").write_text(" ".join(draw.choice(words) for _ in range(80)))
    return folder
