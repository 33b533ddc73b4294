"""A query reads the records and reaches nothing else, unless its user says that it may."""

from pathlib import Path

import pytest
from made_records import batch, run_folder

from assay.errors import BadInput
from assay.records.query import Records

pytest.importorskip("duckdb")


@pytest.fixture
def results(tmp_path):
    run_folder(tmp_path / "results", bench=[batch("cell", 3)])
    (tmp_path / "secret.txt").write_text("secret\n")
    return tmp_path / "results"


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize(
    "sql",
    [
        "COPY records TO '{out}'",
        "COPY (SELECT 1) TO '{log}'",
        "EXPORT DATABASE '{out}'",
        "ATTACH '{out}' AS other",
        "SELECT * FROM read_csv('{secret}')",
        "SELECT * FROM read_text('{secret}')",
        "SELECT * FROM read_blob('/proc/self/environ')",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM '{secret}'",
        "SELECT * FROM read_json('http://localhost:1/x.json')",
        "SELECT getenv('HOME')",
        "SELECT * FROM query('COPY records TO ''{out}''')",
        "INSTALL httpfs",
        "LOAD httpfs",
        "PRAGMA database_list",
        "SET enable_external_access = true",
        "RESET enable_external_access",
        "SELECT 1; SELECT 2",
        "SELECT 1; COPY records TO '{out}'",
        "WITH new AS (INSERT INTO records SELECT * FROM records RETURNING 1) SELECT * FROM new",
        "CREATE TABLE other AS SELECT 1",
        "DROP VIEW records",
        "EXPLAIN ANALYZE COPY records TO '{out}'",
        "CALL force_checkpoint()",
    ],
)
def test_what_reaches_beyond_the_records_is_refused(results, sql, indexed, tmp_path):
    records = Records(results)
    if indexed:
        records.index()
    (log,) = results.rglob("metrics.jsonl")
    before = log.read_bytes()
    names = {"out": tmp_path / "out", "secret": tmp_path / "secret.txt", "log": log}
    with pytest.raises(BadInput, match=r"the query (is refused|cannot be answered)"):
        records.query(sql.format(**names))
    assert not names["out"].exists() and log.read_bytes() == before


def test_refusal_says_what_is_wanted_and_how_to_do_more(results, tmp_path):
    with pytest.raises(BadInput, match=r"statement of COPY; wanted one SELECT.*--unsafe"):
        Records(results).query(f"COPY records TO '{tmp_path / 'out'}'")
    with pytest.raises(BadInput, match=r"it holds 2 statements; wanted one SELECT"):
        Records(results).query("SELECT 1; SELECT 2")
    with pytest.raises(BadInput, match=r"Cannot access file.*--unsafe") as refused:
        Records(results).query("SELECT * FROM read_text('/etc/passwd')")
    assert "\n" not in str(refused.value)


def test_unsafe_sql_does_what_its_user_may(results, tmp_path):
    Records(results).query(f"COPY records TO '{tmp_path / 'out.csv'}'", unsafe=True)
    assert (tmp_path / "out.csv").read_text().count("\n") == 4
    secret = f"SELECT content FROM read_text('{tmp_path / 'secret.txt'}')"
    assert Records(results).query(secret, unsafe=True).rows == [("secret\n",)]


def test_relative_results_and_a_torn_log_are_within_reach(results, monkeypatch):
    monkeypatch.chdir(results.parent)
    (log,) = results.rglob("metrics.jsonl")
    log.write_bytes(log.read_bytes() + b'{"torn')
    count = "SELECT count(*) FROM records"
    assert Records(Path("results")).query(count).rows == [(3,)]
    Records(Path("results")).index()
    assert Records(Path("results")).query(count).rows == [(3,)]
