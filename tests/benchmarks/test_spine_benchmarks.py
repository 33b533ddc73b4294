"""The benchmarks of assay itself, in a form that takes seconds, so that they cannot rot."""

from dataclasses import replace

import pytest

from assay import plugins
from assay.host import CHECKOUT
from assay.studies import kconfig

BENCHMARKS = CHECKOUT / "benchmarks"
TINY = {
    "import": {"rounds": 1},
    "command_line": {"rounds": 1},
    "append": {"rounds": 1, "cells": 3, "cell_records": 20},
    "query": {"rounds": 1, "runs": 2, "cells": 3, "cell_records": 20},
    "quickstart": {
        "rounds": 1,
        "settings": ["STAGES=check", "IMPLEMENTATIONS=eager", "HEADS=2/2", "LENGTHS=16"],
    },
}
NEEDED = {"query": "duckdb", "quickstart": "torch"}
FIGURES = {
    "import": {"import_assay_ms"},
    "command_line": {"help_ratio", "list_ratio"},
    "append": {"append_ratio", "append_records_per_s"},
    "query": {"query_first_ratio", "query_repeat_ratio", "index_build_s"},
    "quickstart": {"quickstart_s"},
}


@pytest.fixture(scope="module")
def study():
    return kconfig.load(BENCHMARKS / "spine.config", plugin_folders=[BENCHMARKS])


@pytest.fixture(scope="module")
def stage(study):
    return plugins.load(plugins.find("stages", "spine", study.plugin_folders))


def test_config_asks_for_the_stage_alone(study):
    assert study.study == "spine"
    assert study.stages == ("spine",)


def test_every_benchmark_is_a_cell_and_has_a_tiny_form(stage, study):
    cells = {cell.name: cell for cell in stage.cells(study)}
    assert cells.keys() == TINY.keys() == FIGURES.keys()
    for name, cell in cells.items():
        assert cell.options["sizes"].keys() == TINY[name].keys()


@pytest.mark.sampled
@pytest.mark.parametrize("name", TINY)
def test_tiny_form_yields_every_figure(name, stage, study, tmp_path):
    if name in NEEDED:
        pytest.importorskip(NEEDED[name])
    cell = next(cell for cell in stage.cells(study) if cell.name == name)
    tiny = replace(cell, options={"sizes": TINY[name], "scratch": str(tmp_path)})
    measurements = list(stage.run(tiny))
    assert FIGURES[name] <= {measurement.metric for measurement in measurements}
    assert {m.subject for m in measurements} <= set(cell.subjects) | {"assay"}
    for measurement in measurements:
        assert measurement.source and measurement.workload
        assert len(measurement.samples) == 1
    assert not list(tmp_path.iterdir()), "what a benchmark writes, it removes"


def test_benchmarks_say_their_target(stage):
    for benchmark in stage.BENCHMARKS.values():
        assert "Target" in benchmark.__doc__


def test_made_records_are_what_a_log_reads(stage, tmp_path):
    from assay.records import log

    query = stage.BENCHMARKS["query"]
    for path in query._make_run(tmp_path, 0, 2, 20):
        reading = log.read(path)
        assert len(reading.records) == 40 and reading.torn_bytes == 0
