"""Pages held against claims: a planted mistake of each kind is named."""

from pathlib import Path

import pytest

from assay.errors import BadInput
from assay.host import CHECKOUT
from assay.verify.marked_tables import written
from tools.pages import accounts
from tools.pages.figures import unaccounted
from tools.pages.recorded import not_recorded

CLAIM = CHECKOUT / "claims" / "h200-train-gpt2.toml"
LINK = "[3.659](../../claims/h200-train-gpt2.toml)"


def test_every_figure_of_this_checkout_has_an_account() -> None:
    assert [f.reason for f in accounts.look() if f.verdict == "fails"] == []


def open_figures(folder: Path, text: str) -> list[str]:
    page = folder / "page.md"
    page.write_text(text)
    return [figure for _, figures in unaccounted(page, not_recorded) for figure in figures]


FIGURES = {
    "a time": ("It takes 3.5 s here.", ["3.5"]),
    "a share": ("It reaches 80 % of it.", ["80"]),
    "a rate in a list": ("- one\n- reads at 4,309 GB/s", ["4,309"]),
    "a decimal in a table": ("| a | b |\n|---|---|\n| x | 0.974 |", ["0.974"]),
    "a bare loss": ("The loss is 2.8901 there.", ["2.8901"]),
    "a transcript": ("```\n$ assay bench\neager 26.20\n```", ["26.20"]),
    "a heading": ("# It is 3.7 times faster", ["3.7"]),
    "a bound that nobody asked for": ("It is at least 3.7 times faster.", ["3.7"]),
    "a share that is no level": ("It is 95 % faster.", ["95"]),
    "other words for a unit": ("370 percent, 4 × faster, a 5-fold gain", ["370", "4", "5"]),
    "a speed behind a library": ("torch 3.7 times faster", ["3.7"]),
    "in bold letters": ("It is **3**.**7** times faster.", ["3.7"]),
    "behind a comment": ("It is 3<!-- -->.7 times faster.", ["3.7"]),
    "as code": ("It is `3.7` times faster.", ["3.7"]),
    "a link to something else": ("It is [1.42](other.md) times as fast.", ["1.42"]),
    "after a section that is marked": (
        "# A\n\nNot kept: single runs.\n\n3.5 s\n\n# B\n\n4.5 s",
        ["4.5"],
    ),
    "a transcript that the evidence does not give": (
        "<!-- evidence: spine -->\n```\n$ assay bench\neager 12.98 ms\n```",
        ["12.98"],
    ),
    "a figure that the evidence does not give": (
        "<!-- evidence: spine -->\n12.98 ms and 163 times",
        ["12.98"],
    ),
    "a figure that the other page does not have": (
        "<!-- page: other.md -->\n1.42 times, 7.77 times",
        ["7.77"],
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_without_an_account_is_named(name, tmp_path) -> None:
    (tmp_path / "other.md").write_text("1.42 times\n")
    text, expected = FIGURES[name]
    assert open_figures(tmp_path, text) == expected


ACCOUNTED = {
    "a claim": f"It ends at {LINK} nats.",
    "a generated table": "<!-- table: a -->\n| 0.974 |\n<!-- end -->\n\nIt reaches 0.974.",
    "not kept": "It took 3.5 s (not kept).",
    "a section": "# A\n\n3.5 s\n\nNot kept: single runs.",
    "a section within one": "# A\n\nNot kept: single runs.\n\n## B\n\n3.5 s",
    "a setting": "<!-- set -->\nEvery 0.2 s.",
    "versions": "torch 2.13.0, Python 3.11, commit 0c270b9",
    "the level of an interval": "a 95 % interval",
    "what was asked": "asked for at most 1.25 times; the target is under 50 ms",
    "code": "`x=0.91` and\n```\nx = 3.5\n```",
}


@pytest.mark.parametrize("name", ACCOUNTED)
def test_a_figure_with_an_account_is_not(name, tmp_path) -> None:
    assert open_figures(tmp_path, ACCOUNTED[name]) == []


@pytest.fixture
def checkout(tmp_path):
    """A checkout of one claim, which stands on its page."""
    (tmp_path / "claims").mkdir()
    (tmp_path / "docs/results").mkdir(parents=True)
    (tmp_path / "claims" / CLAIM.name).write_bytes(CLAIM.read_bytes())
    (tmp_path / "docs/results/train.md").write_text(f"It ends at {LINK} nats.\n")
    return tmp_path


def failures(root: Path) -> list[str]:
    return [finding.reason for finding in accounts.look(root) if finding.verdict == "fails"]


def test_a_small_checkout_holds(checkout) -> None:
    assert failures(checkout) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It ends low.", "does not print 3.659 with a link"),
        (f"{LINK} and {LINK.replace('3.659', '3.66')}", "prints 3.66 where h200-train-gpt2 has"),
        (f"{LINK} [1](../../claims/gone.toml)", "there is no claims/gone.toml"),
        (f"{LINK}: what\nwas  SAID before", "which was withdrawn: it never held"),
    ],
    ids=["absent", "another figure", "no such claim", "withdrawn"],
)
def test_a_page_that_contradicts_its_claims_is_named(text, words, checkout) -> None:
    (checkout / "claims/withdrawn").mkdir()
    (checkout / "claims/withdrawn/it.toml").write_text(
        'says = "x"\nwithdrawn = "it never held"\nphrases = ["what was said before"]\n'
    )
    (checkout / "docs/results/train.md").write_text(text)
    assert any(words in reason for reason in failures(checkout)), failures(checkout)


def test_a_table_that_no_program_makes_is_named(checkout) -> None:
    page = checkout / "docs/results/train.md"
    page.write_text(f"{LINK}\n\n<!-- table: mine -->\n3.7 times\n<!-- end -->\n")
    assert failures(checkout) == ["docs/results/train.md: no program makes the table 'mine'"]


def test_a_page_that_is_no_text_is_refused_in_words(checkout) -> None:
    (checkout / "docs/binary.md").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match=r"cannot read .*binary\.md"):
        failures(checkout)


def test_a_claim_that_holds_in_part_must_say_so_on_its_page(checkout) -> None:
    path = checkout / "claims" / CLAIM.name
    path.write_text(path.read_text().replace("at_most = 3.689", "at_most = 3.64"))
    assert any("table of verdicts" in reason for reason in failures(checkout))
    page = checkout / "docs/results/train.md"
    (checkout / "assay").mkdir()
    (checkout / "assay/made.py").write_text('NAME = "verdicts"\n')
    page.write_text(f"{page.read_text()}\n<!-- table: verdicts -->\n<!-- end -->\n")
    accounts._write(checkout)
    assert "| refuted |" in page.read_text() and failures(checkout) == []


def test_tables_of_other_names_stay_as_they_are() -> None:
    text = "<!-- table: a -->\nold\n<!-- end --> <!-- table: b -->\nold\n<!-- end -->"
    assert written(text, {"a": lambda: "new\n"}) == text.replace("old", "new", 1)
