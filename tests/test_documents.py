"""What the pages say must be there: links resolve, figures equal the records behind them."""

import re
from pathlib import Path

import pytest

import assay
from assay.verify import claim, claim_verdict

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("claims/*.md")])
CLAIMS = sorted(ROOT.glob("claims/*.toml"))
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")


def headings(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in titles
    }


def links(page: Path) -> list[tuple[str, str]]:
    """Text and target of every link outside code."""
    return LINK.findall(re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page):
    for _, target in links(page):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page}: {target} is not there"
        if anchor and file.suffix == ".md":
            assert anchor in headings(file), f"{page}: {target} names no heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_and_modules_exist(page):
    """Five pages went on naming rooms that had been renamed: only their links were checked."""
    text = re.sub(r"[\w./]*\bNAME\b[\w./]*", "", page.read_text())
    paths = re.findall(r"(?<![\w./-])(?:\.\./)*((?:assay|tests|tools|benchmarks)/[\w./-]*\w)", text)
    modules = re.findall(r"python -m (assay(?:\.\w+)+)|^from (assay(?:\.\w+)+)", text, re.MULTILINE)
    paths += [(run or imported).replace(".", "/") for run, imported in modules]
    absent = [p for p in paths if not (ROOT / p).exists() and not (ROOT / f"{p}.py").exists()]
    assert not absent


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_link_is_called_by_the_name_of_its_file(page):
    called = [(text, target) for text, target in links(page) if re.fullmatch(r"[\w/]+\.py", text)]
    wrong = [(text, target) for text, target in called if not f"/{target}".endswith(f"/{text}")]
    assert not wrong


def test_the_wrong_kernel_of_the_readme_is_caught():
    file = ROOT / "docs" / "examples" / "top_left.py"
    shown = re.search(
        r"```python\ndef attention.*?\n(.*?)```", (ROOT / "README.md").read_text(), re.S
    )
    assert shown[1] in file.read_text()
    verdict = assay.check(str(file), quick=True, probes=["shapes"])
    assert not verdict and "causal mask is aligned top-left" in str(verdict)


def test_the_map_of_the_house_has_every_room():
    from test_architecture import MAY_IMPORT

    page = (ROOT / "docs" / "architecture.md").read_text()
    assert not [room for room in MAY_IMPORT if not re.search(rf"\[`?{room}`?\]\(", page)]


@pytest.mark.parametrize("path", CLAIMS, ids=lambda path: path.stem)
def test_a_claim_is_held_up_by_its_evidence(path):
    found = claim_verdict.judge(claim.load(path))
    assert found.word in ("supported", "partly"), found


def test_every_evidence_folder_is_used():
    used = {claim.load(path).records.evidence for path in CLAIMS}
    assert {folder.name for folder in (ROOT / "evidence").iterdir() if folder.is_dir()} == used


def test_a_claim_that_nothing_could_refute_is_refused(tmp_path):
    file = tmp_path / "empty.toml"
    file.write_text(
        'says = "fast"\npage = "README.md"\nrefuted_by = "nothing"\n'
        '[records]\nevidence = "spine"\nwhere = {}\n[holds]\nstatistic = "median"\nshown = "1"\n'
    )
    with pytest.raises(ValueError, match="at_least or at_most"):
        claim.load(file)


def test_a_misspelt_claim_is_refused_by_name(tmp_path):
    file = tmp_path / "typo.toml"
    file.write_text('says = "fast"\npages = "README.md"\n')
    with pytest.raises(ValueError, match=r"typo.toml: not a claim"):
        claim.load(file)
