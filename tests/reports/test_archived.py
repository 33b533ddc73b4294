"""Runs that are kept as evidence are read as committed."""

import gzip
import shutil

import pytest

from assay.errors import BadInput
from assay.host import CHECKOUT
from assay.records.run import RunFolder, load_records
from assay.reports.build import build
from assay.reports.contents import read_contents

EVIDENCE = sorted(path.parent for path in CHECKOUT.glob("evidence/*/run.json"))


@pytest.mark.parametrize("path", EVIDENCE, ids=lambda path: path.name)
def test_every_evidence_has_its_stages_and_records(path):
    """`assay report` said that no stage had begun, `assay law` that there was nothing to fit."""
    contents = read_contents(RunFolder(path=path))
    assert contents.stages and {stage.status for stage in contents.stages} <= {"ok", "failed"}
    assert contents.records and len(load_records(path)) == len(contents.records)


@pytest.fixture
def copied(tmp_path):
    return RunFolder(path=shutil.copytree(CHECKOUT / "evidence" / "readme-bench", tmp_path / "run"))


def test_a_report_is_made_of_it(copied):
    built = build(copied)
    assert "1 of 3 cells failed" in built.markdown.read_text()


@pytest.mark.slow
def test_laws_stand_in_the_report_where_lengths_allow_them(copied, tmp_path):
    source = CHECKOUT / "evidence" / "crossover-h200"
    built = build(RunFolder(path=shutil.copytree(source, tmp_path / "lengths")))
    page, text = built.markdown.read_text(), built.summary.read_text()
    assert all(
        f"### {t}\n" in page for t in ("Growth with length", "Crossovers", "Recommendations")
    )
    assert "Growth with length:" in text and "use sdpa_cudnn at every length" in text
    assert "### Growth" not in build(copied).markdown.read_text()


def cut_off(content):
    return content[:-100]


def with_other_bits(content):
    return content[:500] + bytes(byte ^ 0xFF for byte in content[500:600]) + content[600:]


@pytest.mark.parametrize("spoiled", [cut_off, with_other_bits])
def test_an_archive_that_cannot_be_unpacked_is_refused(copied, spoiled):
    copied.archive.write_bytes(spoiled(copied.archive.read_bytes()))
    with pytest.raises(BadInput, match=r"cannot read .*metrics.jsonl.gz: "):
        load_records(copied.path)


@pytest.mark.parametrize(
    "change, words",
    [
        ((b'"schema":1', b'"schema":9'), "schema 9, this assay reads 1"),
        ((b'"closes":', b'"closes":9'), "closes a batch of"),
        ((b'"unit"', b'"tinu"'), "not a record"),
    ],
)
def test_an_archive_of_other_lines_is_refused_as_a_log_is(copied, change, words):
    lines = gzip.decompress(copied.archive.read_bytes()).replace(*change, 1)
    copied.archive.write_bytes(gzip.compress(lines))
    with pytest.raises(BadInput, match=words):
        load_records(copied.path)
