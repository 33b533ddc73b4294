"""The page of the campaign says what its results say."""

import json

from campaign import page
from campaign.formats import formats


def test_the_page_says_what_the_results_say():
    text = page.PAGE.read_text()
    assert page.written(text) == text, "run: python -m campaign.page"
    assert all(f"| `{name}` |" in text for name in formats())
    changed = text.replace("| `claim` | ", "| `claim` | 9")
    assert changed != text and page.written(changed) == text


def test_lines_are_kept_without_the_bytes_of_inputs(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "RESULTS", tmp_path / "kept.json")
    finding = {"part": "mutations", "format": "a", "finding": "hang", "input": "AAAA"}
    (tmp_path / "lines").write_text(json.dumps(finding) + "\n")
    page.keep(tmp_path / "lines")
    assert json.loads((tmp_path / "kept.json").read_text()) == [
        {"part": "mutations", "format": "a", "finding": "hang"}
    ]
    assert "`a`" not in page.mutations()
