"""Where the next attempt at a cell that streams begins, by the records of those before it."""

import pytest
from records.made_records import record

from assay.records.schema import CELL_PROGRESS, CELL_SECONDS
from assay.studies.continuation import FolderOwner, begin

OWNER = FolderOwner(cell="cell", fingerprint="f0", host="h0", subjects=("a",))
FAILS_ON = frozenset({"failed"})
SESSION = 9


def batches(count: int, **changes) -> list:
    """The records of so many batches, two in each."""
    return [
        item
        for number in range(1, count + 1)
        for item in (
            record(metric="loss", value=1.0 / number, **changes),
            record(metric=CELL_PROGRESS, value=float(number), total=8, closes=2, **changes),
        )
    ]


def end(status: str = "ok", **changes):
    reason = None if status == "ok" else "why"
    return record(metric=CELL_SECONDS, value=2.0, status=status, reason=reason, **changes)


def outcome(status: str, **changes):
    return record(metric="walk", value=None, status=status, reason="why", **changes)


FAILED = [*batches(3), outcome("failed"), end("failed")]
SKIPPED = [outcome("skipped", attempt=2), end("skipped", attempt=2)]


@pytest.fixture
def folder(tmp_path):
    """The folder of the cell with a state in it, as an earlier attempt left it."""
    path = tmp_path / "cells" / "abc"
    begin(path, OWNER, [], FAILS_ON, session=1)
    (path / "state").touch()
    return path


def begun(folder, records, owner=OWNER):
    """The attempt, its durable batches, the records carried over, and whether the state is kept."""
    beginning = begin(folder, owner, records, FAILS_ON, session=SESSION)
    carried = len(beginning.carried)
    return beginning.attempt, beginning.durable_batches, carried, (folder / "state").exists()


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([], (1, 0, 0, True)),
        (batches(3), (1, 3, 0, True)),
        (FAILED, (2, 3, 6, True)),
        ([*FAILED, *batches(5, attempt=2)], (2, 5, 0, True)),
        ([outcome("failed"), end("failed")], (2, 0, 0, True)),
        # Nothing ran in attempt 2: it is the one before that is continued.
        ([*FAILED, *SKIPPED], (3, 3, 6, True)),
        ([*batches(3), *SKIPPED], (3, 3, 6, True)),
        # Begun afresh:
        ([*batches(3), end()], (2, 0, 0, False)),
        ([outcome("failed"), *batches(3)], (2, 0, 0, False)),
        ([*FAILED, outcome("failed", attempt=2), end("failed", attempt=2)], (3, 0, 0, True)),
    ],
    ids=[
        "before any record",
        "killed",
        "failed",
        "failed and then killed",
        "failed before any batch",
        "failed and then skipped",
        "killed and then skipped",
        "ended well",
        "failed in a batch",
        "failed before any batch the second time",
    ],
)
def test_where_an_attempt_begins(folder, records, expected):
    assert begun(folder, records) == expected


@pytest.mark.parametrize(
    "other", [{"fingerprint": "f1"}, {"host": "h1"}, {"subjects": ("a", "b")}], ids=str
)
def test_the_folder_of_something_else_is_emptied(folder, other):
    owner = FolderOwner(**{**vars(OWNER), **other})
    assert begun(folder, batches(3), owner) == (2, 0, 0, False)
    assert begun(folder, batches(3), owner) == (2, 0, 0, False), "it was killed before any record"
    assert begun(folder, [*batches(3), *batches(1, attempt=2)], owner) == (2, 1, 0, False)
    (folder / "state").touch()
    assert begun(folder, batches(3)) == (2, 0, 0, False), "back again, and all is gone"


def test_a_folder_that_was_being_emptied_is_nobodys(folder, monkeypatch):
    def killed(path):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("shutil.rmtree", killed)
        begin(folder, FolderOwner(**{**vars(OWNER), "host": "h1"}), [], FAILS_ON, session=1)
    assert (folder / "state").exists()
    assert begun(folder, batches(3)) == (2, 0, 0, False)


def test_records_are_carried_over_as_they_were_measured(folder):
    carried = begin(folder, OWNER, FAILED, FAILS_ON, session=SESSION).carried
    assert [(r.metric, r.value, r.total, r.time) for r in carried] == [
        (r.metric, r.value, r.total, r.time) for r in batches(3)
    ]
    assert {(r.attempt, r.session, r.closes) for r in carried} == {(2, SESSION, 0)}


def test_a_folder_that_points_elsewhere_is_neither_read_nor_emptied(folder, tmp_path):
    """A run folder may come from anyone."""
    elsewhere = folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(elsewhere)
    assert begun(folder, batches(3)) == (2, 0, 0, False)
    assert not folder.is_symlink() and (elsewhere / "state").exists()
