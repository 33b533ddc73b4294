"""Declarations of a file that make no sense: it is told what it gave and what was wanted."""

import pytest

pytest.importorskip("torch")

from assay.attention import contract
from assay.errors import BadInput

FILE = """
{}

def attention(q, k, v, *, causal, scale):
    return q
"""


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ("BACKWARD = 'cuda'", "BACKWARD is 'cuda'; wanted one of True, False, 'gpu':"),
        ("BACKWARD = None", "BACKWARD is None; wanted one of True, False, 'gpu':"),
        ("BACKWARD = 1", "BACKWARD is 1; wanted one of True, False, 'gpu':"),
        (
            "DETERMINISTIC_BACKWARD = 'no'",
            "DETERMINISTIC_BACKWARD is 'no'; wanted one of True, False:",
        ),
        ("CONFIGS = 'fast'", r"CONFIGS is 'fast'; wanted a tuple of names"),
        ("CONFIGS = 3", "CONFIGS is 3; wanted a tuple of names"),
        ("CONFIGS = (64, 128)", "CONFIGS has 64; wanted names"),
        ("CONFIGS = ('',)", "CONFIGS has ''; wanted names"),
        ("ACCEPTS = 'lse'", "ACCEPTS is 'lse'; wanted a tuple of names"),
        ("ACCEPTS = ('sink',)", "ACCEPTS names sink; wanted some of mask"),
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused(tmp_path, declared, words):
    """CONFIGS = 'fast' was taken for four configurations, BACKWARD = 'cuda' for a backward pass."""
    path = tmp_path / "mine.py"
    path.write_text(FILE.format(declared))
    with pytest.raises(BadInput, match=f"mine.py: {words}"):
        contract.load(str(path))


def test_declarations_may_be_computed(tmp_path):
    """Of two names in one line the reader of literals sees neither: there was a backward pass."""
    path = tmp_path / "mine.py"
    path.write_text(FILE.format("BACKWARD, LAYOUT = not True, 'BS' + 'HD'"))
    implementation = contract.load(str(path))
    assert not implementation.backward and implementation.layout == "BSHD"


@pytest.mark.parametrize("declared", ["['a', 'b']", "('a', 'b')", "tuple({'a': 1, 'b': 2})"])
def test_configurations_may_be_computed(tmp_path, declared):
    path = tmp_path / "mine.py"
    path.write_text(FILE.format(f"CONFIGS = {declared}"))
    assert contract.load(str(path)).configs == ("a", "b")
