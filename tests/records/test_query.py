"""SQL over records says what plain Python over the same records says, with an index or without."""

import random
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from made_records import batch, record, run_folder, written
from new_process import environment

from assay.errors import BadInput
from assay.records import run as runs
from assay.records.query import INDEX_FOLDER, Records
from assay.records.schema import WorkloadIdentity

pytest.importorskip("duckdb")

GROUPED = """
    SELECT subject, status, count(*), sum(value), sum(len(samples)), max(attempt)
    FROM records WHERE metric = 'latency_ms' GROUP BY ALL ORDER BY ALL
"""


def many_batches(seed: int, run: str) -> list[list]:
    """Cells with subjects, samples and outcomes, some of them attempted several times."""
    chance = random.Random(seed)
    batches = []
    for cell in range(20):
        for attempt in range(1, chance.choice((2, 2, 2, 4))):
            records = []
            for subject in chance.sample(["", "eager", "sdpa", "it's"], k=3):
                failed = chance.random() < 0.2
                records.append(
                    record(
                        run=run,
                        cell=f"cell {cell}",
                        subject=subject,
                        attempt=attempt,
                        value=None if failed else float(chance.randrange(1000)),
                        samples=[1.0] * chance.randrange(4),
                        status="failed" if failed else "ok",
                        reason="broke" if failed else None,
                    )
                )
            batches.append(records)
    return batches


@pytest.fixture
def results(tmp_path):
    """Two runs of two stages each, below a folder whose name needs quoting."""
    folder = tmp_path / "it's results"
    for number, name in enumerate(("one", "two")):
        run_folder(
            folder,
            name=name,
            bench=many_batches(number, name),
            check=[batch("check", 3, run=name, stage="check", metric="error")],
        )
    return folder


def rows(results, sql) -> list[tuple]:
    return Records(results).query(sql).rows


def in_python(results) -> list[tuple]:
    """What GROUPED asks, computed over the records as Python reads them."""
    groups = defaultdict(list)
    for r in runs.load_records(results):
        if r.metric == "latency_ms":
            groups[r.subject, r.status].append(r)
    return sorted(
        (
            *key,
            len(members),
            sum(r.value for r in members if r.value is not None) if key[1] == "ok" else None,
            sum(len(r.samples) for r in members),
            max(r.attempt for r in members),
        )
        for key, members in groups.items()
    )


def damage(results, line: bytes, *, number: int = 2):
    """Put `line` in the place of a line of the first log; returns the log."""
    path = runs.runs_below(results)[0].log("bench")
    lines = path.read_bytes().splitlines()
    lines[number - 1] = line
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def indexed(results):
    """Every file of the index."""
    return sorted((results / INDEX_FOLDER).glob("*"))


def test_a_grouped_query_equals_a_plain_computation(results):
    expected = in_python(results)
    assert len(expected) == 8 and max(row[-1] for row in expected) == 3
    assert rows(results, GROUPED) == expected


def test_every_field_comes_back_as_it_was(tmp_path):
    workload = WorkloadIdentity(name="b1", spec={"batch": 1}, content="c0")
    full = record(
        subject="ü 'quoted' \"twice\"",
        samples=[0.25, 3.0],
        status="oom",
        reason="line\nbreak",
        level="kernel",
        source="clock",
        workload=workload,
        attempt=2,
    )
    run_folder(tmp_path, bench=[[full]])
    answer = Records(tmp_path).query("SELECT * FROM records")
    row = dict(zip(answer.columns, answer.rows[0], strict=True))
    stored = runs.load_records(tmp_path)[0]
    assert row.pop("workload") == {"name": "b1", "spec": '{"batch":1}', "content": "c0"}
    assert row == {name: getattr(stored, name) for name in row}
    assert {"closes", "sequence", "schema", "time"} <= set(row)


def test_left_out_defaults_are_filled_in(tmp_path):
    run_folder(tmp_path, bench=[[record()]])
    sql = "SELECT status, attempt, subject, level, sequence FROM {}"
    for table in ("records", "attempts"):
        assert rows(tmp_path, sql.format(table)) == [("ok", 1, "", None, 1)]


