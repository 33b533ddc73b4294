"""Engines: where and in which order cells run is one file, and each cell's time is its own."""

import pytest
from study_process import StudyProcess

from assay import host


@pytest.mark.sampled
@pytest.mark.parametrize("engine", ["local", "pairs"])
def test_each_cell_has_its_own_time_and_host(tmp_path, engine):
    """From one result to the next is a cell's time only where they run one after another: side by
    side, the longest is handed back right after another."""
    study = StudyProcess(folder=tmp_path)
    assert study.run("waits", ENGINE=engine) == 0
    records = study.records("waits")
    seconds = {cell: end.value for cell, end in study.ends("waits").items()}
    waited = {record.cell: record.value for record in records if record.metric == "waited"}
    assert waited.keys() == seconds.keys() == {"long", "short", "longer"}
    assert all(waited[cell] <= seconds[cell] for cell in waited)
    assert {record.host for record in records} == {host.inspect().fingerprint}
    assert study.done("waits").counts == {"ok": 3}
    began = {record.cell: record.value for record in records if record.metric == "began"}
    last = {"local": "longer", "pairs": "long"}[engine]
    assert max(began, key=began.__getitem__) == last
    if engine == "pairs":
        assert began["short"] < began["longer"] + waited["longer"], "one waited for the other"


def test_an_engine_that_measures_elsewhere_says_where(tmp_path):
    """Its records are of another host than the study's own, and are no reason to run them again."""
    study = StudyProcess(folder=tmp_path)
    assert study.run("steady", ENGINE="elsewhere") == 0
    assert {record.host for record in study.records("steady")} == {"0123456789abcdef"}
    assert study.resume() == 0
    assert study.diary() == ["first", "second"]
