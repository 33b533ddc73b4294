"""What the stage `walk` of the tests records, whatever happens to it on the way."""

from study_process import StudyProcess

from assay.records.identity import current
from assay.records.schema import CELL_PROGRESS, CELL_SECONDS, Record

STAGE = "walk"
CELLS = ("walk0", "walk1", "walk2")
BATCHES = 8
BATCH_RECORDS = 4


def expected(cell: str) -> list[tuple[str, float]]:
    """Metric and value of each record of a cell before the one that ends it."""
    records, place = [], int(cell.removeprefix("walk"))
    for number in range(1, BATCHES + 1):
        place = (31 * place + number - 1) % 10_007
        values = {"place": place, "half": place / 2, "square": place**2, CELL_PROGRESS: number}
        records += [(metric, float(value)) for metric, value in values.items()]
    return [*records, ("end", float(place))]


def check_whole(records: list[Record]) -> dict[str, int]:
    """Hold a cell's last attempt against what it should be up to there: whole batches in order.

    Returns how many batches there are of each cell.
    """
    counts = {}
    for cell in CELLS:
        of_cell = [record for record in current(records) if record.cell == cell]
        batches = sum(record.metric == CELL_PROGRESS for record in of_cell)
        shown = [(r.metric, r.value) for r in of_cell if r.metric != CELL_SECONDS]
        outcomes = [r for r in of_cell if r.metric == cell]  # of an attempt that failed
        ends = len(of_cell) - len(shown)
        whole = expected(cell)[: BATCH_RECORDS * batches]
        if outcomes:
            assert ends and shown == [*whole, (cell, None)], f"{cell}: {shown}"
        else:
            assert shown == (expected(cell) if ends else whole), f"{cell}: {shown}"
        counts[cell] = batches
    return counts


def check_finished(study: StudyProcess) -> None:
    """Nothing is lost or doubled: the records are those of a run that nothing happened to."""
    records = study.records(STAGE)
    assert check_whole(records) == dict.fromkeys(CELLS, BATCHES)
    assert [record.sequence for record in records] == list(range(1, len(records) + 1))
    ends = [record for record in current(records) if record.metric == CELL_SECONDS]
    assert sorted(record.cell for record in ends) == list(CELLS)
    assert {record.status for record in current(records)} == {"ok"}
    assert study.done(STAGE).counts == {"ok": len(CELLS)}
