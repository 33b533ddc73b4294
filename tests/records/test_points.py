"""Points made of records: which run of a tracker, which step, which values."""

from made_records import RUN, record, run_json

from assay.records.points import TrackedPoints


def points_of(*batches):
    made = TrackedPoints(run_json())
    points = []
    for number, batch in enumerate(batches):
        *first, last = batch
        sequences = range(100 * number, 100 * number + len(batch))
        numbered = [*first, (last, {"closes": len(batch)})]
        points += made.of(
            record(stage="train", sequence=sequence, **_fields(entry))
            for sequence, entry in zip(sequences, numbered, strict=True)
        )
    return points


def _fields(entry) -> dict:
    return {**entry[0], **entry[1]} if isinstance(entry, tuple) else entry


def at(step, metric="loss", value=1.0, **more) -> dict:
    return {"metric": metric, "value": value, "data": {"step": step, "seed": 4}, **more}


def test_records_of_a_step_are_one_point():
    first, second = points_of([at(0), at(0, "rate", 2.0), at(10, value=0.5)])
    assert (first.step, first.values) == (0, {"loss": 1.0, "rate": 2.0})
    assert (second.step, second.values, second.number) == (10, {"loss": 0.5}, 1)
    assert first.tracked == second.tracked and first.tracked.config["seed"] == 4


def test_a_metric_that_comes_twice_in_a_step_is_two_points():
    points = points_of([at(3, value=1.0, subject="a"), at(3, value=2.0, subject="b")])
    assert [p.values for p in points] == [{"loss": 1.0}, {"loss": 2.0}]
    assert len({p.identity for p in points}) == 2


def test_an_unknown_value_is_not_sent_as_a_number():
    (point,) = points_of([at(3, value=None, status="failed", reason="not finite")])
    assert point.values == {}
    assert point.remarks == {"loss.status": "failed", "loss.reason": "not finite"}


def test_steps_that_no_tracker_takes_are_no_steps():
    odd = [at(step) for step in (-1, True, 1.5, "7", None, 2**60)]
    (point,) = points_of(odd)
    assert point.kind == "table" and len(point.rows) == len(odd)


def test_attempts_are_runs_of_their_own():
    first, second = points_of([at(0)], [at(0, attempt=2)])
    assert first.tracked.identity != second.tracked.identity
    assert second.tracked.name == f"cell (attempt 2) {RUN}"


def test_the_same_log_makes_the_same_points():
    batches = [[at(0)], [at(1), {"metric": "power_w", "value": 3.0}], [{"metric": "loss"}]]
    assert points_of(*batches) == points_of(*batches)


def test_the_progress_of_a_cell_is_no_point():
    (point,) = points_of([at(0), {"metric": "cell_progress", "value": 1.0}])
    assert point.kind == "curve"
