"""NAME_summary.md of an archive: the run, its results, and what is not among the files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.reports.markdown import escaped, table_lines
from assay.reports.numerals import plain
from assay.reports.table import Table
from assay.verify.publish.bundle import SealedBundle
from assay.verify.publish.manifest import ALONE, FileMark, read_manifest

# Folders of an archived run, each with why it may be empty.
FOLDERS = {
    "json": "the run has no records",
    "plots": "no figure was drawn: the run has nothing to draw, or matplotlib is not installed",
    "logs": "the run printed nothing, or was kept without its logs",
    "models": "the run saved no model",
    "fim_maps": "the run saved no map of Fisher information",
    "interaction_maps": "the run saved no map of interactions between layers",
}


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A file that is named here and not committed."""

    name: str
    mark: FileMark
    why: str


def summary(sealed: SealedBundle, folder: Path, left_out: Sequence[LeftOut]) -> str:
    """The text, from the bundle of the run and the files that were written."""
    report, run = sealed.built[ALONE].report, read_manifest(sealed.folder).runs[ALONE]
    lines = [f"# {escaped(report.title)}", "", f"**{escaped(report.verdict)}**", ""]
    lines += [*(f"- {escaped(line)}" for line in report.headlines), ""]
    rows = [(name, "" if value is None else plain(value)) for name, value in run.facts.items()]
    rows = [
        (name, text or f"unknown: {run.reasons.get(name, 'not recorded')}") for name, text in rows
    ]
    rows += [("hardware", ", ".join(dict.fromkeys(run.hardware)) or "unknown: not recorded")]
    rows += [("digest of its bundle", sealed.digest)]
    facts = Table(title="Facts", columns=("fact", "value"), rows=tuple(rows))
    for table in (facts, _contents(folder), *report.results, *report.ratios):
        lines += [line.replace("### ", "## ", 1) for line in table_lines(table)]
    if left_out:
        lines += table_lines(_absent(left_out))
    return "\n".join(lines).rstrip() + "\n"


def _contents(folder: Path) -> Table:
    return Table(
        title="Folders", columns=("folder", "files", "remark"), rows=tuple(_folders(folder))
    )


def _folders(folder: Path) -> Iterator[tuple[str, str, str]]:
    for name, why in FOLDERS.items():
        files = [path for path in (folder / name).iterdir() if not path.name.startswith(".")]
        yield f"{name}/", str(len(files)), "" if files else f"empty: {why}"


def _absent(left_out: Sequence[LeftOut]) -> Table:
    rows = tuple(
        (entry.name, f"{entry.mark.size:,}", entry.mark.sha256, entry.why) for entry in left_out
    )
    return Table(title="Not committed", columns=("file", "bytes", "SHA-256", "why"), rows=rows)
