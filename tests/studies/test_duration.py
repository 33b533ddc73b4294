"""The time that a plan may take: from earlier runs here, from like cells, or from limits."""

import pytest
from lasting_study import STAGE, Lasting

from assay import host
from assay.studies import duration, plan
from assay.studies.duration import Duration
from assay.verbs._progress import duration_text


@pytest.fixture
def lasting(tmp_path) -> Lasting:
    study = Lasting(tmp_path)
    study.file.write_text(STAGE.replace("[Cell(", "[Cell(name='other'), Cell("))
    return study


def estimated(lasting: Lasting, **options) -> Duration:
    here = host.inspect(commit=False)
    stages = plan.make(lasting.study, here)
    return duration.estimated(lasting.study, stages, here, lasting.results, **options)


def test_without_a_run_there_are_limits(lasting):
    unknown = estimated(lasting)
    assert (unknown.estimated, unknown.unknown, unknown.seconds) == (0, 2, 0.0)
    assert duration_text(unknown).startswith("No earlier run on this host says")
    assert "at most 10 min each" in duration_text(unknown)


def test_cells_take_as_long_as_they_took(lasting):
    lasting.run()
    lasting.rewrite('"metric":"cell_seconds","value":', '"metric":"cell_seconds","value":10')
    known = estimated(lasting)
    assert (known.estimated, known.unknown) == (2, 0) and known.seconds > 20
    assert duration_text(known).startswith("About ") and "by earlier runs" in duration_text(known)
    assert estimated(lasting, reused=True).seconds == 0, "they are taken over"
    lasting.rewrite('"host":"', '"host":"another')
    assert estimated(lasting).unknown == 2


def test_a_new_cell_takes_as_long_as_those_of_its_stage(lasting):
    lasting.run()
    lasting.file.write_text(STAGE.replace("[Cell(", "[Cell(name='third'), Cell("))
    assert estimated(lasting).unknown == 0


def test_lines_that_are_no_ends_are_left_out(lasting):
    lasting.run()
    lasting.rewrite('"value":', '"value":"cell_seconds","was":')
    assert estimated(lasting).unknown == 2
