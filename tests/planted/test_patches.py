"""A patch changes the text that it names and nothing else, or is refused."""

import pytest
from patches import Defect, patched

BASE = "a = 1\nb = a + 1\nc = b\n"


@pytest.fixture
def planted(tmp_path):
    (tmp_path / "sound").mkdir()
    (tmp_path / "sound" / "plain.py").write_text(BASE)
    (tmp_path / "defects").mkdir()

    def write(text: str) -> Defect:
        path = tmp_path / "defects" / "off_by_one.py"
        path.write_text(text)
        return Defect(path)

    return write


def test_a_patch_is_the_base_with_its_texts_replaced(planted, tmp_path):
    literals = 'PLANTED = "too large"\nCAUGHT_BY = ("accuracy",)\nCAUSE = "Off by one"\n'
    defect = planted(
        f'{literals}BASE = "plain"\nREPLACE = {{"c = b": "c = b - a", "+ 1": "+ 2"}}\n'
    )
    written = defect.write(tmp_path)
    assert written.name == "off_by_one.py"
    assert written.read_text() == "a = 1\nb = a + 2\nc = b - a\n"
    assert defect.is_explained_by("the mask is off by one") and not defect.is_explained_by("scale")


def test_a_file_without_a_base_is_taken_whole(planted):
    text = 'PLANTED = "too large"\na = 2\n'
    assert planted(text).source == text


def test_a_base_may_be_a_patch_itself(planted, tmp_path):
    variant = 'BASE = "plain"\nREPLACE = {"b = a + 1": "b = 2 * a"}\n'
    (tmp_path / "sound" / "variant.py").write_text(variant)
    defect = planted('BASE = "variant"\nREPLACE = {"2 * a": "3 * a"}\n')
    assert defect.source == "a = 1\nb = 3 * a\nc = b\n"


@pytest.mark.parametrize(("old", "count"), [("d = 1", 0), ("= ", 3)])
def test_a_text_that_does_not_occur_once_is_an_error_with_file_and_text(planted, old, count):
    defect = planted(f'BASE = "plain"\nREPLACE = {{"{old}": ""}}\n')
    with pytest.raises(ValueError, match=rf"off_by_one\.py: .* {count} times, not once:\n{old}"):
        _ = defect.source


def test_texts_are_looked_for_in_the_base_and_do_not_overlap():
    assert patched("ab", {"a": "b", "b": "a"}, name="swap") == "ba"
    with pytest.raises(ValueError, match="swap: this text overlaps"):
        patched("abc", {"ab": "", "bc": ""}, name="swap")
