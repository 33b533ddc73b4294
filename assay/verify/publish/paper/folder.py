"""The folder of a paper: main.tex, tables, figures, data, references, and a Makefile that checks.

main.tex         title, facts as an abstract, setup, a section for each table, an appendix
tables/*.tex     the tables, each with its caption and label
figures/*.png    300 DPI
data/*.csv       the tables with all digits, and records.csv, which all of them come from
references.bib   the run and what measured it
Makefile check.py
"""

import csv
import io
import json
import shutil
from pathlib import Path

from assay.errors import BadInput
from assay.records.durable import make_folder, write_atomically
from assay.records.run import load_records
from assay.reports.table_files import csv_text, named_tables
from assay.verify.publish.bundle import SealedBundle
from assay.verify.publish.manifest import ALONE, read_manifest
from assay.verify.publish.paper import text
from assay.verify.publish.paper.makefile import MAKEFILE

_CHECK = Path(__file__).with_name("check.py")
_COLUMNS = (
    "stage", "cell", "subject", "workload", "metric", "value", "unit", "status", "reason", "level",
    "source", "samples", "time",
)  # fmt: skip


def write(sealed: SealedBundle, target: Path) -> list[str]:
    """Write the paper of a bundle's one run into a new folder, and name its files."""
    if target.exists():
        raise BadInput(f"{target} is there already; name a new folder with --paper")
    unfinished = target.with_name(f".{target.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        _write(sealed, unfinished)
        unfinished.rename(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return sorted(p.relative_to(target).as_posix() for p in target.rglob("*") if p.is_file())


def _write(sealed: SealedBundle, target: Path) -> None:
    report = sealed.built[ALONE].report
    run = read_manifest(sealed.folder).runs[ALONE]
    figures = make_folder(target / "figures")
    for figure in sorted((sealed.folder / "figures").glob("*.png")):
        shutil.copyfile(figure, figures / figure.name)
    make_folder(target / "data")
    make_folder(target / "tables")
    tables = named_tables(report)
    for stem, table in tables.items():
        write_atomically(target / "data" / f"{stem}.csv", csv_text(table))
        _save(target / "tables" / f"{stem}.tex", text.table_file(stem, table))
    write_atomically(target / "data" / "records.csv", _records(sealed.folder))
    drawn = text.figures(report, {path.stem for path in figures.iterdir()})
    paper = text.Paper(report=report, run=run, digest=sealed.digest, tables=tables, figures=drawn)
    for name, lines in ((text.SETUP, text.setup(paper)), (text.ORIGIN, text.origin(paper))):
        _save(target / "tables" / f"{name}.tex", lines)
    _save(target / "main.tex", text.main(paper))
    _save(target / "references.bib", text.bibliography(paper))
    _save(target / "Makefile", MAKEFILE)
    shutil.copyfile(_CHECK, target / "check.py")


def _save(path: Path, content: str) -> None:
    write_atomically(path, content.encode("ascii"))


def _records(folder: Path) -> bytes:
    """Every record behind the tables, its samples as a list."""
    content = io.StringIO()
    writer = csv.writer(content, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for record in load_records(folder):
        row = [getattr(record, name, None) for name in _COLUMNS]
        row[_COLUMNS.index("workload")] = record.workload.name if record.workload else ""
        samples = record.samples
        row[_COLUMNS.index("samples")] = json.dumps(list(samples)) if samples else ""
        writer.writerow("" if value is None else value for value in row)
    return content.getvalue().encode(errors="backslashreplace")
