"""README and docs held against claims and evidence.

Every figure has an account (figures.py); a claim stands on its page as its file has it; a page
that cites claims which are not supported in full says so in a generated table; what was withdrawn
does not come back.

    python -m tools.pages.accounts        writes the tables of verdicts and of evidence
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import msgspec

from assay.errors import BadInput
from assay.host import CHECKOUT
from assay.verify import claim, evidence
from assay.verify.claim_verdict import ClaimVerdict, judge
from assay.verify.compared import RunComparison
from assay.verify.compared import load as load_run
from assay.verify.finding import CheckFinding, fails, holds
from assay.verify.judgement import judge as judge_runs
from assay.verify.marked_tables import generated_tables, written
from tools import published
from tools.pages.figures import read_page, unaccounted
from tools.pages.recorded import not_recorded

_CLAIM_LINK = re.compile(r"\[([^\]]+)\]\([^)\s]*claims/([\w-]+)\.toml\)")
_VERDICTS = "verdicts"  # the name of the table
_EVIDENCE, _EVIDENCE_PAGE = "evidence", "docs/verify.md"
_SHOWN = 8  # figures of a block that a finding names


class WithdrawnClaim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of claims/withdrawn: a sentence that did not hold, and words that would repeat it."""

    says: str
    withdrawn: str  # when, and why
    phrases: list[str]


def look(root: Path = CHECKOUT) -> list[CheckFinding]:
    """Findings on all pages of a checkout."""
    pages = page_paths(root)
    claims = {path.stem: claim.load(path) for path in sorted((root / "claims").glob("*.toml"))}
    verdicts = {name: judge(stated) for name, stated in claims.items()}
    wrong = [
        *_without_account(root, pages),
        *_made_by_nobody(root, pages),
        *_misprinted(root, pages, claims),
        *_silent(root, claims, verdicts),
        *_of_others(root),
        *_of_evidence(root),
        *_reappearing(root, pages),
    ]
    return wrong or [
        holds(f"{len(pages)} pages, {len(claims)} claims: every figure has an account")
    ]


def page_paths(root: Path) -> list[Path]:
    folders = ("*", "docs/**/*")
    return sorted(p for f in folders for end in (".md", ".markdown") for p in root.glob(f + end))


def _without_account(root: Path, pages: list[Path]) -> Iterator[CheckFinding]:
    for page in pages:
        for line, figures in unaccounted(page, not_recorded):
            more = f" and {len(figures) - _SHOWN} more" if len(figures) > _SHOWN else ""
            yield fails(
                f"{page.relative_to(root)}:{line}: nothing accounts for "
                f"{', '.join(figures[:_SHOWN])}{more}; docs/claims.md names what can"
            )


def _made_by_nobody(root: Path, pages: list[Path]) -> Iterator[CheckFinding]:
    """Marked tables whose name no program has, so that nobody makes them again."""
    folders = [root / name for name in ("assay", "benchmarks", "tests")]
    programs = [path.read_text() for folder in folders for path in folder.rglob("*.py")]
    for page in pages:
        for name in generated_tables(read_page(page)):
            if not any(f'"{name}"' in text for text in programs):
                yield fails(f"{page.relative_to(root)}: no program makes the table {name!r}")


def _misprinted(
    root: Path, pages: list[Path], claims: Mapping[str, claim.Claim]
) -> Iterator[CheckFinding]:
    """Claims that stand on another page than their own, not at all, or with another figure."""
    printed: dict[str, set[tuple[str, str]]] = {name: set() for name in claims}
    for page in pages:
        for shown, name in _CLAIM_LINK.findall(_without_code(read_page(page))):
            if name not in claims:
                yield fails(f"{page.relative_to(root)}: there is no claims/{name}.toml")
            else:
                printed[name].add((str(page.relative_to(root)), shown))
    for name, stated in claims.items():
        own = (stated.page, stated.holds.shown)
        if own not in printed[name]:
            yield fails(f"{stated.page} does not print {stated.holds.shown} with a link to {name}")
        for page, shown in sorted(printed[name] - {own}):
            if shown != stated.holds.shown:
                yield fails(f"{page} prints {shown} where {name} has {stated.holds.shown}")