def test_superseded_attempts_are_in_attempts_alone(tmp_path):
    batches = [batch("a", 3), [record(cell="a", attempt=2, value=7.0)], batch("b", 1)]
    run_folder(tmp_path, bench=batches)
    assert rows(tmp_path, "SELECT cell, value FROM records ORDER BY ALL") == [("a", 7), ("b", 0)]
    assert rows(tmp_path, "SELECT count(*) FROM attempts") == [(5,)]


def test_the_runs_themselves_can_be_asked(results):
    columns = "run, study, seed, dtype, config->>'SEED', json_array_length(sessions)"
    assert rows(results, f"SELECT {columns} FROM runs ORDER BY run") == [
        ("one", "small", 3, ["float32"], "3", 1),
        ("two", "small", 3, ["float32"], "3", 1),
    ]


def test_a_run_without_records_has_empty_tables(tmp_path):
    run_folder(tmp_path)
    assert rows(tmp_path, "SELECT count(*), sum(value) FROM records") == [(0, None)]
    run_folder(tmp_path, name="begun", bench=[])
    assert rows(tmp_path, "SELECT count(*) FROM attempts WHERE status = 'ok'") == [(0,)]


def test_an_index_gives_the_same_answer_and_may_be_deleted(results):
    expected = in_python(results)
    records = Records(results)
    assert records.index() == 4
    assert len(indexed(results)) == 4
    assert records.query(GROUPED).rows == expected
    assert records.index() == 0, "an index that is current was made again"
    for file in indexed(results):
        file.unlink()
    assert records.query(GROUPED).rows == expected
    assert records.index() == 4


def test_the_index_is_used(results):
    """Copies of one log in the place of the others' are what the answer then shows."""
    records = Records(results)
    records.index()
    first, *others = indexed(results)
    for other in others:
        other.write_bytes(first.read_bytes())
    per_copy = records.query("SELECT run, stage, count(*) FROM attempts GROUP BY ALL").rows
    assert len(per_copy) == 1 and per_copy[0][2] % 4 == 0


def test_a_log_that_grows_is_read_anew(results):
    records = Records(results)
    records.index()
    before = rows(results, "SELECT count(*) FROM attempts")[0][0]
    written(runs.runs_below(results)[0].log("bench"), [record(run="one", cell="cell 0", attempt=9)])
    assert rows(results, "SELECT count(*) FROM attempts") == [(before + 1,)]
    assert rows(results, GROUPED) == in_python(results)
    assert records.index() == 1
    assert len(indexed(results)) == 4, "the copy of the log's earlier state was left behind"
    assert rows(results, GROUPED) == in_python(results)


@pytest.mark.parametrize(
    "line",
    [b"{]", b'{"alien": true}', b"[1, 2]", b'"text"', b"\xff\xfe\xfd"],
    ids=repr,
)
@pytest.mark.parametrize("act", ["query", "index"])
def test_a_damaged_line_is_named(results, line, act):
    path = damage(results, line)
    records = Records(results)
    with pytest.raises(BadInput) as caught:
        records.query("SELECT sum(value) FROM records") if act == "query" else records.index()
    assert f"{path}:2: not a record" in str(caught.value)
    assert not [file for file in indexed(results) if file.suffix != ".parquet"]


def test_a_record_of_another_schema_is_named(results):
    path = runs.runs_below(results)[0].log("bench")
    first = path.read_bytes().splitlines()[1].replace(b'"schema":1', b'"schema":7')
    damage(results, first)
    with pytest.raises(BadInput, match=r"bench/metrics\.jsonl:2: schema 7"):
        rows(results, "SELECT count(*) FROM records")


