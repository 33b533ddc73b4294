"""A log holds whole batches and nothing else, however its file was left."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_records import batch, contents, record, written
from msgspec.structs import replace

from assay.errors import BadInput
from assay.records.log import Log, complete_bytes, read
from assay.records.schema import SCHEMA, WorkloadIdentity

FIRST, SECOND = batch("first", 3), batch("second", 2)


@pytest.fixture
def path(tmp_path):
    return written(tmp_path / "metrics.jsonl", FIRST, SECOND)


def torn_file(path):
    return path.with_name(path.name + ".torn")


def test_records_come_back_as_they_were(tmp_path):
    workload = WorkloadIdentity(name="b1", spec={"batch": 1, "lengths": [1, 2]}, content=None)
    full = record(
        subject="sdpa",
        samples=[0.1, 1e-300, 2.0**53],
        status="oom",
        reason='a "quoted"\nreason, {"closes":7} and ü\u2028\x00',
        level="kernel",
        source="clock",
        workload=workload,
        attempt=4,
    )
    unknown = record(value=None, reason="not measured", status="refused")
    path = written(tmp_path / "metrics.jsonl", [full, unknown])
    first, second = read(path).records
    assert first == replace(full, sequence=1)
    assert second == replace(unknown, sequence=2, closes=2)


def test_sequence_goes_on_where_the_last_writer_stopped(path):
    written(path, batch("third", 1), batch("fourth", 4))
    reading = read(path)
    assert [r.sequence for r in reading.records] == list(range(1, 11))
    assert [r.closes for r in reading.records] == [0, 0, 3, 0, 2, 1, 0, 0, 0, 4]
    assert reading.torn_bytes == 0


def test_an_empty_batch_changes_nothing(path):
    before = path.read_bytes()
    written(path, [])
    assert path.read_bytes() == before


def test_an_empty_log_has_no_records(tmp_path):
    path = written(tmp_path / "metrics.jsonl")
    assert path.read_bytes() == b""
    assert (read(path).records, read(path).torn_bytes) == ([], 0)


def test_a_log_that_is_not_there_is_bad_input(tmp_path):
    with pytest.raises(BadInput, match="cannot read"):
        read(tmp_path / "metrics.jsonl")


def test_cut_anywhere_in_its_last_batch_the_log_is_the_earlier_ones(path):
    """A kill may leave any prefix of the last write: none of it may be read or built upon."""
    whole = path.read_bytes()
    end_of_first = len(b"".join(whole.splitlines(keepends=True)[: len(FIRST)]))
    for cut in range(end_of_first, len(whole)):
        torn_file(path).unlink(missing_ok=True)
        path.write_bytes(whole[:cut])
        reading = read(path)
        assert contents(reading.records) == contents(FIRST), cut
        assert reading.torn_bytes == cut - end_of_first
        with Log(path) as log:
            assert log.set_aside_bytes == cut - end_of_first
            log.append(batch("later", 2))
        assert contents(read(path).records) == contents([*FIRST, *batch("later", 2)]), cut
        assert [r.sequence for r in read(path).records] == [1, 2, 3, 4, 5]
        assert torn_file(path).exists() == (cut > end_of_first)


@pytest.mark.parametrize(
    "tail",
    [
        b'{"metric":"latency_ms","value":1.0,"un',
        b'{"metric":"latency_ms"}\n{"metric":"b"}\n',
        b"\x00" * 5000,
        b"\x00\xff garbage\n\n\nmore\xfe\n",
        b"\n",
        b"x" * 200_000,
    ],
    ids=["half a line", "lines without an end", "zeros", "garbage", "a newline", "200 kB"],
)
def test_a_tail_that_closes_no_batch_is_set_aside_and_reported(path, tail):
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    assert read(path).torn_bytes == len(tail)
    assert path.read_bytes() == whole + tail, "reading must leave the log as it is"
    with Log(path) as log:
        assert log.set_aside_bytes == len(tail)
    assert path.read_bytes() == whole
    assert torn_file(path).read_bytes() == tail + b"\n"


def test_what_was_set_aside_before_is_kept(path):
    for tail in (b"one", b"two"):
        with open(path, "ab") as file:
            file.write(tail)
        Log(path).close()
    assert torn_file(path).read_bytes() == b"one\ntwo\n"


def test_a_log_with_nothing_complete_is_set_aside_whole(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b"never finished")
    written(path, FIRST)
    assert contents(read(path).records) == contents(FIRST)
    assert read(path).records[0].sequence == 1


def test_an_open_log_sets_aside_what_another_left_meanwhile(path):
    with Log(path) as log:
        with open(path, "ab") as other:
            other.write(b'{"metric":')
        log.append(batch("third", 1))
        assert log.set_aside_bytes == 10
    assert contents(read(path).records) == contents([*FIRST, *SECOND, *batch("third", 1)])


@pytest.mark.parametrize("damage", [b"{]", b"\xff\xfe", b"[1,2]", b'{"metric":"m"}', b""])
def test_a_damaged_line_in_the_middle_is_named(path, damage):
    lines = path.read_bytes().splitlines()
    lines[1] = damage
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(BadInput, match=rf"{path}:2: not a record"):
        read(path)


def test_a_damaged_last_line_that_closes_a_batch_is_not_built_upon(path):
    path.write_bytes(path.read_bytes() + b'{"closes":1}\n')
    before = path.read_bytes()
    with pytest.raises(BadInput, match="last record"):
        Log(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("change", ["lost", "added"])
def test_a_batch_of_another_size_than_it_says_is_named(path, change):
    lines = path.read_bytes().splitlines(keepends=True)
    lines = [lines[0], *lines[2:]] if change == "lost" else [lines[0], *lines]
    path.write_bytes(b"".join(lines))
    number = 2 if change == "lost" else 4
    with pytest.raises(BadInput, match=rf"{path}:{number}: this line closes a batch of 3"):
        read(path)


def test_another_schema_is_refused(path):
    other = SCHEMA + 1
    path.write_bytes(path.read_bytes().replace(b'"schema":1', f'"schema":{other}'.encode()))
    with pytest.raises(BadInput, match=f":1: schema {other}, this assay reads {SCHEMA}"):
        read(path)
    with pytest.raises(BadInput, match=f"schema {other}"):
        Log(path)


def test_a_batch_larger_than_any_block_is_found_again(tmp_path):
    big = [record(cell="big", value=float(i), reason="x" * 1900) for i in range(300)]
    path = written(tmp_path / "metrics.jsonl", FIRST, big)
    path.write_bytes(path.read_bytes()[:-1])
    reading = read(path)
    assert contents(reading.records) == contents(FIRST)
    assert reading.torn_bytes > 500_000
    written(path, SECOND)
    assert contents(read(path).records) == contents([*FIRST, *SECOND])


TEXT = st.text(max_size=30) | st.sampled_from(['"closes":3', '{"closes":1}\n', "\r\n", "\\"])


@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=4), max_size=5),
    data=st.data(),
)
def test_no_text_in_a_record_can_look_like_the_end_of_a_batch(tmp_path_factory, batches, data):
    path = tmp_path_factory.mktemp("log") / "metrics.jsonl"
    made = [[record(subject=a, reason=b) for a, b in pairs] for pairs in batches]
    ends = [0]
    for records in made:
        written(path, records)
        ends.append(path.stat().st_size)
    written(path)
    cut = data.draw(st.integers(0, path.stat().st_size))
    path.write_bytes(path.read_bytes()[:cut])
    complete = [end for end in ends if end <= cut]
    assert complete_bytes(path) == complete[-1]
    kept = [r for records in made[: len(complete) - 1] for r in records]
    assert [(r.subject, r.reason) for r in read(path).records] == [
        (r.subject, r.reason) for r in kept
    ]


def test_sessions_only_go_up(tmp_path):
    """Queries rely on it: a log whose last record is of session 1 has no second attempt."""
    path = written(tmp_path / "log", batch("a", 2, session=2))
    with Log(path) as log, pytest.raises(ValueError, match="sessions only go up"):
        log.append(batch("b", 1, session=1))
    assert len(read(path).records) == 2


def test_an_attempt_needs_as_many_sessions():
    with pytest.raises(ValueError, match="at most once"):
        record(attempt=2, session=1)