def _silent(
    root: Path, claims: Mapping[str, claim.Claim], verdicts: Mapping[str, ClaimVerdict]
) -> Iterator[CheckFinding]:
    """Pages that do not say which of their claims are not supported in full, and why."""
    for page in sorted({stated.page for stated in claims.values()}):
        wanted = verdict_table(page, claims, verdicts)
        text = read_page(root / page) if (root / page).is_file() else ""
        if generated_tables(text).get(_VERDICTS, "") != wanted:
            yield fails(f"{page}: its table of verdicts is not that of its claims; write it anew")


def verdict_table(
    page: str, claims: Mapping[str, claim.Claim], verdicts: Mapping[str, ClaimVerdict]
) -> str:
    """The claims of a page that are not supported in full; empty where all are."""
    root = "/".join([".."] * page.count("/")) or "."
    rows = [
        f"| [{claims[name].holds.shown}]({root}/claims/{name}.toml) | {word} | {reason} |"
        for name, word, reason in ((n, given.word, given.reason) for n, given in verdicts.items())
        if claims[name].page == page and word != "supported"
    ]
    return "\n".join(["| figure | verdict | why |", "|---|---|---|", *rows, ""]) if rows else ""


def _of_others(root: Path) -> Iterator[CheckFinding]:
    """The table of published figures, where a checkout has any."""
    if (root / "claims" / "published").is_dir():
        page = root / published.PAGE.relative_to(CHECKOUT)
        text = read_page(page) if page.is_file() else ""
        if generated_tables(text).get("published") != published.table():
            yield fails(f"{page.relative_to(root)}: its table is not that of its files")


def _of_evidence(root: Path) -> Iterator[CheckFinding]:
    """The table of what the checks say of each folder of evidence, where a page has it."""
    page = root / _EVIDENCE_PAGE
    text = read_page(page) if page.is_file() else ""
    shown = generated_tables(text).get(_EVIDENCE)
    if shown is not None and shown != evidence_table():
        yield fails(f"{_EVIDENCE_PAGE}: its table is not what the checks say of the evidence")


def evidence_table() -> str:
    """A row for each folder of evidence: the checks of one run that fail."""
    folders = sorted(folder for folder in evidence.FOLDER.iterdir() if folder.is_dir())
    failing = {folder.name: _failing(folder) for folder in folders}
    passing = sum(not checks for checks in failing.values())
    rows = [f"| {name} | {', '.join(checks)} |" for name, checks in failing.items() if checks]
    counted = f"{passing} of {len(failing)} folders pass every check; the others:"
    return "\n".join(["", counted, "", "| evidence | fails |", "|---|---|", *rows, "", ""])


def _failing(folder: Path) -> list[str]:
    findings = judge_runs(RunComparison(runs=(load_run(folder),)))
    return list(dict.fromkeys(f.check for f in findings if f.verdict == "fails"))


def _reappearing(root: Path, pages: list[Path]) -> Iterator[CheckFinding]:
    for path in sorted((root / "claims" / "withdrawn").glob("*.toml")):
        withdrawn = _withdrawn(path)
        for page in pages:
            text = _plain(read_page(page))
            if repeated := [words for words in withdrawn.phrases if _plain(words) in text]:
                yield fails(
                    f"{page.relative_to(root)} says {repeated[0]!r}, which was withdrawn: "
                    f"{withdrawn.withdrawn}"
                )


def _withdrawn(path: Path) -> WithdrawnClaim:
    try:
        return msgspec.convert(tomllib.loads(path.read_text()), WithdrawnClaim)
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"{path}: not a withdrawn claim: {error}") from error


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def _without_code(text: str) -> str:
    return re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)


def _write(root: Path = CHECKOUT) -> None:
    claims = {path.stem: claim.load(path) for path in sorted((root / "claims").glob("*.toml"))}
    verdicts = {name: judge(stated) for name, stated in claims.items()}
    for page in {stated.page for stated in claims.values()}:
        table = partial(verdict_table, page, claims, verdicts)
        (root / page).write_text(written(read_page(root / page), {_VERDICTS: table}))
    page = root / _EVIDENCE_PAGE
    if page.is_file():
        page.write_text(written(read_page(page), {_EVIDENCE: evidence_table}))


if __name__ == "__main__":
    _write()