@pytest.mark.parametrize("index", [False, True], ids=["without an index", "with an index"])
@pytest.mark.parametrize(
    "tail",
    [b'{"metric":', b'{"schema":1,"metric":"m","unit":"","run":"one"}\n', b"\x00" * 100],
    ids=["half a line", "a line of no batch", "zeros"],
)
def test_a_torn_tail_is_left_out_and_reported(results, tail, index):
    expected = in_python(results)
    path = runs.runs_below(results)[0].log("bench")
    with open(path, "ab") as file:
        file.write(tail)
    records = Records(results)
    if index:
        records.index()
    answer = records.query(GROUPED)
    assert answer.rows == expected
    assert answer.torn == {path: len(tail)}
    assert path.read_bytes().endswith(tail), "a query changed the log"


def test_a_log_that_is_all_torn_has_no_records(tmp_path):
    folder = run_folder(tmp_path, bench=[])
    folder.log("bench").write_bytes(b"half")
    answer = Records(tmp_path).query("SELECT * FROM records")
    assert answer.rows == [] and answer.torn == {folder.log("bench"): 4}


@pytest.mark.parametrize("sql", ["SELECT nothing FROM records", "SELEC 1", "SELECT * FROM x", ""])
def test_bad_sql_is_bad_input(results, sql):
    with pytest.raises(BadInput, match="the query cannot be answered: "):
        rows(results, sql)


def test_no_runs_is_bad_input(tmp_path):
    with pytest.raises(BadInput, match="there is no run below"):
        Records(tmp_path)
    with pytest.raises(BadInput, match="there is no results folder"):
        Records(tmp_path / "nowhere")


def test_a_corrupt_run_json_is_bad_input(results):
    runs.runs_below(results)[0].run_file.write_bytes(b"{")
    with pytest.raises(BadInput):
        rows(results, "SELECT * FROM runs")


def test_a_damaged_index_is_bad_input_that_says_what_to_do(results):
    """It once ended the program as an error of assay's own."""
    records = Records(results)
    records.index()
    indexed(results)[0].write_bytes(b"PAR1")
    with pytest.raises(BadInput, match=rf"delete .*{INDEX_FOLDER}"):
        records.query(GROUPED)


@pytest.mark.parametrize(
    "name", ["a'b", 'a"b', "a b", "a[1]", "a*", "a?b", "ü", "{a}", "a;b--", "a%", r"a\b"]
)
def test_any_name_of_a_folder_will_do(tmp_path, name):
    """DuckDB reads `[`, `*` and `?` in a path as a pattern: neighbours must not match."""
    results = tmp_path / name
    run_folder(results, bench=[batch("a", 3)])
    for neighbour in ("a1", "a_b"):
        run_folder(tmp_path / neighbour, bench=[batch("a", 1)])
    records = Records(results)
    sql = "SELECT (SELECT count(*) FROM records), (SELECT count(*) FROM runs)"
    assert records.query(sql).rows == [(3, 1)]
    assert records.index() == 1
    assert records.query(sql).rows == [(3, 1)]


def test_a_copy_that_appears_while_a_query_begins_neither_loses_nor_doubles_its_log(
    results, monkeypatch
):
    """Every log was looked at twice, once for its copy and once for its JSON. Where another process
    finished the copy in between, the log was in neither list and its records were lost; where it
    removed one, they were counted twice (3 of 60 simultaneous first queries)."""
    right = rows(results, GROUPED)
    is_file, finished = Path.is_file, []

    def another_process_indexes_now(path: Path) -> bool:
        there = is_file(path)
        if path.suffix == ".parquet" and not finished:
            finished.append(path)
            Records(results).index()
        return there

    monkeypatch.setattr(Path, "is_file", another_process_indexes_now)
    assert rows(results, GROUPED) == right
    assert finished


def test_simultaneous_first_queries_all_give_the_same_answer(results):
    """The same race with real processes: each indexes and asks at once."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom assay.records.query import Records\n"
        "there = Records(Path(sys.argv[1]))\nthere.index()\n"
        "print(there.query('SELECT count(*), sum(value) FROM attempts').rows)"
    )
    command = [sys.executable, "-c", code, str(results)]
    started = [
        subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    answers = {process.communicate(timeout=240)[0] for process in started}
    assert answers == {f"{rows(results, 'SELECT count(*), sum(value) FROM attempts')}\n"}
