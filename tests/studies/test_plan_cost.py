"""Planning and resuming look at every record once, however many cells there are."""

from collections.abc import Iterator

import pytest

from assay import host, plugins
from assay.errors import BadInput
from assay.records import log
from assay.records.schema import CELL_SECONDS, SCHEMA, Record, WorkloadIdentity
from assay.studies import kconfig, lists, plan, workload_cells
from assay.studies.earlier import EarlierRecords, StreamedRecords

CELLS = 40
SETTINGS = (
    *("STAGES=check,bench", "IMPLEMENTATIONS=eager,sdpa", "PROBES=accuracy,latency"),
    *("DEVICE_CPU=y", f"LENGTHS={','.join(str(n) for n in range(1, CELLS + 1))}"),
)


class CountedRecords(list):
    """A list that counts the records which are taken out of it one after the other."""

    looks = 0

    def __iter__(self) -> Iterator[Record]:
        for record in super().__iter__():
            self.looks += 1
            yield record


@pytest.fixture(scope="module")
def stages():
    check, bench = plan.make(kconfig.load(None, SETTINGS), host.inspect(commit=False))
    assert (check.name, len(check.cells)) == ("check", CELLS)
    return check, bench


def record(stage: plan.PlannedStage, planned: plan.PlannedCell, subject: str, metric: str):
    return Record(
        schema=SCHEMA,
        run="made",
        session=1,
        stage=stage.name,
        cell=planned.cell.name,
        fingerprint=planned.fingerprint,
        host="here",
        time="2026-01-01T00:00:00.000Z",
        metric=metric,
        subject=subject,
        value=0.5,
        unit="",
        workload=WorkloadIdentity(name=planned.cell.workload.name, spec={}, content=None),
    )


def records_of(stage: plan.PlannedStage) -> CountedRecords:
    made = CountedRecords()
    for planned in stage.cells:
        made += [record(stage, planned, name, "accuracy") for name in planned.cell.subjects]
        made.append(record(stage, planned, "", CELL_SECONDS))
    return made


def test_state_of_all_cells_takes_one_look_at_each_record(stages):
    check, _ = stages
    before = records_of(check)
    states = plan.states(
        check, host.inspect(commit=False), {"here"}, before=before, earlier=EarlierRecords()
    )
    assert {state.why_due for state in states} == {None}
    assert before.looks == len(before) == 3 * CELLS


def test_cells_find_earlier_records_of_their_subjects_without_a_look_at_others(stages, monkeypatch):
    check, bench = stages
    earlier = EarlierRecords(records_of(check))
    cell = bench.cells[7].cell
    unchecked = cell.__class__(**{**vars(cell), "probes": ("latency",)})
    monkeypatch.setattr(EarlierRecords, "__getitem__", None)  # which iterating needs
    assert workload_cells.unproven(unchecked, earlier) == {}
    on_other = EarlierRecords(records_of(check)[:3])
    assert set(workload_cells.unproven(unchecked, on_other)) == {"eager", "sdpa"}


def test_code_that_cells_share_is_read_once(monkeypatch):
    asked = []
    find = plugins.find
    monkeypatch.setattr(
        plugins, "find", lambda kind, *rest: asked.append(kind) or find(kind, *rest)
    )
    counts = []
    for lengths in ("1,2", "1,2,3,4,5,6,7,8"):
        study = kconfig.load(None, [*SETTINGS[:-1], f"LENGTHS={lengths}"])
        asked.clear()
        plan.make(study, host.inspect(commit=False))
        counts.append(len(asked))
    assert counts[0] == counts[1]


def test_long_lists_are_compared_by_hash():
    class Entry(str):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Entry.compared += 1
            return super().__eq__(other)

        __hash__ = str.__hash__

    names = [Entry(number) for number in range(1000)]
    lists.refuse_repeats(names, entries=names)
    assert Entry.compared < len(names)


def test_streamed_records_are_read_once(stages, tmp_path, monkeypatch):
    """Every cell that streamed had the whole log of its stage read when it ended."""
    check, _ = stages
    read = []
    records_in = log.records_in
    monkeypatch.setattr(
        log, "records_in", lambda c, *a, **k: read.append(c) or records_in(c, *a, **k)
    )
    streamed = StreamedRecords(tmp_path / "log")
    with log.Log(tmp_path / "log") as file:
        for planned in check.cells:
            batch = [record(check, planned, name, "accuracy") for name in ("eager", "sdpa")]
            file.append(batch[:1])
            file.append(batch[1:])
            ended = streamed.of(planned.cell.name, batch[0].attempt)
            assert [r.subject for r in ended] == ["eager", "sdpa"]
    assert b"".join(read) == (tmp_path / "log").read_bytes()
    with pytest.raises(BadInput, match="log:81: not a record"):
        with open(tmp_path / "log", "ab") as file:
            file.write(b'{"closes":1}\n')
        streamed.of("any", 1)
