"""The tail of a log: each batch once, half of one never, and a log that was changed outside."""

import pytest
from made_records import batch, contents, written

from assay.errors import BadInput
from assay.records.tail import LogTail

FIRST, SECOND = batch("first", 3), batch("second", 2)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.jsonl"


def test_each_look_has_what_is_new(path):
    tail = LogTail(path=path)
    assert tail.new_records() == [], "a log that is not there yet"
    written(path, FIRST)
    assert contents(tail.new_records()) == contents(FIRST)
    assert tail.new_records() == []
    written(path, SECOND, batch("third", 1))
    assert contents(tail.new_records()) == contents([*SECOND, *batch("third", 1)])
    assert (tail.offset, tail.lines) == (path.stat().st_size, 6)


def test_a_batch_is_seen_when_it_is_whole(path):
    """Whatever part of a batch is there at the moment of a look, none of it is read before its
    end, and then all of it is read once."""
    written(path, FIRST)
    end_of_first = path.stat().st_size
    whole = written(path, SECOND).read_bytes()
    for cut in range(end_of_first, len(whole)):
        path.write_bytes(whole[:cut])
        tail = LogTail(path=path)
        assert contents(tail.new_records()) == contents(FIRST), cut
        assert tail.new_records() == []
        path.write_bytes(whole)
        assert contents(tail.new_records()) == contents(SECOND), cut


def test_what_a_killed_writer_left_is_not_read(path):
    tail = LogTail(path=written(path, FIRST))
    tail.new_records()
    with open(path, "ab") as file:
        file.write(b'{"metric":"latency_ms","val')
    assert tail.new_records() == []
    written(path, SECOND)  # sets the torn line aside
    assert contents(tail.new_records()) == contents(SECOND)


def test_a_damaged_line_is_named_by_its_number(path):
    tail = LogTail(path=written(path, FIRST))
    tail.new_records()
    end = path.stat().st_size
    lines = written(path, SECOND).read_bytes()[end:].splitlines()
    path.write_bytes(path.read_bytes()[:end] + b"\n".join([b"{]", lines[1]]) + b"\n")
    with pytest.raises(BadInput, match=rf"{path}:4: not a record"):
        tail.new_records()


def test_a_log_that_lost_batches_is_refused(path):
    tail = LogTail(path=written(path, FIRST))
    tail.new_records()
    path.write_bytes(b"")
    with pytest.raises(BadInput, match="changed from outside"):
        tail.new_records()
    path.unlink()
    with pytest.raises(BadInput, match="cannot read"):
        tail.new_records()
